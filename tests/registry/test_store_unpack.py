from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import io
import itertools
import os
import random
import re
import shutil
import signal
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelworks.errors import HostError, TransportError, VerifyError
from kernelworks.model.digest import FileEntry, hash_bytes, list_tree
from kernelworks.model.variant import Variant
from kernelworks.store import Store
from kernelworks.zip_errors import BROKEN_ZIP

ORIGIN = "/registry/w.whl"
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
    folder = store.get(variant, opener(wheel), ORIGIN)
    assert folder == tmp_path / "kernels" / hash_bytes(wheel)
    assert tuple(list_tree(folder)) == variant.files
    assert store.get(variant, never, ORIGIN) == folder
    assert leftovers(store) == []


def test_the_folder_is_as_readable_as_the_umask_says(tmp_path: Path, pack: Pack) -> None:
    variant, wheel = pack()
    before = os.umask(0o022)
    try:
        assert Store(tmp_path).get(variant, opener(wheel), ORIGIN).stat().st_mode & 0o777 == 0o755
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
        Store(tmp_path).get(variant, opener(damage(wheel)), ORIGIN)
    facts = caught.value.context
    assert facts["file"] == ORIGIN
    assert str(caught.value).startswith(f"`{ORIGIN}` is not what was published: expected {facts['expected']}, got ")
    assert unit in facts["expected"]
    assert unit in facts["got"]
    assert facts["expected"] != facts["got"]
    assert list((tmp_path / "kernels").iterdir()) == []


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
        ({"demo/__init__.py": b"x = 0\n", "\x1b[2J": b""}, r"`\\x1b\[2J`: expected nothing"),
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
        store.get(wrong, opener(wheel), ORIGIN)
    assert list(store.root.iterdir()) == []


def test_an_archive_with_two_members_of_one_name_is_refused(tmp_path: Path, variant: Variant) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("demo/__init__.py", b"good")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("demo/__init__.py", b"evil")
    entry = FileEntry("__init__.py", 4, hash_bytes(b"good"))
    with pytest.raises(VerifyError, match="two of this name"):
        Store(tmp_path).get(listed(variant, buffer.getvalue(), files=(entry,)), opener(buffer.getvalue()), ORIGIN)


@pytest.mark.parametrize("data", [b"", b"PK\3\4 this is no archive", b"x" * 1000])
def test_a_wheel_that_is_no_archive_is_refused(tmp_path: Path, variant: Variant, data: bytes) -> None:
    with pytest.raises(VerifyError, match=r"`/registry/w\.whl` is not what .*: expected a wheel, got an archive"):
        Store(tmp_path).get(listed(variant, data), opener(data), ORIGIN)


def no_wheel() -> BinaryIO:
    msg = "the registry is gone"
    raise TransportError(msg)


def swap_for_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.touch()


def swap_for_a_link(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


DAMAGES: list[Callable[[Path], Any]] = [
    lambda folder: (folder / "layers.py").write_bytes(b"def twice(x): ..."),
    lambda folder: (folder / "extra.py").touch(),
    swap_for_a_file,
    swap_for_a_link,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_copy_is_unpacked_again_and_that_is_said(
    tmp_path: Path, pack: Pack, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], Any]
) -> None:
    variant, wheel = pack()
    store = Store(tmp_path)
    folder = store.get(variant, opener(wheel), ORIGIN)
    damage(folder)
    assert store.get(variant, opener(wheel), ORIGIN) == folder
    assert not folder.is_symlink()
    assert tuple(list_tree(folder)) == variant.files
    assert leftovers(store) == []
    [record] = caplog.records
    assert (record.name, record.levelname) == ("kernelworks", "WARNING")
    assert re.match(rf"`{folder}` is not what .*: .*expected .*, got .*; it was unpacked again", record.message)
    assert store.get(variant, never, ORIGIN) == folder


@pytest.mark.parametrize("open_wheel", [no_wheel, opener(b"damaged too")])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_copy_is_refused_where_its_wheel_cannot_be_had(
    tmp_path: Path, pack: Pack, damage: Callable[[Path], Any], open_wheel: Callable[[], BinaryIO]
) -> None:
    variant, wheel = pack()
    store = Store(tmp_path)
    damage(store.get(variant, opener(wheel), ORIGIN))
    for _ in range(2):  # the folder stays, and so does the refusal
        with pytest.raises(VerifyError, match=r"it could not be unpacked again: .*(registry is gone|got 11 bytes)"):
            store.get(variant, open_wheel, ORIGIN)
    assert leftovers(store) == []


def test_a_disk_that_spoils_the_fresh_copy_is_no_endless_loop(
    tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant, wheel = pack()
    spoiled: list[Path] = []

    def spoil(folder: Path) -> None:
        (folder / "layers.py").write_bytes(b"def twice(x): ...")
        spoiled.append(folder)

    monkeypatch.setattr("kernelworks.store.sync_tree", spoil)
    with pytest.raises(VerifyError, match="unpacked just now: does this disk keep"):
        Store(tmp_path).get(variant, opener(wheel), ORIGIN)
    assert len(spoiled) == 1


def test_eight_processes_at_once_on_a_damaged_copy_all_get_the_kernel_and_one_repairs_it(
    tmp_path: Path, registry: Any, pack: Pack, processes: Any
) -> None:
    variant, wheel = pack({"__init__.py": b"x = 1\nfrom . import late\n", "late.py": b"", "w.bin": bytes(5_000_000)})
    registry.publish("org/demo", 1, (variant, wheel))
    store = Store(tmp_path / "cache")
    folder = store.get(variant, opener(wheel), ORIGIN)
    (folder / "late.py").write_bytes(b"raise SystemExit\n")
    start = tmp_path / "start"
    program = (
        "import pathlib, time, kernelworks\n"
        f"while not pathlib.Path({str(start)!r}).exists(): time.sleep(0.001)\n"
        "print(kernelworks.get_kernel('org/demo').x)\n"
    )
    running = [processes.start(program) for _ in range(8)]
    time.sleep(0.5)
    start.touch()
    outputs = [process.communicate() for process in running]
    assert [out for out, _ in outputs] == ["1\n"] * 8
    [warning] = [err for _, err in outputs if err]
    assert "`late.py`: expected 0 bytes, got 17 bytes; it was unpacked again" in warning
    assert list(store.root.iterdir()) == [folder]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, pack: Pack) -> None:
    variant, wheel = pack()
    (tmp_path / "cache").write_text("a file is in the way")
    with pytest.raises(HostError, match="KERNELWORKS_CACHE"):
        Store(tmp_path / "cache").get(variant, opener(wheel), ORIGIN)


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
        store.get(variant, opener(wheel), ORIGIN)
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
    for half_made in range(1, 6):
        for _ in range(20):  # until a kill leaves one more half-made folder
            process = processes.start("import kernelworks\nprint(flush=True)\nkernelworks.get_kernel('org/demo')\n")
            process.stdout.readline()
            while len(leftovers(store)) < half_made and process.poll() is None:
                time.sleep(0.0005)
            time.sleep(chance.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            if folder.exists():
                store.get(variant, never, ORIGIN)  # whole, else this raises
                folder.rename(tmp_path / f"whole{len(list(tmp_path.iterdir()))}")
            if len(leftovers(store)) >= half_made:
                break
    assert leftovers(store), "no kill fell into an unpack"
    for left in leftovers(store):
        os.utime(left, (0, 0))
    store.get(variant, opener(wheel), ORIGIN)
    assert leftovers(store) == []


LINES = b"x = 0\n" * 50
INIT = FileEntry("__init__.py", len(LINES), hash_bytes(LINES))
METHODS = {"stored": zipfile.ZIP_STORED, "deflated": zipfile.ZIP_DEFLATED, "bzip2": zipfile.ZIP_BZIP2}
METHODS |= {"lzma": zipfile.ZIP_LZMA} if importlib.util.find_spec("_lzma") else {}


def compressed(method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(zipfile.ZipInfo("demo/__init__.py"), LINES, method)
    return buffer.getvalue()


@pytest.mark.parametrize("method", METHODS)
def test_a_wheel_of_any_compression_is_unpacked(tmp_path: Path, variant: Variant, method: str) -> None:
    wheel = compressed(METHODS[method])
    this = listed(variant, wheel, files=(INIT,))
    assert tuple(list_tree(Store(tmp_path).get(this, opener(wheel), ORIGIN))) == (INIT,)


def test_a_member_without_a_name_is_refused(tmp_path: Path, variant: Variant) -> None:
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("x", b"")
    nameless = wheel.getvalue().replace(b"x", b"\0")  # a name ends at the first NUL
    with pytest.raises(VerifyError, match="a member that is not listed"):
        Store(tmp_path).get(listed(variant, nameless), opener(nameless), ORIGIN)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(method=st.sampled_from(list(METHODS.values())), data=st.data())
def test_a_published_wheel_that_is_no_sound_archive_is_an_error_of_verification(
    variant: Variant, method: int, data: st.DataObject
) -> None:
    wheel = bytearray(compressed(method))
    for _ in range(data.draw(st.integers(1, 3))):
        wheel[data.draw(st.integers(0, len(wheel) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "w.whl")
        path.write_bytes(wheel)
        this = listed(variant, bytes(wheel), files=(INIT,))
        with contextlib.suppress(VerifyError):
            assert tuple(list_tree(Store(Path(name)).get(this, lambda: path.open("rb"), ORIGIN))) == this.files


@pytest.mark.parametrize("method", METHODS)
def test_every_error_of_a_damaged_archive_is_listed(tmp_path: Path, method: str) -> None:
    raised = set()
    whole = compressed(METHODS[method])
    for position, value in itertools.product(range(len(whole)), (0, 0x7F, 0xFF)):
        damaged = bytearray(whole)
        damaged[position] = value
        (tmp_path / "wheel").write_bytes(damaged)
        try:
            with zipfile.ZipFile(tmp_path / "wheel") as archive:
                for info in archive.infolist():
                    archive.read(info)
        except BROKEN_ZIP as error:
            raised.add(type(error))
    assert len(raised) > 2
