"""One request for a page: who asks, for which repository and revision, and how the page goes out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from kernelworks.model.index import Index
from kernelworks_server.credentials import bearer_of
from kernelworks_server.documents import Documents
from kernelworks_server.errors import NotFound, RepoNotFound
from kernelworks_server.indexes import Unreadable
from kernelworks_server.once import once
from kernelworks_server.pages.render import Assets, page
from kernelworks_server.records import KINDS, Ref, Repo
from kernelworks_server.rights import Actor
from kernelworks_server.services import Services
from kernelworks_server.sessions import COOKIE

__all__ = ["Visit"]


@dataclass(frozen=True)
class Visit:
    """One request for a page; `form` is what its body says."""

    services: Services
    assets: Assets
    request: Request
    form: Mapping[str, str]

    @once
    def signed_in(self) -> Actor:
        """Whose session the browser is in; the anonymous actor where it is in none."""
        return self.services.sessions.actor(self.request.cookies.get(COOKIE))

    @once
    def actor(self) -> Actor:
        """Who asks: by a token, or else by a session; the anonymous actor where neither was sent."""
        bearer = bearer_of(self.request.headers)
        return self.signed_in if bearer is None else self.services.people.actor(bearer)

    @once
    def repo(self) -> Repo:
        """The repository that the address names, if the actor may know of it: a kernel, or else a model."""
        repo_id = "{owner}/{name}".format_map(self.request.path_params)
        for kind in KINDS:
            with suppress(RepoNotFound):
                return self.services.repositories.get(self.actor, kind, repo_id)
        raise NotFound(f"there is no `{repo_id}` here")

    @once
    def refs(self) -> list[Ref]:
        return self.services.repositories.refs(self.repo)

    @once
    def revision(self) -> str:
        """The revision that is asked for, or else the one to show first."""
        return self.form.get("revision") or self.query("revision") or self.services.shelf.newest(self.repo)

    @once
    def commit(self) -> str:
        return self.services.repositories.resolve_revision(self.repo, self.revision)

    @once
    def documents(self) -> Documents:
        return Documents(self.services)

    @once
    def index(self) -> Index | Unreadable | None:
        return self.documents.index(self.repo, self.commit)

    @property
    def address(self) -> str:
        """Where the registry is, as this visitor reaches it; no slash at the end."""
        return self.services.config.base_url or f"{self.request.url.scheme}://{self.request.url.netloc}"

    def query(self, name: str) -> str:
        return str(self.request.query_params.get(name, "")).strip()

    def show(self, template: str, status: int = 200, **facts: Any) -> Response:
        """The page; nobody but the visitor may keep it where it is made for who signed in."""
        return page(
            self.request, self.assets, template, {"visitor": self.signed_in.name, "status": status, **facts}, status
        )
