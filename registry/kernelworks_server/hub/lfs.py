"""Git LFS, upload side: the batch that hands out signed addresses, and the bytes that are put there."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from kernelworks_server.errors import BadRequest
from kernelworks_server.hub.endpoint import Call, Endpoint, usual
from kernelworks_server.records import Repo
from kernelworks_server.signing import Grant

__all__ = ["ENDPOINTS"]

_PUT = "lfs-put"
_TYPE = "application/vnd.git-lfs+json"


def _batch(call: Call) -> Response:
    body = call.json()
    if body.get("operation").text() != "upload":
        raise BadRequest("this registry gives files out at `resolve`, not by Git LFS")
    algorithm = body.opt("hash_algo")
    if algorithm is not None:
        algorithm.choice("sha256")
    repo = call.writable()
    objects = body.get("objects").items(lambda node: (node.get("oid").sha256(), node.get("size").natural()))
    held = call.services.repositories.held(repo, dict(objects))
    answers = [_object(call, repo, oid, size, there=held.get(oid) == size) for oid, size in objects]
    return JSONResponse({"transfer": "basic", "hash_algo": "sha256", "objects": answers}, media_type=_TYPE)


def _object(call: Call, repo: Repo, oid: str, size: int, *, there: bool) -> dict[str, Any]:
    """One object's answer: an error, nothing to do, or where to put it.

    What other repositories hold makes no difference: to know a hash proves nothing.
    """
    answer: dict[str, Any] = {"oid": oid, "size": size, "authenticated": True}
    limit = call.services.config.limits.file
    if size > limit:
        return {**answer, "error": {"code": 413, "message": f"a file has at most {limit} bytes"}}
    if there:
        return answer
    grant = call.services.signer.issue(action=_PUT, repo=repo.id, oid=oid, size=size, actor=call.actor.name or "")
    href = f"{call.base}/api/lfs/{oid}?grant={grant}"
    return {**answer, "actions": {"upload": {"href": href, "header": {}}}}


def _granted(call: Call) -> Grant:
    """What the signed address permits: one file, of the announced size, for one repository."""
    return call.services.signer.check(call.query.get("grant", ""), action=_PUT, oid=call.fields["oid"])


def _announced(call: Call) -> int:
    return _granted(call).size or 0


def _put(call: Call) -> Response:
    repo = call.services.repositories.find(_granted(call).repo)
    call.services.repositories.receive(repo, call.blocks(), expected=call.fields["oid"], limit=_announced(call))
    return Response()


ENDPOINTS = (
    Endpoint("POST", "/[{kinds}/]{org}/{name}.git/info/lfs/objects/batch", _batch, usual),
    Endpoint("PUT", "/api/lfs/{oid}", _put, _announced),
)
