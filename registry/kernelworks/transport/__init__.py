"""How revisions are read from a registry: one small protocol, one module per kind of registry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import BinaryIO, Protocol

from kernelworks.errors import UsageError
from kernelworks.model.index import Index

__all__ = ["Transport", "connect", "read_revision"]


class Transport(Protocol):
    """A registry. Repository ids and revisions are checked before anything is read."""

    location: str
    """As messages name it."""

    def versions(self, repo_id: str) -> Mapping[int, str]:
        """Version -> commit, the newest version first.

        Raises:
            RepositoryError: No such repository, or it is malformed.
        """

    def read_index(self, repo_id: str, revision: str) -> tuple[str, bytes]:
        """(commit, bytes of its index) of `revision`: a commit, or a ref such as `v3`.

        Raises:
            RepositoryError: No such repository or revision.
            VerifyError: The bytes are not those that the commit stands for.
        """

    def open(self, repo_id: str, commit: str, path: str) -> BinaryIO:
        """The file `path` of a revision, seekable; its bytes are not verified.

        Raises:
            RepositoryError: No such file.
        """


def connect(location: str | os.PathLike[str] | None) -> Transport:
    """The registry at `location`: a folder as path or `file://` URL.

    Raises:
        UsageError: No location, or one that this version cannot read.
        TransportError: The folder is not there.
    """
    from kernelworks.transport.directory import DirectoryTransport  # noqa: PLC0415  # imported where it is used

    text = os.fspath(location) if location else ""
    if not text:
        raise UsageError(
            "no registry is named, and this version reads no default one",
            hint="set KERNELWORKS_REGISTRY to the folder of a registry, or pass `registry=`",
        )
    return DirectoryTransport(text)


def read_revision(transport: Transport, repo_id: str, revision: str) -> tuple[str, Index]:
    """(commit, index) of `revision`.

    Raises:
        RepositoryError: No such revision, or its index is malformed.
    """
    commit, data = transport.read_index(repo_id, revision)
    return commit, Index.from_bytes(data, f"the index of `{repo_id}` at `{revision}`")
