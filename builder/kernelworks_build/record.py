"""What a wheel says of its own making: enough to make it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelworks.errors import RepositoryError
from kernelworks.model.decode import parse_json
from kernelworks.model.digest import FileEntry, hash_file
from kernelworks.model.metadata import METADATA_NAME
from kernelworks_build.claims import Claims
from kernelworks_build.errors import PackError
from kernelworks_build.revision import read_revision
from kernelworks_build.toolchain.lock import Lock, LockSet
from kernelworks_build.wheel import read_records

__all__ = ["SOURCES", "Origin", "Record"]

SOURCES = "source.json"
"""The record of a wheel that lists the files that it was made of."""


@dataclass(frozen=True)
class Origin:
    """Where git has the sources of a wheel."""

    url: str
    commit: str


@dataclass(frozen=True)
class Record:
    """What a wheel says of its own making.

    Attributes:
        builder: Name and version of the program.
        source: Digest of the declared files.
        files: Those files; none in wheels that did not list them yet.
        locks: The toolchains, by name.
        executor: Name of the sandbox.
        origin: Where git has the sources, as far as the wheel and the index beside it say.
    """

    wheel: Path
    claims: Claims
    builder: str
    source: str
    files: tuple[FileEntry, ...]
    locks: Mapping[str, Lock]
    executor: str
    origin: Origin | None

    @classmethod
    def read(cls, wheel: Path) -> Record:
        """The record in `wheel`, of which every member was proved.

        Raises:
            PackError: Not a wheel that this program wrote, or a damaged one.
        """
        claims, records = read_records(wheel)
        try:
            made = parse_json(records["provenance.json"], f"the provenance of `{wheel.name}`")
            return cls(
                wheel,
                claims,
                made.get("builder").text(),
                made.get("source").sha256(),
                _files(records, wheel),
                dict(_locks(records)),
                made.get("executor").text(),
                _origin(wheel, records.get(METADATA_NAME)),
            )
        except KeyError as error:
            raise PackError(f"`{wheel.name}` does not say how it was made: there is no {error}", wheel=wheel) from error
        except RepositoryError as error:
            raise PackError(error.message, hint="the wheel was changed", wheel=wheel) from error

    def locks_over(self, others: LockSet) -> LockSet:
        """The recorded locks, over those that are in force elsewhere."""
        return LockSet({**others.locks, **self.locks}, others.folders)


def _files(records: Mapping[str, bytes], wheel: Path) -> tuple[FileEntry, ...]:
    if "source.json" not in records:
        return ()
    listed = parse_json(records["source.json"], f"the list of sources of `{wheel.name}`")
    return listed.items(
        lambda node: FileEntry(
            node.get("path").relative_path(), node.get("size").natural(), node.get("sha256").sha256()
        )
    )


def _locks(records: Mapping[str, bytes]) -> Iterator[tuple[str, Lock]]:
    for name, content in records.items():
        if name.startswith("locks/"):
            lock = Lock.parse(content.decode(errors="replace"), f"`{name}` of the wheel")
            yield lock.name, lock


def _origin(wheel: Path, metadata: bytes | None) -> Origin | None:
    """Its repository is in the metadata; its commit in the index that lists the wheel, for it changes no byte of it."""
    url = _url(metadata)
    index = read_revision(wheel.absolute().parent.parent)
    listed = [variant.wheel.sha256 for variant in index.variants] if index else []
    if not url or index is None or not index.source.commit or hash_file(wheel)[1] not in listed:
        return None
    return Origin(url, index.source.commit)


def _url(metadata: bytes | None) -> str | None:
    if metadata is None:
        return None
    node = parse_json(metadata, "its metadata").opt("source")
    return node.text() if node else None
