"""The real registry on a free loopback port: the program's own application, in a thread of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn

from kernelworks_server.app import create_app
from kernelworks_server.config import Limits, open_config
from kernelworks_server.rights import Actor
from kernelworks_server.services import Services, open_services


@dataclass(frozen=True)
class Server:
    """A registry that answers at `url`; `token` is the operator's, of scope `admin`."""

    url: str
    token: str
    root: Path
    services: Services

    @property
    def operator(self) -> Actor:
        return self.services.people.actor(self.token)

    def user(self, name: str, *, scope: str = "write") -> str:
        """A token of the user `name`, who is made where there is none."""
        people = self.services.people
        if not any(account.name == name for account in people.accounts("user")):
            people.create_user(name)
        return people.create_token(name, label=f"{scope} {len(people.tokens(name))}", scope=scope)

    def org(self, name: str, *, trusted: bool = False, **members: str) -> str:
        """The new organisation `name` with these users in these roles."""
        self.services.people.create_org(name)
        self.services.people.set_trusted(name, trusted)
        for user, role in members.items():
            self.services.people.add_member(name, user, role)
        return name


@contextmanager
def _running(root: Path, limits: Limits | None = None, port: int = 0) -> Iterator[Server]:
    application = create_app(open_config(root, limits=limits))
    services: Services = application.state.services
    token = services.people.begin()
    assert token is not None
    with socket.create_server(("127.0.0.1", port)) as listener:
        program = uvicorn.Server(uvicorn.Config(application, log_config=None, access_log=False, ws="none"))
        thread = threading.Thread(target=program.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Server(f"http://127.0.0.1:{listener.getsockname()[1]}", token, root, services)
        finally:
            program.should_exit = True
            thread.join()


@pytest.fixture
def start_server(tmp_path: Path) -> Callable[..., AbstractContextManager[Server]]:
    """How a test runs a registry with limits of its own, or at a port that it had before."""

    def start(limits: Limits | None = None, port: int = 0) -> AbstractContextManager[Server]:
        return _running(tmp_path / "registry", limits, port)

    return start


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with _running(tmp_path / "registry") as running:
        yield running


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    """The parts of a registry without HTTP."""
    opened = open_services(open_config(tmp_path / "registry"))
    yield opened
    opened.close()
