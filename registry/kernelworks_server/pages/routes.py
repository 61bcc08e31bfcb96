"""Which address shows which page; none of them is an address of the Hub's protocol or of another room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from anyio import to_thread
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from kernelworks.backends import registered
from kernelworks.model.index import Index
from kernelworks.model.variant_name import known_backends
from kernelworks_server.bodies import BODY_LIMIT
from kernelworks_server.errors import BadRequest, NotFound, RepoNotFound, ServerError, Unprocessable
from kernelworks_server.pages.card import card_html
from kernelworks_server.pages.finding import Found, Wish, find
from kernelworks_server.pages.fit import REPORT_LIMIT, fit, read_report
from kernelworks_server.pages.matrix import matrix
from kernelworks_server.pages.render import Assets, page
from kernelworks_server.pages.shelf import CARD, Shelf, Unreadable
from kernelworks_server.pages.versions import newest, releases, tell
from kernelworks_server.repositories import KINDS, Ref, Repo
from kernelworks_server.rights import Actor
from kernelworks_server.services import Services

__all__ = ["NOT_OWNERS", "router"]

NOT_OWNERS = ("api", "healthz", "kernels", "metrics", "models", "simple", "static", "xet")
"""First parts of addresses that are not pages of an account; nobody can have one of these names."""
_FORM_LIMIT = 4 * REPORT_LIMIT  # a form writes up to three characters for one
_FORM_FIELDS = 8
_FILES = 200


class _Part(Convertor[str]):
    """One part of a repository's id, as an address holds it."""

    regex = "[A-Za-z0-9][A-Za-z0-9._-]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _OwnerPart(_Part):
    regex = rf"(?!(?:{'|'.join(NOT_OWNERS)})(?:/|\Z)){_Part.regex}"


register_url_convertor("owner", _OwnerPart())
register_url_convertor("repo", _Part())


@dataclass(frozen=True)
class _Visit:
    """One request for a page."""

    services: Services
    shelf: Shelf
    assets: Assets
    request: Request
    form: Mapping[str, str]

    @cached_property
    def actor(self) -> Actor:
        """Who asks; the anonymous actor where no token was sent."""
        scheme, _, token = self.request.headers.get("authorization", "").partition(" ")
        return self.services.people.actor(token.strip() if scheme.lower() == "bearer" and token.strip() else None)

    @cached_property
    def repo(self) -> Repo:
        """The repository that the address names, if the actor may know of it: a kernel, or else a model."""
        repo_id = "{owner}/{name}".format_map(self.request.path_params)
        for kind in KINDS:
            with suppress(RepoNotFound):
                return self.services.repositories.get(self.actor, kind, repo_id)
        raise NotFound(f"there is no `{repo_id}` here")

    @cached_property
    def refs(self) -> list[Ref]:
        return self.services.repositories.refs(self.repo)

    @cached_property
    def revision(self) -> str:
        """The revision that is asked for, or else the one to show first."""
        return self.form.get("revision") or self.query("revision") or newest(self.refs)

    @cached_property
    def commit(self) -> str:
        return self.services.repositories.resolve_revision(self.repo, self.revision)

    @cached_property
    def index(self) -> Index | Unreadable | None:
        return self.shelf.index(self.repo, self.commit)

    def query(self, name: str) -> str:
        return str(self.request.query_params.get(name, "")).strip()

    def show(self, template: str, status: int = 200, **facts: Any) -> Response:
        return page(self.request, self.assets, template, facts, status)


_Answer = Callable[[_Visit], Response]


def router(services: Services) -> list[BaseRoute]:
    """The routes, for the registry that `services` are."""
    shelf, assets = Shelf(services), Assets()

    def route(path: str, answer: _Answer, *methods: str) -> Route:
        return Route(path, partial(_respond, services, shelf, assets, answer), methods=methods or ("GET",))

    async def asset(request: Request) -> Response:
        return assets.response(request.path_params["file"])

    repo = "/{owner:owner}/{name:repo}"
    elsewhere = [f"{prefix}{repo}" for prefix in ("", *(f"/{kind}s" for kind in KINDS))]
    return [
        Route("/static/{file}", asset),
        route("/", _start),
        route("/{owner:owner}", _owner),
        route(repo, _kernel),
        route(f"{repo}/fit", _fit, "GET", "POST"),
        *(route(path, _moved) for path in elsewhere[1:]),
        *(route(f"{path}/{view}/{{revision:path}}", _moved) for path in elsewhere for view in ("tree", "commit")),
    ]


async def _respond(services: Services, shelf: Shelf, assets: Assets, answer: _Answer, request: Request) -> Response:
    form: Mapping[str, str] = {}
    try:
        if request.method == "POST":
            request.scope[BODY_LIMIT] = _FORM_LIMIT
            form = _form(await request.body())
        if not all(value.isprintable() for _, value in request.query_params.multi_items()):
            raise BadRequest("the address holds characters that cannot be printed")
        return await to_thread.run_sync(answer, _Visit(services, shelf, assets, request, form))
    except ClientDisconnect:
        return Response(status_code=400)  # nobody is there to read it
    except ServerError as error:
        status = NotFound.status if isinstance(error, NotFound) else error.status
        return page(request, assets, "refusal.html", {"error": error, "status": status}, status)


def _form(body: bytes) -> Mapping[str, str]:
    try:
        return dict(
            parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_FORM_FIELDS)
        )
    except ValueError as error:
        raise BadRequest("this is no form that the page reads") from error


def _start(visit: _Visit) -> Response:
    names = ("q", "backend", "arch", "torch")
    asked = {name: visit.query(name) for name in names if visit.query(name)}
    found, fault = Found((), None, 0), None
    try:
        wish = Wish.of(visit.query("q"), visit.query("backend"), visit.query("arch"), visit.query("torch"))
        found = _find(visit, wish)
    except BadRequest as error:
        fault = error
    return visit.show(
        "start.html",
        BadRequest.status if fault else 200,
        found=found,
        fault=fault,
        asked=asked,
        next=_next(found, asked),
        first=not visit.query("after"),
        backends=[(name, getattr(registered().get(name), "label", name)) for name in known_backends()],
    )


def _owner(visit: _Visit) -> Response:
    account = visit.services.people.account(visit.request.path_params["owner"])
    found = _find(visit, Wish(author=account.name))
    return visit.show("owner.html", account=account, found=found, next=_next(found, {}), first=not visit.query("after"))


def _find(visit: _Visit, wish: Wish) -> Found:
    return find(visit.services.repositories, visit.shelf, visit.actor, wish, visit.query("after") or None)


def _next(found: Found, asked: Mapping[str, str]) -> str | None:
    return f"?{urlencode({**asked, 'after': found.after})}" if found.after else None


def _kernel(visit: _Visit) -> Response:
    repositories, repo, index = visit.services.repositories, visit.repo, visit.index
    files, more = repositories.tree(repo, visit.commit, "", recursive=True, after=None, limit=_FILES)
    versions = releases(visit.refs)
    card = visit.shelf.card(repo, visit.commit)
    return visit.show(
        "kernel.html",
        **_usual(visit),
        commit=repositories.commit_info(repo, visit.commit),
        matrix=matrix(index.variants) if isinstance(index, Index) else None,
        fault=index.reason if isinstance(index, Unreadable) else None,
        number=next((release.number for release in versions if release.branch == visit.revision), None),
        newest=versions[0].number if versions else None,
        told=tell(repositories, visit.shelf, repo, versions),
        versions=len(versions),
        card=card and card_html(card[0], f"/{repo.kind}s/{repo.repo_id}/resolve/{visit.commit}/"),
        card_is_whole=card is None or card[1],
        card_name=CARD,
        files=[file for file in files if file.kind == "file"],
        more_files=more is not None,
        refs=visit.refs,
        here=visit.services.config.base_url or f"{visit.request.url.scheme}://{visit.request.url.netloc}",
    )


def _usual(visit: _Visit) -> dict[str, Any]:
    """What every page about one repository tells."""
    return {
        "repo": visit.repo,
        "revision": visit.revision,
        "index": visit.index if isinstance(visit.index, Index) else None,
        "trusted": visit.services.people.account(visit.repo.owner).trusted,
    }


def _fit(visit: _Visit) -> Response:
    if not isinstance(visit.index, Index):
        raise NotFound(
            f"`{visit.repo.repo_id}` has no index at `{visit.revision}` that says which machines its variants are for"
        )
    report = visit.form.get("report", "")
    result, fault = None, None
    if visit.request.method == "POST":
        try:
            result = fit(visit.index.variants, read_report(report), visit.form.get("backend") or None)
        except Unprocessable as error:
            fault = error
    return visit.show(
        "fit.html",
        Unprocessable.status if fault else 200,
        **_usual(visit),
        report=report,
        asked_backend=visit.form.get("backend", ""),
        backends=sorted({variant.backend.kind for variant in visit.index.variants}),
        versions=releases(visit.refs),
        result=result,
        fault=fault,
    )


def _moved(visit: _Visit) -> Response:
    """To the page of a repository from an address that the Hub's clients print."""
    given = visit.request.path_params
    revision = f"?{urlencode({'revision': given['revision']})}" if given.get("revision") else ""
    return RedirectResponse(f"/{quote(given['owner'])}/{quote(given['name'])}{revision}", 307)
