"""How revisions are read from a registry: one small protocol, one module per kind of registry."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from kernelworks import settings
from kernelworks.errors import RepositoryError, UsageError
from kernelworks.model.digest import FileEntry
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.transport.revision import Ref, Revision
from kernelworks.transport.url import is_url
from kernelworks.verify import REPUBLISH

__all__ = ["Transport", "connect", "is_url", "parse_index", "read_revision"]


class Transport(Protocol):
    """A registry. Repository ids and revisions are checked before anything is read."""

    location: str
    """As messages name it."""

    def versions(self, repo_id: str) -> Mapping[int, Ref]:
        """Version -> what it points to, the newest version first; there is one at least.

        Raises:
            UnknownRepositoryError: No such repository.
            RepositoryError: It has no version, or is malformed.
        """

    def read_index(self, repo_id: str, revision: str) -> Revision:
        """What `revision` stands for: a commit, or a ref such as `v3`.

        Raises:
            UnknownRepositoryError: No such repository.
            RepositoryError: No such revision.
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

    def trusts(self, repo_id: str, commit: str) -> bool:
        """Whether this revision, as code of its publisher, may run without the caller's consent.

        Raises:
            TransportError: The registry does not answer: then nobody knows.
        """


def connect(
    location: str | os.PathLike[str],
    caches: Sequence[Path] = (),
    *,
    agent: str = "",
    offline: bool = False,
    named_by_file: bool = False,
) -> Transport:
    """The registry at `location`: a folder as path or `file://` URL, or a server that speaks the Hub's protocol.

    Args:
        location: Path or URL.
        caches: Folders for what is far away: all are read, the first is written. Without any, the registry is asked
            each time.
        agent: What a server is told of who asks, besides this program.
        offline: Whether no server may be asked, though the environment lets it; what `caches` hold is all there is.
        named_by_file: Whether a file alone names the location, and neither the environment nor the caller: then no
            token goes there that nothing else ties to it.

    Raises:
        UsageError: A location that this version cannot read.
        TransportError: The folder is not there.
    """
    text = os.fspath(location)
    if not text:
        raise UsageError("no registry is named", hint="set KERNELWORKS_REGISTRY to the folder or URL of a registry")
    if not is_url(text):
        from kernelworks.transport.directory import DirectoryTransport  # noqa: PLC0415  # imported where it is used

        return DirectoryTransport(text)
    if caches:
        from kernelworks.transport.remembering import RememberingTransport  # noqa: PLC0415  # imported where it is used

        offline = offline or settings.offline()
        return RememberingTransport(text, caches, agent=agent, offline=offline, named_by_file=named_by_file)
    from kernelworks.transport.hub import HubTransport  # noqa: PLC0415  # imported where it is used

    return HubTransport(text, agent=agent, named_by_file=named_by_file)


def read_revision(transport: Transport, repo_id: str, revision: str, version: int | None = None) -> tuple[str, Index]:
    """(commit, index) of `revision`, which must be of `version` where one is given.

    Raises:
        RepositoryError: No such revision, it has no index, or one that is malformed or of another version.
        VerifyError: The index is not the one that the commit stands for.
    """
    said = transport.read_index(repo_id, revision)
    if said.index is None:
        raise RepositoryError(
            f"`{repo_id}` at `{revision}` has no `{INDEX_NAME}`: another program has built it",
            hint="it can be loaded; only what `kernel-build publish` has published can be listed and verified",
            repo_id=repo_id,
        )
    return said.commit, parse_index(repo_id, said.commit, said.index, version)


def parse_index(repo_id: str, commit: str, data: bytes, version: int | None = None) -> Index:
    """The index `data` of a revision, which must be of `version` where one is given.

    Raises:
        RepositoryError: It is malformed, or of another version.
    """
    index = Index.from_bytes(data, f"the index of `{repo_id}` at `{commit}`")
    if version not in (None, index.version):
        raise RepositoryError(
            f"version {version} of `{repo_id}` points to commit `{commit}`, which says that it is version"
            f" {index.version}",
            hint=REPUBLISH,
            repo_id=repo_id,
        )
    return index
