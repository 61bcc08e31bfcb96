"""A registry on loopback that speaks the Hub's protocol, and lies as a test tells it to."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest

from kernelworks import selection
from kernelworks.model.digest import hash_bytes
from kernelworks.model.variant import Variant
from kernelworks.transport import client, remembering

REPO = "org/demo"
TOKEN = "kw_secret"
WORDS = {"RepoNotFound": "Repository not found", "RevisionNotFound": "Invalid rev id", "EntryNotFound": "No such file"}
LARGE = 1000
"""Bytes from which on a file is in LFS."""


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
        path = self.path.partition("?")[0]
        if path.startswith("/api/organizations/"):
            self.send(json.dumps({"name": "org", "trustedKernelPublisher": hub.trusted}).encode())
            return
        _, *_prefix, org, name, what, rest = f"{path}/".split("/", 5 + path.startswith("/api"))
        repo_id = f"{org}/{name}"
        branches = hub.repos.get(repo_id)
        if repo_id in hub.renamed:
            self.send(b"", status=307, Location=self.path.replace(repo_id, hub.renamed[repo_id], 1))
        elif branches is None or (hub.private and self.headers["Authorization"] != f"Bearer {TOKEN}"):
            self.refuse(401 if hub.private else 404, "RepoNotFound")
        elif what == "refs":
            self.send(json.dumps({"branches": hub.refs(branches), "tags": [], "converts": []}).encode())
        else:
            revision, _, file = rest.removesuffix("/").partition("/")
            commit = branches.get(revision, revision)
            folder = hub.revisions.get((repo_id, commit))
            if folder is None:
                self.refuse(404, "RevisionNotFound")
            elif what == "tree":
                self.list(folder)
            elif not (folder / file).is_file():
                self.refuse(404, "EntryNotFound", commit)
            else:
                self.send_file((folder / file).read_bytes(), commit)

    def list(self, folder: Path) -> None:
        """A page of the tree, as long as this registry gives them."""
        files = [entry(folder, path) for path in sorted((folder / "build").rglob("*"))]
        start = int(self.path.partition("cursor=")[2] or 0)
        following = start + self.server.page
        url = f"{self.server.url}{self.path.partition('&')[0]}&cursor={following}"
        headers = {"Link": f'<{url}>; rel="next"'} if following < len(files) else {}
        self.send(json.dumps(files[start:following]).encode(), **headers)

    def send_file(self, data: bytes, commit: str) -> None:
        hub = self.server
        headers = {"ETag": f'"{hash_bytes(data)}"'}
        if commit in hub.yanked:
            headers["X_Kernel_Yanked"] = quote(hub.yanked[commit])
        if hub.deprecated is not None:
            headers["X_Kernel_Deprecated"] = quote(hub.deprecated)
        if self.headers["If-None-Match"] == headers["ETag"]:
            self.send(b"", commit, status=304, **headers)
        else:
            self.send(data, commit, **headers)

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
        self.renamed: dict[str, str] = {}
        self.yanked: dict[str, str] = {}
        self.deprecated: str | None = None
        self.page = 1000
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[Any] = []
        self.private = self.trusted = False
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    def publish(
        self, version: int, *kernels: tuple[Variant, bytes], commit: str | None = None, repo_id: str = REPO
    ) -> str:
        folder = self.folder / str(len(self.revisions))
        digest = self.make_revision(folder, "demo", version, list(kernels))
        return self.add(folder, repo_id, version, commit or digest[:40])

    def publish_foreign(self, version: int, variants: Mapping[str, Mapping[str, bytes]], **metadata: Any) -> str:
        """A revision as other builders write it; `metadata` replaces what `metadata.json` says."""
        folder = self.folder / str(len(self.revisions))
        for name, sources in variants.items():
            write_foreign(folder / "build" / name, sources, **metadata)
        return self.add(folder, REPO, version, hash_bytes(str(folder).encode())[:40])

    def add(self, folder: Path, repo_id: str, version: int, commit: str) -> str:
        self.repos.setdefault(repo_id, {})[f"v{version}"] = commit
        self.revisions[repo_id, commit] = folder
        return commit

    def refs(self, branches: Mapping[str, str]) -> list[dict[str, str]]:
        return [
            {"name": name, "targetCommit": commit} | ({"yanked": self.yanked[commit]} if commit in self.yanked else {})
            for name, commit in {"main": "0" * 40, **branches}.items()
        ]

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


def entry(root: Path, path: Path) -> dict[str, Any]:
    """What a tree says of `path`."""
    name = path.relative_to(root).as_posix()
    if path.is_dir():
        return {"type": "directory", "path": name, "size": 0, "oid": "0" * 40}
    data = path.read_bytes()
    blob = hashlib.sha1(b"blob %d\0%b" % (len(data), data), usedforsecurity=False).hexdigest()
    lfs = {"lfs": {"oid": hash_bytes(data), "size": len(data), "pointerSize": 130}} if len(data) >= LARGE else {}
    return {"type": "file", "path": name, "size": len(data), "oid": blob, **lfs}


def write_foreign(folder: Path, sources: Mapping[str, bytes], **changes: Any) -> None:
    for path, data in sources.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    digests = {path: base64.b64encode(hashlib.sha256(data).digest()).decode() for path, data in sources.items()}
    document = {
        "id": "_demo_cpu_abc1234",
        "name": "demo",
        "version": 1,
        "python-depends": [],
        "backend": {"type": "cpu"},
        "digest": {"algorithm": "sha256", "files": digests},
        **changes,
    }
    (folder / "metadata.json").write_text(
        json.dumps({key: value for key, value in document.items() if value is not None})
    )


@pytest.fixture
def make_hub(
    tmp_path: Path,
    make_revision: Callable[..., str],
    this_process: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[], Hub]]:
    """Starts registries; nobody is logged in, there is no policy, and waiting takes no time."""
    this_process()
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(client, "sleep", lambda _: None)
    hubs: list[Hub] = []

    def make() -> Hub:
        hubs.append(Hub(tmp_path / f"hub{len(hubs)}", make_revision))
        return hubs[-1]

    yield make
    for hub in hubs:
        hub.stop()
    remembering._away.clear()
    selection._said.clear()


@pytest.fixture
def hub(make_hub: Callable[[], Hub], monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A registry that KERNELWORKS_REGISTRY names."""
    made = make_hub()
    monkeypatch.setenv("KERNELWORKS_REGISTRY", f"{made.url}/")
    return made
