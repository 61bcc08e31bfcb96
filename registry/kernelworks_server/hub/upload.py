"""Writing files: what is to be uploaded how, and the commit itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from kernelworks.model.decode import Node
from kernelworks_server.errors import BadRequest, Unprocessable
from kernelworks_server.hub.commits import InlineFile, LargeFile, Line, decode_base64, prose, read_commit
from kernelworks_server.hub.endpoint import Call, Endpoint, usual
from kernelworks_server.hub.gitignore import ignored_by
from kernelworks_server.hub.wire import repo_path
from kernelworks_server.records import AddFile, Entry, Operation, Repo

__all__ = ["ENDPOINTS"]


def _preupload(call: Call) -> Response:
    repo = call.writable()
    body = call.json()
    files = body.get("files").items(lambda node: (node.get("path").relative_path(), node))
    ignored = ignored_by(prose(body, "gitIgnore"))
    known = {entry.path: entry for entry in call.services.repositories.paths_info(repo, call.at.commit, dict(files))}
    threshold = call.services.config.limits.lfs_threshold
    advice = [{**_advice(path, node, known, threshold), "shouldIgnore": ignored(path)} for path, node in files]
    return JSONResponse({"files": advice})


def _advice(path: str, node: Node, known: Mapping[str, Entry], threshold: int) -> dict[str, Any]:
    """How one file is to be sent; with the id of what is there already, so that the client can leave it out."""
    size = node.get("size").natural()
    lfs = size >= threshold or (size > 0 and _binary(node))
    advice = {"path": path, "uploadMode": "lfs" if lfs else "regular"}
    entry = known.get(path)
    if entry is not None and entry.kind == "file" and entry.lfs == lfs:
        advice["oid"] = entry.sha256 if lfs else entry.oid
    return advice


def _binary(node: Node) -> bool:
    """Whether the first bytes of the file hold a zero, as git tells binary files from text."""
    sample = node.opt("sample")
    return sample is not None and b"\0" in decode_base64(sample)


def _admit_commit(call: Call) -> int:
    if call.query.get("create_pr"):
        raise BadRequest("this registry has no pull requests", hint="commit to a branch")
    call.writable()
    return call.services.config.limits.commit


def _commit(call: Call) -> Response:
    header, lines = read_commit(call.body, call.services.config.limits)
    commit = call.services.repositories.commit(
        call.actor,
        call.repo,
        call.fields["revision"],
        [_operation(call, call.repo, line) for line in lines],
        message=header.summary,
        description=header.description,
        parent=header.parent,
    )
    url = f"{call.base}{repo_path(call.repo)}/commit/{commit}"
    return JSONResponse({"success": True, "commitOid": commit, "commitUrl": url, "hookOutput": ""})


def _operation(call: Call, repo: Repo, line: Line) -> Operation:
    repositories = call.services.repositories
    if isinstance(line, InlineFile):
        limit = call.services.config.limits.regular_file
        sha256, size = repositories.receive(repo, [line.content], expected=None, limit=limit)
        return AddFile(line.path, sha256, size, lfs=False)
    if isinstance(line, LargeFile):
        known = line.size if line.size is not None else repositories.held(repo, [line.sha256]).get(line.sha256)
        if known is None:
            raise Unprocessable(f"`{line.path}`: `{repo.repo_id}` holds no file `{line.sha256}` to copy")
        return AddFile(line.path, line.sha256, known, lfs=True)
    return line


ENDPOINTS = (
    Endpoint("POST", "/api/{kinds}/{org}/{name}/preupload/{revision}", _preupload, usual),
    Endpoint("POST", "/api/{kinds}/{org}/{name}/commit/{revision}", _commit, _admit_commit),
)
