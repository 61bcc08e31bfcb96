"""`kernel-registry serve`."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from typing import Annotated

import typer

from kernelworks.errors import HostError
from kernelworks_server.cli.command import DEFAULT_ROOT, AsJson, DatabaseUrl, Root, Said, StoreUrl, group, say
from kernelworks_server.config import Limits, Rate, open_config
from kernelworks_server.request_log import JsonLines

__all__ = ["commands"]

_GRACEFUL_SECONDS = 30

commands = group()


@commands.command()
def serve(
    root: Root = DEFAULT_ROOT,
    host: Annotated[str, typer.Option(help="the address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="the port to listen on; 0 takes a free one", min=0, max=65535)] = 8000,
    database: DatabaseUrl = None,
    store: StoreUrl = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="the address that clients know", envvar="KERNEL_REGISTRY_BASE_URL")
    ] = None,
    api_rate: Annotated[
        int, typer.Option(help="questions that one token or address may ask in five minutes; 0: any number", min=0)
    ] = Limits.api.requests,
    file_rate: Annotated[
        int, typer.Option(help="requests for or with the bytes of files, likewise", min=0)
    ] = Limits.files.requests,
    *,
    as_json: AsJson = False,
) -> None:
    """Serve until SIGINT or SIGTERM; then finish what runs. The first start tells an operator's token."""
    import uvicorn  # noqa: PLC0415  # these take a while, and no other command needs them

    from kernelworks_server.app import create_app  # noqa: PLC0415

    for stop in (signal.SIGINT, signal.SIGTERM):  # uvicorn finishes its work, and then hands the signal on
        signal.signal(stop, lambda *_: sys.exit(0))
    listener = _listen(host, port)  # before anything is made: a port in use must not cost the token that is told once
    with listener:
        limits = Limits(api=Rate(api_rate), files=Rate(file_rate))
        config = open_config(root, database=database, store=store, base_url=base_url, limits=limits)
        application = create_app(config)
        first_token = application.state.services.people.begin()
        address = f"[{host}]" if ":" in host else host
        url = base_url or f"http://{address}:{listener.getsockname()[1]}"
        text = f"listening on {url}"
        if first_token is not None:
            text = f"the token of the operator `admin`, told this once: {first_token}\n{text}"
        say(Said({"url": url, "token": first_token}, text), as_json=as_json)
        _log_to_stderr()
        settings = uvicorn.Config(
            application,
            log_config=None,
            access_log=False,  # `request_log` has it
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=_GRACEFUL_SECONDS,
        )
        uvicorn.Server(settings).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        raise HostError(f"cannot listen on `{host}` port {port}: {error.strerror}", hint="name another port") from error
    return listener


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
