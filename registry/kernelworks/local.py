"""What a folder on this machine offers: a revision with its index, or variant folders with `metadata.json`.

A revision (`kernel-build build` writes one to `dist/`) is described by `kernel.json`. Folders of other
builders have `metadata.json` only: their facts come from the variant's name; their digests are checked too.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from kernelworks.errors import RepositoryError, UsageError
from kernelworks.model.decode import parse_json
from kernelworks.model.digest import FileEntry, hash_bytes
from kernelworks.model.foreign import BESIDE, claims, described
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.model.metadata import METADATA_NAME
from kernelworks.model.variant import Variant
from kernelworks.model.variant_name import VariantName
from kernelworks.transport.directory_layout import BUILD

__all__ = ["BESIDE", "LocalFolder", "read_local"]

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
    """The variant in `folder`, described by its name and its `metadata.json`."""
    path = folder / METADATA_NAME
    metadata = parse_json(path.read_bytes(), f"`{path}`")
    metadata.get("digest").get("algorithm").choice("sha256")  # what an entry can hold
    claimed = claims(metadata) or {}
    return described(folder.name, metadata, (_entry(folder, path, claim.digest) for path, claim in claimed.items()))


def _entry(folder: Path, path: str, sha256: str) -> FileEntry:
    """The file `path` of `folder`, whose size nobody tells: the digest alone decides."""
    file = folder / path
    return FileEntry(path, file.lstat().st_size if file.is_file() else 0, sha256)
