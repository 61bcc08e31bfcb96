"""What a folder on this machine offers: a revision with its index, or variant folders with `metadata.json`.

A revision (`kernel-build build` writes one to `dist/`) is described by `kernel.json`. Folders of other
builders have `metadata.json` only: their facts come from the variant's name; their digests are checked too.
"""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass
from pathlib import Path

from kernelworks.errors import RepositoryError, UsageError
from kernelworks.model.decode import Node, parse_json
from kernelworks.model.digest import FileEntry, hash_bytes, tree_digest
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.model.metadata import METADATA_NAME
from kernelworks.model.variant import (
    ARCH_PATTERN,
    ID_PATTERN,
    BackendFacts,
    DeviceArchs,
    FrameworkFacts,
    Platform,
    PythonAbi,
    TorchSymbols,
    Variant,
)
from kernelworks.model.variant_name import VariantName
from kernelworks.transport.directory_layout import BUILD

__all__ = ["BESIDE", "LocalFolder", "read_local"]

BESIDE = frozenset({METADATA_NAME, f"{METADATA_NAME}.sigstore"})
"""What a variant folder holds besides the files of the kernel."""

_log = logging.getLogger("kernelworks")

_ABI3_FLOOR = (3, 9)  # of every builder that writes no index


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
    root = parse_json(path.read_bytes(), f"`{path}`")
    name = VariantName.parse(folder.name)
    backend = root.get("backend")
    if backend.get("type").text() != name.backend:
        raise backend.get("type").fault(f"is `{backend.value['type']}`, and the folder is for `{name.backend}`")
    archs = backend.opt("archs")
    files = _listed_files(folder, root.get("digest"))
    identity = tree_digest(files)
    extension = any(entry.path.endswith(".abi3.so") for entry in files)
    return Variant(
        name=folder.name,
        id=root.get("id").text(pattern=ID_PATTERN),
        framework=FrameworkFacts(
            name.framework if name.framework_version else "none", name.framework_version, name.cxx11
        ),
        backend=BackendFacts(name.backend, name.backend_version, _archs(archs.items(_arch) if archs else ())),
        python_abi=PythonAbi("abi3", _ABI3_FLOOR) if extension else PythonAbi("none", None),
        platform=Platform(name.cpu, name.os, None),
        libraries=(),
        torch_symbols=TorchSymbols(()),
        python_depends=root.get("python-depends").items(Node.text),
        wheel=FileEntry("", 0, identity),  # there is none: the digest of the files is the identity
        package=folder.name,
        files=files,
        lock="",
        hermetic=False,
    )


def _arch(node: Node) -> str:
    return node.text(pattern=rf"({ARCH_PATTERN})(\+PTX)?")


def _archs(texts: tuple[str, ...]) -> DeviceArchs:
    """`9.0+PTX` is machine code and PTX for 9.0."""
    sass = tuple(text.removesuffix("+PTX") for text in texts)
    return DeviceArchs(sass, tuple(text.removesuffix("+PTX") for text in texts if text.endswith("+PTX")))


def _listed_files(folder: Path, digest: Node) -> tuple[FileEntry, ...]:
    digest.get("algorithm").choice("sha256")
    listed = digest.get("files")
    if not isinstance(listed.value, dict):
        raise listed.fault("must be an object")
    entries = []
    for path in sorted(listed.value):
        Node(path, listed.origin, listed.path).relative_path()
        file = folder / path
        size = file.lstat().st_size if file.is_file() else 0  # not told: the digest alone decides
        entries.append(FileEntry(path, size, _hex(listed.get(path))))
    return tuple(entries)


def _hex(node: Node) -> str:
    try:
        digest = base64.b64decode(node.text(), validate=True)
    except ValueError as error:
        raise node.fault("is not base64") from error
    return digest.hex()
