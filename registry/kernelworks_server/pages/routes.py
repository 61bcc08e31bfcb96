"""Which address shows which page; none of them is an address of the Hub's protocol or of another room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
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
from kernelworks_server.errors import BadRequest, NotFound, RepoMoved, ServerError, Unprocessable
from kernelworks_server.pages.finding import Found, find
from kernelworks_server.pages.fit import REPORT_LIMIT, fit, read_report
from kernelworks_server.pages.kernel import kernel_page, usual
from kernelworks_server.pages.render import Assets
from kernelworks_server.pages.signing_in import sign_in, sign_out
from kernelworks_server.pages.visit import Visit
from kernelworks_server.people import RESERVED
from kernelworks_server.records import KINDS
from kernelworks_server.releases import releases
from kernelworks_server.services import Services
from kernelworks_server.wishes import Wish

__all__ = ["router"]

_FORM_LIMIT = 4 * REPORT_LIMIT  # a form writes up to three characters for one
_FORM_FIELDS = 8


class _Part(Convertor[str]):
    """One part of a repository's id, as an address holds it."""

    regex = "[A-Za-z0-9][A-Za-z0-9._-]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _OwnerPart(_Part):
    regex = rf"(?!(?:{'|'.join(sorted(RESERVED))})(?:/|\Z)){_Part.regex}"


register_url_convertor("owner", _OwnerPart())
register_url_convertor("repo", _Part())

_Answer = Callable[[Visit], Response]


def router(services: Services) -> list[BaseRoute]:
    """The routes, for the registry that `services` are."""
    assets = Assets()

    def route(path: str, answer: _Answer, *methods: str) -> Route:
        return Route(path, partial(_respond, services, assets, answer), methods=methods or ("GET",))

    async def asset(request: Request) -> Response:
        return assets.response(request.path_params["file"])

    repo = "/{owner:owner}/{name:repo}"
    elsewhere = [f"{prefix}{repo}" for prefix in ("", *(f"/{kind}s" for kind in KINDS))]
    return [
        Route("/static/{file}", asset),
        route("/", _start),
        route("/login", sign_in, "GET", "POST"),
        route("/logout", sign_out, "POST"),
        route("/{owner:owner}", _owner),
        route(repo, kernel_page),
        route(f"{repo}/fit", _fit, "GET", "POST"),
        *(route(path, _elsewhere) for path in elsewhere[1:]),
        *(route(f"{path}/{view}/{{revision:path}}", _elsewhere) for path in elsewhere for view in ("tree", "commit")),
    ]


async def _respond(services: Services, assets: Assets, answer: _Answer, request: Request) -> Response:
    form: Mapping[str, str] = {}
    try:
        if request.method == "POST":
            request.scope[BODY_LIMIT] = _FORM_LIMIT
            form = _form(await request.body())
        if not all(value.isprintable() for _, value in request.query_params.multi_items()):
            raise BadRequest("the address holds characters that cannot be printed")
        return await to_thread.run_sync(answer, Visit(services, assets, request, form))
    except ClientDisconnect:
        return Response(status_code=400)  # nobody is there to read it
    except RepoMoved as moved:
        return _renamed(request, moved)
    except ServerError as error:
        return await to_thread.run_sync(_refusal, Visit(services, assets, request, {}), error)


def _refusal(visit: Visit, error: ServerError) -> Response:
    status = NotFound.status if isinstance(error, NotFound) else error.status
    return visit.show("refusal.html", status, error=error)


def _renamed(request: Request, moved: RepoMoved) -> Response:
    """To the same page of the repository under its present name, with the same form."""
    former = "{owner}/{name}".format_map(request.path_params)
    path = request.url.path.replace(former, moved.repo_id, 1)
    return RedirectResponse(f"{quote(path)}?{request.url.query}" if request.url.query else quote(path), 307)


def _form(body: bytes) -> Mapping[str, str]:
    try:
        return dict(
            parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_FORM_FIELDS)
        )
    except ValueError as error:
        raise BadRequest("this is no form that the page reads") from error


def _start(visit: Visit) -> Response:
    names = ("q", "backend", "arch", "torch")
    asked = {name: visit.query(name) for name in names if visit.query(name)}
    found, fault = Found((), None), None
    try:
        wish = Wish.of(visit.query("backend"), visit.query("arch"), visit.query("torch"))
        found = _find(visit, wish, text=visit.query("q"))
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


def _owner(visit: Visit) -> Response:
    account = visit.services.people.account(visit.request.path_params["owner"])
    found = _find(visit, Wish(), author=account.name)
    return visit.show("owner.html", account=account, found=found, next=_next(found, {}), first=not visit.query("after"))


def _find(visit: Visit, wish: Wish, *, text: str = "", author: str | None = None) -> Found:
    return find(visit.services, visit.actor, wish, text=text, author=author, after=visit.query("after") or None)


def _next(found: Found, asked: Mapping[str, str]) -> str | None:
    return f"?{urlencode({**asked, 'after': found.after})}" if found.after else None


def _fit(visit: Visit) -> Response:
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
        **usual(visit),
        report=report,
        asked_backend=visit.form.get("backend", ""),
        backends=sorted({variant.backend.kind for variant in visit.index.variants}),
        versions=releases(visit.refs),
        result=result,
        fault=fault,
    )


def _elsewhere(visit: Visit) -> Response:
    """To the page of a repository from an address that the Hub's clients print."""
    given = visit.request.path_params
    revision = f"?{urlencode({'revision': given['revision']})}" if given.get("revision") else ""
    return RedirectResponse(f"/{quote(given['owner'])}/{quote(given['name'])}{revision}", 307)
