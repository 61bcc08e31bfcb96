"""Our loader against the real registry: what `kernel-build publish` publishes, loaded as programs load it."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks import RepositoryError, api, get_kernel, get_locked_kernel, host, load, selection
from kernelworks.backends.spec import HostBackend
from kernelworks.cli import main
from kernelworks.host import HostEnv, Libc
from kernelworks.locking import locked
from kernelworks.model.digest import FileEntry, hash_file, list_tree
from kernelworks.model.index import INDEX_NAME, Index, Source
from kernelworks.model.variant import (
    BackendFacts,
    FrameworkFacts,
    KernelDependency,
    Platform,
    PythonAbi,
    TorchSymbols,
    Variant,
)
from kernelworks.transport import connect, remembering
from kernelworks_build.errors import PublishError
from kernelworks_build.publish import publish

if TYPE_CHECKING:
    from conftest import Server  # type: ignore[import-not-found]

pytestmark = pytest.mark.server

KILLS = int(os.environ.get("KERNELWORKS_TEST_KILLS", "4"))
HOST = HostEnv(
    python=sys.version_info[:2],
    implementation="cpython",
    free_threaded=False,
    torch="2.13.0+cpu",
    cxx11=True,
    backends=(HostBackend("cpu"),),
    cpu="x86_64",
    os="linux",
    libc=Libc("glibc", (2, 36)),
)
WITHOUT_TORCH = f"""
import os, pickle, sys
import kernelworks.host
from kernelworks.backends.spec import HostBackend
from kernelworks.host import HostEnv, Libc
kernelworks.host.detect = lambda: {HOST!r}
"""
DOUBLE = {"__init__.py": b"def double(x):\n    return x + x\n", "weights.bin": random.Random(1).randbytes(300_000)}


@pytest.fixture
def requests(server: Server, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The paths that this process, which has an empty cache and consents to every publisher, asks `server` for."""
    for name in ("HF_TOKEN_PATH", "HF_ENDPOINT", "LOCAL_KERNELS", "KERNELWORKS_LOCK", "KERNELWORKS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"registries": {server.url: {"allow": ["*"]}}}))
    for name in ("KERNELWORKS_CACHE", "HF_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("KERNELWORKS_POLICY", str(policy))
    monkeypatch.setenv("KERNELWORKS_REGISTRY", server.url)
    monkeypatch.setenv("HF_TOKEN", server.user("ann"))
    monkeypatch.setattr(host, "detect", lambda: HOST)
    yield asked
    remembering._away.clear()
    forget()


def forget() -> None:
    """Let this process be a new one: with what is in its cache, and nothing else."""
    selection._said.clear()
    api._modules.clear()
    locked._modules.clear()
    for name in list(load._kernels):
        load._forget(name)


def build(folder: Path, sources: Mapping[str, bytes] = DOUBLE, name: str = "relu", **facts: Any) -> Path:
    """What `kernel-build build` leaves in `dist`: a revision of one variant, without compiled code."""
    variant, package = "torch-cpu", folder / "build/torch-cpu"
    wheel = folder / f"wheels/{name}-1-py3-none-any.whl"
    for path in (wheel.parent, package):
        path.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in sources.items():
            (package / path).write_bytes(data)
            archive.writestr(zipfile.ZipInfo(f"{name}/{path}"), data)
    built = Variant(
        name=variant,
        id=f"_{name}_cpu_1",
        framework=FrameworkFacts("none", None),
        backend=BackendFacts("cpu", None),
        python_abi=PythonAbi("none", None),
        platform=Platform(None, None, None),
        libraries=(),
        torch_symbols=TorchSymbols(()),
        python_depends=(),
        wheel=FileEntry(f"wheels/{wheel.name}", *hash_file(wheel)),
        package=name,
        files=tuple(list_tree(package)),
        lock="0" * 64,
        hermetic=True,
        **facts,
    )
    index = Index(name, 1, "Apache-2.0", Source(f"{len(sources):064}"), "test 0", (built,))
    (folder / INDEX_NAME).write_bytes(index.to_bytes())
    return folder


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, which is `HOST`."""
    command = [sys.executable, "-c", WITHOUT_TORCH + textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_cold_load_takes_three_requests_and_a_pinned_one_none(
    server: Server, requests: list[str], tmp_path: Path
) -> None:
    done = publish(build(tmp_path / "dist"), server.url, "ann/relu")
    requests.clear()
    assert get_kernel("ann/relu").double(2) == 4
    at = f"/kernels/ann/relu/resolve/{done.commit}"
    assert requests == ["/api/kernels/ann/relu/refs", f"{at}/kernel.json", f"{at}/wheels/relu-1-py3-none-any.whl"]
    requests.clear()
    forget()
    assert get_kernel("ann/relu", revision=done.commit).double(2) == 4
    assert requests == []


def test_whether_the_publisher_is_trusted_costs_no_request_of_its_own(
    server: Server, requests: list[str], tmp_path: Path
) -> None:
    server.org("team", trusted=True, ann="write")
    publish(build(tmp_path / "dist"), server.url, "team/relu")
    Path(os.environ["KERNELWORKS_POLICY"]).write_text('{"registries": {}}')
    requests.clear()
    assert get_kernel("team/relu").double(2) == 4
    assert len(requests) == 3


def test_what_was_locked_and_fetched_is_loaded_without_a_request(
    server: Server, requests: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    publish(build(tmp_path / "dist"), server.url, "ann/relu")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.kernelworks.dependencies]\n"ann/relu" = 1\n')
    assert (main(["lock"]), main(["sync"]), main(["verify", "--lock", "."])) == (0, 0, 0)
    publish(build(tmp_path / "newer", {"__init__.py": b"def double(x):\n    return 3 * x\n"}), server.url, "ann/relu")
    requests.clear()
    assert get_locked_kernel("ann/relu", lockfile=tmp_path).double(2) == 4
    assert requests == []
    assert "all 3 files" in capsys.readouterr().out
    assert get_kernel("ann/relu").double(2) == 6


@pytest.mark.usefixtures("requests")
def test_a_kernel_gets_the_kernels_that_it_declares(server: Server, tmp_path: Path) -> None:
    uses = b"from kernelworks import get_kernel_dep\nquadruple = lambda x: double(double(x))\n"
    uses += b"double = get_kernel_dep('ann/relu').double\n"
    needs = (KernelDependency("ann/relu", 1),)
    publish(build(tmp_path / "relu"), server.url, "ann/relu")
    publish(build(tmp_path / "uses", {"__init__.py": uses}, "uses", kernel_depends=needs), server.url, "ann/uses")
    assert get_kernel("ann/uses").quadruple(2) == 8
    assert [kernel.origin.subject for kernel in load.get_loaded_kernels()] == ["ann/relu", "ann/uses"]


def test_a_pickled_function_comes_back_in_another_process_without_a_request(
    server: Server, requests: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(build(tmp_path / "dist"), server.url, "ann/relu")
    data = pickle.dumps(get_kernel("ann/relu").double)
    assert sum(path.endswith(".whl") for path in requests) == 1
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")
    done = python("print(pickle.loads(bytes.fromhex(sys.argv[1]))(21))", data.hex())
    assert (done.stdout, done.stderr) == ("42\n", "")


@pytest.mark.usefixtures("requests")
def test_a_private_kernel_is_loaded_with_a_token_that_may_read_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repositories, ann = server.services.repositories, server.services.people.actor(os.environ["HF_TOKEN"])
    repositories.create(ann, "kernel", "ann/secret", private=True)
    publish(build(tmp_path / "dist"), server.url, "ann/secret")
    bob = server.user("bob")
    for token in ("", bob):
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(RepositoryError, match=r"shows no repository `ann/secret`.*; .*a token that may"):
            get_kernel("ann/secret")
    monkeypatch.setenv("HF_TOKEN", server.user("ann", scope="read"))
    assert get_kernel("ann/secret").double(2) == 4


@pytest.mark.usefixtures("requests")
def test_sixty_four_processes_on_a_cold_cache_make_one_download(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    publish(build(tmp_path / "dist"), server.url, "ann/relu")
    with caplog.at_level("INFO", "kernelworks_server.requests"):
        done = python(
            """
            from kernelworks import get_kernel
            from kernelworks.transport import client, hub, remembering
            client._SILENCE = 600  # they all ask one thread, which has as many cores as this machine
            children = []
            for _ in range(64):
                child = os.fork()
                if not child:
                    os._exit(get_kernel("ann/relu").double(2) != 4)
                children.append(child)
            print(*{os.waitpid(child, 0)[1] for child in children})
            """
        )
    assert (done.stdout, done.stderr) == ("0\n", "")
    paths = [getattr(record, "facts", {}).get("path", "") for record in caplog.records]
    assert sum(path.endswith("/refs") for path in paths) == 64
    assert sum(path.endswith(".whl") for path in paths) == 1


def test_a_publisher_that_is_killed_leaves_what_can_be_loaded_and_published_again(
    server: Server, requests: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def answered() -> int:
        return sum(record.getMessage() == "request" for record in caplog.records)

    def loaded() -> int:
        forget()
        return int(get_kernel("ann/relu").number)

    def revision(number: int) -> Path:
        big = random.Random(number).randbytes(2_000_000)
        return build(tmp_path / f"dist{number}", {"__init__.py": f"number = {number}\n".encode(), "big.bin": big})

    caplog.set_level("INFO", "kernelworks_server.requests")
    publish(revision(0), server.url, "ann/relu")
    whole = answered()
    publishing = "from pathlib import Path\nfrom kernelworks_build.publish import publish\n"
    publishing += "publish(Path(sys.argv[1]), sys.argv[2], 'ann/relu')\nprint('done')\n"
    chance, current, broken_off = random.Random(5), 0, 0
    for number in range(1, KILLS + 1):
        dist = revision(number)
        command = [sys.executable, "-c", WITHOUT_TORCH + publishing, str(dist), server.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            sight = answered() + number % whole  # a kill at each stage of a publication
            while answered() < sight and process.poll() is None:
                time.sleep(0.0005)
            time.sleep(chance.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
            done = process.stdout.read() == "done\n"
        broken_off += not done
        found = loaded()
        late = number - 1  # its commit may have been under way when its publisher was killed
        assert found in ({number} if done else {current, late, number})
        current = found
        assert main(["verify", "ann/relu"]) == 0
    assert broken_off, "no kill fell into a publication"
    try:
        publish(dist, server.url, "ann/relu")
    except PublishError:  # a commit that was under way when its publisher was killed came in between
        publish(dist, server.url, "ann/relu")
    assert loaded() == KILLS
    assert list(connect(server.url).versions("ann/relu")) == [1]
    assert requests
