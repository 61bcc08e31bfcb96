"""The Hub protocol: the endpoints that stock clients call, over the services of the domain."""

from kernelworks_server.hub import routes

__all__ = ["routes"]
