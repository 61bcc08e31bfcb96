"""Lock files: the artifacts of a toolchain, by digest, and the digest of the tree that they must give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelworks.errors import RepositoryError
from kernelworks.model.decode import Node
from kernelworks.model.digest import canonical_json, hash_bytes
from kernelworks_build.errors import ToolchainError
from kernelworks_build.toml import TOMLDecodeError, parse_toml

__all__ = ["SHIPPED", "Artifact", "Lock", "LockSet", "lock_command", "not_locked", "symbol_list_name", "torch_lock"]

SHIPPED = Path(__file__).parent / "locks"
"""The folder of the locks that travel with the project."""

_SCHEMA = 1
_KINDS = ("deb", "sdist", "wheel")
_ARTIFACT_KEYS = ("name", "version", "kind", "file", "path", "size", "sha256")
_LOCK_KEYS = ("schema", "name", "recipe", "digest", "seed", "artifact")
_LOCKED_WITH = {"torch-rocm": "torch"}
"""What has no option of its own -> the option that pins it, too: it is made of the same wheel."""

_UNVERSIONED = {"python"}
"""Options that pin all versions."""


def torch_lock(release: str) -> str:
    """The name of the lock of torch `release`."""
    return f"torch-{release}"


def symbol_list_name(lock: str) -> str:
    """File name, beside the lock of that name, of the list of what its libraries export."""
    return f"{lock}.symbols.gz"


def lock_command(name: str) -> str:
    """The command that pins the lock `name`."""
    option, _, version = name.rpartition("-")
    option = _LOCKED_WITH.get(option, option)
    arguments = option or version if not option or option in _UNVERSIONED else f"{option} {version}"
    return f"kernel-build lock --{arguments}"


def not_locked(name: str) -> str:
    """The reason, in words, that the missing lock `name` is for building nothing."""
    return f"`{name}` is not locked; `{lock_command(name)}` pins it"


@dataclass(frozen=True, order=True)
class Artifact:
    """One file to fetch, as it was published.

    Attributes:
        name: Package name.
        version: Its version.
        kind: `deb`, `sdist` or `wheel`: who publishes it, and how it is unpacked.
        file: File name.
        size: Bytes.
        sha256: Hex.
        path: Of a deb: path below the root of an archive; empty for all else, which an index finds by name.
    """

    name: str
    version: str
    kind: str
    file: str
    size: int
    sha256: str
    path: str = ""

    @property
    def restricted(self) -> bool:
        """Whether it may not be passed on: it is of a part of Debian that is not free (Debian Policy, 2.2)."""
        return any(part.startswith("non-free") for part in self.path.split("/")[:-1])

    @classmethod
    def read(cls, node: Node) -> Artifact:
        _only(node, _ARTIFACT_KEYS)
        kind = node.get("kind").choice(*_KINDS)
        if kind != "deb" and node.opt("path"):
            raise node.get("path").fault(f"belongs to a deb, not to a {kind}")
        return cls(
            name=node.get("name").text(),
            version=node.get("version").text(),
            kind=kind,
            file=node.get("file").text(pattern=r"[A-Za-z0-9_][^/\\\s]*"),
            size=node.get("size").natural(),
            sha256=node.get("sha256").sha256(),
            path=node.get("path").relative_path() if kind == "deb" else "",
        )

    def to_json(self) -> dict[str, Any]:
        return {key: value for key in _ARTIFACT_KEYS if (value := getattr(self, key)) != ""}


@dataclass(frozen=True)
class Lock:
    """One lock file.

    Attributes:
        name: `host`, `cuda-13.0`, ...: the file's name without `.toml`.
        recipe: Which recipe turns the artifacts into a tree.
        digest: Digest of that tree.
        artifacts: Sorted by name and version.
        seed: The hash by which nix knows the program in the tree that unpacks the first packages; empty elsewhere.
    """

    name: str
    recipe: str
    digest: str
    artifacts: tuple[Artifact, ...]
    seed: str = ""

    @property
    def version(self) -> str:
        """What stands behind the last dash of the name: that of the toolkit or release, where it has one."""
        return self.name.rpartition("-")[2]

    @property
    def relock(self) -> str:
        """The command that pins this toolchain anew."""
        return lock_command(self.name)

    @classmethod
    def parse(cls, text: str, origin: str) -> Lock:
        """The lock that `text` holds; `origin` names it in messages.

        Raises:
            ToolchainError: Not TOML, another schema, a key unknown, missing or of a wrong type.
        """
        try:
            return cls._read(Node(parse_toml(text), origin, ""))
        except TOMLDecodeError as error:
            raise ToolchainError(f"{origin} is not valid TOML: {error}", origin=origin) from error
        except RepositoryError as error:
            raise ToolchainError(error.message, **error.context) from error

    @classmethod
    def _read(cls, node: Node) -> Lock:
        schema = node.get("schema")
        if schema.natural() != _SCHEMA:
            raise schema.fault(f"is {schema.value}; this version reads {_SCHEMA}")
        _only(node, _LOCK_KEYS)
        artifacts, seed = node.opt("artifact"), node.opt("seed")
        return cls(
            name=node.get("name").text(pattern=r"[a-z0-9][a-z0-9.-]*"),
            recipe=node.get("recipe").text(),
            digest=node.get("digest").sha256(),
            artifacts=tuple(sorted(artifacts.items(Artifact.read))) if artifacts else (),
            seed=seed.sha256() if seed else "",
        )

    def dump(self) -> str:
        """This lock as a file: the one canonical form, so that equal locks are equal bytes."""
        head = {"schema": _SCHEMA, "name": self.name, "recipe": self.recipe, "digest": self.digest}
        seed = {"seed": self.seed} if self.seed else {}
        tables = [
            _pairs(head | seed),
            *("[[artifact]]\n" + _pairs(item.to_json()) for item in sorted(self.artifacts)),
        ]
        return "\n".join(tables)


@dataclass(frozen=True)
class LockSet:
    """The locks in force.

    Attributes:
        locks: By name.
        folders: Where they came from; what belongs to a lock lies beside it.
    """

    locks: Mapping[str, Lock]
    folders: tuple[Path, ...] = (SHIPPED,)

    @classmethod
    def load(cls, extra: Path | None = None) -> LockSet:
        """The shipped locks, and over them those of the folder `extra`.

        Raises:
            ToolchainError: A faulty file, or one whose name is not that of its lock.
        """
        folders = (SHIPPED,) if extra is None else (SHIPPED, extra)
        return cls({path.stem: _load(path) for folder in folders for path in sorted(folder.glob("*.toml"))}, folders)

    def __getitem__(self, name: str) -> Lock:
        """The lock called `name`.

        Raises:
            ToolchainError: There is none.
        """
        if name not in self.locks:
            raise ToolchainError(
                f"there is no toolchain lock `{name}` (known: {', '.join(sorted(self.locks))})",
                hint="`kernel-build lock` pins another toolchain",
                name=name,
                known=sorted(self.locks),
            )
        return self.locks[name]

    def symbol_lists(self, names: Iterable[str]) -> dict[str, Path]:
        """Those of the locks `names` beside which lies a list of what their libraries export, and where it is."""
        places = {name: [folder / symbol_list_name(name) for folder in self.folders] for name in names}
        return {name: path for name, paths in places.items() for path in paths if path.is_file()}

    def symbol_list(self, name: str) -> Path:
        """The list of what the libraries of the lock `name` export, beside it.

        Raises:
            ToolchainError: There is none.
        """
        if path := self.symbol_lists([name]).get(name):
            return path
        known = sorted(self.symbol_lists(self.locks))
        raise ToolchainError(
            f"there is no symbol list of `{name}` (known: {', '.join(known)})",
            hint=f"`{lock_command(name)}` writes it",
            name=name,
            known=known,
        )

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """Name -> SHA-256 of the lock's canonical text."""
        return {name: hash_bytes(self[name].dump().encode()) for name in names}

    def digest(self, names: Iterable[str]) -> str:
        """SHA-256 over the named locks: equal digests mean equal toolchains from equal artifacts."""
        return hash_bytes(canonical_json(self.digests(names)))


def _load(path: Path) -> Lock:
    lock = Lock.parse(path.read_text(encoding="utf-8"), f"`{path.name}`")
    if lock.name != path.stem:
        raise ToolchainError(f"`{path}` holds the lock `{lock.name}`", hint=f"rename it to `{lock.name}.toml`")
    return lock


def _only(node: Node, known: Iterable[str]) -> None:
    for key in node.value if isinstance(node.value, dict) else ():
        if key not in known:
            raise node.fault(f"has the unknown key `{key}` (known: {', '.join(known)})")


def _pairs(table: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in table.items())
