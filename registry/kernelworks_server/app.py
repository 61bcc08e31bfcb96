"""The registry as an ASGI application: pages, then protocols, around them limits, counts and the request log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import to_thread
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.responses import Response

from kernelworks._version import __version__
from kernelworks_server.bodies import BodyLimit
from kernelworks_server.config import Config
from kernelworks_server.errors import ServerError
from kernelworks_server.hub import routes as hub
from kernelworks_server.metrics import MEDIA_TYPE, Counting, Counts, admit, exposition, stock
from kernelworks_server.pages import routes as pages
from kernelworks_server.rates import RateLimit
from kernelworks_server.request_log import RequestLog
from kernelworks_server.services import Services, open_services
from kernelworks_server.simple import routes as simple

__all__ = ["create_app"]


def create_app(config: Config) -> FastAPI:
    """The application for `config`; its parts are `app.state.services`, and closed when it shuts down."""
    services = open_services(config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        services.close()

    app = FastAPI(
        title="kernel-registry",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services = services
    app.add_exception_handler(ServerError, _refuse)
    counts = Counts()
    app.add_middleware(BodyLimit, limit=config.limits.body)
    app.add_middleware(RateLimit, people=services.people, limits=config.limits)
    app.add_middleware(Counting, counts=counts, routes=app.router.routes)
    app.add_middleware(RequestLog)
    _add_health(app, services)
    _add_metrics(app, services, counts)
    app.router.routes.extend([*pages.router(services), *simple.router(services), *hub.router(services)])
    return app


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
        return Response(exposition([*counts.families(), *held]), media_type=MEDIA_TYPE)


async def _refuse(_: Request, error: Exception) -> Response:
    if not isinstance(error, ServerError):
        raise error
    status, headers, body = error.http()
    return JSONResponse(body, status, headers)
