"""A revision without an index, of another builder: `build/<variant>/` with `metadata.json`, as the registry lists it.

One list says which variants there are: their names tell most facts. The `metadata.json` of the best one tells the rest
and holds the digests of its files, if its builder wrote any; else the registry's list has them, in SHA-256 of large
files, and of small ones, which git alone has hashed, the bytes are read. A load is the index that is not there, the
list, and one request per file.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO

from kernelworks.errors import RepositoryError, UsageError
from kernelworks.model.beside import BESIDE, METADATA_NAME
from kernelworks.model.decode import Node, parse_json
from kernelworks.model.digest import FileEntry, hash_bytes
from kernelworks.model.foreign import Claim, claims, described, outlined
from kernelworks.model.variant import Variant
from kernelworks.transport.directory_layout import BUILD
from kernelworks.transport.revision import ListedFile, Tree
from kernelworks.verify import REPUBLISH, Fault, is_bytecode, verify_error

__all__ = ["ForeignRevision", "read_foreign"]

_log = logging.getLogger("kernelworks")

_LISTED = "sha256"
"""The digest that indexes and lists of files have; any other one is checked besides."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class ForeignRevision:
    """The variants of a revision.

    Attributes:
        tree: Where its files are read.
        repo_id, commit: What it is.
        folders: Variant -> path in its folder -> file.
        variants: Each as far as its name tells; `complete` tells the rest.
    """

    tree: Tree
    repo_id: str
    commit: str
    folders: Mapping[str, Mapping[str, ListedFile]]
    variants: tuple[Variant, ...]

    def complete(self, variant: Variant) -> Variant:
        """`variant` with all facts and files.

        Raises:
            RepositoryError: Its `metadata.json` is malformed, or contradicts its name.
            VerifyError: It lists other files than there are, or a small one has other bytes than are listed.
        """
        if variant.files:
            return variant
        files = self.folders[variant.name]
        metadata = self._metadata(variant.name)
        claimed = claims(metadata)
        kernel = {path: file for path, file in files.items() if path not in BESIDE and not is_bytecode(path)}
        if claimed is not None and (faults := tuple(_differences(claimed, kernel))):
            raise verify_error(self._locate(f"{BUILD}/{variant.name}"), faults, hint=REPUBLISH)
        entries = (self._entry(path, file, claimed[path] if claimed else None) for path, file in kernel.items())
        return described(variant.name, metadata, entries)

    def open(self, variant: Variant, entry: FileEntry) -> BinaryIO:
        """A file of `variant`, at its start.

        Raises:
            VerifyError: It is not what `metadata.json` says, though it is what the registry lists.
            KernelworksError: As `Transport.open`.
        """
        file = self.folders[variant.name][entry.path]
        stream = self.tree.open(self.repo_id, self.commit, replace(entry, path=file.path))
        try:
            claim = (claims(self._metadata(variant.name)) or {}).get(entry.path)
            if claim and claim.algorithm != _LISTED:
                self._check(file, claim, iter(partial(stream.read, _CHUNK), b""))
                stream.seek(0)
        except BaseException:
            stream.close()
            raise
        return stream

    def _metadata(self, folder: str) -> Node:
        file = self.folders[folder][METADATA_NAME]
        return parse_json(self._read(file), f"`{self._locate(file.path)}`")

    def _entry(self, path: str, file: ListedFile, claim: Claim | None) -> FileEntry:
        """The file with its SHA-256: the claimed one, else the listed one, else that of the bytes."""
        known = claim.digest if claim and claim.algorithm == _LISTED else file.sha256
        if file.sha256 not in {None, known}:
            raise self._wrong(file, f"{_LISTED} {known}", f"{_LISTED} {file.sha256}")
        return FileEntry(path, file.size, known or hash_bytes(self._read(file)))

    def _check(self, file: ListedFile, claim: Claim, chunks: Iterable[bytes]) -> None:
        digest = hashlib.new(claim.algorithm)
        for chunk in chunks:
            digest.update(chunk)
        if digest.hexdigest() != claim.digest:
            raise self._wrong(file, f"{claim.algorithm} {claim.digest}", f"{claim.algorithm} {digest.hexdigest()}")

    def _wrong(self, file: ListedFile, expected: str, got: str) -> Exception:
        return verify_error(self._locate(file.path), (Fault(".", expected, got),), hint=REPUBLISH)

    def _read(self, file: ListedFile) -> bytes:
        return self.tree.read(self.repo_id, self.commit, file)

    def _locate(self, path: str) -> str:
        return self.tree.locate(self.repo_id, self.commit, path)


def read_foreign(tree: Tree, repo_id: str, commit: str) -> ForeignRevision:
    """The revision `commit`, which has no index.

    Raises:
        RepositoryError: It has no variants either.
    """
    folders: dict[str, dict[str, ListedFile]] = {}
    for file in tree.list_files(repo_id, commit):
        _, folder, path = (*file.path.split("/", 2), "", "")[:3]
        folders.setdefault(folder, {})[path] = file
    described_ones = {folder: files for folder, files in folders.items() if METADATA_NAME in files}
    if not described_ones:
        raise RepositoryError(
            f"`{repo_id}` at `{commit}` holds neither `kernel.json` nor `{BUILD}/<variant>/{METADATA_NAME}`",
            hint="is it a repository of a kernel, and is this the right revision?",
            repo_id=repo_id,
        )
    return ForeignRevision(tree, repo_id, commit, described_ones, tuple(_outlines(repo_id, described_ones)))


def _outlines(repo_id: str, folders: Mapping[str, Mapping[str, ListedFile]]) -> Iterable[Variant]:
    for folder, files in folders.items():
        try:
            yield outlined(folder, files)
        except UsageError as error:  # noqa: PERF203  # of many variants, one for a torch of the future is no fault
            _log.warning("skipped `%s` of `%s`: %s", folder, repo_id, error)


def _differences(claimed: Iterable[str], there: Iterable[str]) -> Iterable[Fault]:
    claimed, there = set(claimed), set(there)
    yield from (Fault(path, "a file", "nothing") for path in sorted(claimed - there))
    yield from (Fault(path, "nothing", "a file that is not listed") for path in sorted(there - claimed))
