"""Signing in with a token and out again, by forms that only these pages can send."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from starlette.responses import RedirectResponse, Response

from kernelworks_server.errors import Forbidden, InvalidToken
from kernelworks_server.pages.visit import Visit
from kernelworks_server.sessions import COOKIE, LIFETIME

__all__ = ["sign_in", "sign_out"]

_LONGEST = 500  # characters of a token or an address


def sign_in(visit: Visit) -> Response:
    """The form, or whoever filled it in sent back to where they came from, with a session."""
    back = _own_path(visit.form.get("back") or visit.query("back"))
    if visit.request.method == "GET":
        return visit.show("sign-in.html", back=back, fault=None)
    _require_own_form(visit)
    try:
        secret = visit.services.sessions.begin(visit.form.get("token", "").strip()[:_LONGEST])
    except InvalidToken:
        return visit.show("sign-in.html", InvalidToken.status, back=back, fault=_UNKNOWN)
    visit.services.sessions.end(visit.request.cookies.get(COOKIE, ""))  # the one before, which nobody can end any more
    return _sent(visit, back, secret)


def sign_out(visit: Visit) -> Response:
    """To the start page, without a session."""
    _require_own_form(visit)
    visit.services.sessions.end(visit.request.cookies.get(COOKIE, ""))
    return _sent(visit, "/", None)


_UNKNOWN = "this token is unknown, revoked or expired"


def _sent(visit: Visit, path: str, secret: str | None) -> Response:
    response = RedirectResponse(path, 303, headers={"Cache-Control": "no-store"})
    life = int(LIFETIME.total_seconds()) if secret else 0
    secure = urlsplit(visit.address).scheme == "https"
    response.set_cookie(COOKIE, secret or "", max_age=life, httponly=True, samesite="lax", secure=secure)
    return response


def _require_own_form(visit: Visit) -> None:
    """Nothing, if a page of this registry sent the form: browsers say where every form comes from.

    Raises:
        Forbidden: Another page did, or no browser.
    """
    sender = urlsplit(visit.request.headers.get("origin", "")).netloc
    if not sender or sender not in {visit.request.headers.get("host"), urlsplit(visit.address).netloc}:
        raise Forbidden("this form was not sent by a page of this registry", hint="go to the page and try again")


def _own_path(text: str) -> str:
    """`text` where it is a path here, and else the start page: who signs in is not led elsewhere."""
    own = text.startswith("/") and not text.startswith(("//", "/\\")) and len(text) <= _LONGEST and text.isprintable()
    return quote(text, safe="/%?=&+:@~,;!$'()*") if own else "/"
