"""The registry as an ASGI application: pages first, then the Hub's protocol, around them limits and the request log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.responses import Response

from kernelworks._version import __version__
from kernelworks_server.bodies import BodyLimit
from kernelworks_server.config import Config
from kernelworks_server.errors import ServerError
from kernelworks_server.hub import routes as hub
from kernelworks_server.pages import routes as pages
from kernelworks_server.request_log import RequestLog
from kernelworks_server.services import Services, open_services

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
    app.add_middleware(BodyLimit, limit=config.limits.body)
    app.add_middleware(RequestLog)
    _add_health(app, services)
    app.router.routes.extend([*pages.router(services), *hub.router(services)])
    return app


def _add_health(app: FastAPI, services: Services) -> None:
    @app.get("/healthz", summary="Whether the registry can answer: its database does")
    def health() -> dict[str, str]:
        services.database.ping()
        return {"status": "ok", "version": __version__}


async def _refuse(_: Request, error: Exception) -> Response:
    if not isinstance(error, ServerError):
        raise error
    status, headers, body = error.http()
    return JSONResponse(body, status, headers)
