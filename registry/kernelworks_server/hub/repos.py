"""Repositories and their refs: create, delete, describe, list."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.responses import JSONResponse, Response

from kernelworks.model.decode import Node
from kernelworks_server.errors import BadRequest, Conflict, SignInRequired
from kernelworks_server.hub.endpoint import Call, Endpoint, next_link, usual
from kernelworks_server.hub.wire import commit_json, refs_json, repo_json, repo_path
from kernelworks_server.repositories import Entry

__all__ = ["ENDPOINTS", "page_size"]

_COMMITS = 50  # of one page, where the client names no number


def page_size(call: Call, usual_size: int) -> int:
    """How many entries the client wants in one answer, within the registry's limit."""
    text = call.query.get("limit", str(usual_size))
    if not text.isdecimal() or int(text) == 0:
        raise BadRequest(f"`limit` is `{text[:40]}`, not a positive number")
    return min(int(text), call.services.config.limits.page)


def _create(call: Call) -> Response:
    body = call.json()
    kind, repo_id = _named(call, body)
    private = _flag(body, "private") or _text(body, "visibility", "public") != "public"
    try:
        repo = call.services.repositories.create(call.actor, kind, repo_id, private=private)
    except Conflict as error:
        # Clients that asked for `exist_ok` read the address from the refusal.
        there = call.services.repositories.get(call.actor, kind, repo_id)
        status, headers, refusal = error.http()
        return JSONResponse({**refusal, "url": call.base + repo_path(there)}, status, headers)
    return JSONResponse({"url": call.base + repo_path(repo), "name": repo.repo_id, "id": f"{repo.id:024x}"})


def _delete(call: Call) -> Response:
    kind, repo_id = _named(call, call.json())
    call.services.repositories.delete(call.actor, kind, repo_id)
    return JSONResponse({})


def _named(call: Call, body: Node) -> tuple[str, str]:
    """(kind, id) of the repository that `body` names; without an organisation it is the actor's own."""
    owner = _text(body, "organization", call.actor.name or "")
    if not owner:
        raise SignInRequired("to name a repository without its owner, show a token")
    return _text(body, "type", "model"), f"{owner}/{body.get('name').text()}"


def _text(body: Node, key: str, default: str) -> str:
    node = body.opt(key)
    return default if node is None else node.text()


def _flag(body: Node, key: str) -> bool:
    node = body.opt(key)
    return False if node is None else node.flag()


def _info(call: Call) -> Response:
    files = None if call.kind == "kernel" else [entry for entry in _all_entries(call) if entry.kind == "file"]
    return JSONResponse(repo_json(call.repo, call.commit, files))


def _all_entries(call: Call) -> Iterator[Entry]:
    after: str | None = None
    while True:
        page, after = call.services.repositories.tree(
            call.repo, call.commit, "", recursive=True, after=after, limit=call.services.config.limits.page
        )
        yield from page
        if after is None:
            return


def _search(call: Call) -> Response:
    limit = page_size(call, call.services.config.limits.page)
    found = call.services.repositories.search(
        call.actor,
        kind=call.kind,
        text=call.query.get("search", ""),
        author=call.query.get("author"),
        limit=limit,
        after=call.query.get("cursor"),
    )
    after = found[-1].repo_id if len(found) == limit else None
    return JSONResponse([repo_json(repo) for repo in found], headers=next_link(call, after))


def _commits(call: Call) -> Response:
    found, after = call.services.repositories.commits(
        call.repo, call.commit, after=call.query.get("cursor"), limit=page_size(call, _COMMITS)
    )
    return JSONResponse([commit_json(commit) for commit in found], headers=next_link(call, after))


def _refs(call: Call) -> Response:
    return JSONResponse(refs_json(call.services.repositories.refs(call.repo)))


def _create_branch(call: Call) -> Response:
    start = _text(call.json(), "startingPoint", "") or None
    call.services.repositories.create_branch(call.actor, call.repo, call.fields["branch"], start)
    return JSONResponse({})


def _delete_branch(call: Call) -> Response:
    call.services.repositories.delete_branch(call.actor, call.repo, call.fields["branch"])
    return JSONResponse({})


def _create_tag(call: Call) -> Response:
    body = call.json()
    tag, message = body.get("tag").text(), _text(body, "message", "")
    call.services.repositories.create_tag(call.actor, call.repo, tag, call.fields["revision"], message)
    return JSONResponse({})


def _delete_tag(call: Call) -> Response:
    call.services.repositories.delete_tag(call.actor, call.repo, call.fields["revision"])
    return JSONResponse({})


_REPO = "/api/{kinds}/{org}/{name}"

ENDPOINTS = (
    Endpoint("POST", "/api/repos/create", _create, usual),
    Endpoint("DELETE", "/api/repos/delete", _delete, usual),
    Endpoint("GET", "/api/{kinds}", _search),
    Endpoint("GET", f"{_REPO}[/revision/{{revision}}]", _info),
    Endpoint("GET", f"{_REPO}/refs", _refs),
    Endpoint("GET", f"{_REPO}/commits/{{revision}}", _commits),
    Endpoint("POST", f"{_REPO}/branch/{{branch...}}", _create_branch, usual),
    Endpoint("DELETE", f"{_REPO}/branch/{{branch...}}", _delete_branch),
    Endpoint("POST", f"{_REPO}/tag/{{revision}}", _create_tag, usual),
    Endpoint("DELETE", f"{_REPO}/tag/{{revision}}", _delete_tag),
)
