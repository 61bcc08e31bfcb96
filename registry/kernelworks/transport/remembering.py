"""A server that need not be asked twice: what it has said is remembered, and used where it cannot be asked.

- A commit stands for the same files forever: what is remembered of one is used, and the server is not asked.
- Anything else is asked. Where the server does not answer, what it said before is used, with a warning that says how
  old that is; for a minute, no other question that memory can answer waits for that server.
- Offline, nothing is asked; what is not remembered is named.
- That the publisher of a commit is trusted is remembered for that commit, for a month: code that has run here may run
  again while the server is away. A no is never remembered, and no network trouble becomes a yes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from kernelworks.cache.memory import Memory, Record, age_of
from kernelworks.errors import TransportError
from kernelworks.model.decode import parse_json
from kernelworks.model.digest import FileEntry, canonical_json, hash_bytes
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.transport.directory_layout import BUILD
from kernelworks.transport.hub_paths import path_of
from kernelworks.transport.repo_id import check_commit_or_ref, check_repo_id, is_pinned, version_of, version_ref
from kernelworks.transport.revision import ListedFile, Ref, Revision
from kernelworks.transport.url import endpoint_of

if TYPE_CHECKING:  # what asks is imported when something is asked
    from kernelworks.transport.hub import HubTransport

__all__ = ["RememberingTransport"]

T = TypeVar("T")

_log = logging.getLogger("kernelworks")

_TRUST_SECONDS = 30 * 86400
_AWAY_SECONDS = 60.0

_REVISION_FACTS = ("repo_id", "yanked", "deprecated", "etag")

_away: dict[str, tuple[float, str]] = {}
"""Endpoint -> until when (monotonic, seconds) it counts as not there, and what happened."""


class RememberingTransport:
    """The registry at the URL `location`.

    Args:
        location: The URL.
        caches: Folders of the cache; the first is written.
        agent: What the registry is told of who asks, besides this program.
        offline: Whether it must not be asked.
        named_by_file: See `token_for`.
    """

    def __init__(
        self,
        location: str,
        caches: Sequence[Path],
        *,
        agent: str = "",
        offline: bool = False,
        named_by_file: bool = False,
    ) -> None:
        self.location = endpoint_of(location)
        self._memory = Memory(caches, self.location)
        self._cache = caches[0]
        self._agent = agent
        self._offline = offline
        self._named_by_file = named_by_file

    @cached_property
    def _hub(self) -> HubTransport:
        from kernelworks.transport.hub import HubTransport  # noqa: PLC0415  # a load without a request does without it

        return HubTransport(self.location, self._cache, self._agent, named_by_file=self._named_by_file)

    def versions(self, repo_id: str) -> Mapping[int, Ref]:
        refs = self._refs(repo_id)

        def ask() -> Mapping[int, Ref]:
            said = self._hub.versions(repo_id)
            for version, ref in said.items():
                self._memory.put(*refs, version_ref(version), **asdict(ref))
            for gone in self._memory.names(*refs) - set(map(version_ref, said)):
                self._memory.forget(*refs, gone)
            return said

        def recall() -> tuple[Mapping[int, Ref], float] | None:
            records = {version: record for version in self._known(repo_id) if (record := self._ref(repo_id, version))}
            known = {version: Ref(**record.facts) for version, record in records.items()}
            return (known, min(record.time for record in records.values())) if records else None

        return self._answer(f"which versions `{repo_id}` has", repo_id, ask, recall)

    def read_index(self, repo_id: str, revision: str) -> Revision:
        ref = (*self._refs(repo_id), check_commit_or_ref(revision))
        what = f"`{INDEX_NAME}` of `{repo_id}` at `{revision}`"
        if is_pinned(revision):
            return self._kept(repo_id, revision) or self._answer(what, repo_id, lambda: self._ask(repo_id, revision))

        def ask() -> Revision:
            record = self._memory.get(*ref)
            said = self._ask(repo_id, revision, self._kept(repo_id, record.facts["commit"]) if record else None)
            self._memory.put(*ref, **asdict(Ref(said.commit, said.yanked)))
            return said

        def recall() -> tuple[Revision, float] | None:
            record = self._memory.get(*ref)
            kept = self._kept(repo_id, record.facts["commit"]) if record else None
            return (kept, record.time) if record and kept else None

        return self._answer(what, repo_id, ask, recall)

    def list_files(self, repo_id: str, commit: str) -> tuple[ListedFile, ...]:
        def ask() -> bytes:
            return canonical_json([file.to_json() for file in self._hub.list_files(repo_id, commit)])

        data = self._fixed(repo_id, commit, f"{BUILD}/", ask)
        return parse_json(data, f"the list of files of `{repo_id}` at `{commit}`").items(ListedFile.from_json)

    def read(self, repo_id: str, commit: str, file: ListedFile) -> bytes:
        return self._fixed(repo_id, commit, file.path, lambda: self._hub.read(repo_id, commit, file))

    def open(self, repo_id: str, commit: str, entry: FileEntry) -> BinaryIO:
        if not self._offline:
            return self._hub.open(repo_id, commit, entry)
        if stream := self._hub.kept(entry):
            return stream
        raise self._absent(f"`{entry.path}` of `{repo_id}` at `{commit}`", repo_id)

    def locate(self, repo_id: str, commit: str, path: str) -> str:
        return f"{self.location}/{path_of(repo_id, commit, path)}"

    def trusts(self, repo_id: str, commit: str) -> bool:
        mark = ("repos", check_repo_id(repo_id), "trusted", check_commit_or_ref(commit))
        record = self._memory.get(*mark)
        if record and time() - record.time < _TRUST_SECONDS:
            return True
        trusted = self._answer(
            f"whether the publisher of `{repo_id}` is trusted", repo_id, lambda: self._hub.trusts(repo_id, commit)
        )
        if trusted:
            self._memory.put(*mark)
        return trusted

    def _answer(
        self, what: str, repo_id: str, ask: Callable[[], T], recall: Callable[[], tuple[T, float] | None] = lambda: None
    ) -> T:
        """What the registry says to `ask`; where it cannot be asked, what `recall` remembers of `what`, and since when.

        Raises:
            TransportError: It cannot be asked, and nothing is remembered.
        """
        if self._offline:
            if known := recall():
                return known[0]
            raise self._absent(what, repo_id)
        until, why = _away.get(self.location, (0.0, ""))
        known = recall() if monotonic() < until else None
        if known is None:
            try:
                return ask()
            except TransportError as error:
                known, why = recall(), error.message
                if known is None:
                    raise
                _away[self.location] = monotonic() + _AWAY_SECONDS, why
        _log.warning("%s; what it said %s of `%s` is used instead", why, age_of(known[1]), repo_id)
        return known[0]

    def _fixed(self, repo_id: str, commit: str, path: str, ask: Callable[[], bytes]) -> bytes:
        """What belongs to a commit, from memory if it is there."""
        name = ("repos", check_repo_id(repo_id), "files", check_commit_or_ref(commit), hash_bytes(path.encode()))
        if record := self._memory.get(*name):
            return record.body
        data = self._answer(f"`{path}` of `{repo_id}` at `{commit}`", repo_id, ask)
        self._memory.put(*name, body=data)
        return data

    def _ask(self, repo_id: str, revision: str, kept: Revision | None = None) -> Revision:
        said = self._hub.read_index(repo_id, revision, kept)
        said = replace(said, tree=self if said.tree else None)
        if said != self._kept(repo_id, said.commit):
            if said.index is not None:
                Index.from_bytes(said.index, f"the index of `{repo_id}` at `{revision}`")  # else it is not kept
            facts = {name: getattr(said, name) for name in _REVISION_FACTS}
            self._memory.put(*self._revision(repo_id, said.commit), body=said.index or b"", **facts)
        return said

    def _kept(self, repo_id: str, commit: str) -> Revision | None:
        record = self._memory.get(*self._revision(repo_id, commit))
        if record is None:
            return None
        index = record.body or None
        return Revision(commit=commit, index=index, tree=None if index else self, **record.facts)

    def _known(self, repo_id: str) -> list[int]:
        """The versions that are remembered, the newest first."""
        names = self._memory.names(*self._refs(repo_id))
        return sorted((version for name in names if (version := version_of(name)) is not None), reverse=True)

    def _ref(self, repo_id: str, version: int) -> Record | None:
        return self._memory.get(*self._refs(repo_id), version_ref(version))

    def _refs(self, repo_id: str) -> tuple[str, ...]:
        return ("repos", check_repo_id(repo_id), "refs")

    def _revision(self, repo_id: str, commit: str) -> tuple[str, ...]:
        return ("repos", check_repo_id(repo_id), "revisions", commit)

    def _absent(self, what: str, repo_id: str) -> TransportError:
        known = ", ".join(map(str, self._known(repo_id)))
        return TransportError(
            f"this machine does not know {what}, and registry `{self.location}` may not be asked: offline is asked for"
            " (KERNELWORKS_OFFLINE, HF_HUB_OFFLINE, or in the call)",
            hint="load it once with the network" + (f"; of its versions, this machine knows {known}" if known else ""),
            registry=self.location,
            repo_id=repo_id,
        )
