"""How often one asker may ask: whose bucket a request is taken from, what it is told, and that clients obey."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Scope

from kernelworks.transport.client import Client
from kernelworks_server.config import Limits, Rate
from kernelworks_server.rates import Buckets, RateLimit, neighbourhood, quota_of
from kernelworks_server.records import AddFile
from kernelworks_server.services import Services

if TYPE_CHECKING:
    from conftest import Server

QUESTION, FILE = "/api/kernels", "/kernels/ann/relu/resolve/main/README.md"
README = b"# relu\n"


def test_a_full_bucket_gives_all_its_requests_at_once_and_then_one_per_share_of_the_window() -> None:
    buckets = Buckets(Rate(4, 8))
    assert [buckets.take("ann", 100.0) for _ in range(5)] == [0, 0, 0, 0, 2.0]
    assert [buckets.take("ann", now) for now in (101.0, 102.0, 102.5)] == [1.0, 0, 1.5]
    assert [buckets.take("ann", 200.0) for _ in range(5)] == [0, 0, 0, 0, 2.0]


@pytest.mark.parametrize("rate", [Rate(1, 1), Rate(3, 1), Rate(7, 300), Rate(6_000, 300)], ids=str)
def test_the_stated_wait_is_enough_and_no_more_than_needed(rate: Rate) -> None:
    buckets = Buckets(rate)
    now = 12_345.678
    wait = next(wait for _ in count() if (wait := buckets.take("ann", now)))
    assert buckets.take("ann", now + wait * 0.99) > 0
    assert buckets.take("ann", now + wait) == 0


def test_a_refused_request_costs_nothing_and_askers_do_not_pay_for_each_other() -> None:
    buckets = Buckets(Rate(1, 10))
    assert [buckets.take(asker, 0.0) for asker in ("ann", "ann", "ann", "ben")] == [0, 10.0, 10.0, 0]


def test_the_asker_that_was_quiet_for_longest_is_forgotten_first() -> None:
    buckets = Buckets(Rate(5, 10), askers=2)
    for asker in ("ann", "ben", "ann", "eve"):
        buckets.take(asker, 0.0)
    assert ("ann" in buckets, "ben" in buckets, "eve" in buckets, len(buckets)) == (True, False, True, 2)


@pytest.mark.parametrize(
    ("path", "quota"),
    [
        (QUESTION, "api"),
        ("/", "api"),
        ("/api/kernels/ann/resolve/tree/main", "api"),
        ("/metrics", "api"),
        (FILE, "files"),
        ("/ann/relu/resolve/v1%2Frc/a/b.so", "files"),
        ("/api/lfs/0000", "files"),
        ("/xet/0000/v1/xorbs/default/0000", "files"),
        ("/simple/files/ann/relu/0000/wheels/relu.whl", "files"),
        ("/simple/torch213-cpu/relu/", "api"),
        ("/static/page.css", "files"),
        ("/healthz", None),
    ],
)
def test_requests_that_move_bytes_have_a_quota_of_their_own(path: str, quota: str | None) -> None:
    assert quota_of(path) == quota


@pytest.mark.parametrize(
    ("address", "asker"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::1", "::/64"),
        ("", ""),
    ],
)
def test_one_subscriber_of_ipv6_is_one_asker(address: str, asker: str) -> None:
    assert neighbourhood(address) == asker


class Registry:
    """What is behind the limit answers `there` to everybody; the clock stands still until a test moves it."""

    def __init__(self, services: Services, **rates: Rate) -> None:
        self.now = 0.0
        self._app = RateLimit(PlainTextResponse("there"), services.people, Limits(**rates), lambda: self.now)  # type: ignore[arg-type]

    def ask(self, path: str, *, token: str | None = None, address: str = "192.0.2.1") -> tuple[int, dict[str, str]]:
        answer: dict[str, Any] = {}

        async def send(message: Message) -> None:
            answer.update(message)

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        scope: Scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "headers": headers}
        asyncio.run(self._app({**scope, "client": (address, 1)}, receive, send))
        return answer["status"], {name.decode(): value.decode() for name, value in answer["headers"]}

    def statuses(self, path: str, times: int, **who: str) -> list[int]:
        return [self.ask(path, **who)[0] for _ in range(times)]


def test_a_refusal_tells_the_quota_and_the_wait_in_headers_and_words(services: Services) -> None:
    registry = Registry(services, api=Rate(2, 9))
    registry.statuses(QUESTION, 2)
    status, headers = registry.ask(QUESTION)
    assert status == 429
    assert headers["ratelimit"] == '"api";r=0;t=5'  # 4.5 s until there is one request again
    assert headers["ratelimit-policy"] == '"api";q=2;w=9'
    assert headers["retry-after"] == "5"
    assert "more than 2 requests in 9 s: this registry answers again in 5 s" in headers["x-error-message"]
    registry.now = 5.0
    assert registry.ask(QUESTION)[0] == 200


def test_questions_and_files_do_not_use_up_each_others_quota(services: Services) -> None:
    registry = Registry(services, api=Rate(1), files=Rate(2))
    assert registry.statuses(QUESTION, 2) == [200, 429]
    assert registry.statuses(FILE, 3) == [200, 200, 429]
    assert registry.ask(FILE)[1]["ratelimit"].startswith('"files";r=0;t=')


def test_each_token_has_a_bucket_wherever_it_comes_from_and_anonymous_askers_share_their_address(
    services: Services,
) -> None:
    services.people.create_user("ann")
    first, second = (services.people.create_token("ann", label=label, scope="read") for label in "ab")
    registry = Registry(services, api=Rate(1))
    assert registry.statuses(QUESTION, 2) == [200, 429]
    assert registry.statuses(QUESTION, 2, token=first) == [200, 429]
    assert registry.statuses(QUESTION, 1, token=first, address="192.0.2.2") == [429]
    assert registry.statuses(QUESTION, 2, token=second) == [200, 429]
    assert registry.statuses(QUESTION, 2, address="192.0.2.2") == [200, 429]


def test_invented_tokens_are_charged_to_the_address_they_come_from(services: Services) -> None:
    registry = Registry(services, api=Rate(3))
    assert [registry.ask(QUESTION, token=f"kw_{number}")[0] for number in range(4)] == [200, 200, 200, 429]
    assert registry.ask(QUESTION)[0] == 429


def test_a_rate_of_0_is_no_limit(services: Services) -> None:
    registry = Registry(services, api=Rate(0), files=Rate(1))
    assert set(registry.statuses(QUESTION, 50)) == {200}
    assert registry.statuses(FILE, 2) == [200, 429]


def test_probes_are_always_answered(services: Services) -> None:
    assert set(Registry(services, api=Rate(1), files=Rate(1)).statuses("/healthz", 5)) == {200}


def publish_readme(server: Server) -> str:
    """A registry with one file; returns a token to read it with."""
    token = server.user("ann")
    repositories, ann = server.services.repositories, server.services.people.actor(token)
    repo = repositories.create(ann, "kernel", "ann/relu", private=True)
    sha256, size = repositories.receive(repo, [README], expected=None, limit=100)
    repositories.commit(
        ann, repo, "main", [AddFile("README.md", sha256, size, lfs=False)], message="one", description="", parent=None
    )
    return token


def downloads(server: Server) -> dict[str, int]:
    """How often a file was asked for with GET, by the status of the answer; a refused one has come to no route."""
    with urlopen(f"{server.url}/metrics", timeout=30) as response:  # noqa: S310
        lines = response.read().decode().splitlines()
    found = [
        line for line in lines if '_requests_total{method="GET"' in line and ("/resolve/" in line or "429" in line)
    ]
    return {line.split('status="')[1][:3]: int(line.rsplit(" ")[-1]) for line in found}


@pytest.fixture
def time_begins_with_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """For limits: what a client asks for before is asked at once, however long it takes."""
    take, refused = Buckets.take, []

    def taken(self: Buckets, asker: str, now: float) -> float:
        wait = take(self, asker, now - refused[0] if refused else 0.0)
        if wait and not refused:
            refused.append(now)
        return wait

    monkeypatch.setattr(Buckets, "take", taken)


@pytest.mark.server
@pytest.mark.usefixtures("time_begins_with_a_refusal")
def test_the_stock_client_waits_as_long_as_it_is_told(
    start_server: Callable[..., AbstractContextManager[Server]], tmp_path: Path
) -> None:
    program = "import sys; from huggingface_hub import hf_hub_download as get; "
    program += "print(get('ann/relu', 'README.md', repo_type='kernel'))"
    with start_server(Limits(files=Rate(1, 1))) as server:  # HEAD takes the one, GET has to wait
        token = publish_readme(server)
        own = {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": token}
        command = [sys.executable, "-c", program]
        done = subprocess.run(
            command, env={**os.environ, **own}, capture_output=True, text=True, check=True, timeout=300
        )
        assert Path(done.stdout.strip()).read_bytes() == README
        assert "Rate limited. Waiting 2.0s" in done.stderr  # it adds one second to what it is told
        assert downloads(server) == {"200": 1, "429": 1}


@pytest.mark.server
@pytest.mark.usefixtures("time_begins_with_a_refusal")
def test_our_own_client_waits_as_long_as_it_is_told(
    start_server: Callable[..., AbstractContextManager[Server]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_server(Limits(files=Rate(1, 1))) as server:
        monkeypatch.setenv("HF_TOKEN", publish_readme(server))
        client = Client(server.url)
        assert [client.document(FILE.removeprefix("/"))[1] for _ in range(2)] == [README, README]
        assert downloads(server) == {"200": 2, "429": 1}


@pytest.mark.server
def test_a_refused_upload_is_answered_and_the_connection_goes_on(
    start_server: Callable[..., AbstractContextManager[Server]],
) -> None:
    with start_server(Limits(api=Rate(1))) as server:
        connection = HTTPConnection(server.url.removeprefix("http://"), timeout=30)
        answers = []
        for _ in range(3):
            connection.request("POST", "/api/validate-yaml", json.dumps({"content": "x" * 500_000}))
            response = connection.getresponse()
            answers.append((response.status, json.loads(response.read()).get("error", "")[:22]))
        connection.close()
    assert answers == [(200, ""), *[(429, "more than 1 requests i")] * 2]
