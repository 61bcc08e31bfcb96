"""What a hostile server or a bad network can do: nothing that is loaded, and it is told."""

from __future__ import annotations

import email.utils
import gzip
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks import (
    HostError,
    RepositoryError,
    TransportError,
    VerifyError,
    get_kernel,
    get_loaded_kernels,
)
from kernelworks.cli import main
from kernelworks.errors import UnknownRepositoryError
from kernelworks.model.digest import hash_bytes
from kernelworks.model.index import Index, Source
from kernelworks.model.variant import Variant
from kernelworks.transport import client, connect, download

if TYPE_CHECKING:
    from conftest import Handler, Hub

Pack = Callable[..., tuple[Variant, bytes]]
REPO = "org/demo"


def load(**arguments: Any) -> Any:
    return get_kernel(REPO, trust_remote_code=True, **arguments)


def wheel_of(pack: Pack, filler: bytes = b"") -> tuple[Variant, bytes]:
    """A kernel whose wheel is not small enough to come in one piece."""
    return pack({"__init__.py": b"x = 1\n", "data.bin": filler or hash_bytes(b"").encode() * 4000})


def short(handler: Handler) -> None:
    """Announces all and sends half."""
    handler.wfile = Half(handler.wfile)
    handler.answer()


class Half:
    """Lets the head and half of the body through."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, data: bytes) -> None:
        self.stream.write(data if data.startswith(b"HTTP/") else data[: len(data) // 2])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("X-Repo-Commit", "a" * 40)
    handler.end_headers()
    while True:
        handler.wfile.write(b"0" * 65536)


def web_page(handler: Handler) -> None:
    handler.send(b"<html>log in</html>", "a" * 40, Content_Type="text/html; charset=utf-8")


def other(handler: Handler) -> None:
    handler.send(b"[]", "a" * 40)


def compressed(handler: Handler) -> None:
    """A megabyte in a kilobyte, which nobody has asked for."""
    handler.send(gzip.compress(bytes(1 << 20)), "a" * 40, Content_Encoding="gzip")


def longer(handler: Handler) -> None:
    """Announces more than it sends."""
    handler.send(b"{}", "a" * 40, **{"Content-Length": "99"})


def failing(handler: Handler) -> None:
    handler.send(b"", status=503)


def silent(handler: Handler) -> None:
    handler.rfile.read(1)  # until the client hangs up


def dripping(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while True:  # until the client hangs up
        handler.wfile.write(b" ")
        time.sleep(0.05)


def hurried(limits: pytest.MonkeyPatch, ending: str) -> Callable[..., Any]:
    """How a client asks that has no patience with what has this ending, and all with the rest."""
    ask = client.Client._ask

    def hurry(self: client.Client, url: str, *arguments: Any) -> Any:
        if url.endswith(ending):
            limits.setattr(client, "_SILENCE", 0.2)
            limits.setattr(client, "_DOCUMENT_SECONDS", 0.2)
            limits.setattr(download, "_SECONDS", 0.1)
            limits.setattr(download, "_SLOWEST", 10_000_000)
        return ask(self, url, *arguments)

    return hurry


HOSTILE = {
    "refs": {
        short: (TransportError, "the connection was cut after"),
        endless: (TransportError, "sends more than"),
        web_page: (TransportError, "answered with a web page"),
        longer: (TransportError, "the connection was cut after 2 of 99 bytes"),
        other: (RepositoryError, "must be an object"),
        compressed: (TransportError, "in the encoding `gzip`, which was not asked for"),
        failing: (TransportError, "answered 503"),
        silent: (TransportError, "no answer came in time"),
        dripping: (TransportError, "sends too slowly"),
    },
    "kernel.json": {
        short: (TransportError, "the connection was cut after"),
        endless: (TransportError, "sends more than"),
        web_page: (TransportError, "answered with a web page"),
        longer: (TransportError, "the connection was cut after 2 of 99 bytes"),
        other: (TransportError, f"does not say which commit it is of: expected `.*`, got `{'a' * 40}`"),
        compressed: (TransportError, "in the encoding `gzip`, which was not asked for"),
        failing: (TransportError, "answered 503"),
        silent: (TransportError, "no answer came in time"),
        dripping: (TransportError, "sends too slowly"),
    },
    ".whl": {
        short: (TransportError, "the connection was cut after"),
        endless: (VerifyError, "expected .* bytes, got more"),
        web_page: (TransportError, "answered with a web page"),
        longer: (VerifyError, "expected .* bytes, got 99 bytes"),
        other: (VerifyError, "expected .* bytes, got 2 bytes"),
        compressed: (TransportError, "in the encoding `gzip`, which was not asked for"),
        failing: (TransportError, "answered 503"),
        silent: (TransportError, "no answer came in time"),
        dripping: (TransportError, "sends too slowly"),
    },
}


@pytest.mark.parametrize(
    ("ending", "fault", "error", "words"),
    [
        pytest.param(ending, fault, *expected, id=f"{fault.__name__}-{ending}")
        for ending, faults in HOSTILE.items()
        for fault, expected in faults.items()
    ],
)
def test_a_hostile_answer_is_told_and_leaves_nothing_that_is_loaded(
    hub: Hub, pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    ending: str, fault: Callable[[Handler], None], error: type[Exception], words: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(client, "_MAX_DOCUMENT", 1 << 20)
    hub.publish(1, wheel_of(pack))
    hub.misbehave(ending, fault)
    with monkeypatch.context() as limits:
        if fault in {silent, dripping}:
            limits.setattr(client.Client, "_ask", hurried(limits, ending))
        with pytest.raises(error, match=words):
            load()
    assert get_loaded_kernels() == ()
    assert not list((tmp_path / "cache").glob("kernels/*"))
    hub.faults.clear()
    assert load().x == 1


def test_wheels_with_other_bytes_of_the_same_size_are_refused(hub: Hub, pack: Pack) -> None:
    variant, wheel = wheel_of(pack)
    hub.publish(1, (variant, wheel))
    hub.misbehave(".whl", lambda handler: handler.send(bytes(len(wheel))))
    with pytest.raises(VerifyError, match=f"expected sha256 {variant.wheel.sha256}, got sha256") as caught:
        load()
    assert caught.value.context["subject"].startswith(hub.url)
    assert hub.asked(".whl") == 1


def test_a_commit_that_is_not_said_is_refused(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    for header in (None, "main", "A" * 40):
        hub.faults.clear()
        hub.misbehave("kernel.json", lambda handler, header=header: handler.send(b"{}", header))  # type: ignore[misc]
        with pytest.raises(TransportError, match="does not say which commit it is of"):
            load(version=1)


INDEXES = [
    (b"", RepositoryError, "is not valid JSON"),
    (b"\xff{}", RepositoryError, "is not UTF-8"),
    (b'{"schema": 1, "schema": 1}', RepositoryError, "is given twice"),
    (b'{"schema": 2}', RepositoryError, "reads schema 1; upgrade kernelworks"),
    (b'{"schema": true}', RepositoryError, "`schema` .* must be an integer"),
    (b'{"schema": NaN}', RepositoryError, "not a JSON number"),
    (b'{"a":' * 50_000, RepositoryError, "is not valid JSON"),
    (b"[" * 100 + b"]" * 100, RepositoryError, "nested deeper than"),
]


@pytest.mark.parametrize(("data", "error", "words"), INDEXES)
def test_a_malformed_index_is_refused_and_not_kept(
    hub: Hub, pack: Pack, data: bytes, error: type[Exception], words: str
) -> None:
    commit = hub.publish(1, pack())
    hub.misbehave("kernel.json", lambda handler: handler.send(data, commit), times=1)
    with pytest.raises(error, match=words) as caught:
        load(version=1)
    assert str(caught.value).isprintable()
    assert load(version=1).twice(1) == 2


def test_a_version_that_points_to_another_one_is_refused(hub: Hub, pack: Pack) -> None:
    hub.repos[REPO] = {"v2": hub.publish(1, pack())}
    for arguments in ({}, {"version": 2}):
        with pytest.raises(
            RepositoryError, match=r"version 2 of `org/demo` points to commit .*says that it is version 1"
        ):
            load(**arguments)


@pytest.mark.parametrize("path", ["../x.py", "/x.py", "a\\b.py", "a/../b.py", "c:x.py"])
def test_an_index_that_leads_out_of_its_folder_is_refused(hub: Hub, pack: Pack, path: str) -> None:
    variant, wheel = pack()
    (first, *others) = variant.files
    hub.publish(1, (variant, wheel))
    evil = replace(variant, files=(replace(first, path=path), *others), package="demo")
    data = Index("demo", 1, "Apache-2.0", Source("0" * 64), "test 0", (evil,)).to_bytes()
    hub.misbehave("kernel.json", lambda handler: handler.send(data, hub.repos[REPO]["v1"]))
    with pytest.raises(RepositoryError, match="not a relative path inside its root"):
        load(version=1)


@pytest.mark.parametrize(
    ("status", "code", "error", "words"),
    [
        (401, "", UnknownRepositoryError, "shows no repository `org/demo`"),
        (401, "RepoNotFound", UnknownRepositoryError, "shows no repository `org/demo`"),
        (404, "RepoNotFound", UnknownRepositoryError, "shows no repository `org/demo`"),
        (404, "", TransportError, "answered: 404 Not Found; is the URL that of a registry of kernels"),
        (403, "", TransportError, "answered: 403 Forbidden"),
        (403, "GatedRepo", RepositoryError, "is for those whom its publisher admits"),
        (409, "", TransportError, "answered: 409 Conflict"),
        (418, "", TransportError, "answered: 418"),
        (429, "", TransportError, "answered 429"),
        (500, "", TransportError, "answered 500"),
        (502, "", TransportError, "answered 502"),
    ],
)
@pytest.mark.parametrize("ending", ["refs", "kernel.json", ".whl"])
def test_every_refusal_has_its_class(
    hub: Hub, pack: Pack, ending: str, status: int, code: str, error: type[Exception], words: str
) -> None:
    hub.publish(1, pack())
    headers = {"X_Error_Code": code} if code else {}
    hub.misbehave(ending, lambda handler: handler.send(b"", status=status, **headers))
    with pytest.raises(error, match=words):
        load()


@pytest.mark.parametrize(
    "refs",
    [
        b"",
        b"null",
        b'{"branches": {}}',
        b'{"branches": [{"name": "v1"}]}',
        b'{"branches": [{"name": "v1", "targetCommit": "../../x"}]}',
        b'{"branches": [{"name": "\\u001b[2J", "targetCommit": "' + b"a" * 40 + b'"}]}',
        b"[" * 100_000,
    ],
)
def test_malformed_refs_are_refused(hub: Hub, pack: Pack, refs: bytes) -> None:
    hub.publish(1, pack())
    hub.misbehave("refs", lambda handler: handler.send(refs))
    with pytest.raises(RepositoryError, match="/refs`") as caught:
        load()
    assert str(caught.value).isprintable()


def test_what_a_registry_says_cannot_reach_the_terminal(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    hub.misbehave(
        "refs",
        lambda handler: handler.send(b"", status=404, X_Error_Code="RepoNotFound", X_Error_Message="\x1b[2J" * 999),
    )
    with pytest.raises(RepositoryError) as caught:
        load()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_a_cut_download_goes_on_where_it_was_cut(hub: Hub, pack: Pack) -> None:
    variant, wheel = wheel_of(pack)
    hub.publish(1, (variant, wheel))
    hub.misbehave(".whl", short, times=2)
    assert load(version=1).x == 1
    ranges = [headers.get("Range") for headers in hub.headers[1:]]
    half = len(wheel) // 2
    assert ranges == [None, f"bytes={half}-", f"bytes={half + (len(wheel) - half) // 2}-"]


def test_a_download_goes_on_from_what_a_killed_process_left(hub: Hub, pack: Pack, tmp_path: Path) -> None:
    variant, wheel = wheel_of(pack)
    hub.publish(1, (variant, wheel))
    part = tmp_path / "cache" / "artifacts" / f"{variant.wheel.sha256}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(wheel[:1000])
    assert load(version=1).x == 1
    assert hub.headers[-1]["Range"] == "bytes=1000-"


def test_a_link_in_the_place_of_a_download_is_not_written_through(hub: Hub, pack: Pack, tmp_path: Path) -> None:
    variant, wheel = wheel_of(pack)
    hub.publish(1, (variant, wheel))
    (tmp_path / "precious").write_text("data")
    part = tmp_path / "cache" / "artifacts" / f"{variant.wheel.sha256}.part"
    part.parent.mkdir(parents=True)
    part.symlink_to(tmp_path / "precious")
    with pytest.raises(HostError, match=r"cannot unpack variant .*symbolic links"):
        load(version=1)
    assert (tmp_path / "precious").read_text() == "data"


@pytest.mark.parametrize("size", [1000, 1_000_000])
def test_what_a_broken_disk_left_is_downloaded_anew(hub: Hub, pack: Pack, tmp_path: Path, size: int) -> None:
    variant, wheel = wheel_of(pack)
    hub.publish(1, (variant, wheel))
    part = tmp_path / "cache" / "artifacts" / f"{variant.wheel.sha256}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(size))
    assert load(version=1).x == 1


def test_a_server_that_ignores_ranges_is_read_from_the_start(hub: Hub, pack: Pack) -> None:
    _, wheel = kernel = wheel_of(pack)
    hub.publish(1, kernel)

    def whole(handler: Handler) -> None:
        del handler.headers["Range"]
        handler.send(wheel)

    hub.misbehave(".whl", short, times=1)
    hub.misbehave(".whl", whole)
    assert load(version=1).x == 1


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "7"}, 7),
        ({"RateLimit": '"api";r=0;t=5'}, 5),
        ({"Retry-After": email.utils.formatdate(time.time() - 99, usegmt=True)}, 0.2),
        ({}, 0.2),
        ({"Retry-After": "soon"}, 0.2),
    ],
)
def test_a_registry_that_asks_to_wait_is_obeyed(
    hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], expected: float
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(client, "sleep", waits.append)
    hub.publish(1, pack())
    hub.misbehave("refs", lambda handler: handler.send(b"", status=429, **headers), times=1)
    assert load().twice(4) == 8
    assert waits == [expected]


def test_a_registry_that_asks_to_wait_for_long_is_named(hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(client, "sleep", waits.append)
    hub.publish(1, pack())
    hub.misbehave("refs", lambda handler: handler.send(b"", status=429, Retry_After="3600"))
    with pytest.raises(TransportError, match="asks to be left alone for 3600 s"):
        load()
    assert (waits, hub.asked("refs")) == ([], 1)


def test_a_registry_that_does_not_run_is_said_at_once(
    make_hub: Callable[[], Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = make_hub()
    hub.stop()
    waits: list[float] = []
    monkeypatch.setattr(client, "sleep", waits.append)
    with pytest.raises(TransportError, match=f"registry `{hub.url}` cannot be reached: Connection refused"):
        load(registry=hub.url)
    assert waits == []


def test_offline_nothing_is_asked(hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.publish(1, pack())
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(TransportError, match="does not know which versions `org/demo` has, "):
        load()
    assert hub.requests == []


def test_a_damaged_kernel_and_wheel_are_put_right_from_the_registry(hub: Hub, pack: Pack, tmp_path: Path) -> None:
    variant, wheel = pack()
    hub.publish(1, (variant, wheel))
    connect(hub.url, [tmp_path / "cache"]).open(REPO, hub.repos[REPO]["v1"], variant.wheel).close()
    kept = tmp_path / "cache" / "artifacts" / variant.wheel.sha256
    kept.write_bytes(wheel[:-1] + b"!")
    assert load(version=1).twice(4) == 8
    assert kept.read_bytes() == wheel


def test_verifying_a_registry_reads_its_bytes_and_not_the_copies_here(
    hub: Hub, pack: Pack, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = hub.publish(1, pack())
    load()
    assert main(["info", REPO]) == main(["verify", REPO]) == 0
    wheel = hub.revisions[REPO, commit] / pack()[0].wheel.path
    wheel.write_bytes(bytes(wheel.stat().st_size))
    capsys.readouterr()
    assert main(["verify", REPO, "--json"]) == VerifyError.exit_code
    (fault,) = json.loads(capsys.readouterr().out)["faults"]
    assert (fault["file"], fault["expected"]) == (pack()[0].wheel.path, f"sha256 {pack()[0].wheel.sha256}")
