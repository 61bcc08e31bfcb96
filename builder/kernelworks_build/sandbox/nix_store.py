"""A store of nix's own below one folder: nothing of it is in `/nix`, and no configuration of the machine counts.

What is in it is named as in every store, `/nix/store/...`, where builds see it ("chroot store" in nix's manual).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelworks.model.digest import canonical_json
from kernelworks_build import resources
from kernelworks_build.action import Action, Tree
from kernelworks_build.errors import SandboxError
from kernelworks_build.sandbox.command import OUTER_PROC, Dialect
from kernelworks_build.sandbox.process import last_line

__all__ = ["DRIVER", "NixStore", "complaint", "describe"]

DRIVER = "nix"
"""The lock of the tree that derivations start with."""

_CONFIGURATION = resources.NIX / "exported" / "nix.conf"
"""Nix's settings; those of the machine do not count."""

_DIALECT = Dialect(OUTER_PROC, sizes=True)
"""Of the locked bubblewrap, inside nix's sandbox."""

_BUILD = "/build/build"
"""The folder `build` of a builder's working folder, which nix has at `/build`."""

_OLDEST = (2, 8)


def describe(action: Action) -> str:
    """`action` as JSON for `nix/action.nix`.

    `command` are the arguments of bubblewrap, where a tree stands by its digest, `outputs` those of the action. No path
    of this machine is in it.
    """
    digests = {str(mount.tree.path): mount.tree.digest for mount in action.mounts}
    words = _DIALECT.arguments(action, _BUILD, ("--json-status-fd", "3"))
    command = [{"tree": digests[word]} if word in digests else word for word in words]
    return canonical_json({"command": command, "outputs": list(action.outputs)}).decode()


def complaint(said: str) -> str:
    """What nix said of its failure: its first error in words, else its last line; traces and advice stand around it."""
    found = re.search(r"^\s*error: *(\S.*)$", said, re.MULTILINE)
    return found[1] if found else last_line(said)


@dataclass(frozen=True)
class NixStore:
    """The store below the folder `root`, which need not exist."""

    root: Path

    def require(self) -> None:
        """Look for nix, and build something without any program in its sandbox.

        Raises:
            SandboxError: It is missing or too old, `root` cannot be named to it, or it can make no sandbox here.
        """
        version = self._run("nix-store", "--version").rpartition(" ")[2].strip()
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
            raise SandboxError(
                f"nix {version} is too old", hint=f"install nix {'.'.join(map(str, _OLDEST))} or newer", version=version
            )
        forbidden = "nix needs namespaces, as bubblewrap does: `kernel-build doctor` says what forbids them"
        self._run("nix-build", "--no-out-link", str(resources.NIX / "nothing.nix"), hint=forbidden)

    def add(self, tree: Tree) -> str:
        """The path of `tree` in the store, as builds see it; what is there already is not read again."""
        root = self.root / "nix/var/nix/gcroots" / tree.digest
        if not root.is_symlink():
            path = self._run("nix-store", "--add-fixed", "--recursive", "sha256", str(tree.path)).strip()
            root.parent.mkdir(parents=True, exist_ok=True)
            fresh = root.with_name(f".{tree.digest}.{os.getpid()}")
            fresh.symlink_to(path)
            fresh.replace(root)
        return str(root.readlink())

    def derivation(self, action: Action, driver: Tree) -> str:
        """The path of the derivation that runs `action` by the bubblewrap in the tree `driver`."""
        paths = {mount.tree.digest: self.add(mount.tree) for mount in action.mounts}
        arguments = {
            "action": describe(action),
            "driver": self.add(driver),
            "paths": canonical_json(paths).decode(),
        }
        words = (word for name, value in arguments.items() for word in ("--argstr", name, value))
        return self._run("nix-instantiate", str(resources.NIX / "stored.nix"), *words).strip()

    def environment(self, temporary: Path) -> Mapping[str, str]:
        """The environment of nix's programs; they build below the folder `temporary`."""
        return {
            "HOME": str(self.root),
            "NIX_CONFIG": _CONFIGURATION.read_text(encoding="utf-8"),
            "NIX_CONF_DIR": str(self.root),
            "NIX_REMOTE": f"local?root={self.root}",
            "NIX_USER_CONF_FILES": "",
            "PATH": os.environ.get("PATH", os.defpath),
            "TMPDIR": str(temporary),
        }

    def _run(self, program: str, *arguments: str, hint: str | None = None) -> str:
        if re.search(r"\s", str(self.root)):
            raise SandboxError(
                f"nix cannot have its store in `{self.root}`, a path with a blank",
                hint="name another cache by KERNELWORKS_CACHE",
                path=self.root,
            )
        if shutil.which(program) is None:
            debian = shutil.which("apt-get")
            how = "install it by `apt-get install nix-bin`" if debian else "install the package nix (nix-bin on Debian)"
            raise SandboxError(f"nix is not installed: there is no `{program}`", hint=how)
        self.root.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [program, *arguments],
            env=self.environment(self.root),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SandboxError(f"`{program}` fails here: {complaint(done.stderr)}", hint=hint, log=done.stderr)
        return done.stdout
