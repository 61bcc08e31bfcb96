"""A server that speaks the Hub's protocol is a registry: its branches `v<N>` are the versions.

A commit is an id that the registry gives, and the registry is trusted for what it stands for; everything else is
proved by the index. Repositories that other programs have built have none: their files are listed instead. Nothing is
remembered here: `remembering` does that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from kernelworks.errors import KernelworksError, RepositoryError, TransportError
from kernelworks.model.decode import Node, parse_json, printable
from kernelworks.model.digest import FileEntry
from kernelworks.model.index import INDEX_NAME
from kernelworks.transport import hub_refusals
from kernelworks.transport.client import Answer, Client
from kernelworks.transport.download import download, download_kept, kept
from kernelworks.transport.hub_paths import path_of, publisher_path, refs_path, repo_id_of, tree_path
from kernelworks.transport.repo_id import COMMIT_PATTERN, is_pinned, version_of
from kernelworks.transport.revision import ListedFile, Ref, Revision
from kernelworks.transport.url import endpoint_of
from kernelworks.verify import REPUBLISH, verify_error

__all__ = ["HubTransport"]

_OK, _PARTIAL, _UNCHANGED, _NOT_FOUND = 200, 206, 304, 404
_NEXT = re.compile(r'<([^<>]+)>\s*;\s*rel="next"', re.ASCII)
_MOST_PAGES = 100


class HubTransport:
    """The registry at a URL.

    Args:
        location: The URL.
        cache: Folder that wheels are kept in and taken from; without one, they are downloaded each time.
        agent: What the registry is told of who asks, besides this program.
        named_by_file: See `token_for`.
    """

    def __init__(
        self, location: str, cache: Path | None = None, agent: str = "", *, named_by_file: bool = False
    ) -> None:
        self.location = endpoint_of(location)
        self._wheels = cache / "artifacts" if cache else None
        self._client = Client(self.location, agent, named_by_file=named_by_file)
        self._trusted: dict[tuple[str, str], bool] = {}

    def branches(self, repo_id: str) -> Mapping[str, Ref]:
        """Every branch by its name.

        Raises:
            RepositoryError: No such repository.
            TransportError: The registry does not answer.
        """
        answer, data = self._document(refs_path(repo_id), repo_id)
        return dict(parse_json(data, f"`{answer.url}`").get("branches").items(_branch))

    def versions(self, repo_id: str) -> Mapping[int, Ref]:
        return versions_of(repo_id, self.branches(repo_id))

    def read_index(self, repo_id: str, revision: str, kept: Revision | None = None) -> Revision:
        """As `Transport.read_index`; `kept` is what the registry has said before, and need not say again."""
        answer, data = self._client.document(path_of(repo_id, revision, INDEX_NAME), kept.etag if kept else None)
        absent = answer.code == "EntryNotFound"
        if answer.status not in {_OK, _UNCHANGED} and not absent:
            raise self._refusal(answer, repo_id, revision)
        commit = answer.commit
        if not is_pinned(commit) or (is_pinned(revision) and commit != revision):
            raise TransportError(
                f"`{answer.url}` does not say which commit it is of"
                + (f": expected `{revision}`, got `{printable(commit[:80])}`" if commit else ""),
                hint="is this a registry, and does a proxy in between drop the header X-Repo-Commit?",
                registry=self.location,
            )
        name = self._name_now(repo_id, answer)
        if trusted := answer.said.get("X-Kernel-Trusted"):
            self._trusted[name, commit] = trusted == "true"
        said = Revision(
            repo_id=name,
            commit=commit,
            index=None if absent else data,
            tree=self if absent else None,
            yanked=answer.notice("X-Kernel-Yanked"),
            deprecated=answer.notice("X-Kernel-Deprecated"),
            etag=None if absent else answer.said.get("ETag"),
        )
        return replace(said, index=kept.index) if kept and answer.status == _UNCHANGED else said

    def list_files(self, repo_id: str, commit: str) -> tuple[ListedFile, ...]:
        path = tree_path(repo_id, commit)
        found: list[ListedFile] = []
        for _ in range(_MOST_PAGES):
            answer, data = self._client.document(path)
            if answer.code == "EntryNotFound":
                return ()
            if answer.status != _OK:
                raise self._refusal(answer, repo_id, commit)
            entries = parse_json(data, f"`{answer.url}`").items(_listed)
            found.extend(entry for entry in entries if entry)
            following = _NEXT.search(answer.said.get("Link", ""))
            if following is None:
                return tuple(sorted(found, key=lambda entry: entry.path))
            path = self._below(following[1])
        raise TransportError(f"`{answer.url}` is the last of {_MOST_PAGES} pages that were read, and there are more")

    def read(self, repo_id: str, commit: str, file: ListedFile) -> bytes:
        answer, data = self._client.document(path_of(repo_id, commit, file.path))
        if answer.status != _OK:
            raise self._refusal(answer, repo_id, commit, file.path)
        if fault := file.fault_of(data):
            raise verify_error(answer.url, (fault,), hint=REPUBLISH)
        return data

    def open(self, repo_id: str, commit: str, entry: FileEntry) -> BinaryIO:
        @contextmanager
        def open_at(start: int) -> Iterator[Answer]:
            with self._client.open(path_of(repo_id, commit, entry.path), start) as answer:
                if answer.status not in {_OK, _PARTIAL}:
                    raise self._refusal(answer, repo_id, commit, entry.path)
                yield answer

        if self._wheels:
            return download_kept(entry, self._wheels, open_at, self._client.patiently)
        return download(entry, open_at, self._client.patiently)

    def kept(self, entry: FileEntry) -> BinaryIO | None:
        """The file at its start, if an earlier download has left it undamaged."""
        return kept(entry, self._wheels) if self._wheels else None

    def locate(self, repo_id: str, commit: str, path: str) -> str:
        return f"{self.location}/{path_of(repo_id, commit, path)}"

    def trusts(self, repo_id: str, commit: str) -> bool:
        if (repo_id, commit) in self._trusted:  # our own registry says it with the index, the Hub of the publisher
            return self._trusted[repo_id, commit]
        answer, data = self._client.document(publisher_path(repo_id))
        if answer.status == _NOT_FOUND:  # a person, or nobody
            return False
        if answer.status != _OK:
            raise hub_refusals.unexpected(answer, self.location)
        flag = parse_json(data, f"`{answer.url}`").opt("trustedKernelPublisher")
        return flag is not None and flag.flag()

    def _document(self, path: str, repo_id: str) -> tuple[Answer, bytes]:
        answer, data = self._client.document(path)
        if answer.status != _OK:
            raise self._refusal(answer, repo_id)
        return answer, data

    def _refusal(
        self, answer: Answer, repo_id: str, revision: str | None = None, file: str | None = None
    ) -> KernelworksError:
        """The error for an answer without what was asked for."""
        if answer.code == "RevisionNotFound" and revision is not None:
            there = sorted(version for name in self.branches(repo_id) if (version := version_of(name)) is not None)
            return hub_refusals.no_revision(answer, self.location, repo_id, revision, there)
        return hub_refusals.refusal(
            answer, self.location, repo_id, f"`{file}` at `{revision}`", bool(self._client.token)
        )

    def _name_now(self, repo_id: str, answer: Answer) -> str:
        """The name of the repository that has answered: another one where it was renamed."""
        return repo_id_of(answer.own_url.removeprefix(f"{self.location}/")) or repo_id

    def _below(self, url: str) -> str:
        """The path of `url`, which has to be one of this registry."""
        path = url.removeprefix(f"{self.location}/")
        if path == url:
            raise TransportError(
                f"registry `{self.location}` says that a list goes on at `{printable(url[:80])}`, which is not its own",
                registry=self.location,
            )
        return path


def versions_of(repo_id: str, branches: Mapping[str, Ref]) -> Mapping[int, Ref]:
    """The branches that are versions, the newest first.

    Raises:
        RepositoryError: There are none.
    """
    versions = {version: ref for name, ref in branches.items() if (version := version_of(name)) is not None}
    if not versions:
        raise RepositoryError(
            f"repository `{repo_id}` has no version: no branch `v1`, `v2`, ...",
            hint="`kernel-build publish` adds one"
            + ('; or name a branch: `revision="main"`' if "main" in branches else ""),
            repo_id=repo_id,
        )
    return dict(sorted(versions.items(), reverse=True))


def _branch(node: Node) -> tuple[str, Ref]:
    yanked = node.opt("yanked")
    return node.get("name").text(), Ref(
        node.get("targetCommit").text(pattern=COMMIT_PATTERN), yanked.text() if yanked else None
    )


def _listed(node: Node) -> ListedFile | None:
    """The file that an entry of a tree is, or None for a folder."""
    return ListedFile.from_json(node) if node.get("type").text() == "file" else None
