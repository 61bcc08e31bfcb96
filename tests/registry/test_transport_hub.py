"""Loading from a server that speaks the Hub's protocol: the requests, the token, and what a hostile one can do."""

from __future__ import annotations

import email.utils
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from huggingface_hub import constants

from kernelworks import (
    RepositoryError,
    TransportError,
    TrustError,
    UsageError,
    VerifyError,
    explain,
    get_kernel,
    get_loaded_kernels,
)
from kernelworks.cli import main
from kernelworks.model.digest import FileEntry, hash_bytes
from kernelworks.model.variant import Variant
from kernelworks.settings import cache_root
from kernelworks.transport import client, connect, download
from kernelworks.transport.hub import endpoint_of

Pack = Callable[..., tuple[Variant, bytes]]
REPO = "org/demo"
TOKEN = "kw_secret"
WORDS = {"RepoNotFound": "Repository not found", "RevisionNotFound": "Invalid rev id", "EntryNotFound": "No such file"}


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.path = unquote(self.path)
        self.server.requests.append(self.path)
        self.server.headers.append(dict(self.headers))
        for fault in self.server.faults:
            if self.path.endswith(fault[0]) and fault[2] > 0:
                fault[2] -= 1
                fault[1](self)
                return
        self.answer()

    def answer(self) -> None:
        """What a registry that means well says."""
        hub = self.server
        if self.path.startswith("/api/organizations/"):
            self.send(json.dumps({"name": "org", "trustedKernelPublisher": hub.trusted}).encode())
            return
        _, *prefix, org, name, _, rest = f"{self.path}/".split("/", 5 + self.path.startswith("/api"))
        repo_id = f"{org}/{name}"
        branches = hub.repos.get(repo_id)
        if branches is None or (hub.private and self.headers["Authorization"] != f"Bearer {TOKEN}"):
            self.refuse(401 if hub.private else 404, "RepoNotFound")
        elif prefix[0] == "api":
            found = [{"name": name, "targetCommit": commit} for name, commit in {"main": "0" * 40, **branches}.items()]
            self.send(json.dumps({"branches": found, "tags": [], "converts": []}).encode())
        else:
            revision, _, path = rest.removesuffix("/").partition("/")
            commit = branches.get(revision, revision)
            if (repo_id, commit) not in hub.revisions:
                self.refuse(404, "RevisionNotFound")
            elif not (file := hub.revisions[repo_id, commit] / path).is_file():
                self.refuse(404, "EntryNotFound", commit)
            else:
                self.send(file.read_bytes(), commit)

    def send(self, data: bytes, commit: str | None = None, *, status: int = 200, **headers: str) -> None:
        start = 0
        if status == 200 and (wanted := self.headers["Range"]):
            status, start = 206, int(wanted.removeprefix("bytes=").removesuffix("-"))
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self.send_response(status)
        if commit:
            self.send_header("X-Repo-Commit", commit)
        for name, value in {"Content-Length": str(len(data) - start), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data[start:])

    def refuse(self, status: int, code: str, commit: str | None = None) -> None:
        self.send(b"{}", commit, status=status, X_Error_Code=code, X_Error_Message=WORDS[code])

    def log_message(self, *_: Any) -> None:
        pass


class Hub(ThreadingHTTPServer):
    """A registry that does what its faults say, else what it should."""

    daemon_threads = True

    def __init__(self, folder: Path, make_revision: Callable[..., str]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.make_revision = make_revision
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.repos: dict[str, dict[str, str]] = {}
        self.revisions: dict[tuple[str, str], Path] = {}
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[Any] = []
        self.private = self.trusted = False
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    def publish(self, version: int, *kernels: tuple[Variant, bytes], commit: str | None = None) -> str:
        folder = self.folder / str(len(self.revisions))
        digest = self.make_revision(folder, "demo", version, list(kernels))
        commit = commit or digest[:40]
        self.repos.setdefault(REPO, {})[f"v{version}"] = commit
        self.revisions[REPO, commit] = folder
        return commit

    def misbehave(self, ending: str, fault: Callable[[Handler], None], times: int = 1_000) -> None:
        """Let requests of paths with this ending get `fault`."""
        self.faults.append([ending, fault, times])

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
        self.thread.join()

    def asked(self, ending: str) -> int:
        return sum(path.endswith(ending) for path in self.requests)

    def handle_error(self, *_: Any) -> None:
        """A client that hangs up is what these tests are about."""


@pytest.fixture
def make_hub(
    tmp_path: Path,
    make_revision: Callable[..., str],
    this_process: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[], Hub]]:
    """Starts registries; nobody is logged in, and waiting takes no time."""
    this_process()
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "hf" / "token"))
    monkeypatch.setattr(client, "sleep", lambda _: None)
    hubs: list[Hub] = []

    def make() -> Hub:
        hubs.append(Hub(tmp_path / f"hub{len(hubs)}", make_revision))
        return hubs[-1]

    yield make
    for hub in hubs:
        hub.stop()


@pytest.fixture
def hub(make_hub: Callable[[], Hub], monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A registry that KERNELWORKS_REGISTRY names."""
    made = make_hub()
    monkeypatch.setenv("KERNELWORKS_REGISTRY", f"{made.url}/")
    return made


def load(**arguments: Any) -> Any:
    return get_kernel(REPO, trust_remote_code=True, **arguments)


def wheel_of(pack: Pack, filler: bytes = b"") -> tuple[Variant, bytes]:
    """A kernel whose wheel is not small enough to come in one piece."""
    return pack({"__init__.py": b"x = 1\n", "data.bin": filler or hash_bytes(b"").encode() * 4000})


# How many requests


def test_a_cold_load_is_the_refs_the_index_and_the_wheel(hub: Hub, pack: Pack) -> None:
    commit = hub.publish(1, pack())
    assert load().twice(4) == 8
    assert hub.requests == [
        f"/api/kernels/{REPO}/refs",
        f"/kernels/{REPO}/resolve/{commit}/kernel.json",
        f"/kernels/{REPO}/resolve/{commit}/{pack()[0].wheel.path}",
    ]
    assert get_loaded_kernels()[-1].origin.commit == commit


def test_a_version_needs_no_refs(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    load(version=1)
    assert [path.rpartition("/")[2] for path in hub.requests] == ["kernel.json", f"{pack()[0].name}.whl"]
    assert hub.requests[0] == f"/kernels/{REPO}/resolve/v1/kernel.json"


def test_the_newest_version_that_fits_is_taken(hub: Hub, pack: Pack) -> None:
    for version in (9, 10):
        hub.publish(version, pack({"__init__.py": b"x = %d\n" % version}))
    assert load().x == 10
    assert explain(REPO).version == 10


def test_a_pinned_commit_that_was_loaded_before_needs_no_registry_and_no_library(
    hub: Hub, pack: Pack, processes: Any
) -> None:
    commit = hub.publish(1, pack())
    load(version=1)
    hub.stop()
    program = (
        "import sys, kernelworks\n"
        f"kernel = kernelworks.get_kernel({REPO!r}, revision={commit!r}, trust_remote_code=True)\n"
        "print(kernel.twice(4), *sorted({'http.client', 'ssl', 'huggingface_hub'} & sys.modules.keys()))"
    )
    assert processes.start(program).communicate() == ("8\n", "")


def test_eight_processes_download_once(hub: Hub, pack: Pack, processes: Any) -> None:
    hub.publish(1, wheel_of(pack))
    program = f"import kernelworks; print(kernelworks.get_kernel({REPO!r}, version=1, trust_remote_code=True).x)"
    running = [processes.start(program) for _ in range(8)]
    assert [process.communicate() for process in running] == [("1\n", "")] * 8
    assert hub.asked(".whl") == 1


def test_registries_with_one_repository_id_share_nothing(make_hub: Callable[[], Hub], pack: Pack) -> None:
    one, two = make_hub(), make_hub()
    for number, hub in enumerate((one, two)):
        hub.publish(1, pack({"__init__.py": b"x = %d\n" % number}), commit="a" * 40)
    for number, hub in enumerate((one, two)):
        assert load(registry=hub.url, revision="a" * 40).x == number
    assert (one.asked("kernel.json"), two.asked("kernel.json")) == (1, 1)


# Consent


def test_without_consent_the_publisher_is_asked_about_before_the_wheel_is_fetched(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    with pytest.raises(TrustError, match=r"does not call a trusted publisher; .*`trust_remote_code=True`"):
        get_kernel(REPO)
    assert hub.requests[2:] == ["/api/organizations/org/overview"]
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


def test_offline_a_pinned_kernel_needs_consent_and_no_registry(
    hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.publish(1, pack())
    assert explain(REPO, revision=commit).chosen
    connect(hub.url, cache_root()).open(REPO, commit, pack()[0].wheel).close()
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")
    with pytest.raises(TransportError, match=r"does not say whether `org` is a trusted publisher: .*forbids") as caught:
        get_kernel(REPO, revision=commit)
    assert caught.value.hint is None
    assert load(revision=commit).twice(1) == 2


def test_a_person_is_no_trusted_publisher(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    hub.misbehave("overview", lambda handler: handler.send(b"", status=404))
    with pytest.raises(TrustError):
        get_kernel(REPO)


# What is missing


def test_what_is_missing_is_named(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    hub.repos["org/empty"] = {}
    with pytest.raises(RepositoryError, match=r"shows no repository `org/nope` .*none for this registry is set"):
        get_kernel("org/nope")
    with pytest.raises(RepositoryError, match="`org/empty` has no version"):
        get_kernel("org/empty")
    with pytest.raises(RepositoryError, match=r"`org/demo` has no version 2 \(there are: 1\)"):
        load(version=2)
    with pytest.raises(RepositoryError, match=r"`org/demo` has no ref `dev` \(its versions are: 1\)"):
        load(revision="dev")
    with pytest.raises(RepositoryError, match=f"`org/demo` has no commit `{'f' * 40}`"):
        load(revision="f" * 40)
    transport = connect(hub.url)
    with pytest.raises(RepositoryError, match=r"lacks the file `wheels/x\.whl`"):
        transport.open(REPO, hub.repos[REPO]["v1"], FileEntry("wheels/x.whl", 1, "0" * 64))


def test_a_repository_of_another_builder_is_told_from_a_damaged_one(hub: Hub, pack: Pack) -> None:
    commit = hub.publish(1, pack())
    (hub.revisions[REPO, commit] / "kernel.json").unlink()
    with pytest.raises(RepositoryError, match=r"has no `kernel\.json`: another program has built it"):
        load(version=1)


def test_a_gated_repository_says_where_to_ask(hub: Hub) -> None:
    hub.misbehave(
        "refs",
        lambda handler: handler.send(b"", status=403, X_Error_Code="GatedRepo", X_Error_Message="not in the list"),
    )
    with pytest.raises(RepositoryError, match=f"not in the list; ask on its page, `{hub.url}/kernels/{REPO}`"):
        load()


@pytest.mark.parametrize("repo_id", ["../../etc", "relu", "", "a/b/c"])
def test_a_bad_repository_id_is_refused_before_anything_is_asked(hub: Hub, repo_id: str) -> None:
    with pytest.raises(UsageError, match="is not a repository id"):
        connect(hub.url).versions(repo_id)
    assert hub.requests == []


# Tokens


def test_a_private_repository_is_read_with_a_token(hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.publish(1, pack())
    hub.private = True
    with pytest.raises(RepositoryError, match="none for this registry is set"):
        load()
    monkeypatch.setenv("HF_TOKEN", "kw_other")
    with pytest.raises(RepositoryError, match=r"a token that may read it$"):
        load()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert load().twice(4) == 8


def test_a_token_that_the_registry_does_not_know_is_told_from_a_missing_repository(
    hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.publish(1, pack())
    monkeypatch.setenv("HF_TOKEN", "kw_old")
    words = "Invalid credentials in Authorization header"
    hub.misbehave("refs", lambda handler: handler.send(b"", status=401, X_Error_Message=words))
    with pytest.raises(TransportError, match="does not know the token that it was sent"):
        load()


def test_a_token_of_the_hub_is_sent_to_no_other_registry(hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.publish(1, pack())
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    load(version=1)
    assert not any("Authorization" in headers for headers in hub.headers)
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    connect(hub.url).versions(REPO)
    assert hub.headers[-1]["Authorization"] == "Bearer hf_secret"


@pytest.mark.usefixtures("hub")
def test_a_token_that_cannot_be_sent_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "kw_se\x07cret")
    with pytest.raises(UsageError, match="the token holds characters") as caught:
        load()
    assert "cret" not in str(caught.value)


def test_a_token_stays_with_its_origin_when_the_registry_redirects(
    make_hub: Callable[[], Hub], hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_hub()
    commit = hub.publish(1, pack())
    wheel = pack()[1]
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    store.misbehave("signature=1", lambda handler: handler.send(wheel, "e" * 40))
    hub.misbehave(".whl", lambda handler: handler.send(b"", status=302, Location=f"{store.url}/blob?signature=1"))
    hub.misbehave("v1/kernel.json", lambda handler: handler.send(b"", status=307, Location=f"../{commit}/kernel.json"))
    assert load(version=1).twice(4) == 8
    assert [headers["Authorization"] for headers in hub.headers] == [f"Bearer {TOKEN}"] * 3
    assert [("Authorization" in headers) for headers in store.headers] == [False]


@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x", "//[", "", "kernel.json"])
def test_a_redirection_that_leads_nowhere_good_is_not_followed(hub: Hub, pack: Pack, target: str) -> None:
    hub.publish(1, pack())
    hub.misbehave("kernel.json", lambda handler: handler.send(b"", status=302, Location=target))
    with pytest.raises(TransportError, match="which is not followed"):
        load(version=1)


def test_redirections_end(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    hub.misbehave("refs", lambda handler: handler.send(b"", status=302, Location=f"/x{handler.path}"))
    with pytest.raises(TransportError, match="redirected more than 5 times"):
        load()
    assert len(hub.requests) == 6


# Hostile bytes


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


def failing(handler: Handler) -> None:
    handler.send(b"", status=503)


def silent(_: Handler) -> None:
    time.sleep(1)


def dripping(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(50):
        handler.wfile.write(b" ")
        time.sleep(0.05)


HOSTILE = {
    "refs": {
        short: (TransportError, "the connection was cut after"),
        endless: (TransportError, "sends more than"),
        web_page: (TransportError, "answered with a web page"),
        other: (RepositoryError, "must be an object"),
        failing: (TransportError, "answered 503"),
        silent: (TransportError, "no answer within"),
        dripping: (TransportError, "sends too slowly"),
    },
    "kernel.json": {
        short: (TransportError, "the connection was cut after"),
        endless: (TransportError, "sends more than"),
        web_page: (TransportError, "answered with a web page"),
        other: (TransportError, f"does not say which commit it is of: expected `.*`, got `{'a' * 40}`"),
        failing: (TransportError, "answered 503"),
        silent: (TransportError, "no answer within"),
        dripping: (TransportError, "sends too slowly"),
    },
    ".whl": {
        short: (TransportError, "the connection was cut after"),
        endless: (VerifyError, "expected .* bytes, got more"),
        web_page: (TransportError, "answered with a web page"),
        other: (VerifyError, "expected .* bytes, got 2 bytes"),
        failing: (TransportError, "answered 503"),
        silent: (TransportError, "no answer within"),
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
    monkeypatch.setattr(client, "_SILENCE", 0.2)
    monkeypatch.setattr(client, "_DOCUMENT_SECONDS", 0.2)
    monkeypatch.setattr(download, "_SECONDS", 0.1)
    monkeypatch.setattr(download, "_SLOWEST", 10_000_000)
    monkeypatch.setattr(client, "_MAX_DOCUMENT", 1 << 20)
    hub.publish(1, wheel_of(pack))
    hub.misbehave(ending, fault)
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


# A network that is not perfect


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
    with pytest.raises(TransportError, match="HF_HUB_OFFLINE forbids to ask registry"):
        load()
    assert hub.requests == []


# The cache


def test_a_damaged_copy_of_an_index_is_fetched_again(hub: Hub, pack: Pack, tmp_path: Path) -> None:
    commit = hub.publish(1, pack())
    assert explain(REPO, revision=commit).chosen
    (kept,) = (tmp_path / "cache" / "indexes").glob(f"*/{REPO}/{commit}")
    kept.write_bytes(kept.read_bytes().replace(b"Apache-2.0", b"Apache-2.1"))
    assert explain(REPO, revision=commit).chosen
    assert hub.asked("kernel.json") == 2


def test_a_damaged_kernel_and_wheel_are_put_right_from_the_registry(hub: Hub, pack: Pack, tmp_path: Path) -> None:
    variant, wheel = pack()
    hub.publish(1, (variant, wheel))
    connect(hub.url, tmp_path / "cache").open(REPO, hub.repos[REPO]["v1"], variant.wheel).close()
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


# URLs


@pytest.mark.parametrize(
    ("location", "endpoint"),
    [
        ("HTTP://Host.Example:80/", "http://host.example"),
        ("https://host.example:443/team/", "https://host.example/team"),
        ("http://host.example:443", "http://host.example:443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_one_registry_has_one_url(location: str, endpoint: str) -> None:
    assert endpoint_of(location) == endpoint == endpoint_of(endpoint)


@pytest.mark.parametrize(
    "location",
    ["http://", "https:///x", "http://host:x", "http://host:99999", "http://host?x", "http://host#x", "http://h\x07", "http://ü",
     "http://user:pw@host", "http://[", "http://" + "h" * 300],
)  # fmt: skip
def test_what_is_no_url_of_a_registry_is_refused(location: str) -> None:
    with pytest.raises(UsageError) as caught:
        connect(location)
    assert "pw" not in str(caught.value)
    assert str(caught.value).isprintable()
