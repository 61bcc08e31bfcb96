"""Runs an action as a derivation of nix: bubblewrap of locked packages in nix's sandbox, with the same command line.

The derivation makes the action's outputs from its trees and nothing else, so nix itself can make them again and compare
(`nix-store --realise --check`). Here the build folder is bound into its sandbox as well: what lies in it before spares
work, what lies in it afterwards tells more than the outputs.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from kernelworks.settings import cache_root, shared_caches
from kernelworks_build.action import Action, ActionResult, Tree
from kernelworks_build.errors import SandboxError
from kernelworks_build.progress import SILENT
from kernelworks_build.sandbox.nix_store import DRIVER, NixStore, complaint
from kernelworks_build.sandbox.process import Verdict, last_line, require_own_proc, result, signal_aware, supervise
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.materialise import materialise
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.store import TreeStore

__all__ = ["Nix"]

_FOLLOW = 'cat log & exec 3> log; "$@" > nix.log 2>&1; code=$?; exec 3>&-; wait; exit $code'
"""Runs nix, and meanwhile says what comes out of the pipe `log`; what nix says itself goes apart."""


@dataclass(frozen=True)
class _Run:
    """How a run of nix ended: the supervisor's verdict, the action's exit code (None: not started), nix's last word."""

    verdict: Verdict
    exit_code: int | None
    complaint: str

    @property
    def was_there(self) -> bool:
        """Whether nix had nothing to do."""
        return self.verdict.exit_code == 0 and self.exit_code is None


class Nix:
    """The executor `nix`.

    Its store, and what derivations start with, lie below the folder `cache` (`cache_root()`); the latter is pinned by
    `locks` (the shipped ones).
    """

    name = "nix"
    hermetic = True

    def __init__(self, cache: Path | None = None, locks: LockSet | None = None) -> None:
        self._cache, self._locks = cache or cache_root(), locks
        self._store = NixStore((self._cache / "nix").resolve())  # nix refuses a store behind a link

    def check(self) -> None:
        """Build something trivial.

        Raises:
            SandboxError: nix is missing, or can make no sandbox here, or `/proc` is not ours.
        """
        require_own_proc()
        self._store.require()

    def run(
        self, action: Action, build_dir: Path, log: Path, on_line: Callable[[str], None] | None = None
    ) -> ActionResult:
        """Run `action` as `Executor.run` says; one that nix has run before is run again and its outputs compared.

        Raises:
            SandboxError: The sandbox cannot be made, or holds no such command; the outputs are others than before.
            ToolchainError: What derivations start with cannot be had.
        """
        derivation = self._store.derivation(action, self._driver)
        done = self._realise(derivation, action, build_dir, log, on_line)
        if done.was_there:
            done = self._realise(derivation, action, build_dir, log, on_line, "--check")
        if done.verdict.exit_code < 0:
            return result(done.verdict, self, action, build_dir, log)
        if done.exit_code is None:
            why = last_line(log.read_text(encoding="utf-8")) or done.complaint
            raise SandboxError(f"the sandbox cannot run `{action.argv[0]}`: {why}", log=log)
        ended = result(replace(done.verdict, exit_code=done.exit_code), self, action, build_dir, log)
        if done.verdict.exit_code and not ended.exit_code and not ended.missing_outputs:
            raise SandboxError(f"nix does not take what `{action.argv[0]}` made: {done.complaint}", log=log)
        return ended

    def _realise(
        self,
        derivation: str,
        action: Action,
        build_dir: Path,
        log: Path,
        on_line: Callable[[str], None] | None,
        *options: str,
    ) -> _Run:
        with tempfile.TemporaryDirectory(prefix="kernelworks-") as name:
            folder = Path(name)
            pipe, status = folder / "log", folder / "status"
            os.mkfifo(pipe)
            status.touch()
            bound = {"build": build_dir.resolve(), "log": pipe, "status": status}
            paths = " ".join(f"/build/{inside}={outside}" for inside, outside in bound.items())
            command = ("nix-store", "--realise", derivation, *options, "--option", "sandbox-paths", paths)
            verdict = supervise(
                ("sh", "-c", _FOLLOW, "sh", *command),
                self._store.environment(folder),
                action.limits,
                log,
                on_line,
                cwd=name,
            )
            ended = re.search(r'"exit-code": (\d+)', status.read_text(encoding="ascii"))
            said = (folder / "nix.log").read_text(encoding="utf-8", errors="replace")
        if verdict.error:
            raise SandboxError(f"nix cannot be started: {verdict.error}", log=log)
        return _Run(verdict, signal_aware(int(ended[1])) if ended else None, complaint(said))

    @cached_property
    def _driver(self) -> Tree:
        shared = shared_caches()
        return materialise(
            [DRIVER],
            locks=self._locks or LockSet.load(),
            store=TreeStore(self._cache / "trees", shared=(other / "trees" for other in shared)),
            fetcher=Fetcher(self._cache, Origins(), SILENT, shared=shared),
            executor=self,
            progress=SILENT,
        )[DRIVER]
