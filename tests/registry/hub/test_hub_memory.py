"""What is remembered of a server, and when it is used."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks import (
    RepositoryError,
    TransportError,
    TrustError,
    api,
    explain,
    get_kernel,
    get_loaded_kernels,
)
from kernelworks.cache.memory import Memory, age_of
from kernelworks.model.variant import Variant
from kernelworks.settings import cache_layers
from kernelworks.transport import client, connect, remembering

if TYPE_CHECKING:
    from conftest import Hub

Pack = Callable[..., tuple[Variant, bytes]]
REPO = "org/demo"


def load(**arguments: Any) -> Any:
    """What a new process would get."""
    api._modules.clear()
    return get_kernel(REPO, trust_remote_code=True, **arguments)


# What is asked again


def test_a_version_is_asked_for_again_and_sent_only_if_it_has_changed(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    load(version=1)
    hub.requests.clear()
    hub.headers.clear()
    assert load(version=1).twice(4) == 8
    assert hub.requests == [f"/kernels/{REPO}/resolve/v1/kernel.json"]
    assert hub.headers[0]["If-None-Match"]

    hub.publish(1, pack({"__init__.py": b"x = 2\n"}))
    assert load(version=1).x == 2


def test_one_index_under_another_commit_is_known_by_its_tag(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack(), commit="a" * 40)
    load(version=1)
    hub.publish(1, pack(), commit="b" * 40)
    load(version=1)
    assert explain(REPO, version=1).commit == "b" * 40
    hub.stop()
    assert explain(REPO, revision="b" * 40).chosen


def test_without_a_version_the_refs_are_asked_for_again(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    load()
    hub.requests.clear()
    assert load().twice(4) == 8
    assert hub.requests == [f"/api/kernels/{REPO}/refs"]


def test_a_commit_needs_no_socket_and_no_package(hub: Hub, pack: Pack, processes: Any) -> None:
    commit = hub.publish(1, pack())
    load(version=1)
    program = (
        "import socket, sys, kernelworks\n"
        "def forbidden(*_, **__): raise AssertionError('a socket')\n"
        "socket.socket = socket.create_connection = socket.getaddrinfo = forbidden\n"
        f"kernel = kernelworks.get_kernel({REPO!r}, revision={commit!r}, trust_remote_code=True)\n"
        "print(kernel.twice(4), *sorted({'http.client', 'ssl', 'huggingface_hub', 'requests'} & sys.modules.keys()))"
    )
    assert processes.start(program).communicate() == ("8\n", "")


# Offline


@pytest.mark.parametrize("variable", ["KERNELWORKS_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_versions_come_from_memory_and_nothing_is_asked(
    hub: Hub, pack: Pack, processes: Any, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    hub.publish(1, pack())
    load()
    hub.requests.clear()
    monkeypatch.setenv(variable, "1")
    for arguments in ("", ", version=1", ", revision='v1'"):
        program = (
            f"import kernelworks; print(kernelworks.get_kernel({REPO!r}, trust_remote_code=True{arguments}).twice(4))"
        )
        assert processes.start(program).communicate() == ("8\n", "")
    assert hub.requests == []


def test_offline_what_is_missing_is_named(hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = hub.publish(1, pack())
    explain(REPO, version=1)
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")
    for arguments, words in (
        ({"version": 1}, rf"does not know `wheels/.*\.whl` of `{REPO}` at `{commit}`"),
        ({"version": 2}, rf"`kernel\.json` of `{REPO}` at `v2`, .*; of its versions, this machine knows 1$"),
        ({"revision": "f" * 40}, rf"`kernel\.json` of `{REPO}` at `{'f' * 40}`"),
    ):
        with pytest.raises(TransportError, match=words) as caught:
            load(**arguments)
        assert hub.url in caught.value.message
    with pytest.raises(TransportError, match="does not know which versions `org/other` has"):
        get_kernel("org/other")


def test_a_call_can_ask_for_local_files_only(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    with pytest.raises(TransportError, match="may not be asked"):
        api.install_kernel(REPO, version=1, trust_remote_code=True, local_files_only=True)
    folder = api.install_kernel(REPO, version=1, trust_remote_code=True)
    asked = len(hub.requests)
    assert api.install_kernel(REPO, version=1, trust_remote_code=True, local_files_only=True) == folder
    assert (len(hub.requests), get_loaded_kernels()) == (asked, ())


def test_what_one_cache_lacks_a_lower_one_may_have(
    hub: Hub, pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.publish(1, pack())
    load(version=1)
    monkeypatch.setenv("KERNELWORKS_CACHE", f"{tmp_path / 'upper'}:{tmp_path / 'cache'}")
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")
    assert load(version=1).twice(4) == 8


# The registry is away


@pytest.mark.parametrize("arguments", [{}, {"version": 1}])
def test_a_registry_that_does_not_run_is_replaced_by_what_it_said_with_a_warning(
    hub: Hub, pack: Pack, caplog: pytest.LogCaptureFixture, arguments: dict[str, int]
) -> None:
    hub.publish(1, pack())
    load(**arguments)
    hub.stop()
    assert load(**arguments).twice(4) == 8
    (warning,) = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert warning == (
        f"registry `{hub.url}` cannot be reached: Connection refused;"
        f" what it said less than a minute ago of `{REPO}` is used instead"
    )


@pytest.fixture
def black_hole() -> Iterator[socket.socket]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_a_registry_that_never_answers_is_waited_for_once(
    pack: Pack, hub: Hub, black_hole: socket.socket, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hub.publish(1, pack())
    load()
    host = f"http://127.0.0.1:{black_hole.getsockname()[1]}"
    (known,) = (cache_layers()[0] / "registries").iterdir()
    known.rename(Memory(cache_layers(), host)._folders[0])
    monkeypatch.setattr(client, "_SILENCE", 0.2)
    assert load(registry=host).twice(4) == 8
    assert "no answer came in time" in caplog.text

    def unasked(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(client.Client, "_ask", unasked)
    assert load(registry=host, version=1).twice(4) == 8


def test_what_memory_does_not_hold_is_asked_of_a_registry_that_was_away(
    hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.publish(1, pack())
    load(version=1)
    monkeypatch.setitem(remembering._away, hub.url, (time.monotonic() + 60, "it was away"))
    hub.publish(2, pack({"__init__.py": b"x = 2\n"}))
    assert load(version=2).x == 2


def test_an_answer_that_something_is_gone_is_no_reason_to_remember_it(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    load()
    load(version=1)
    del hub.repos[REPO]
    for arguments in ({}, {"version": 1}):
        with pytest.raises(RepositoryError, match="shows no repository"):
            load(**arguments)


def test_a_version_that_is_gone_is_forgotten(hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.publish(1, pack())
    hub.publish(2, pack({"__init__.py": b"x = 2\n"}))
    load()
    del hub.repos[REPO]["v2"]
    load()
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")
    assert explain(REPO).version == 1
    with pytest.raises(TransportError, match=r"knows 1$"):
        load(version=2)


# Trust


def test_without_consent_the_publisher_is_asked_about_before_the_wheel_is_fetched(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    for _ in range(2):  # a no is not remembered
        with pytest.raises(TrustError, match=r"does not call a trusted publisher; .*`trust_remote_code=True`"):
            get_kernel(REPO)
    assert hub.asked("/api/organizations/org/overview") == 2
    assert hub.asked(".whl") == 0
    hub.trusted = True
    assert get_kernel(REPO).twice(1) == 2


@pytest.mark.parametrize("status", [403, 500])
def test_a_registry_that_does_not_say_whom_it_trusts_is_no_reason_to_trust(hub: Hub, pack: Pack, status: int) -> None:
    hub.publish(1, pack())
    hub.misbehave("overview", lambda handler: handler.send(b"", status=status))
    with pytest.raises(TransportError, match=str(status)) as caught:
        get_kernel(REPO)
    assert "trust_remote_code" not in str(caught.value)
    assert hub.asked(".whl") == 0


def test_a_person_is_no_trusted_publisher(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    hub.misbehave("overview", lambda handler: handler.send(b"", status=404))
    with pytest.raises(TrustError):
        get_kernel(REPO)


def test_offline_a_kernel_that_was_never_trusted_is_refused_without_advice_to_trust(
    hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.publish(1, pack())
    assert explain(REPO, revision=commit).chosen
    connect(hub.url, cache_layers()).open(REPO, commit, pack()[0].wheel).close()
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")
    with pytest.raises(TransportError, match=r"does not say whether `org` is a trusted publisher: .*offline") as caught:
        get_kernel(REPO, revision=commit)
    assert "trust_remote_code" not in str(caught.value)
    assert caught.value.hint == "load it once with the network"
    assert load(revision=commit).twice(1) == 2


def test_trust_in_a_commit_is_remembered_for_that_commit_and_not_for_ever(
    hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.trusted = True
    first = hub.publish(1, pack())
    get_kernel(REPO, version=1)
    second = hub.publish(2, pack({"__init__.py": b"x = 2\n"}))
    load(version=2)
    api._modules.clear()
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")
    assert get_kernel(REPO, revision=first).twice(1) == 2
    assert api.install_kernel(REPO, revision=first)
    with pytest.raises(TransportError, match="does not say whether `org` is a trusted publisher"):
        api.install_kernel(REPO, revision=second)
    monkeypatch.setattr(remembering, "_TRUST_SECONDS", 0)
    with pytest.raises(TransportError, match="does not say whether `org` is a trusted publisher"):
        api.install_kernel(REPO, revision=first)


# Records


def test_a_damaged_copy_of_an_index_is_fetched_again(hub: Hub, pack: Pack, tmp_path: Path) -> None:
    commit = hub.publish(1, pack())
    assert explain(REPO, revision=commit).chosen
    (kept,) = (tmp_path / "cache" / "registries").glob(f"*/repos/{REPO}/revisions/{commit}")
    kept.write_bytes(kept.read_bytes().replace(b"Apache-2.0", b"Apache-2.1"))
    assert explain(REPO, revision=commit).chosen
    assert hub.asked("kernel.json") == 2


def test_what_is_no_index_is_not_remembered(hub: Hub, pack: Pack) -> None:
    commit = hub.publish(1, pack())
    hub.misbehave("kernel.json", lambda handler: handler.send(b"{}", commit), times=1)
    with pytest.raises(RepositoryError, match="lacks the key"):
        load(revision=commit)
    assert load(revision=commit).twice(1) == 2


@pytest.mark.parametrize("damage", [b"", b"\n\n", b"0" * 64 + b"\n{}\n", b"\xff" * 99])
def test_a_damaged_record_is_none(tmp_path: Path, damage: bytes) -> None:
    memory = Memory([tmp_path], "http://host.example")
    memory.put("a", "b", body=b"x", commit="c")
    record = memory.get("a", "b")
    assert record
    assert (record.body, record.facts, age_of(record.time)) == (b"x", {"commit": "c"}, "less than a minute ago")
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    file.write_bytes(damage)
    assert memory.get("a", "b") is None


def test_a_cache_that_cannot_be_written_remembers_nothing_and_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    memory = Memory([tmp_path / "file"], "http://host.example")
    memory.put("a", body=b"x")
    assert memory.get("a") is None
    assert memory.names() == frozenset()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(30, "less than a minute ago"), (60, "1 minute ago"), (7200, "2 hours ago"), (9e5, "10 days ago")],
)
def test_ages_are_told_in_words(seconds: float, words: str) -> None:
    assert age_of(time.time() - seconds) == words
