"""The registry as an ASGI application: protocols, then pages, around them limits, counts and the request log."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from anyio import create_task_group, sleep, to_thread
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from kernelworks._version import __version__
from kernelworks_server import openapi
from kernelworks_server.bodies import BodyLimit
from kernelworks_server.config import Config
from kernelworks_server.errors import ServerError
from kernelworks_server.hub import routes as hub
from kernelworks_server.metrics import MEDIA_TYPE, Counting, Counts, admit, downloaded, exposition, stock
from kernelworks_server.pages import routes as pages
from kernelworks_server.rates import RateLimit
from kernelworks_server.request_log import RequestLog
from kernelworks_server.services import Services, open_services
from kernelworks_server.simple import routes as simple

__all__ = ["create_app"]

_COUNTS_SECONDS = 5
_LOGGER = logging.getLogger(__name__)


def create_app(config: Config) -> FastAPI:
    """The application for `config`; its parts are `app.state.services`, and closed when it shuts down."""
    services = open_services(config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await to_thread.run_sync(services.shelf.fill)
        async with create_task_group() as tasks:
            tasks.start_soon(_write_counts, services)
            yield
            tasks.cancel_scope.cancel()
        services.close()

    app = FastAPI(
        title="kernel-registry",
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,  # it would tell of this module's own addresses only
        redirect_slashes=False,
    )
    app.state.services = services
    app.add_exception_handler(ServerError, _refuse)
    app.add_exception_handler(HTTPException, _refuse_address)
    counts = Counts()
    app.add_middleware(BodyLimit, limit=config.limits.body)
    app.add_middleware(RateLimit, people=services.people, limits=config.limits)
    app.add_middleware(Counting, counts=counts, routes=app.router.routes)
    app.add_middleware(RequestLog)
    app.add_api_route("/api/openapi.json", openapi.document, summary="This interface for programs, as OpenAPI")
    _add_health(app, services)
    _add_metrics(app, services, counts)
    app.router.routes.extend([*simple.router(services), *hub.router(services), *pages.router(services)])
    return app


async def _write_counts(services: Services) -> None:
    while True:
        await sleep(_COUNTS_SECONDS)
        try:
            await to_thread.run_sync(services.downloads.flush)
        except SQLAlchemyError:
            _LOGGER.exception("the counts of downloads wait for the database")


def _add_health(app: FastAPI, services: Services) -> None:
    @app.get("/healthz", summary="Whether the registry can answer: its database does")
    def health() -> dict[str, str]:
        services.database.ping()
        return {"status": "ok", "version": __version__}


def _add_metrics(app: FastAPI, services: Services, counts: Counts) -> None:
    @app.get("/metrics", summary="Prometheus metrics, for operators and programs on this machine")
    async def metrics(request: Request) -> Response:
        await to_thread.run_sync(admit, request, services.people)
        held = await to_thread.run_sync(stock, services.database)
        families = [*counts.families(), downloaded(services.downloads.total), *held]
        return Response(exposition(families), media_type=MEDIA_TYPE)


async def _refuse(_: Request, error: Exception) -> Response:
    if not isinstance(error, ServerError):
        raise error
    status, headers, body = error.http()
    return JSONResponse(body, status, headers)


async def _refuse_address(request: Request, error: Exception) -> Response:
    """There is no such address, or none for this method: said as all refusals are."""
    if not isinstance(error, HTTPException):
        raise error
    headers = {"Allow": _methods(request)} if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED else None
    return JSONResponse({"error": error.detail.lower()}, error.status_code, headers)


def _methods(request: Request) -> str:
    """The methods of every route that the address of `request` matches: the router knows of the first one only."""
    matching = (route for route in request.app.router.routes if route.matches(request.scope)[0] is not Match.NONE)
    return ", ".join(sorted({method for route in matching for method in route.methods}))
