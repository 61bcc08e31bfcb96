"""Runs an action without namespaces: same layout, same user, in a root folder made for it, by `chroot`.

For machines that refuse namespaces. The network and the host's processes stay in reach, so a build is
recorded as not hermetic; what it makes has the same bytes.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelworks_build.action import BUILD, Action, ActionResult
from kernelworks_build.errors import SandboxError
from kernelworks_build.sandbox import layout
from kernelworks_build.sandbox.process import require_own_proc, result, supervise

__all__ = ["Unisolated"]

_CAPABILITIES = {
    "CAP_CHOWN": 0,
    "CAP_DAC_OVERRIDE": 1,
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SYS_CHROOT": 18,
}
"""What it takes to run as another user below another root and to clean up afterwards (linux/capability.h)."""

_DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
"""Name below `/dev` to minor number; the major number of memory devices is 1."""

_PROC_FILES = ("cpuinfo", "meminfo")
"""What cmake reads of `/proc`, as it is now; there is no live one without a mount."""

_NOT_LINKABLE = {errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EOPNOTSUPP}
"""Another file system, too many links, or a file system without hard links."""

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Unisolated:
    """The executor `none`."""

    name = "none"
    hermetic = False

    def check(self) -> None:
        """Look at what this process may do.

        Raises:
            SandboxError: It may not change root or user, or `/proc` is not ours.
        """
        require_own_proc()
        held = _effective_capabilities()
        missing = [name for name, bit in _CAPABILITIES.items() if not held >> bit & 1]
        if not (_is_mapped("uid_map", layout.UID) and _is_mapped("gid_map", layout.GID)):
            missing.append(f"user id {layout.UID}")
        if missing:
            raise SandboxError(
                f"this process lacks {', '.join(missing)}, which `--sandbox none` needs",
                hint="run as root, or use `--sandbox bwrap`, which needs no privilege but user namespaces",
                missing=missing,
            )

    def run(
        self, action: Action, build_dir: Path, log: Path, on_line: Callable[[str], None] | None = None
    ) -> ActionResult:
        """Run `action` as `Executor.run` says; meanwhile `build_dir` lies in a root folder made beside it.

        Raises:
            SandboxError: This process may not do it, or the root folder holds no such command.
        """
        self.check()
        with _root_beside(build_dir) as root:
            _assemble(root, action)
            with _lent(build_dir.resolve(), root / BUILD.lstrip("/")):
                env = layout.environment(action)
                verdict = supervise(action.argv, env, action.limits, log, on_line, root=root, cwd=BUILD)
        if verdict.error:
            raise SandboxError(f"the sandbox cannot run `{action.argv[0]}`: {verdict.error}", log=log)
        return result(verdict, self, action, build_dir, log)


def _effective_capabilities() -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))


def _is_mapped(table: str, number: int) -> bool:
    """Whether the user namespace of this process knows the user or group `number` (user_namespaces(7))."""
    rows = [map(int, line.split()) for line in Path("/proc/self", table).read_text(encoding="ascii").splitlines()]
    return any(first <= number < first + count for first, _, count in rows)


@contextmanager
def _root_beside(build_dir: Path) -> Iterator[Path]:
    """A folder on the file system of `build_dir`, gone afterwards; what was hard-linked into it stays."""
    root = Path(tempfile.mkdtemp(prefix=".root-", dir=build_dir.resolve().parent))
    try:
        root.chmod(0o755)
        yield root
    finally:
        shutil.rmtree(root)


@contextmanager
def _lent(build_dir: Path, target: Path) -> Iterator[None]:
    """`build_dir` moved to `target` and owned by the sandbox's user; back, and ours, afterwards."""
    build_dir.rename(target)
    try:
        _give(target, layout.UID, layout.GID)
        yield
    finally:
        _give(target, os.geteuid(), os.getegid())
        target.rename(build_dir)


def _give(folder: Path, uid: int, gid: int) -> None:
    """Change the owner of everything in `folder`, of links themselves."""
    for _, folders, files, descriptor in os.fwalk(folder):
        os.chown(descriptor, uid, gid)
        for name in (*folders, *files):
            os.chown(name, uid, gid, dir_fd=descriptor, follow_symlinks=False)


def _assemble(root: Path, action: Action) -> None:
    """Fill `root` with the fixed layout: mounts, links, devices, scratch folders and a little of `/proc`."""
    for mount in layout.outermost_first(action.mounts):
        _link_tree(mount.tree.path, root / mount.target.lstrip("/"))
    for name, target in layout.ROOT_LINKS.items():
        (root / name).symlink_to(target)
    (root / "proc").mkdir()
    for name in _PROC_FILES:
        (root / "proc" / name).write_bytes(Path("/proc", name).read_bytes())
    (root / "dev").mkdir()
    for name, minor in _DEVICES.items():
        _make_device(root / "dev" / name, os.makedev(1, minor))
    for folder in layout.SCRATCH:
        (root / folder.lstrip("/")).mkdir()
        (root / folder.lstrip("/")).chmod(0o1777)


def _link_tree(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _link_tree(source / entry.name, target / entry.name)
            elif not (_is_safe(entry.stat(follow_symlinks=False)) and _link(entry.path, target / entry.name)):
                shutil.copy2(entry.path, target / entry.name, follow_symlinks=False)


def _is_safe(file: os.stat_result) -> bool:
    """Whether the sandbox's user can neither write a link to `file` nor give itself the right to."""
    return file.st_uid != layout.UID and not file.st_mode & _OTHERS_MAY_WRITE


def _link(source: str, target: Path) -> bool:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NOT_LINKABLE:
            raise
        return False
    return True


def _make_device(path: Path, device: int) -> None:
    """A character device, or an empty file where devices may not be made or opened."""
    try:
        os.mknod(path, stat.S_IFCHR, device)
        path.open("rb").close()
    except OSError:
        path.unlink(missing_ok=True)
        path.touch()
    path.chmod(0o666)
