"""`doctor` says whether a build can work here, and what to do where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kernelworks_build.action import Action, ActionResult
from kernelworks_build.checkup import Check, check_up
from kernelworks_build.errors import SandboxError
from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.origins import Origins


class Broken:
    """An executor that cannot work."""

    name = "broken"
    hermetic = True

    def check(self) -> None:
        raise SandboxError("it is broken", hint="repair it")

    def run(
        self, action: Action, build_dir: Path, log: Path, on_line: Callable[[str], None] | None = None
    ) -> ActionResult:
        raise NotImplementedError


class Working(Broken):
    """One that can."""

    name = "working"

    def check(self) -> None:
        """Nothing is missing."""


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_every_check_is_made_although_the_first_fails(tmp_path: Path) -> None:
    found = by_name(check_up(tmp_path, LockSet.load(), Broken(), Origins.of()))
    assert found["sandbox"] == Check("sandbox", ok=False, found="it is broken", remedy="repair it")
    assert found["locks"].ok
    assert not found["wheels"].ok
    assert not found["debs"].ok
    assert all(check.remedy for check in found.values() if not check.ok)


def test_a_mirror_that_has_the_artifacts_is_enough(tmp_path: Path) -> None:
    locks = LockSet.load()
    for lock in locks.locks.values():
        for artifact in lock.artifacts:
            place = tmp_path / "artifacts" / artifact.sha256[:2] / artifact.sha256
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(b"x")
    found = by_name(check_up(tmp_path, locks, Working(), Origins.of(mirrors=[str(tmp_path)])))
    assert (found["wheels"].ok, found["debs"].ok, found["sandbox"].ok) == (True, True, True)


def test_a_toolchain_that_the_matrix_names_and_nobody_locked_is_named(tmp_path: Path) -> None:
    locks = LockSet.load()
    fewer = LockSet({name: lock for name, lock in locks.locks.items() if name != "cuda-13.0"}, locks.folders)
    (check,) = [one for one in check_up(tmp_path, fewer, Working(), Origins.of()) if one.name == "locks"]
    assert not check.ok
    assert "`cuda-13.0` is not locked" in check.found


def test_a_cache_that_is_not_there_yet_is_measured_where_it_will_be(tmp_path: Path) -> None:
    (check,) = [
        one for one in check_up(tmp_path / "a" / "b", LockSet.load(), Working(), Origins.of()) if one.name == "disk"
    ]
    assert "GiB are free" in check.found
