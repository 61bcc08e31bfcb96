"""How revisions are read from a registry: one small protocol, one module per kind of registry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

from kernelworks.errors import RepositoryError, UsageError
from kernelworks.model.digest import FileEntry
from kernelworks.model.index import Index
from kernelworks.verify import REPUBLISH

__all__ = ["Transport", "connect", "is_url", "read_revision"]


class Transport(Protocol):
    """A registry. Repository ids and revisions are checked before anything is read."""

    location: str
    """As messages name it."""

    def versions(self, repo_id: str) -> Mapping[int, str]:
        """Version -> commit, the newest version first; there is one at least.

        Raises:
            RepositoryError: No such repository, it has no version, or it is malformed.
        """

    def read_index(self, repo_id: str, revision: str) -> tuple[str, bytes]:
        """(commit, bytes of its index) of `revision`: a commit, or a ref such as `v3`.

        Raises:
            RepositoryError: No such repository or revision.
            VerifyError: The bytes are not those that the commit stands for.
        """

    def open(self, repo_id: str, commit: str, entry: FileEntry) -> BinaryIO:
        """A file that the index of a revision lists, seekable; the reader verifies its bytes.

        Raises:
            RepositoryError: No such file.
            TransportError: It cannot be read.
            VerifyError: A registry that is far away has other bytes; nothing else of it was kept.
        """

    def locate(self, repo_id: str, commit: str, path: str) -> str:
        """Where the file `path` of a revision would be, in full, as messages name it."""

    def trusts(self, publisher: str) -> bool:
        """Whether code of `publisher`, the `org` of `org/name`, may run without the caller's consent.

        Raises:
            TransportError: The registry does not answer: then nobody knows.
        """


def connect(location: str | os.PathLike[str] | None, cache: Path | None = None) -> Transport:
    """The registry at `location`: a folder as path or `file://` URL, or a server that speaks the Hub's protocol.

    Args:
        location: Path or URL.
        cache: Where copies of what is far away are kept and taken from; without it, the registry is asked anew.

    Raises:
        UsageError: No location, or one that this version cannot read.
        TransportError: The folder is not there.
    """
    text = os.fspath(location) if location else ""
    if not text:
        raise UsageError(
            "no registry is named, and this version reads no default one",
            hint="set KERNELWORKS_REGISTRY to the folder or URL of a registry, or name the registry in the call",
        )
    if is_url(text):
        from kernelworks.transport.hub import HubTransport  # noqa: PLC0415  # imported where it is used

        return HubTransport(text, cache)
    from kernelworks.transport.directory import DirectoryTransport  # noqa: PLC0415  # imported where it is used

    return DirectoryTransport(text)


def is_url(location: str) -> bool:
    """Whether `location` names a server, and not a folder."""
    scheme, colon, _ = location.partition("://")
    return bool(colon) and scheme.lower() in {"http", "https"}


def read_revision(transport: Transport, repo_id: str, revision: str, version: int | None = None) -> tuple[str, Index]:
    """(commit, index) of `revision`, which must be of `version` where one is given.

    Raises:
        RepositoryError: No such revision, its index is malformed or of another version.
        VerifyError: The index is not the one that the commit stands for.
    """
    commit, data = transport.read_index(repo_id, revision)
    index = Index.from_bytes(data, f"the index of `{repo_id}` at `{revision}`")
    if version not in (None, index.version):
        raise RepositoryError(
            f"version {version} of `{repo_id}` points to commit `{commit}`, which says that it is version"
            f" {index.version}",
            hint=REPUBLISH,
            repo_id=repo_id,
        )
    return commit, index
