from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from kernelworks import get_kernel, settings
from kernelworks.errors import TransportError
from kernelworks.model.digest import list_tree
from kernelworks.model.variant import Variant
from kernelworks.store import Store

ORIGIN = "/registry/w.whl"
Pack = Callable[..., tuple[Variant, bytes]]


def never() -> BinaryIO:
    pytest.fail("the wheel was opened although the kernel is unpacked")


def no_wheel() -> BinaryIO:
    msg = "the registry is gone"
    raise TransportError(msg)


def test_the_cache_has_as_many_layers_as_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELWORKS_CACHE", os.pathsep.join([str(tmp_path / "own"), "", "/shared", "~/third"]))
    assert settings.cache_layers() == (tmp_path / "own", Path("/shared"), Path.home() / "third")
    assert settings.cache_root() == tmp_path / "own"


def test_a_kernel_of_a_lower_layer_is_taken_from_there(tmp_path: Path, pack: Pack) -> None:
    variant, wheel = pack()
    there = Store(tmp_path / "shared").get(variant, lambda: io.BytesIO(wheel), ORIGIN)
    before = sorted((tmp_path / "shared").rglob("*"))
    assert Store(tmp_path / "own", tmp_path / "shared").get(variant, never, ORIGIN) == there
    assert sorted((tmp_path / "shared").rglob("*")) == before
    assert not (tmp_path / "own/kernels").exists()


def test_a_damaged_kernel_of_a_lower_layer_is_passed_over_and_that_is_said(
    tmp_path: Path, pack: Pack, caplog: pytest.LogCaptureFixture
) -> None:
    variant, wheel = pack()
    there = Store(tmp_path / "shared").get(variant, lambda: io.BytesIO(wheel), ORIGIN)
    (there / "layers.py").write_bytes(b"evil")
    found = Store(tmp_path / "own", tmp_path / "shared").get(variant, lambda: io.BytesIO(wheel), ORIGIN)
    assert found == tmp_path / "own/kernels" / variant.wheel.sha256
    assert tuple(list_tree(found)) == variant.files
    assert (there / "layers.py").read_bytes() == b"evil"
    [record] = caplog.records
    assert re.match(rf"`{there}` is not what was published: `layers\.py`: .*; it is passed over", record.message)


def test_a_damaged_kernel_of_the_first_layer_is_no_reason_to_fetch_where_a_lower_one_has_it(
    tmp_path: Path, pack: Pack
) -> None:
    variant, wheel = pack()
    own, shared = (Store(tmp_path / name) for name in ("own", "shared"))
    damaged, there = (store.get(variant, lambda: io.BytesIO(wheel), ORIGIN) for store in (own, shared))
    (damaged / "layers.py").write_bytes(b"evil")
    assert Store(tmp_path / "own", tmp_path / "shared").get(variant, no_wheel, ORIGIN) == there


READ_ONLY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
"""Before a command: root that obeys the permissions of files."""


@pytest.fixture
def run_unprivileged(this_process: Callable[..., Any]) -> Callable[[str], str]:
    """Run a Python program that permissions hold for; returns stdout and the last line of stderr."""
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere, and there is no `setpriv` to take that away")
    host = this_process()

    def run(program: str) -> str:
        prelude = (
            "import kernelworks.host\nfrom kernelworks.host import *\nfrom kernelworks.backends.spec import *\n"
            f"from kernelworks.host import Libc\nkernelworks.host.detect = lambda: {host!r}\nimport kernelworks\n"
        )
        command = [*(READ_ONLY if os.getuid() == 0 else []), sys.executable, "-c", prelude + program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout + (done.stderr.splitlines() or [""])[-1]

    return run


def test_a_read_only_cache_works_warm_and_says_what_to_do_cold(
    tmp_path: Path, registry: Any, pack: Pack, run_unprivileged: Callable[[str], str]
) -> None:
    registry.publish("org/demo", 1, pack())
    cache = tmp_path / "cache"
    cache.mkdir()
    load = "print(kernelworks.get_kernel('org/demo', version=1).twice(2))"
    cache.chmod(0o555)
    cold = run_unprivileged(load)
    cache.chmod(0o755)
    get_kernel("org/demo", version=1)
    for folder in (cache, *(path for path in cache.rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    warm = run_unprivileged(load)
    for folder in (cache, *(path for path in cache.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    assert cold.startswith("kernelworks.errors.HostError: cannot unpack variant `torch-stable")
    assert "Permission denied" in cold
    assert cold.endswith("or name another one by KERNELWORKS_CACHE")
    assert warm == "4\n"


CROWD = """
import fcntl, io, os, sys, time
from pathlib import Path
from kernelworks.model.decode import parse_json
from kernelworks.model.variant import Variant
from kernelworks.store import Store

root = Path(sys.argv[1])
variant = Variant.from_json(parse_json((root / "variant.json").read_bytes(), "variant"))
if sys.argv[3] == "lies":
    fcntl.flock = lambda *_: None
if sys.argv[3] == "missing":
    def flock(*_): raise OSError(38, "Function not implemented")
    fcntl.flock = flock

def open_wheel():
    with (root / "downloads").open("a") as file:
        file.write("x")
    time.sleep(0.2)  # so that the others come while it is being fetched
    end = time.monotonic() + 60
    while sys.argv[3] != "hold" and (root / "downloads").stat().st_size < 2 and time.monotonic() < end:
        time.sleep(0.001)
    return (root / "wheel").open("rb")

children = []
for _ in range(int(sys.argv[2])):
    child = os.fork()
    if not child:
        while not (root / "start").exists():
            time.sleep(0.001)
        folder = Store(root / "cache").get(variant, open_wheel, "w")
        os._exit(folder.name != variant.wheel.sha256)
    children.append(child)
(root / "start").touch()
print(*{os.waitpid(child, 0)[1] for child in children})
"""


def crowd(root: Path, pack: Pack, number: int, locks: str) -> tuple[str, int]:
    """(exit codes, downloads) of so many processes at once on a cold cache."""
    variant, wheel = pack({"__init__.py": b"x = 1\n", "weights.bin": bytes(1_000_000)})
    (root / "variant.json").write_bytes(json.dumps(variant.to_json()).encode())
    (root / "wheel").write_bytes(wheel)
    run = [sys.executable, "-c", CROWD, root, str(number), locks]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert [path.name for path in (root / "cache/kernels").iterdir()] == [variant.wheel.sha256]
    assert Store(root / "cache").find(variant) is not None
    return done.stdout.strip(), len((root / "downloads").read_text())


def test_sixty_four_processes_on_a_cold_cache_make_one_download(tmp_path: Path, pack: Pack) -> None:
    assert crowd(tmp_path, pack, 64, "hold") == ("0", 1)


@pytest.mark.parametrize("locks", ["lies", "missing"])
def test_where_locks_do_not_hold_every_process_still_gets_the_kernel(tmp_path: Path, pack: Pack, locks: str) -> None:
    codes, downloads = crowd(tmp_path, pack, 16, locks)
    assert codes == "0"
    assert downloads > 1
