from __future__ import annotations

import dataclasses
import io
import os
import random
import signal
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from kernelworks.errors import HostError, VerifyError
from kernelworks.model.digest import FileEntry, hash_bytes, list_tree
from kernelworks.model.variant import Variant
from kernelworks.store import Store

Pack = Callable[..., tuple[Variant, bytes]]


def never() -> BinaryIO:
    pytest.fail("the wheel was opened although the kernel is unpacked")


def opener(data: bytes) -> Callable[[], BinaryIO]:
    return lambda: io.BytesIO(data)


def leftovers(store: Store) -> list[Path]:
    return list(store.root.glob(".*"))


def test_a_wheel_is_unpacked_once_into_the_folder_of_its_digest(tmp_path: Path, pack: Pack) -> None:
    variant, wheel = pack()
    store = Store(tmp_path)
    folder = store.get(variant, opener(wheel))
    assert folder == tmp_path / "kernels" / hash_bytes(wheel)
    assert tuple(list_tree(folder)) == variant.files
    assert store.get(variant, never) == folder
    assert leftovers(store) == []


def test_the_folder_is_as_readable_as_the_umask_says(tmp_path: Path, pack: Pack) -> None:
    variant, wheel = pack()
    before = os.umask(0o022)
    try:
        assert Store(tmp_path).get(variant, opener(wheel)).stat().st_mode & 0o777 == 0o755
    finally:
        os.umask(before)


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("damage", "unit"),
    [
        (flipped, "sha256"),
        (lambda data: data[:-1], "bytes"),
        (lambda data: data + b"\0", "bytes"),
        (lambda _data: b"", "bytes"),
    ],
)
def test_a_wheel_with_wrong_bytes_is_refused_with_file_expected_and_got(
    tmp_path: Path, pack: Pack, damage: Callable[[bytes], bytes], unit: str
) -> None:
    variant, wheel = pack()
    with pytest.raises(VerifyError) as caught:
        Store(tmp_path).get(variant, opener(damage(wheel)))
    facts = caught.value.context
    assert facts["file"] == variant.wheel.path
    assert unit in facts["expected"]
    assert unit in facts["got"]
    assert facts["expected"] != facts["got"]
    assert not (tmp_path / "kernels").exists()


def listed(variant: Variant, wheel: bytes, **changes: Any) -> Variant:
    return dataclasses.replace(variant, wheel=FileEntry("w.whl", len(wheel), hash_bytes(wheel)), **changes)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"demo/__init__.py": b"x = 1\n"}, "`__init__.py`: expected sha256"),
        ({"demo/__init__.py": b"x =  0\n"}, "`__init__.py`: expected 6 bytes, got more than 6 bytes"),
        (
            {"demo/__init__.py": b"x = 0\n" * 10_000_000},
            "`__init__.py`: expected 6 bytes, got more than 6 bytes",
        ),
        ({"demo/__init__.py": b"x"}, "`__init__.py`: expected 6 bytes, got 1 bytes"),
        ({}, "`demo/__init__.py`: expected a member, got nothing"),
        ({"demo/__init__.py": b"x = 0\n", "demo/evil.py": b""}, "`demo/evil.py`: expected nothing"),
        ({"demo/__init__.py": b"x = 0\n", "other/x.py": b""}, "`other/x.py`: expected nothing"),
        ({"demo/__init__.py": b"x = 0\n", "../evil.py": b""}, "`../evil.py`: expected nothing"),
        ({"demo/__init__.py": b"x = 0\n", "/evil.py": b""}, "`/evil.py`: expected nothing"),
        ({"demo/__init__.py": b"x = 0\n", "demo/../../evil.py": b""}, "expected nothing"),
    ],
)
def test_a_wheel_that_contradicts_its_index_is_refused(
    tmp_path: Path,
    variant: Variant,
    make_wheel: Callable[[Mapping[str, bytes]], bytes],
    members: dict[str, bytes],
    words: str,
) -> None:
    source = b"x = 0\n"
    wheel = make_wheel({**members, "demo-1.dist-info/RECORD": b""})
    wrong = listed(variant, wheel, files=(FileEntry("__init__.py", len(source), hash_bytes(source)),))
    store = Store(tmp_path)
    with pytest.raises(VerifyError, match=words):
        store.get(wrong, opener(wheel))
    assert list(store.root.iterdir()) == []


def test_an_archive_with_two_members_of_one_name_is_refused(tmp_path: Path, variant: Variant) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("demo/__init__.py", b"good")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("demo/__init__.py", b"evil")
    entry = FileEntry("__init__.py", 4, hash_bytes(b"good"))
    with pytest.raises(VerifyError, match="two of this name"):
        Store(tmp_path).get(listed(variant, buffer.getvalue(), files=(entry,)), opener(buffer.getvalue()))


@pytest.mark.parametrize("data", [b"", b"PK\3\4 this is no archive", b"x" * 1000])
def test_a_wheel_that_is_no_archive_is_refused(tmp_path: Path, variant: Variant, data: bytes) -> None:
    with pytest.raises(VerifyError, match="expected a wheel, got an archive that cannot be read"):
        Store(tmp_path).get(listed(variant, data), opener(data))


def test_an_unpacked_kernel_that_was_changed_is_refused_and_not_repaired_in_silence(tmp_path: Path, pack: Pack) -> None:
    variant, wheel = pack()
    store = Store(tmp_path)
    folder = store.get(variant, opener(wheel))
    (folder / "layers.py").write_bytes(b"def twice(x): ...")
    with pytest.raises(VerifyError, match=f"delete `{folder}`"):
        store.get(variant, opener(wheel))


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, pack: Pack) -> None:
    variant, wheel = pack()
    (tmp_path / "cache").write_text("a file is in the way")
    with pytest.raises(HostError, match="KERNELWORKS_CACHE"):
        Store(tmp_path / "cache").get(variant, opener(wheel))


def test_what_a_dead_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path, pack: Pack) -> None:
    variant, wheel = pack()
    store = Store(tmp_path)
    store.root.mkdir()
    with store._incoming() as living:
        dead = store.root / ".incoming-dead"
        dead.mkdir()
        (dead / "half").touch()
        fresh = store.root / ".incoming-fresh"
        fresh.mkdir()
        for old in (living, dead):
            os.utime(old, (0, 0))
        store.get(variant, opener(wheel))
        assert sorted(leftovers(store)) == sorted([living, fresh])


def test_eight_processes_at_once_on_a_cold_store_all_get_the_kernel(
    tmp_path: Path, registry: Any, pack: Pack, processes: Any
) -> None:
    published = registry.publish("org/demo", 1, pack({"__init__.py": b"x = 1\n", "weights.bin": bytes(5_000_000)}))
    start = tmp_path / "start"
    program = (
        "import pathlib, time, kernelworks\n"
        f"while not pathlib.Path({str(start)!r}).exists(): time.sleep(0.001)\n"
        "print(kernelworks.get_kernel('org/demo').x)\n"
    )
    running = [processes.start(program) for _ in range(8)]
    time.sleep(0.5)
    start.touch()
    assert [process.communicate() for process in running] == [("1\n", "")] * 8
    kernels = list((tmp_path / "cache/kernels").iterdir())
    assert [kernel.name for kernel in kernels] == [published.variants[0].wheel.sha256]


def test_a_process_killed_at_any_instant_leaves_nothing_half_made(
    tmp_path: Path, registry: Any, pack: Pack, processes: Any
) -> None:
    sources = {"__init__.py": b"x = 1\n", **{f"data/{number}.bin": bytes(20_000) for number in range(60)}}
    variant, wheel = pack(sources)
    registry.publish("org/demo", 1, (variant, wheel))
    store = Store(tmp_path / "cache")
    folder = store.root / variant.wheel.sha256
    chance = random.Random(7)  # spreads instants
    seen = set()
    for _ in range(10):
        process = processes.start("import kernelworks\nprint(flush=True)\nkernelworks.get_kernel('org/demo')\n")
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.25))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        seen.add((folder.exists(), bool(leftovers(store))))
        if folder.exists():
            store.get(variant, never)  # whole, else this raises
            folder.rename(tmp_path / f"whole{len(list(tmp_path.iterdir()))}")
    for left in leftovers(store):
        os.utime(left, (0, 0))
    store.get(variant, opener(wheel))
    assert leftovers(store) == []
    assert len(seen) > 1, "every process died in the same state: the instants were not spread"
