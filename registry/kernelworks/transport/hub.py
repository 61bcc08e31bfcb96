"""A server that speaks the Hub's protocol is a registry: its branches `v<N>` are the versions.

A commit is an id that the registry gives, and the registry is trusted for what it stands for; everything else is
proved by the index. A cold load is the refs (without a version), the index and the wheel; the publisher is asked
about where the caller has not consented. A commit whose index and kernel are on this machine needs no request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote, urlsplit

from kernelworks.errors import KernelworksError, RepositoryError, TransportError, UsageError
from kernelworks.model.decode import Node, parse_json, printable
from kernelworks.model.digest import FileEntry
from kernelworks.model.index import INDEX_NAME
from kernelworks.transport.index_cache import IndexCache
from kernelworks.transport.repo_id import check_commit_or_ref, check_repo_id, version_of

if TYPE_CHECKING:  # what asks is imported when something is asked
    from kernelworks.transport.client import Answer, Client

__all__ = ["HubTransport", "endpoint_of"]

_SCHEMES = {"http": 80, "https": 443}
_COMMIT = "[0-9a-f]{40}|[0-9a-f]{64}"
_MAX_ENDPOINT = 200  # bytes: its name in the cache must be one of a file
_OK, _PARTIAL, _UNAUTHORIZED, _NOT_FOUND = 200, 206, 401, 404


def endpoint_of(location: str) -> str:
    """The URL `location` in its one form: scheme and host in lower case, no usual port, no slash at its end.

    Raises:
        UsageError: It is not the URL of a server.
    """
    try:
        parts = urlsplit(location)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if not parts.hostname or parts.query or parts.fragment or not location.isascii() or not location.isprintable():
        raise UsageError(f"`{printable(location)}` is not the URL of a registry", hint="write `https://host[:port]`")
    if parts.username is not None:
        raise UsageError("the URL of a registry has no place for a user", hint="set HF_TOKEN to a token instead")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    scheme = parts.scheme.lower()
    authority = host if port in {None, _SCHEMES[scheme]} else f"{host}:{port}"
    endpoint = f"{scheme}://{authority}{parts.path.rstrip('/')}"
    if len(quote(endpoint, safe="")) > _MAX_ENDPOINT:
        raise UsageError(f"the URL of registry `{endpoint}` is longer than {_MAX_ENDPOINT} bytes")
    return endpoint


class HubTransport:
    """The registry at a URL.

    Args:
        location: The URL.
        cache: Folder that indexes and wheels are kept in and taken from; without one, everything is asked anew.
    """

    def __init__(self, location: str, cache: Path | None) -> None:
        self.location = endpoint_of(location)
        self._wheels = cache / "artifacts" if cache else None
        self._indexes = IndexCache(cache, self.location) if cache else None

    @cached_property
    def _client(self) -> Client:
        from kernelworks.transport.client import Client  # noqa: PLC0415  # a load without a request does without it

        return Client(self.location)

    def branches(self, repo_id: str) -> Mapping[str, str]:
        """Name -> commit of every branch.

        Raises:
            RepositoryError: No such repository.
            TransportError: The registry does not answer.
        """
        answer, data = self._document(f"api/kernels/{check_repo_id(repo_id)}/refs", repo_id)
        return dict(parse_json(data, f"`{answer.url}`").get("branches").items(_branch))

    def versions(self, repo_id: str) -> Mapping[int, str]:
        numbered = ((version_of(name), commit) for name, commit in self.branches(repo_id).items())
        versions = {version: commit for version, commit in numbered if version is not None}
        if not versions:
            raise RepositoryError(
                f"repository `{repo_id}` has no version: no branch `v1`, `v2`, ...",
                hint="`kernel-build publish` adds one",
                repo_id=repo_id,
            )
        return dict(sorted(versions.items(), reverse=True))

    def read_index(self, repo_id: str, revision: str) -> tuple[str, bytes]:
        check_repo_id(repo_id)
        pinned = bool(re.fullmatch(_COMMIT, check_commit_or_ref(revision)))
        if pinned and self._indexes and (kept := self._indexes.get(repo_id, revision)) is not None:
            return revision, kept
        answer, data = self._document(self._path(repo_id, revision, INDEX_NAME), repo_id, revision, INDEX_NAME)
        commit = answer.commit or ""
        if not re.fullmatch(_COMMIT, commit) or (pinned and commit != revision):
            raise TransportError(
                f"`{answer.url}` does not say which commit it is of"
                + (f": expected `{revision}`, got `{printable(commit[:80])}`" if commit else ""),
                hint="is this a registry, and does a proxy in between drop the header X-Repo-Commit?",
                registry=self.location,
            )
        if self._indexes:
            self._indexes.put(repo_id, commit, data)
        return commit, data

    def open(self, repo_id: str, commit: str, entry: FileEntry) -> BinaryIO:
        from kernelworks.transport.download import download, download_kept  # noqa: PLC0415  # needs the client

        @contextmanager
        def open_at(start: int) -> Iterator[Answer]:
            with self._client.open(self._path(repo_id, commit, entry.path), start) as answer:
                if answer.status not in {_OK, _PARTIAL}:
                    raise self._refusal(answer, repo_id, commit, entry.path)
                yield answer

        if self._wheels:
            return download_kept(entry, self._wheels, open_at, self._client.patiently)
        return download(entry, open_at, self._client.patiently)

    def locate(self, repo_id: str, commit: str, path: str) -> str:
        return f"{self.location}/{self._path(repo_id, commit, path)}"

    def trusts(self, publisher: str) -> bool:
        answer, data = self._client.document(f"api/organizations/{publisher}/overview")
        if answer.status == _NOT_FOUND:  # a person, or nobody
            return False
        if answer.status != _OK:
            raise self._unexpected(answer)
        flag = parse_json(data, f"`{answer.url}`").opt("trustedKernelPublisher")
        return flag is not None and flag.flag()

    def _path(self, repo_id: str, revision: str, path: str) -> str:
        return f"kernels/{check_repo_id(repo_id)}/resolve/{check_commit_or_ref(revision)}/{quote(path)}"

    def _document(
        self, path: str, repo_id: str, revision: str | None = None, file: str | None = None
    ) -> tuple[Answer, bytes]:
        answer, data = self._client.document(path)
        if answer.status != _OK:
            raise self._refusal(answer, repo_id, revision, file)
        return answer, data

    def _refusal(
        self, answer: Answer, repo_id: str, revision: str | None = None, file: str | None = None
    ) -> KernelworksError:
        """The error for an answer without what was asked for."""
        facts: dict[str, Any] = {
            "repo_id": repo_id,
            "registry": self.location,
            "status": answer.status,
            "url": answer.url,
        }
        if answer.code == "GatedRepo":
            message = f"`{repo_id}` is for those whom its publisher admits: {answer.words}"
            return RepositoryError(message, hint=f"ask on its page, `{self.location}/kernels/{repo_id}`", **facts)
        if answer.code == "RepoNotFound" or (answer.status == _UNAUTHORIZED and not answer.code):
            return RepositoryError(
                f"registry `{self.location}` shows no repository `{repo_id}` ({answer.words})",
                hint="look at its name; a private one is shown only to a token that may read it"
                + ("" if self._client.token else ", and none for this registry is set (HF_TOKEN)"),
                **facts,
            )
        if answer.code == "RevisionNotFound" and revision is not None:
            return RepositoryError(self._no_revision(repo_id, revision), **facts, revision=revision)
        if answer.code == "EntryNotFound" and file == INDEX_NAME:
            return RepositoryError(
                f"`{repo_id}` at `{revision}` has no `{INDEX_NAME}`: another program has built it",
                hint="this version loads what `kernel-build publish` has published",
                **facts,
            )
        if answer.code == "EntryNotFound":
            return RepositoryError(f"revision `{revision}` of `{repo_id}` lacks the file `{file}`", **facts)
        return self._unexpected(answer)

    def _unexpected(self, answer: Answer) -> TransportError:
        return TransportError(
            f"`{answer.url}` answered: {answer.words}",
            hint="is the URL that of a registry of kernels?" if answer.status == _NOT_FOUND else None,
            registry=self.location,
            status=answer.status,
            url=answer.url,
        )

    def _no_revision(self, repo_id: str, revision: str) -> str:
        there = self.branches(repo_id)
        versions = ", ".join(str(version_of(name)) for name in there if version_of(name) is not None) or "none"
        version = version_of(revision)
        if version is not None:
            return f"`{repo_id}` has no version {version} (there are: {versions})"
        kind = "commit" if re.fullmatch(_COMMIT, revision) else "ref"
        return f"`{repo_id}` has no {kind} `{revision}` (its versions are: {versions})"


def _branch(node: Node) -> tuple[str, str]:
    return node.get("name").text(), node.get("targetCommit").text(pattern=_COMMIT)
