"""The cache is counted and cleaned: the oldest first, whole entries only, never under a build that runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelworks_build.cache import ResultCache
from kernelworks_build.caches import chosen, discard, entries, leftovers
from kernelworks_build.scratch import scratch
from kernelworks_build.toolchain.store import TreeStore
from kernelworks_build.usage import in_use

DAY = 86400
USER = """
import sys
from pathlib import Path
from kernelworks_build.usage import in_use
with in_use(Path(sys.argv[1])):
    print("in use", flush=True)
    sys.stdin.read()
    print(len(list(Path(sys.argv[1], "trees").glob("[0-9a-f]*"))), flush=True)
"""


def add_tree(cache: Path, content: str) -> str:
    return TreeStore(cache / "trees").add(lambda into: (into / "file").write_text(content) and None).digest


def test_what_was_used_lately_is_kept_and_the_oldest_goes_first(tmp_path: Path) -> None:
    trees = [add_tree(tmp_path, str(number)) for number in range(3)]
    for days, digest in enumerate(trees):
        os.utime(tmp_path / "trees" / f".{digest}.seen", (DAY * days, DAY * days))
    TreeStore(tmp_path / "trees").get(trees[0])  # used now
    order = [entry.path.name for entry in entries(tmp_path)]
    assert order == [trees[1], trees[2], trees[0]]
    assert [entry.path.name for entry in chosen(entries(tmp_path), before=2 * DAY)] == [trees[1]]
    assert [entry.path.name for entry in chosen(entries(tmp_path), limit=1)] == [trees[1], trees[2]]
    assert chosen(entries(tmp_path), limit=3) == []


def test_a_result_that_is_served_counts_as_used(tmp_path: Path) -> None:
    cache = ResultCache(tmp_path / "actions")
    folder = cache.get_or_make("key", lambda into: (into / "file").write_text("x") and None)
    os.utime(folder / "entry.json", (0, 0))
    assert entries(tmp_path)[0].used == 0
    assert cache.get("key")
    assert entries(tmp_path)[0].used > 0


def test_an_entry_goes_with_everything_that_belongs_to_it(tmp_path: Path) -> None:
    digest = add_tree(tmp_path, "x")
    (tmp_path / "trees" / digest / "file").stat()
    (entry,) = entries(tmp_path)
    discard(entry)
    assert list((tmp_path / "trees").iterdir()) == []
    assert TreeStore(tmp_path / "trees").get(digest) is None


def test_what_killed_processes_left_goes_and_what_living_ones_fill_stays(tmp_path: Path) -> None:
    work = tmp_path / "work"
    with scratch(work) as living:
        for name in (".building-dead", ".root-dead"):
            (work / name / "folder").mkdir(parents=True)
            (work / name / "folder").chmod(0o500)
        (work / ".building-dead.lock").touch()
        (tmp_path / "artifacts").mkdir()
        (tmp_path / "artifacts" / "abc.part").touch()
        gone = leftovers(tmp_path)
        assert living.is_dir()
    assert {path.name for path in gone} == {".building-dead", ".root-dead", "abc.part"}
    assert not any(path.exists() for path in gone)


def test_a_clean_up_waits_for_builds_that_run(kernel_build: Callable[..., Any], tmp_path: Path) -> None:
    add_tree(tmp_path, "x")
    gc = [str(Path(sys.executable).with_name("kernel-build")), "cache", "gc", "--older-than", "0"]
    command, env = [sys.executable, "-c", USER, str(tmp_path)], {**os.environ, "KERNELWORKS_CACHE": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as build:
        assert build.stdout
        assert build.stdout.readline() == "in use\n"
        with subprocess.Popen(gc, env=env, stderr=subprocess.PIPE, text=True) as cleaning:
            assert cleaning.stderr
            assert cleaning.stderr.readline() == "waiting for builds that use the cache\n"
            said, _ = build.communicate()
            assert said == "1\n"  # what it used was still there
            cleaning.communicate()
    assert cleaning.returncode == 0
    assert kernel_build("cache", "info", "--json", env={"KERNELWORKS_CACHE": str(tmp_path)}).document["size"] == 0


def test_two_builds_use_a_cache_at_once(tmp_path: Path) -> None:
    with in_use(tmp_path), in_use(tmp_path):
        assert tmp_path.is_dir()


def test_the_program_counts_and_shows_before_it_removes(kernel_build: Callable[..., Any], tmp_path: Path) -> None:
    env = {"KERNELWORKS_CACHE": str(tmp_path)}
    digest = add_tree(tmp_path, "x" * 1000)
    shown = kernel_build("cache", "gc", "--max-size", "0.5K", "--dry-run", "--json", env=env).document
    assert [Path(item["path"]).name for item in shown["removed"]] == [digest]
    (trees,) = [row for row in kernel_build("cache", "info", "--json", env=env).document["kinds"] if row["entries"]]
    assert (trees["kind"], trees["size"]) == ("trees", 1000)
    assert kernel_build("cache", "gc", "--max-size", "0.5K", env=env).code == 0
    assert not (tmp_path / "trees" / digest).exists()


def test_a_size_that_is_none_is_refused(kernel_build: Callable[..., Any], tmp_path: Path) -> None:
    done = kernel_build("cache", "gc", "--max-size", "much", env={"KERNELWORKS_CACHE": str(tmp_path)})
    assert done.code == 2
    assert "`much` is not a size; write 500M or 20G" in done.stderr.replace("\nhint: ", "; ")
