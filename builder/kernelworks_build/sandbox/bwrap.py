"""Runs an action in bubblewrap: own namespaces, no network, nothing of the host but the action's mounts."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from kernelworks_build.action import Action, ActionResult
from kernelworks_build.errors import SandboxError
from kernelworks_build.sandbox.command import FRESH_PROC, ISOLATION, OUTER_PROC, Dialect
from kernelworks_build.sandbox.process import last_line, require_own_proc, result, supervise

__all__ = ["Bwrap"]

_OWN_SESSION = "--new-session"
"""Without the builder's terminal: nothing can put keys into it."""

_INSTALLERS = (
    ("apt-get", "apt-get install bubblewrap"),
    ("dnf", "dnf install bubblewrap"),
    ("zypper", "zypper install bubblewrap"),
    ("pacman", "pacman -S bubblewrap"),
    ("apk", "apk add bubblewrap"),
)
_SYSCTLS = (
    ("user.max_user_namespaces", "0", "15000"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
)
"""Name, the value that forbids namespaces, one that allows them."""

_OTHERWISE = "or use `--sandbox none`, which is recorded as not hermetic"


class Bwrap:
    """The executor `bwrap`."""

    name = "bwrap"
    hermetic = True

    def check(self) -> None:
        """Make a trivial sandbox.

        Raises:
            SandboxError: bubblewrap is missing or may not make namespaces here, or `/proc` is not ours.
        """
        _ = self._bubblewrap

    def run(
        self, action: Action, build_dir: Path, log: Path, on_line: Callable[[str], None] | None = None
    ) -> ActionResult:
        """Run `action` as `Executor.run` says.

        Raises:
            SandboxError: The sandbox cannot be made, or holds no such command.
        """
        with tempfile.TemporaryFile("w+", encoding="utf-8") as status:
            reporting = (_OWN_SESSION, "--json-status-fd", str(status.fileno()))
            program, dialect = self._bubblewrap
            argv = [program, *dialect.arguments(action, str(build_dir), reporting)]
            verdict = supervise(argv, {}, action.limits, log, on_line, pass_fds=[status.fileno()])
            status.seek(0)
            started = '"exit-code"' in status.read()  # bubblewrap's own failures give none
        if verdict.error or (verdict.exit_code > 0 and not started):
            why = verdict.error or last_line(log.read_text(encoding="utf-8"))
            raise SandboxError(f"the sandbox cannot run `{action.argv[0]}`: {why}", log=log)
        return result(verdict, self, action, build_dir, log)

    def enter(self, action: Action, build_dir: Path) -> int:
        """The exit code of `action`'s command, run without limits and with this process's terminal, for a person.

        Raises:
            SandboxError: As `check`.
        """
        program, dialect = self._bubblewrap
        return subprocess.run([program, *dialect.arguments(action, str(build_dir))], env={}, check=False).returncode

    @cached_property
    def _bubblewrap(self) -> tuple[str, Dialect]:
        """The program, and what it can do here."""
        require_own_proc()
        program = shutil.which("bwrap")
        if program is None:
            raise SandboxError("bubblewrap is not installed", hint=f"{_install_hint()}, {_OTHERWISE}")
        for proc in (
            FRESH_PROC,
            OUTER_PROC,
        ):  # the host is the root: only namespaces are tried, options listed
            argv = [program, *ISOLATION, "--ro-bind", "/", "/", *proc, "--dev", "/dev", program, "--help"]
            probe = subprocess.run(argv, env={}, capture_output=True, text=True, check=False)
            if probe.returncode == 0:
                return program, Dialect(proc, sizes="--size" in probe.stdout)
        raise _refused(last_line(probe.stderr))


def _refused(why: str) -> SandboxError:
    """The error for a kernel or container that allows no namespaces, with the settings that forbid them."""
    culprits = {name: allowed for name, forbidden, allowed in _SYSCTLS if _sysctl(name) == forbidden}
    if culprits:
        settings = " ".join(f"{name}={value}" for name, value in culprits.items())
        remedy = f"allow them by `{_sudo()}sysctl -w {settings}`"
    else:
        remedy = "allow user namespaces in the container's or the security module's policy"
    return SandboxError(
        f"bubblewrap cannot make namespaces here: `{why}`",
        hint=f"{remedy}, {_OTHERWISE}",
        sysctls=list(culprits),
        why=why,
    )


def _sysctl(name: str) -> str | None:
    path = Path("/proc/sys", *name.split("."))
    return path.read_text(encoding="ascii").strip() if path.exists() else None


def _install_hint() -> str:
    for program, command in _INSTALLERS:
        if shutil.which(program):
            return f"run `{_sudo()}{command}`"
    return "install the package `bubblewrap`"


def _sudo() -> str:
    return "" if os.geteuid() == 0 else "sudo "
