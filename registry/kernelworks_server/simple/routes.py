"""Which address gives which list or file, and to whom."""

from __future__ import annotations

from base64 import b64decode
from functools import partial

from packaging.utils import canonicalize_name
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute

from kernelworks_server.errors import EntryNotFound, NotFound
from kernelworks_server.hub.content import file_response
from kernelworks_server.hub.counting import count_download
from kernelworks_server.hub.endpoint import Call, Endpoint, HubRoute
from kernelworks_server.rights import Actor
from kernelworks_server.services import Services
from kernelworks_server.simple.answers import FILES, file_list, project_list
from kernelworks_server.simple.catalogue import Catalogue
from kernelworks_server.simple.flavour import FLAVOUR_HINT, Flavour

__all__ = ["router"]

_READ = "GET HEAD"
_WHEEL = ".whl"
_METADATA = ".metadata"


def router(services: Services) -> list[BaseRoute]:
    """The routes, for the registry that `services` are."""
    catalogue = Catalogue(services)
    projects, project = partial(_projects, catalogue), partial(_project, catalogue)
    endpoints = (
        Endpoint(_READ, f"{FILES}/{{org}}/{{name}}/{{commit}}/{{path...}}", partial(_file, catalogue)),
        Endpoint(_READ, "/simple[/]", _no_flavour),
        Endpoint(_READ, "/simple/{flavour}[/]", projects),
        Endpoint(_READ, "/simple/{flavour}/@{owner}[/]", projects),
        Endpoint(_READ, "/simple/{flavour}/@{owner}/{project}[/]", project),
        Endpoint(_READ, "/simple/{flavour}/{project}[/]", project),
    )
    return [HubRoute(endpoint, services) for endpoint in endpoints]


def _asker(call: Call) -> Actor:
    """Who asks: by a bearer token, or by one that pip sends as a password, or as a user without password."""
    scheme, _, credentials = call.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return call.actor
    try:
        user, _, password = b64decode(credentials).decode().partition(":")
    except ValueError:
        user, password = "", ""  # a token that nobody has
    return call.services.people.actor(password or user)


def _no_flavour(_: Call) -> Response:
    raise NotFound("there is one index per flavour, and none of all", hint=FLAVOUR_HINT)


def _projects(catalogue: Catalogue, call: Call) -> Response:
    flavour, owner = Flavour.parse(call.fields["flavour"]), call.fields.get("owner")
    if not call.path.endswith("/"):
        return RedirectResponse(f"{call.base}{call.path}/", 308)
    title = f"kernels{f' of {owner}' if owner else ''} for {call.fields['flavour']}"
    return project_list(call.headers.get("accept", ""), title, catalogue.projects(_asker(call), flavour, owner))


def _project(catalogue: Catalogue, call: Call) -> Response:
    flavour, owner, asked = Flavour.parse(call.fields["flavour"]), call.fields.get("owner"), call.fields["project"]
    name = canonicalize_name(asked)
    repo = catalogue.project(_asker(call), name, owner)
    if asked != name or not call.path.endswith("/"):
        scope = f"@{repo.owner}/" if owner else ""
        return RedirectResponse(f"{call.base}/simple/{call.fields['flavour']}/{scope}{name}/", 308)
    wheels = catalogue.wheels(repo, flavour)
    if not wheels:
        raise NotFound(f"`{repo.repo_id}` has no wheel for `{call.fields['flavour']}`")
    return file_list(call.headers.get("accept", ""), call.base, name, wheels)


def _file(catalogue: Catalogue, call: Call) -> Response:
    """A wheel of a repository that the asker may read, or its metadata; other files have other addresses."""
    repo_id, commit, asked = f"{call.fields['org']}/{call.fields['name']}", call.fields["commit"], call.fields["path"]
    repo = call.services.repositories.get(_asker(call), "kernel", repo_id)
    path = asked.removesuffix(_METADATA)
    entry = call.services.repositories.entry(repo, commit, path)
    if entry.kind != "file" or not path.endswith(_WHEEL):
        raise EntryNotFound(f"`{path}` is not a wheel", commit=commit, path=path)
    if path == asked:
        head = call.method == "HEAD"
        response = file_response(call.services.blobs, entry, commit, head=head, request=call.headers)
        count_download(call, repo, commit, path, response)
        return response
    metadata = catalogue.wheel_metadata(entry)
    if metadata is None:
        raise EntryNotFound(f"`{path}` is not a sound wheel", commit=commit, path=path)
    return Response(metadata, media_type="application/octet-stream", headers={"X-Content-Type-Options": "nosniff"})
