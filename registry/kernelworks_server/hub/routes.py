"""Every endpoint of the Hub protocol, as routes."""

from __future__ import annotations

from starlette.routing import BaseRoute

from kernelworks_server.hub import accounts, files, lfs, notices, repos, upload, xet
from kernelworks_server.hub.endpoint import HubRoute
from kernelworks_server.services import Services

__all__ = ["router"]

_ROOMS = (files, repos, accounts, notices, upload, lfs, xet)  # first what clients ask most


def router(services: Services) -> list[BaseRoute]:
    """The routes, for the registry that `services` are."""
    return [HubRoute(endpoint, services) for room in _ROOMS for endpoint in room.ENDPOINTS]
