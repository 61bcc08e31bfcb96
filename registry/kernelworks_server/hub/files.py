"""Reading files: trees, single paths, and their bytes."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.responses import JSONResponse, Response

from kernelworks.model.decode import Node
from kernelworks_server.errors import BadRequest, EntryNotFound
from kernelworks_server.hub.content import file_response
from kernelworks_server.hub.counting import count_download
from kernelworks_server.hub.endpoint import Call, Endpoint, next_link, usual
from kernelworks_server.hub.repos import page_size
from kernelworks_server.hub.wire import entry_json, revision_headers
from kernelworks_server.records import Entry

__all__ = ["ENDPOINTS"]

_TRUE = {"true", "1"}


def _tree(call: Call) -> Response:
    entries, after = call.services.repositories.tree(
        call.at.repo,
        call.at.commit,
        call.fields.get("path", "").rstrip("/"),
        recursive=call.query.get("recursive", "").lower() in _TRUE,
        after=call.query.get("cursor"),
        limit=page_size(call, call.services.config.limits.page),
    )
    return JSONResponse([entry_json(entry) for entry in entries], headers=next_link(call, after))


def _paths_info(call: Call) -> Response:
    paths = _asked_paths(call)
    if len(paths) > call.services.config.limits.page:
        raise BadRequest(f"more than {call.services.config.limits.page} paths are asked for at once")
    entries = call.services.repositories.paths_info(call.at.repo, call.at.commit, paths)
    return JSONResponse([entry_json(entry) for entry in entries])


def _asked_paths(call: Call) -> list[str]:
    if call.headers.get("content-type", "").startswith("application/json"):
        return list(call.json().get("paths").items(Node.text))
    try:
        form = parse_qs(call.body.read().decode("ascii"), max_num_fields=2 * call.services.config.limits.page)
    except ValueError as error:
        raise BadRequest("the body is not a form that this registry reads") from error
    return form.get("paths", [])


def _resolve(call: Call) -> Response:
    at, path = call.at, call.fields["path"]
    remarks = revision_headers(at)
    try:
        entry = _file(call, path)
    except EntryNotFound as error:
        error.headers.update(remarks)  # a loader asks for an index first, and not every kernel has one
        raise
    head = call.method == "HEAD"
    response = file_response(call.services.blobs, entry, at.commit, head=head, request=call.headers)
    count_download(call, at.repo, at.commit, path, response)
    if at.repo.private:
        response.headers["Cache-Control"] = "private, no-store"
    response.headers.update(remarks)
    return response


def _file(call: Call, path: str) -> Entry:
    entry = call.services.repositories.entry(call.at.repo, call.at.commit, path)
    if entry.kind != "file":
        raise EntryNotFound(f"`{path}` is a folder", commit=call.at.commit, path=path)
    return entry


ENDPOINTS = (
    Endpoint("GET", "/api/{kinds}/{org}/{name}/tree/{revision}[/{path...}]", _tree),
    Endpoint("POST", "/api/{kinds}/{org}/{name}/paths-info/{revision}", _paths_info, usual),
    Endpoint("GET HEAD", "/[{kinds}/]{org}/{name}/resolve/{revision}/{path...}", _resolve, browsers=True),
)
