"""Results of actions: found again, never wrong."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelworks_build.cache import ResultCache
from kernelworks_build.progress import SilentProgress


def fill(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "a.so").write_bytes(b"code")


def test_an_entry_is_found_again_with_its_bytes(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path)
    assert cache.get("k") is None
    made = cache.get_or_make("k", fill)
    assert cache.get("k") == made
    assert (made / "sub" / "a.so").read_bytes() == b"code"


@pytest.mark.parametrize("damage", ["flip", "remove", "add", "entry"])
def test_a_damaged_entry_is_a_miss_and_is_made_anew(tmp_path: Path, damage: str) -> None:
    cache = ResultCache(tmp_path)
    made = cache.get_or_make("k", fill)
    match damage:
        case "flip":
            (made / "sub" / "a.so").write_bytes(b"c0de")
        case "remove":
            (made / "sub" / "a.so").unlink()
        case "add":
            (made / "extra").write_bytes(b"")
        case "entry":
            (made / "entry.json").write_bytes(b"[{]")
    assert cache.get("k") is None
    assert cache.get_or_make("k", fill) == made
    assert cache.get("k") == made


def test_a_fill_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        fill(folder)
        raise RuntimeError

    cache = ResultCache(tmp_path / "cache")
    with pytest.raises(RuntimeError):
        cache.get_or_make("k", fail)
    assert [path for path in cache.root.iterdir() if path.is_dir()] == []


def test_of_eight_threads_one_makes_the_entry_and_the_others_wait(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path)
    made = []

    def slow(folder: Path) -> None:
        time.sleep(0.1)
        made.append(folder)
        fill(folder)

    with ThreadPoolExecutor(8) as pool:
        entries = set(pool.map(lambda _: cache.get_or_make("k", slow), range(8)))
    assert (len(made), entries) == (1, {tmp_path / "k"})


def test_who_waits_for_another_is_told_so(tmp_path: Path) -> None:
    notes: list[str] = []

    class Listener(SilentProgress):
        def note(self, text: str) -> None:
            notes.append(text)

    begun, go_on = threading.Event(), threading.Event()

    def slow(folder: Path) -> None:
        begun.set()
        go_on.wait(30)
        fill(folder)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(ResultCache(tmp_path, Listener()).get_or_make, "k", slow)
        begun.wait(30)
        assert notes == []
        second = pool.submit(ResultCache(tmp_path, Listener()).get_or_make, "k", fill)
        while not notes and not second.done():
            time.sleep(0.01)
        go_on.set()
        assert first.result() == second.result()
    assert notes == ["waiting for another process that builds the same"]


def test_what_a_killed_process_left_goes_with_the_next_entry(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from kernelworks_build.cache import ResultCache;"
        f" ResultCache(Path({str(tmp_path)!r})).get_or_make('k', lambda f: (print('go', flush=True), time.sleep(60)))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        process.kill()
    assert [path for path in tmp_path.iterdir() if path.is_dir()]
    ResultCache(tmp_path).get_or_make("k", fill)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["k"]
