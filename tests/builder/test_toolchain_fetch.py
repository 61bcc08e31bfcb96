"""Downloads from a server of this test: resumed, proved, raced, killed, and refused."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from kernelworks_build.errors import ToolchainError
from kernelworks_build.progress import Advance, SilentProgress
from kernelworks_build.toolchain import fetch
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.remote import Remote, RemoteError

DATA = bytes(range(256)) * 8192  # 2 MiB
JSON = "application/vnd.pypi.simple.v1+json"


class Site(ThreadingHTTPServer):
    """A file server whose faults are set by the test."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.kinds: dict[str, str] = {}
        self.requests: list[tuple[str, str | None]] = []  # path, Range
        self.ranges = True
        self.cut: list[int] = []  # bytes after which each of the next answers ends
        self.stall = threading.Event()  # an answer that was cut waits for it before it ends
        self.stall.set()
        self.endless = False
        self.busy = 0  # so many answers are 503 first

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        site, path, asked = self.server, unquote(self.path), self.headers.get("Range")
        site.requests.append((path, asked))
        data = site.files.get(path)
        if data is None or site.busy > 0:
            site.busy -= data is not None
            self.send_error(404 if data is None else 503)
            return
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked or "") if site.ranges else None
        start, stop = (int(match[1]), int(match[2] or len(data) - 1) + 1) if match else (0, len(data))
        self.send_response(206 if match else 200)
        if match:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
        if not site.endless:
            self.send_header("Content-Length", str(stop - start))
        self.send_header("Content-Type", site.kinds.get(path, "application/octet-stream"))
        self.end_headers()
        if site.cut:
            self.wfile.write(data[start : start + site.cut.pop(0)])
            self.wfile.flush()
            site.stall.wait(30)
            return
        self.wfile.write(data[start:stop])
        while site.endless:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(fetch, "_PAUSES", (0, 0, 0))
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.stall.set()
        server.shutdown()
        thread.join()


class Recorder(SilentProgress):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.totals: list[int | None] = []
        self.done = 0

    @contextmanager
    def task(self, label: str, total: int | None, unit: str, seconds: float | None = None) -> Iterator[Advance]:
        assert (label.partition(" ")[0], unit, seconds) == ("fetching", "B", None)
        self.totals.append(total)
        yield self._advance

    def _advance(self, amount: int) -> None:
        self.done += amount

    def note(self, text: str) -> None:
        self.notes.append(text)


def deb(site: Site, name: str = "tool", data: bytes = DATA, served: bytes | None = None) -> Artifact:
    """A package of `data` whose lock is right; the site serves `served` under its path."""
    path = f"pool/{name}_1+b1_amd64.deb"
    site.files[f"/debian/{path}"] = data if served is None else served
    sha256 = hashlib.sha256(data).hexdigest()
    return Artifact(name, "1+b1", "deb", f"{name}_1+b1_amd64.deb", len(data), sha256, path)


def fetcher(site: Site, cache: Path, progress: Recorder | None = None) -> Fetcher:
    return Fetcher(cache, Origins.of(archives=[f"{site.url}/debian"]), progress or Recorder())


def left(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "artifacts").iterdir() if path.suffix != ".lock")


def test_artifacts_arrive_under_their_digest_and_are_asked_for_once(site: Site, tmp_path: Path) -> None:
    artifacts = [deb(site, f"p{number}", DATA + bytes([number])) for number in range(6)]
    progress = Recorder()

    paths = fetcher(site, tmp_path, progress).fetch(artifacts)
    again = fetcher(site, tmp_path).fetch(artifacts)

    assert again == paths
    assert {artifact: path.read_bytes()[-1] for artifact, path in paths.items()} == dict(
        zip(artifacts, range(6), strict=True)
    )
    assert left(tmp_path) == sorted(artifact.sha256 for artifact in artifacts)
    assert len(site.requests) == 6
    assert progress.totals == [progress.done] == [6 * len(DATA) + 6]


def test_a_cut_connection_is_resumed_where_it_ended(site: Site, tmp_path: Path) -> None:
    artifact, progress = deb(site), Recorder()
    site.cut = [700_000, 300_000]

    path = fetcher(site, tmp_path, progress).fetch([artifact])[artifact]

    assert path.read_bytes() == DATA
    starts = [int(str(asked).strip("bytes=-")) for _, asked in site.requests[1:]]
    assert len(starts) == 2
    assert 600_000 < starts[0] <= 700_000  # what was in flight may be lost
    assert starts[0] < starts[1] <= 1_000_000
    assert progress.done == len(DATA)


def test_a_server_that_ignores_ranges_gives_the_whole_file_again(site: Site, tmp_path: Path) -> None:
    artifact, progress = deb(site), Recorder()
    site.cut, site.ranges = [700_000], False

    path = fetcher(site, tmp_path, progress).fetch([artifact])[artifact]

    assert path.read_bytes() == DATA
    assert progress.done == len(DATA)


def test_a_server_that_always_cuts_is_given_up_with_the_reason(site: Site, tmp_path: Path) -> None:
    artifact = deb(site)
    site.cut = [1000] * 9

    with pytest.raises(ToolchainError, match="the connection was cut"):
        fetcher(site, tmp_path).fetch([artifact])
    assert left(tmp_path) == [f"{artifact.sha256}.part"]


def test_a_busy_server_is_asked_again(site: Site, tmp_path: Path) -> None:
    artifact = deb(site)
    site.busy = 2

    assert fetcher(site, tmp_path).fetch([artifact])[artifact].read_bytes() == DATA


def test_a_wrong_byte_is_an_error_with_file_expected_and_got(site: Site, tmp_path: Path) -> None:
    wrong = DATA[:-1] + b"x"
    artifact = deb(site, served=wrong)

    with pytest.raises(ToolchainError, match=r"`tool_1\+b1_amd64.deb` from .* is not that of the lock") as caught:
        fetcher(site, tmp_path).fetch([artifact])

    assert caught.value.context["file"] == artifact.file
    assert caught.value.context["expected"] == artifact.sha256
    assert caught.value.context["got"] == hashlib.sha256(wrong).hexdigest()
    assert left(tmp_path) == []


@pytest.mark.parametrize("served", [DATA[:-9], DATA + b"more"], ids=["shorter", "longer"])
def test_a_file_of_another_size_is_refused_before_it_is_read(site: Site, tmp_path: Path, served: bytes) -> None:
    artifact = deb(site, served=served)

    with pytest.raises(ToolchainError) as caught:
        fetcher(site, tmp_path).fetch([artifact])

    assert caught.value.context["expected"] == f"{len(DATA)} bytes"
    assert caught.value.context["got"] == f"{len(served)} bytes"
    assert left(tmp_path) == []


def test_an_endless_body_is_cut_off_at_the_size_of_the_lock(site: Site, tmp_path: Path) -> None:
    artifact = deb(site)
    site.endless = True

    with pytest.raises(ToolchainError, match=f"expected `{len(DATA)} bytes`, got `more`"):
        fetcher(site, tmp_path).fetch([artifact])
    assert left(tmp_path) == []


def test_a_part_of_other_bytes_costs_one_more_download(site: Site, tmp_path: Path) -> None:
    artifact = deb(site)
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / f"{artifact.sha256}.part").write_bytes(b"y" * 5000)

    path = fetcher(site, tmp_path).fetch([artifact])[artifact]

    assert path.read_bytes() == DATA
    assert [asked for _, asked in site.requests] == ["bytes=5000-", None]


def test_a_flipped_byte_in_the_cache_is_noted_and_fetched_anew(site: Site, tmp_path: Path) -> None:
    artifact, progress = deb(site), Recorder()
    path = fetcher(site, tmp_path).fetch([artifact])[artifact]
    path.write_bytes(DATA[:-1] + b"x")

    assert fetcher(site, tmp_path, progress).fetch([artifact])[artifact].read_bytes() == DATA
    assert progress.notes == [f"the cached `{artifact.file}` is damaged: fetching it again"]


def test_an_artifact_that_no_origin_has_names_where_it_was_looked_for_and_how_to_lock_anew(
    site: Site, tmp_path: Path
) -> None:
    artifact = deb(site)
    site.files.clear()
    origins = Origins.of(archives=[f"{site.url}/debian", "http://someone:secret@127.0.0.1:9/debian"])

    with pytest.raises(ToolchainError) as caught:
        Fetcher(tmp_path, origins, Recorder()).fetch([artifact], relock="kernel-build lock --host")

    assert f"`{artifact.file}` (tool 1+b1) is at none of its origins" in caught.value.message
    assert f"{site.url}/debian/pool/tool_1%2Bb1_amd64.deb` (404 Not Found)" in caught.value.message
    assert "(connection refused)" in caught.value.message
    assert "secret" not in str(caught.value)
    assert "`kernel-build lock --host`" in str(caught.value.hint)


def test_without_a_network_one_line_names_the_site_the_reason_and_a_few_packages(site: Site, tmp_path: Path) -> None:
    artifacts = [deb(site, f"p{number}", DATA + bytes([number])) for number in range(7)]
    progress = Recorder()
    origins = Origins.of(archives=["http://someone:secret@127.0.0.1:9/debian"])

    with pytest.raises(ToolchainError) as caught:
        Fetcher(tmp_path, origins, progress).fetch(artifacts, relock="kernel-build lock --host")

    assert caught.value.message == (
        "cannot reach `http://***@127.0.0.1:9` (connection refused): "
        "7 packages are missing: p0, p1, p2, p3, p4 and 2 more"
    )
    assert "check the network" in str(caught.value.hint)
    assert "lock" not in str(caught.value.hint)
    assert len(caught.value.context["files"]) == 7
    assert progress.notes == ["`http://***@127.0.0.1:9`: connection refused; trying again"]


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("nonsense", "`nonsense` (it is not a URL)"),
        ("ftp://127.0.0.1/simple", "`ftp://127.0.0.1` (it is no URL of http, https or file)"),
    ],
)
def test_an_index_that_is_no_url_is_called_so(site: Site, tmp_path: Path, index: str, words: str) -> None:
    with pytest.raises(ToolchainError, match=re.escape(f"cannot reach {words}: 1 package is missing")):
        Fetcher(tmp_path, Origins.of(indexes=[index]), Recorder()).fetch([wheel()])
    assert site.requests == []


def test_all_faults_of_a_batch_are_reported_together_and_the_rest_is_kept(site: Site, tmp_path: Path) -> None:
    good, gone = deb(site, "good"), deb(site, "gone", b"gone")
    wrong = deb(site, "wrong", b"right", served=b"wrong")
    del site.files[f"/debian/{gone.path}"]

    with pytest.raises(ToolchainError, match="2 packages cannot be had") as caught:
        fetcher(site, tmp_path).fetch([good, wrong, gone])

    files = {fault["context"]["file"] for fault in caught.value.context["faults"]}
    assert files == {wrong.file, gone.file}
    assert good.sha256 in left(tmp_path)


def test_the_second_archive_serves_what_the_first_has_not(site: Site, tmp_path: Path) -> None:
    artifact = deb(site)
    site.files[f"/security/{artifact.path}"] = site.files.pop(f"/debian/{artifact.path}")
    origins = Origins.of(archives=[f"{site.url}/debian/", f"{site.url}/security/"])

    assert Fetcher(tmp_path, origins, Recorder()).fetch([artifact])[artifact].read_bytes() == DATA


def test_without_an_archive_the_message_says_where_one_is_named(tmp_path: Path, site: Site) -> None:
    with pytest.raises(ToolchainError, match="KERNELWORKS_DEB_MIRROR"):
        Fetcher(tmp_path, Origins.of(), Recorder()).fetch([deb(site)])


def test_offline_nothing_is_asked_for(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")

    with pytest.raises(ToolchainError, match="KERNELWORKS_OFFLINE forbids the network"):
        fetcher(site, tmp_path).fetch([deb(site)])
    assert site.requests == []


def wheel(data: bytes = DATA) -> Artifact:
    file = "some_kit-1.0-py3-none-any.whl"
    return Artifact("Some.Kit", "1.0", "wheel", file, len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("kind", [JSON, "text/html; charset=utf-8"])
def test_a_wheel_is_found_through_json_and_html_pages_of_a_simple_index(site: Site, tmp_path: Path, kind: str) -> None:
    artifact = wheel()
    page, href = "/simple/some-kit/", f"../../files/{artifact.file}"
    site.files[f"/files/{artifact.file}"] = DATA
    site.kinds[page] = kind
    site.files[page] = (
        json.dumps({"meta": {"api-version": "1.1"}, "files": [{"filename": artifact.file, "url": href}]})
        if kind == JSON
        else f'<a href="{href}#sha256={artifact.sha256}" data-yanked>kit</a>'
    ).encode()

    paths = Fetcher(tmp_path, Origins.of(indexes=[f"{site.url}/simple"]), Recorder()).fetch([artifact])

    assert paths[artifact].read_bytes() == DATA


def test_folders_and_file_urls_are_origins_too(site: Site, tmp_path: Path) -> None:
    package, artifact = deb(site, "local"), wheel()
    for path in (tmp_path / "mirror" / package.path, tmp_path / "index/some-kit" / artifact.file):
        path.parent.mkdir(parents=True)
        path.write_bytes(DATA)
    (tmp_path / "index/some-kit/index.html").write_text(f'<a href="{artifact.file}">x</a>')
    mirror, index = (tmp_path / "mirror").as_uri(), (tmp_path / "index").as_uri()

    Fetcher(tmp_path / "a", Origins.of(indexes=[index], archives=[mirror]), Recorder()).fetch([package, artifact])
    Fetcher(tmp_path / "b", Origins.of(links=[str(tmp_path / "index/some-kit")]), Recorder()).fetch([artifact])

    assert left(tmp_path / "a") == sorted({package.sha256, artifact.sha256})
    assert left(tmp_path / "b") == [artifact.sha256]
    assert site.requests == []


@pytest.mark.parametrize("page", [b"[]", b'{"files": 3}', b"{", b'{"files": [{"url": 1}]}'])
def test_a_page_that_is_no_index_is_one_more_place_without_the_file(site: Site, tmp_path: Path, page: bytes) -> None:
    site.files["/simple/some-kit/"], site.kinds["/simple/some-kit/"] = page, JSON

    with pytest.raises(ToolchainError, match="its page is no simple index"):
        Fetcher(tmp_path, Origins.of(indexes=[f"{site.url}/simple"]), Recorder()).fetch([wheel()])


def test_a_range_is_read_where_the_server_can_and_refused_where_it_cannot(site: Site) -> None:
    site.files["/a"] = b"0123456789"
    with Remote() as remote:
        assert remote.read(f"{site.url}/a", 2, 5) == b"234"
        with pytest.raises(RemoteError, match="404"):
            remote.read(f"{site.url}/b", 2, 5)
        site.ranges = False
        assert remote.read(f"{site.url}/a", 0, 5) is None


PROGRAM = """
import json, sys
from pathlib import Path
from kernelworks_build.progress import SilentProgress
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.origins import Origins

origins = Origins.of(archives=[sys.argv[2]])
Fetcher(Path(sys.argv[1]), origins, SilentProgress()).fetch([Artifact(**json.loads(sys.argv[3]))])
"""


def program(site: Site, cache: Path, artifact: Artifact) -> subprocess.Popen[bytes]:
    facts = json.dumps({**artifact.to_json(), "path": artifact.path})
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(cache), f"{site.url}/debian", facts])


def test_eight_threads_and_eight_processes_download_once(site: Site, tmp_path: Path) -> None:
    artifact = deb(site)
    processes = [program(site, tmp_path, artifact) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: fetcher(site, tmp_path).fetch([artifact])[artifact], range(8)))

    assert [process.wait() for process in processes] == [0] * 8
    assert {path.read_bytes() == DATA for path in paths} == {True}
    assert len(site.requests) == 1
    assert left(tmp_path) == [artifact.sha256]


def test_a_killed_download_leaves_a_part_that_the_next_one_resumes(site: Site, tmp_path: Path) -> None:
    artifact = deb(site)
    part = tmp_path / "artifacts" / f"{artifact.sha256}.part"
    site.cut = [1 << 20]
    site.stall.clear()
    with program(site, tmp_path, artifact) as process:
        while process.poll() is None and not (part.exists() and part.stat().st_size):
            threading.Event().wait(0.01)
        process.send_signal(signal.SIGKILL)
    site.stall.set()
    assert left(tmp_path) == [part.name]
    got = part.stat().st_size

    path = fetcher(site, tmp_path).fetch([artifact])[artifact]

    assert path.read_bytes() == DATA
    assert [asked for _, asked in site.requests] == [None, f"bytes={got}-"]
    assert got > 0
