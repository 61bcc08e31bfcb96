"""The real registry on a free loopback port: the program's own application, in a thread of the test.

It keeps its things in SQLite and a folder. A test that is marked `backing` runs once on each of the named kinds:

    @pytest.mark.backing("sqlite+folder", "postgresql+s3")
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPMessage
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from sqlalchemy import Engine, NullPool, create_engine, make_url

from kernelworks.transport.client import Client
from kernelworks_server.app import create_app
from kernelworks_server.config import Config, Limits, open_config
from kernelworks_server.database.engine import Database
from kernelworks_server.rights import Actor
from kernelworks_server.services import Services, open_services


@dataclass(frozen=True)
class Answer:
    """What a registry says to one request."""

    status: int
    headers: HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


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

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer to one request, its path as it stands; a body that is not bytes goes as JSON."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        connection = HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        try:
            connection.request(method, path.removeprefix(self.url), data, sent)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

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


@dataclass(frozen=True)
class Backing:
    """Where a registry keeps its things: the URLs of a database and an object store, or None for its own folder."""

    database: str | None = None
    store: str | None = None

    def config(self, root: Path, limits: Limits | None = None) -> Config:
        return open_config(root, database=self.database, store=self.store, limits=limits)

    @property
    def options(self) -> list[str]:
        """What the program `kernel-registry` is told."""
        told = {"--database": self.database, "--store": self.store}
        return [word for option, url in told.items() if url for word in (option, url)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backing" in metafunc.fixturenames and (marker := metafunc.definition.get_closest_marker("backing")):
        metafunc.parametrize("backing", marker.args, indirect=True)


@pytest.fixture
def backing(request: pytest.FixtureRequest, new_backing: Callable[..., Backing]) -> Backing:
    """A new one, of the kind that the test's marker names."""
    return new_backing(getattr(request, "param", "sqlite+folder"))


@pytest.fixture
def new_backing(request: pytest.FixtureRequest) -> Callable[..., Backing]:
    """Makes one of a kind, such as `sqlite+s3`; PostgreSQL has the registry's tables already, unless it is `empty`."""

    def new(kind: str, *, empty: bool = False) -> Backing:
        database, store = kind.split("+")
        return Backing(
            database=None if database == "sqlite" else request.getfixturevalue("new_database")(empty=empty),
            store=None if store == "folder" else request.getfixturevalue("new_bucket")(),
        )

    return new


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A PostgreSQL of the tests' own, reached by a socket in its folder; its `template1` has the registry's tables."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("PostgreSQL is not installed (Debian's package `postgresql`)")
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:  # the name of a socket has at most 107 bytes
        if user:
            shutil.chown(folder, user)

        def call(program: str, *arguments: str) -> None:
            command = [str(programs[-1] / program), "-D", f"{folder}/data", *arguments]
            with (tmp_path_factory.getbasetemp() / f"{program}.log").open("ab") as log:
                subprocess.run(command, check=True, stdout=log, stderr=log, user=user, cwd=folder)

        call("initdb", "--auth=trust", "--username=test", "--no-sync", "--encoding=UTF8")
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=200"
        call("pg_ctl", "start", "-w", "-o", options)
        try:
            url = make_url(f"postgresql://test@/template1?host={folder}")
            migrated = Database(url.render_as_string())
            migrated.migrate()
            migrated.close()
            yield create_engine(url.set(drivername="postgresql+psycopg", database="postgres"), poolclass=NullPool)
        finally:
            call("pg_ctl", "stop", "-w", "-m", "immediate")


@pytest.fixture
def new_database(postgres: Engine) -> Iterator[Callable[..., str]]:
    """Makes a database and gives its URL; it has the registry's tables, unless it is to be `empty`."""
    made = []

    def new(*, empty: bool = False) -> str:
        made.append(f"test_{secrets.token_hex(8)}")
        administer(f"CREATE DATABASE {made[-1]} TEMPLATE {'template0' if empty else 'template1'}")
        return postgres.url.set(drivername="postgresql", database=made[-1]).render_as_string()

    def administer(statement: str) -> None:
        with postgres.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(statement)

    yield new
    for name in made:
        administer(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def s3(environment: Callable[[str], Path]) -> Iterator[str]:
    """The address of an S3-compatible server, in a process that ends with these tests."""
    program = """
        import sys
        from moto.server import ThreadedMotoServer
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        print(*server.get_host_and_port(), sep=":", flush=True)
        sys.stdin.read()
    """
    command = [str(environment("moto")), "-c", textwrap.dedent(program)]
    quiet = subprocess.DEVNULL  # it logs every request
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield f"http://{process.stdout.readline().strip()}"
        process.stdin.close()


@pytest.fixture
def new_bucket(s3: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Makes a bucket and gives a URL inside it; how to reach it is told as operators tell it."""
    told = {"ACCESS_KEY_ID": "tests", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1"}
    for name, value in {**told, "ENDPOINT_URL": s3, "ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)

    def new() -> str:
        bucket = f"test-{secrets.token_hex(8)}"
        with urllib.request.urlopen(urllib.request.Request(f"{s3}/{bucket}", method="PUT")):  # noqa: S310  # loopback
            return f"s3://{bucket}/registry"

    return new


@contextmanager
def _running(config: Config, port: int = 0) -> Iterator[Server]:
    application = create_app(config)
    services: Services = application.state.services
    token = services.people.begin()
    assert token is not None
    with socket.create_server(("127.0.0.1", port)) as listener:
        program = uvicorn.Server(uvicorn.Config(application, log_config=None, access_log=False, ws="none"))
        thread = threading.Thread(target=program.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Server(f"http://127.0.0.1:{listener.getsockname()[1]}", token, config.root, services)
        finally:
            program.should_exit = True
            thread.join()


@pytest.fixture
def start_server(tmp_path: Path, backing: Backing) -> Callable[..., AbstractContextManager[Server]]:
    """How a test runs a registry with limits of its own, or at a port that it had before."""

    def start(limits: Limits | None = None, port: int = 0) -> AbstractContextManager[Server]:
        return _running(backing.config(tmp_path / "registry", limits), port)

    return start


@pytest.fixture
def server(tmp_path: Path, backing: Backing) -> Iterator[Server]:
    with _running(backing.config(tmp_path / "registry")) as running:
        yield running


@pytest.fixture
def services(tmp_path: Path, backing: Backing) -> Iterator[Services]:
    """The parts of a registry without HTTP."""
    opened = open_services(backing.config(tmp_path / "registry"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def run() -> Callable[..., Any]:
    """Runs a stock client against a registry, in a process of its own."""
    return _run


def _run(
    server: Server,
    home: Path,
    program: str,
    *arguments: str,
    token: str | None,
    python: str | Path = sys.executable,
    **settings: str,
) -> Any:
    """What `program` prints as its last line, as JSON; it knows `api`, its `arguments` as `arg`, and HF_HOME `home`."""
    head = "import json, sys\nfrom huggingface_hub import HfApi\napi, arg = HfApi(), sys.argv[1:]\n"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "KERNELWORKS_"))}
    environment |= {"HF_ENDPOINT": server.url, "HF_HOME": str(home), **({"HF_TOKEN": token} if token else {})}
    done = subprocess.run(
        [str(python), "-c", head + textwrap.dedent(program), *arguments],
        env={**environment, **settings},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that the loader of this process asks registries for, in their order."""
    paths: list[str] = []
    ask = Client._ask

    def counted(self: Client, url: str, *arguments: Any) -> Any:
        paths.append(url.removeprefix(self.endpoint))
        return ask(self, url, *arguments)

    monkeypatch.setattr(Client, "_ask", counted)
    return paths
