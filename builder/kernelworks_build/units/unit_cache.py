"""The cache of translation units: objects, kept by everything that the compiler saw of a build.

Looked up in two steps, as a unit does not tell what it reads before it is compiled: its command leads to what was read
under that command before, and those files as they are now lead to the object. An entry is named
`<command>.<reads>.<key>` and holds the object and what was read for it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelworks.model.digest import canonical_json, hash_bytes
from kernelworks_build.cache import ResultCache
from kernelworks_build.progress import SILENT, Progress
from kernelworks_build.units.reads import Reads, Trees, macro
from kernelworks_build.units.unit import Unit

__all__ = ["Cost", "UnitCache", "compiled"]

_READS, _COST = "reads.json", "cost.json"
_LOG = ".ninja_log"
_OUTPUT_COLUMN = 3


@dataclass(frozen=True)
class Cost:
    """What compiling a unit took: CPU seconds, and the peak resident bytes of all its processes together."""

    cpu_seconds: float
    max_rss_bytes: int

    def to_json(self) -> dict[str, Any]:
        return {"cpu-seconds": self.cpu_seconds, "max-rss-bytes": self.max_rss_bytes}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Cost:
        """The inverse of `to_json`."""
        return cls(float(document["cpu-seconds"]), int(document["max-rss-bytes"]))


class UnitCache:
    """Objects below `root` that the executor of that name made; `progress` hears when another process adds the same."""

    def __init__(self, root: Path, executor: str, progress: Progress = SILENT) -> None:
        self._results = ResultCache(root, progress)
        self._executor = executor

    def lay(self, unit: Unit, trees: Trees, build_dir: Path) -> bool:
        """Put the object of `unit` where its command would put it; whether there is one."""
        entry = self._find(unit, trees)
        if entry is None:
            return False
        (build_dir / unit.object).parent.mkdir(parents=True, exist_ok=True)
        for name, path in _files(unit).items():
            shutil.copyfile(entry / name, build_dir / path)
        return True

    def keep(self, unit: Unit, trees: Trees, build_dir: Path, cost: Cost) -> None:
        """Add the object of `unit`, which was compiled in `build_dir` and took `cost`."""
        made = {name: build_dir / path for name, path in _files(unit).items()}
        depfile = build_dir / unit.depfile
        if not all(path.is_file() and not path.is_symlink() for path in (depfile, *made.values())):
            return
        reads = Reads.of(unit, depfile.read_text(encoding="utf-8", errors="replace"), trees)
        name = self._name(unit, reads, trees) if reads else None
        if reads is None or name is None:
            return

        def fill(folder: Path) -> None:
            for name, path in made.items():
                shutil.copyfile(path, folder / name)
            (folder / _READS).write_bytes(canonical_json(reads.document))
            (folder / _COST).write_bytes(canonical_json(cost.to_json()))

        self._results.get_or_make(name, fill)

    def expected(self, unit: Unit) -> Cost | None:
        """What `unit` took when it, or an earlier state of its files, was compiled last."""
        try:
            costs = sorted(self._known(unit, _COST), key=lambda path: path.stat().st_mtime)
            return Cost.from_json(json.loads(costs[-1].read_bytes())) if costs else None
        except (OSError, ValueError, KeyError):  # it only says what to expect
            return None

    def _find(self, unit: Unit, trees: Trees) -> Path | None:
        by_reads = {path.parent.name.split(".")[1]: path for path in self._known(unit, _READS)}
        for digest, path in by_reads.items():
            content = path.read_bytes()
            if hash_bytes(content) != digest:
                continue
            name = self._name(unit, Reads.from_document(json.loads(content)), trees)
            if name and (entry := self._results.get(name)):
                return entry
        return None

    def _name(self, unit: Unit, reads: Reads, trees: Trees) -> str | None:
        key = reads.key(unit, trees)
        if key is None:
            return None
        parts = (reads.document, {"executor": self._executor, **key})
        return ".".join((_command(unit), *(hash_bytes(canonical_json(part)) for part in parts)))

    def _known(self, unit: Unit, file: str) -> list[Path]:
        return list(self._results.root.glob(f"{_command(unit)}.*/{file}"))


def compiled(build_dir: Path) -> frozenset[str]:
    """The outputs, relative to `build_dir`, of the commands that ninja saw succeed there."""
    log = build_dir / _LOG
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return frozenset(row[_OUTPUT_COLUMN] for row in rows if len(row) > _OUTPUT_COLUMN)


def _files(unit: Unit) -> dict[str, str]:
    """What is kept of `unit`: name in the entry -> path in the build folder."""
    return {"object": unit.object, **({"headers": unit.headers} if unit.slim else {})}


def _command(unit: Unit) -> str:
    """Digest of the command without its macros: which of them matter is known only from the files."""
    return hash_bytes(canonical_json([word for word in unit.command if macro(word) is None]))
