"""What a variant of another builder is: facts from its folder's name and its `metadata.json`, for there is no index."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kernelworks.model.decode import Node
from kernelworks.model.digest import FileEntry, tree_digest
from kernelworks.model.variant import (
    ARCH_PATTERN,
    ID_PATTERN,
    BackendFacts,
    DeviceArchs,
    FrameworkFacts,
    KernelDependency,
    Platform,
    PythonAbi,
    TorchSymbols,
    Variant,
)
from kernelworks.model.variant_name import VariantName

__all__ = ["Claim", "claims", "described", "outlined"]

_ABI3_FLOOR = (3, 9)  # of every builder that writes no index
_DIGEST_BYTES = {"sha256": 32, "sha512": 64}


@dataclass(frozen=True)
class Claim:
    """The digest that a file has to have: algorithm as `hashlib` names it, and hex."""

    algorithm: str
    digest: str


def outlined(folder: str, paths: Iterable[str]) -> Variant:
    """The variant in `folder` with the files `paths`, as far as its name tells.

    Raises:
        UsageError: No variant has such a name.
    """
    name = VariantName.parse(folder)
    extension = any(path.endswith(".abi3.so") for path in paths)
    return Variant(
        name=folder,
        id="",
        framework=FrameworkFacts(
            name.framework if name.framework_version else "none", name.framework_version, name.cxx11
        ),
        backend=BackendFacts(name.backend, name.backend_version),
        python_abi=PythonAbi("abi3", _ABI3_FLOOR) if extension else PythonAbi("none", None),
        platform=Platform(name.cpu, name.os, None),
        libraries=(),
        torch_symbols=TorchSymbols(()),
        python_depends=(),
        wheel=FileEntry("", 0, ""),
        package=folder,
        files=(),
        lock="",
        hermetic=False,
    )


def described(folder: str, metadata: Node, files: Iterable[FileEntry]) -> Variant:
    """The variant in `folder`, whose files are `files` and whose `metadata.json` is `metadata`.

    Its wheel, which does not exist, has the digest of the files: that is its identity.

    Raises:
        UsageError: No variant has such a name.
        RepositoryError: The description is malformed, or contradicts the name.
    """
    files = tuple(sorted(files))
    outline = outlined(folder, (entry.path for entry in files))
    kind = metadata.get("backend").get("type")
    if kind.text() != outline.backend.kind:
        raise kind.fault(f"is `{kind.value}`, and the folder is for `{outline.backend.kind}`")
    archs, depends = metadata.get("backend").opt("archs"), metadata.opt("kernel-depends")
    return replace(
        outline,
        id=metadata.get("id").text(pattern=ID_PATTERN),
        backend=replace(outline.backend, archs=_archs(archs.items(_arch) if archs else ())),
        python_depends=metadata.get("python-depends").items(Node.text),
        kernel_depends=depends.items(KernelDependency.from_json) if depends else (),
        wheel=FileEntry("", 0, tree_digest(files)),
        files=files,
    )


def claims(metadata: Node) -> Mapping[str, Claim] | None:
    """Path -> digest of every file of the kernel, or None where `metadata.json` holds none.

    Raises:
        RepositoryError: They are malformed.
    """
    digest = metadata.opt("digest")
    if digest is None:
        return None
    algorithm = digest.get("algorithm").choice(*_DIGEST_BYTES)
    files = digest.get("files")
    return {
        Node(path, files.origin, files.path).relative_path(): Claim(algorithm, _hex(files.get(path), algorithm))
        for path in sorted(files.names())
    }


def _arch(node: Node) -> str:
    return node.text(pattern=rf"({ARCH_PATTERN})(\+PTX)?")


def _archs(texts: tuple[str, ...]) -> DeviceArchs:
    """`9.0+PTX` is machine code and PTX for 9.0."""
    sass = tuple(text.removesuffix("+PTX") for text in texts)
    return DeviceArchs(sass, tuple(text.removesuffix("+PTX") for text in texts if text.endswith("+PTX")))


def _hex(node: Node, algorithm: str) -> str:
    try:
        digest = base64.b64decode(node.text(), validate=True)
    except ValueError as error:
        raise node.fault("is not base64") from error
    if len(digest) != _DIGEST_BYTES[algorithm]:
        raise node.fault(f"is not a {algorithm}: it has {len(digest)} bytes")
    return digest.hex()
