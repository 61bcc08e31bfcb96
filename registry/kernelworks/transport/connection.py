"""One HTTP exchange of the standard library: a dead host is given up soon, and every status is an answer."""

from __future__ import annotations

import ssl
from functools import cache
from http.client import HTTPS_PORT, HTTPConnection, HTTPResponse
from urllib.request import HTTPErrorProcessor, HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

__all__ = ["CONNECT_SECONDS", "opener"]

CONNECT_SECONDS = 3.0
"""In which a host that is there takes a connection; a packet that is lost is sent again after one."""


class _Connection(HTTPConnection):
    """Is less patient while it connects."""

    def connect(self) -> None:
        patience = self.timeout
        self.timeout = CONNECT_SECONDS
        super().connect()
        self.sock.settimeout(patience)


class _TlsConnection(HTTPConnection):
    """Reads whom this machine trusts, which takes long, when a host is there: one that is away is told at once."""

    default_port = HTTPS_PORT

    def connect(self) -> None:
        super().connect()
        host = self._tunnel_host or self.host  # type: ignore[attr-defined]  # beyond a proxy, as HTTPSConnection does it
        self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=host)


class _SecureConnection(_Connection, _TlsConnection):
    """The same for TLS, its handshake included."""


class _Handler(HTTPHandler):
    def http_open(self, request: Request) -> HTTPResponse:
        return self.do_open(_Connection, request)


class _SecureHandler(HTTPSHandler):
    def https_open(self, request: Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, request)


class _AnyStatus(HTTPErrorProcessor):
    """Hands every answer on, whatever its status: whoever asks follows redirections."""

    def http_response(self, request: Request, response: HTTPResponse) -> HTTPResponse:  # noqa: ARG002
        return response

    https_response = http_response


@cache
def opener() -> OpenerDirector:
    """What opens `http://` and `https://`, through the proxies that the environment names, and nothing else."""
    made = OpenerDirector()
    for handler in (ProxyHandler(), _Handler(), _SecureHandler(), _AnyStatus()):
        made.add_handler(handler)
    return made
