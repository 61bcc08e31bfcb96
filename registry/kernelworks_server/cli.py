"""The `kernel-registry` program: it serves, and it manages people and storage beside a server that runs.

Data goes to stdout, with `--json` as one document; all else to stderr. Errors become words and exit codes here only.
"""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from sqlalchemy.exc import SQLAlchemyError

from kernelworks.errors import HostError, KernelworksError, UsageError
from kernelworks_server import events
from kernelworks_server.collect import collect
from kernelworks_server.config import Limits, Rate, open_config
from kernelworks_server.request_log import JsonLines
from kernelworks_server.services import Services, open_services

__all__ = ["app", "main"]

_DEFAULT_ROOT = Path("kernel-registry")
_GRACEFUL_SECONDS = 30
_CommandLineError: Any = typer.BadParameter.__base__  # typer brings its own click, or takes the installed one

Root = Annotated[Path, typer.Option(help="the registry's folder; made where it is missing", file_okay=False)]
DatabaseUrl = Annotated[str | None, typer.Option("--database", metavar="URL", help="instead of SQLite in the folder")]
StoreUrl = Annotated[str | None, typer.Option("--store", metavar="URL", help="instead of a folder in the folder")]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]


def _group(text: str) -> typer.Typer:
    return typer.Typer(help=text, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


app = _group("A Hub for kernels on your own machine.")
user = _group("People.")
org = _group("Organisations and their members.")
token = _group("Tokens: what programs show to speak for a user.")
for _name, _commands in (("user", user), ("org", org), ("token", token)):
    app.add_typer(_commands, name=_name)


def main() -> None:
    """Run the program and exit: 0, or the code of the error's family; 2 for a wrong command line."""
    as_json = "--json" in sys.argv[1:]
    try:
        sys.exit(app(standalone_mode=not as_json))  # typer shows a wrong command line itself, but not as JSON
    except KernelworksError as error:
        failure = error
    except _CommandLineError as error:
        failure = UsageError(error.format_message(), hint=f"see `{error.ctx.command_path} --help`")
    except OSError as error:
        failure = HostError(f"this system refuses: {error}", file=error.filename)
    except SQLAlchemyError as error:
        failure = HostError(f"the database refuses: {getattr(error, 'orig', None) or error}")
    if as_json:
        print(json.dumps({"error": failure.to_json()}, indent=2))  # noqa: T201
    else:
        print(f"error: {failure}", file=sys.stderr)  # noqa: T201
    sys.exit(failure.exit_code)


def _say(document: dict[str, Any], text: str, *, as_json: bool) -> None:
    print(json.dumps(document, indent=2) if as_json else text, flush=True)  # noqa: T201


@contextmanager
def _registry(root: Path, database: str | None, store: str | None) -> Iterator[Services]:
    services = open_services(open_config(root, database=database, store=store))
    try:
        yield services
    finally:
        services.close()


@app.command()
def serve(
    root: Root = _DEFAULT_ROOT,
    host: Annotated[str, typer.Option(help="the address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="the port to listen on; 0 takes a free one", min=0, max=65535)] = 8000,
    database: DatabaseUrl = None,
    store: StoreUrl = None,
    base_url: Annotated[str | None, typer.Option(metavar="URL", help="the address that clients know")] = None,
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
        _say({"url": url, "token": first_token}, text, as_json=as_json)
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


@user.command("add")
def add_user(
    name: str,
    fullname: Annotated[str, typer.Option(help="what pages call the user")] = "",
    root: Root = _DEFAULT_ROOT,
    database: DatabaseUrl = None,
    store: StoreUrl = None,
    *,
    operator: Annotated[bool, typer.Option("--operator", help="may do everything on this registry")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a user."""
    with _registry(root, database, store) as registry:
        registry.people.create_user(name, fullname=fullname, operator=operator)
    _say({"user": name, "operator": operator}, f"added the user `{name}`", as_json=as_json)


@org.command("add")
def add_org(
    name: str,
    fullname: Annotated[str, typer.Option(help="what pages call the organisation")] = "",
    root: Root = _DEFAULT_ROOT,
    database: DatabaseUrl = None,
    store: StoreUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Add an organisation."""
    with _registry(root, database, store) as registry:
        registry.people.create_org(name, fullname=fullname)
    _say({"org": name}, f"added the organisation `{name}`", as_json=as_json)


@org.command("member")
def set_member(
    org: str,
    user: str,
    role: Annotated[str, typer.Option(help="read, write, admin, or none to end the membership")] = "write",
    root: Root = _DEFAULT_ROOT,
    database: DatabaseUrl = None,
    store: StoreUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Let a user be a member of an organisation."""
    with _registry(root, database, store) as registry:
        if role == "none":
            registry.people.remove_member(org, user)
        else:
            registry.people.add_member(org, user, role)
    _say({"org": org, "user": user, "role": role}, f"`{user}` has the role `{role}` in `{org}`", as_json=as_json)


@token.command("create")
def create_token(
    user: str,
    label: Annotated[str, typer.Option(help="what the user knows the token by")],
    scope: Annotated[str, typer.Option(help="read, write or admin")] = "read",
    org: Annotated[str | None, typer.Option(help="the one organisation that it is for")] = None,
    days: Annotated[int | None, typer.Option(help="how long it works", min=1)] = None,
    root: Root = _DEFAULT_ROOT,
    database: DatabaseUrl = None,
    store: StoreUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Make a token and tell it, this once."""
    lifetime = None if days is None else timedelta(days=days)
    with _registry(root, database, store) as registry:
        made = registry.people.create_token(user, label=label, scope=scope, org=org, lifetime=lifetime)
    _say({"user": user, "label": label, "token": made}, made, as_json=as_json)


@token.command("revoke")
def revoke_token(
    user: str,
    label: str,
    root: Root = _DEFAULT_ROOT,
    database: DatabaseUrl = None,
    store: StoreUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Let a token work no more, at once."""
    with _registry(root, database, store) as registry:
        registry.people.revoke(user, label)
    _say({"user": user, "label": label}, f"revoked the token `{label}` of `{user}`", as_json=as_json)


@app.command()
def trust(
    org: str,
    root: Root = _DEFAULT_ROOT,
    database: DatabaseUrl = None,
    store: StoreUrl = None,
    *,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="trust it no longer")] = False,
    as_json: AsJson = False,
) -> None:
    """Let clients load the kernels of an organisation without being told to trust them."""
    with _registry(root, database, store) as registry:
        registry.people.set_trusted(org, not withdraw)
    text = f"`{org}` is {'no longer ' if withdraw else ''}a trusted publisher of kernels"
    _say({"org": org, "trusted": not withdraw}, text, as_json=as_json)


@app.command()
def gc(
    hours: Annotated[float | None, typer.Option(help="how long an upload may wait for its commit", min=0)] = None,
    root: Root = _DEFAULT_ROOT,
    database: DatabaseUrl = None,
    store: StoreUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Delete the bytes that no commit of any repository refers to; a server may run meanwhile."""
    with _registry(root, database, store) as registry:
        grace = registry.config.limits.grace if hours is None else timedelta(hours=hours)
        found = collect(registry.database, registry.blobs, grace)
    text = f"deleted {found.blobs} blobs ({found.bytes} bytes) and what {found.remains} broken uploads left behind"
    _say(asdict(found), text, as_json=as_json)


@app.command()
def log(
    repo: Annotated[str | None, typer.Option(help="only what was done to it; a user or organisation as well")] = None,
    limit: Annotated[int, typer.Option(help="how many changes, the latest first", min=1)] = 100,
    root: Root = _DEFAULT_ROOT,
    database: DatabaseUrl = None,
    store: StoreUrl = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Tell who changed what, and when."""
    with _registry(root, database, store) as registry:
        found = events.read(registry.database, subject=repo, limit=limit)
    _say({"events": [event.to_json() for event in found]}, "\n".join(map(_line, found)), as_json=as_json)


def _line(event: events.Event) -> str:
    details = (f"{name}={value}" for name, value in event.details.items() if value is not None)
    actor = event.actor or "(at the machine)"
    words = [f"{event.time:%Y-%m-%d %H:%M:%S}", actor, event.action, event.subject, event.commit or "", *details]
    return " ".join(filter(None, words))
