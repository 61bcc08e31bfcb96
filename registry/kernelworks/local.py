"""What a folder on this machine offers: a revision with its index, or variant folders with `metadata.json`.

A revision (`kernel-build build` writes one to `dist/`) is described by `kernel.json`. Folders of other
builders have `metadata.json` only: their facts come from the variant's name; their digests are checked too. Those that
are no SHA-256 are checked when a variant is completed, and stand for the SHA-256 of the bytes that were checked.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kernelworks.errors import RepositoryError, UsageError
from kernelworks.model.beside import METADATA_NAME
from kernelworks.model.decode import Node, parse_json
from kernelworks.model.digest import FileEntry, hash_bytes
from kernelworks.model.foreign import Claim, claims, described
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.model.variant import Variant
from kernelworks.model.variant_name import VariantName
from kernelworks.transport.directory_layout import BUILD
from kernelworks.verify import REBUILD, Fault, verify_error

__all__ = ["LocalFolder", "read_local"]

_LISTED = "sha256"
"""The digest that entries hold."""
_CHUNK = 1 << 20

_log = logging.getLogger("kernelworks")


@dataclass(frozen=True)
class LocalFolder:
    """The variants in a folder.

    Attributes:
        variants: Each with its facts and files.
        root: Holds one folder per variant, of its name.
        version, commit: Of the revision, or None where there is no index.
    """

    variants: tuple[Variant, ...]
    root: Path
    version: int | None = None
    commit: str | None = None

    def complete(self, variant: Variant) -> Variant:
        """`variant` with its files.

        Raises:
            VerifyError: Its builder wrote other digests, and a file has another one.
        """
        if variant.files:
            return variant
        folder = self.root / variant.name
        metadata, claimed = _read(folder)
        found = {path: _digests(folder / path, claim.algorithm) for path, claim in claimed.items()}
        wrong = [path for path, claim in claimed.items() if found[path].get(claim.algorithm) != claim.digest]
        if faults := tuple(_fault(path, claimed[path], found[path]) for path in wrong):
            raise verify_error(str(folder), faults, hint=REBUILD)
        return described(folder.name, metadata, (_entry(folder, path, found[path][_LISTED]) for path in claimed))


def read_local(path: Path) -> LocalFolder:
    """What `path` offers: a revision, a repository with `build/`, a `build` folder or one variant folder.

    Raises:
        RepositoryError: It is none of these, or a description in it is malformed.
    """
    path = path.expanduser().resolve()
    if not path.is_dir():
        state = "is a file, not a folder" if path.exists() else "does not exist"
        raise RepositoryError(f"kernel folder `{path}` {state}", file=str(path))
    if (path / INDEX_NAME).is_file():
        data = (path / INDEX_NAME).read_bytes()
        index = Index.from_bytes(data, f"`{path / INDEX_NAME}`")
        return LocalFolder(index.variants, path / BUILD, index.version, hash_bytes(data))
    if (path / METADATA_NAME).is_file():
        return LocalFolder((_described(path),), path.parent)
    root = path / BUILD if (path / BUILD).is_dir() else path
    if root.is_symlink():
        raise RepositoryError(f"`{root}` is a symbolic link", hint="name the folder it leads to", file=str(root))
    folders = sorted(file.parent for file in root.glob(f"*/{METADATA_NAME}"))
    if not folders:
        raise RepositoryError(
            f"`{path}` holds neither `{INDEX_NAME}` nor a variant folder with `{METADATA_NAME}`",
            hint="name the `dist` folder of a build, or one with `build/<variant>/`",
            file=str(path),
        )
    return LocalFolder(tuple(_described(folder) for folder in folders if _has_known_name(folder)), root)


def _has_known_name(folder: Path) -> bool:
    """Whether the variant's name can be read: of many variants, one for a torch of the future is no fault."""
    try:
        VariantName.parse(folder.name)
    except UsageError as error:
        _log.warning("skipped `%s`: %s", folder, error)
        return False
    return True


def _described(folder: Path) -> Variant:
    """The variant in `folder`, described by its name and its `metadata.json`; without files if those lack a SHA-256."""
    metadata, claimed = _read(folder)
    variant = described(folder.name, metadata, (_entry(folder, path, claim.digest) for path, claim in claimed.items()))
    return variant if all(claim.algorithm == _LISTED for claim in claimed.values()) else replace(variant, files=())


def _read(folder: Path) -> tuple[Node, Mapping[str, Claim]]:
    """(`metadata.json`, digest of every file by its path)."""
    path = folder / METADATA_NAME
    metadata = parse_json(path.read_bytes(), f"`{path}`")
    metadata.get("digest")  # what is downloaded is proved by its registry; of a folder, nothing else proves anything
    return metadata, claims(metadata) or {}


def _entry(folder: Path, path: str, sha256: str) -> FileEntry:
    """The file `path` of `folder`, whose size nobody tells: the digest alone decides."""
    file = folder / path
    return FileEntry(path, file.lstat().st_size if file.is_file() else 0, sha256)


def _digests(file: Path, algorithm: str) -> dict[str, str]:
    """Algorithm -> digest of the bytes of `file`, read once; empty where there is none."""
    digests = {name: hashlib.new(name) for name in (_LISTED, algorithm)}
    try:
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                for digest in digests.values():
                    digest.update(chunk)
    except OSError:
        return {}
    return {name: digest.hexdigest() for name, digest in digests.items()}


def _fault(path: str, claim: Claim, found: Mapping[str, str]) -> Fault:
    got = f"{claim.algorithm} {found[claim.algorithm]}" if found else "nothing that can be read"
    return Fault(path, f"{claim.algorithm} {claim.digest}", got)
