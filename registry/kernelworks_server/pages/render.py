"""Templates, and the headers that every page leaves with: nothing is loaded from elsewhere, nothing runs but ours."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from kernelworks._version import __version__
from kernelworks.model.digest import hash_bytes
from kernelworks.model.variant_name import format_version
from kernelworks_server.pages.card import visible
from kernelworks_server.pages.matrix import backend_label, framework_label, python_label
from kernelworks_server.records import Repo

__all__ = ["Assets", "page"]

_UNITS = ("B", "kB", "MB", "GB", "TB")
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_NONCE_BYTES = 16
_LAST_UNIT = 12  # as a power of ten
_FEW = 10


@dataclass(frozen=True)
class _Asset:
    data: bytes
    media_type: str
    address: str


class Assets:
    """The style sheet, the script and the icon; an address names the content, so that browsers keep it for ever."""

    def __init__(self) -> None:
        folder = files(__package__ or "").joinpath("static")
        self._found = {entry.name: _asset(entry.name, entry.read_bytes()) for entry in folder.iterdir()}

    def address(self, name: str) -> str:
        """Where browsers find the file `name`."""
        return self._found[name].address

    def response(self, name: str) -> Response:
        """The file `name`, or 404."""
        asset = self._found.get(name)
        if asset is None:
            return Response(status_code=404)
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
        return Response(asset.data, headers=headers, media_type=asset.media_type)


def _asset(name: str, data: bytes) -> _Asset:
    return _Asset(data, _MEDIA_TYPES[name[name.rindex(".") :]], f"/static/{name}?{hash_bytes(data)[:12]}")


def page(request: Request, assets: Assets, template: str, facts: Mapping[str, Any], status: int = 200) -> Response:
    """The template with the facts, as an answer to `request`; `visitor` is who is signed in, or None."""
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    policy = (
        f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; img-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",  # names of private repositories stand in addresses
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": f"private, {'no-store' if facts['visitor'] else 'no-cache'}",
        "Vary": "Authorization, Cookie",
    }
    usual = {
        "asset": assets.address,
        "nonce": nonce,
        "program": __version__,
        "query": request.query_params,
        "path": f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path,
    }
    text = _TEMPLATES.get_template(template).render({**usual, **facts})
    return HTMLResponse(text, status, headers)


def _size(count: int) -> str:
    """A number of bytes as people read it: `1.4 MB`."""
    power = min(len(str(count)) - 1, _LAST_UNIT) // 3
    value = count / 1_000**power
    return f"{value:.1f} {_UNITS[power]}" if power and value < _FEW else f"{value:.0f} {_UNITS[power]}"


def _growth(count: int) -> str:
    """A difference of bytes as people read it: `+1.4 MB`."""
    sign = "+" if count > 0 else "\N{MINUS SIGN}"
    return f"{sign}{_size(abs(count))}" if count else "same size"


def _day(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%d")


def _moment(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _quoted(text: str) -> Markup:
    """A message of ours: what stands in backticks as code."""
    parts = visible(text).split("`")
    if len(parts) % 2 == 0:  # one of them stands alone
        return escape(visible(text))
    return Markup().join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _file_address(path: str, repo: Repo, commit: str) -> str:
    """Where the file `path` of a commit is downloaded."""
    return f"/{repo.kind}s/{repo.repo_id}/resolve/{commit}/{quote(path)}"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__ or "", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "size": _size,
        "growth": _growth,
        "day": _day,
        "moment": _moment,
        "visible": visible,
        "quoted": _quoted,
        "version": format_version,
        "backend": backend_label,
        "framework": framework_label,
        "python": python_label,
        "address": _file_address,
    }
    return environment


_TEMPLATES = _environment()
