"""Repositories and their refs: create, delete, describe, list."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.responses import JSONResponse, Response

from kernelworks.model.decode import Node
from kernelworks_server.errors import BadRequest, Conflict, SignInRequired
from kernelworks_server.hub.endpoint import Call, Endpoint, next_link, usual
from kernelworks_server.hub.wire import commit_json, notice_json, refs_json, repo_json, repo_path
from kernelworks_server.records import Entry

__all__ = ["ENDPOINTS", "page_size", "text_of"]

_COMMITS = 50  # of one page, where the client names no number
_DIGITS = 18  # of such a number; Python refuses to read very long ones


def page_size(call: Call, usual_size: int) -> int:
    """How many entries the client wants in one answer, within the registry's limit."""
    text = call.query.get("limit", str(usual_size))
    if not text.isdecimal() or len(text) > _DIGITS or int(text) == 0:
        raise BadRequest(f"`limit` is `{text[:40]}`, not a positive number")
    return min(int(text), call.services.config.limits.page)


def _create(call: Call) -> Response:
    body = call.json()
    kind, repo_id = _named(call, body)
    try:
        repo = call.services.repositories.create(call.actor, kind, repo_id, private=_private(body))
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


def _set(call: Call) -> Response:
    body = call.json()
    if body.opt("private") is None and body.opt("visibility") is None:
        raise BadRequest("only `private` or `visibility` can be set here")
    call.services.repositories.set_private(call.actor, call.repo, private=_private(body))
    return JSONResponse({"private": _private(body)})


def _move(call: Call) -> Response:
    body = call.json()
    kind, old, new = text_of(body, "type", "model"), body.get("fromRepo").text(), body.get("toRepo").text()
    repo = call.services.repositories.rename(call.actor, kind, old, new)
    return JSONResponse({"url": call.base + repo_path(repo)})


def _named(call: Call, body: Node) -> tuple[str, str]:
    """(kind, id) of the repository that `body` names; without an organisation it is the actor's own."""
    owner = text_of(body, "organization", call.actor.name or "")
    if not owner:
        raise SignInRequired("to name a repository without its owner, show a token")
    return text_of(body, "type", "model"), f"{owner}/{body.get('name').text()}"


def text_of(body: Node, key: str, default: str) -> str:
    """The text that `body` has under `key`, or `default` where it has nothing there."""
    node = body.opt(key)
    return default if node is None else node.text()


def _private(body: Node) -> bool:
    """Whether `body` wants a private repository, in one of the two ways in which clients say it."""
    private = body.opt("private")
    return (private is not None and private.flag()) or text_of(body, "visibility", "public") != "public"


def _info(call: Call) -> Response:
    files = None if call.kind == "kernel" else [entry for entry in _all_entries(call) if entry.kind == "file"]
    at = call.at
    downloads = call.services.downloads.of_month([at.repo.id])[at.repo.id]
    return JSONResponse({**repo_json(at.repo, downloads, at.commit, files), **notice_json(at.remarks.deprecated)})


def _all_entries(call: Call) -> Iterator[Entry]:
    after: str | None = None
    while True:
        page, after = call.services.repositories.tree(
            call.at.repo, call.at.commit, "", recursive=True, after=after, limit=call.services.config.limits.page
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
    downloads = call.services.downloads.of_month([repo.id for repo in found])
    return JSONResponse([repo_json(repo, downloads[repo.id]) for repo in found], headers=next_link(call, after))


def _commits(call: Call) -> Response:
    found, after = call.services.repositories.commits(
        call.at.repo, call.at.commit, after=call.query.get("cursor"), limit=page_size(call, _COMMITS)
    )
    return JSONResponse([commit_json(commit) for commit in found], headers=next_link(call, after))


def _refs(call: Call) -> Response:
    repositories = call.services.repositories
    return JSONResponse(refs_json(repositories.refs(call.repo), repositories.yanks(call.repo)))


def _create_branch(call: Call) -> Response:
    start = text_of(call.json(), "startingPoint", "") or None
    call.services.repositories.create_branch(call.actor, call.repo, call.fields["branch"], start)
    return JSONResponse({})


def _delete_branch(call: Call) -> Response:
    call.services.repositories.delete_branch(call.actor, call.repo, call.fields["branch"])
    return JSONResponse({})


def _create_tag(call: Call) -> Response:
    body = call.json()
    tag, message = body.get("tag").text(), text_of(body, "message", "")
    call.services.repositories.create_tag(call.actor, call.repo, tag, call.fields["revision"], message)
    return JSONResponse({})


def _delete_tag(call: Call) -> Response:
    call.services.repositories.delete_tag(call.actor, call.repo, call.fields["revision"])
    return JSONResponse({})


_REPO = "/api/{kinds}/{org}/{name}"

ENDPOINTS = (
    Endpoint("POST", "/api/repos/create", _create, usual),
    Endpoint("DELETE", "/api/repos/delete", _delete, usual),
    Endpoint("POST", "/api/repos/move", _move, usual),
    Endpoint("GET", "/api/{kinds}", _search),
    Endpoint("GET", f"{_REPO}[/revision/{{revision}}]", _info),
    Endpoint("PUT", f"{_REPO}/settings", _set, usual),
    Endpoint("GET", f"{_REPO}/refs", _refs),
    Endpoint("GET", f"{_REPO}/commits/{{revision}}", _commits),
    Endpoint("POST", f"{_REPO}/branch/{{branch...}}", _create_branch, usual),
    Endpoint("DELETE", f"{_REPO}/branch/{{branch...}}", _delete_branch),
    Endpoint("POST", f"{_REPO}/tag/{{revision}}", _create_tag, usual),
    Endpoint("DELETE", f"{_REPO}/tag/{{revision}}", _delete_tag),
)
