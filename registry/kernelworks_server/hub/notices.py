"""Yanking commits and deprecating repositories: this registry's own addition to the protocol, for who writes there."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from kernelworks_server.hub.endpoint import Call, Endpoint, usual
from kernelworks_server.hub.repos import text_of
from kernelworks_server.hub.wire import notice_json

__all__ = ["ENDPOINTS"]


def _yank(call: Call) -> Response:
    body = call.json()
    revision, reason = body.get("revision").text(), text_of(body, "reason", "")
    return JSONResponse({"commit": call.services.repositories.yank(call.actor, call.repo, revision, reason)})


def _unyank(call: Call) -> Response:
    revision = call.json().get("revision").text()
    return JSONResponse({"commit": call.services.repositories.unyank(call.actor, call.repo, revision)})


def _deprecate(call: Call) -> Response:
    body = call.json()
    message, successor = text_of(body, "message", ""), text_of(body, "successor", "") or None
    return JSONResponse(notice_json(call.services.repositories.deprecate(call.actor, call.repo, message, successor)))


def _undeprecate(call: Call) -> Response:
    call.services.repositories.undeprecate(call.actor, call.repo)
    return JSONResponse({})


_REPO = "/api/{kinds}/{org}/{name}"

ENDPOINTS = (
    Endpoint("POST", f"{_REPO}/yank", _yank, usual),
    Endpoint("DELETE", f"{_REPO}/yank", _unyank, usual),
    Endpoint("POST", f"{_REPO}/deprecate", _deprecate, usual),
    Endpoint("DELETE", f"{_REPO}/deprecate", _undeprecate),
)
