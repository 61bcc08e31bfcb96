"""A folder is a registry: `directory_layout` says what lies where."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from kernelworks.errors import RepositoryError, TransportError, UnknownRepositoryError, UsageError
from kernelworks.model.digest import FileEntry, hash_bytes
from kernelworks.model.index import INDEX_NAME
from kernelworks.transport import directory_layout as layout
from kernelworks.transport.repo_id import check_commit_or_ref, check_repo_id, is_commit, version_of, version_ref
from kernelworks.transport.revision import Ref, Revision
from kernelworks.verify import REPUBLISH, Fault, verify_error

__all__ = ["DirectoryTransport", "folder_of"]

_MAX_REF_BYTES = 128
_SHOWN = 5
_NEAR = 0.75
"""How alike a name must be to be offered: more than a common prefix makes it."""


def folder_of(location: str) -> Path:
    """The folder that `location`, a path or a `file://` URL, names; it need not exist.

    Raises:
        UsageError: Another kind of URL.
    """
    if "://" not in location:
        return Path(location).expanduser().absolute()
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415  # rarely needed

    parts = urlsplit(location)
    if parts.scheme != "file":
        raise UsageError(
            f"registry `{location}` is a URL of a kind that no registry has",
            hint="name a folder, or a URL that starts with `https://`, `http://` or `file://`",
            registry=location,
        )
    if parts.netloc not in {"", "localhost"} or not parts.path or parts.query or parts.fragment:
        raise UsageError(f"`{location}` is not a file URL", hint="write `file:///path/to/folder`", registry=location)
    return Path(unquote(parts.path))


class DirectoryTransport:
    """The registry in the folder `root`."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = folder_of(os.fspath(root))
        self.location = str(self.root)
        if not self.root.is_dir():
            state = "is a file, not a folder" if self.root.exists() else "does not exist"
            raise TransportError(
                f"registry `{self.root}` {state}",
                hint="name the folder that `kernel-build publish` wrote to, by KERNELWORKS_REGISTRY or in the call",
                registry=self.location,
            )

    def versions(self, repo_id: str) -> Mapping[int, Ref]:
        versions = self._versions(repo_id)
        if not versions:
            raise RepositoryError(
                f"repository `{repo_id}` has no version", hint="`kernel-build publish` adds one", repo_id=repo_id
            )
        return {version: Ref(self._read_ref(repo_id, version_ref(version))) for version in versions}

    def read_index(self, repo_id: str, revision: str) -> Revision:
        check_commit_or_ref(revision)
        root = self._existing(repo_id)
        commit = revision if is_commit(revision) else self._read_ref(repo_id, revision)
        path = layout.revision_folder(root, repo_id, commit) / INDEX_NAME
        data = self._read(path)
        if data is None:
            raise self._no_revision(repo_id, commit, path)
        if hash_bytes(data) != commit:
            fault = Fault(".", f"sha256 {commit}", f"sha256 {hash_bytes(data)}")
            raise verify_error(str(path), (fault,), hint=REPUBLISH)
        return Revision(repo_id, commit, data)

    def open(self, repo_id: str, commit: str, entry: FileEntry) -> BinaryIO:
        file = layout.revision_folder(self._existing(repo_id), repo_id, commit) / entry.path
        try:
            return file.open("rb")
        except FileNotFoundError:
            message = f"revision `{commit}` of `{repo_id}` lacks the file `{entry.path}`"
            raise RepositoryError(message, hint=REPUBLISH, repo_id=repo_id, file=entry.path) from None
        except OSError as error:
            raise self._unreadable(file, error) from error

    def locate(self, repo_id: str, commit: str, path: str) -> str:
        return str(layout.revision_folder(self.root, repo_id, commit) / path)

    def trusts(self, repo_id: str, commit: str) -> bool:  # noqa: ARG002  # part of the protocol
        return True  # whoever names the folder does

    def _existing(self, repo_id: str) -> Path:
        check_repo_id(repo_id)
        if not layout.repo_folder(self.root, repo_id).is_dir():
            known = [path.relative_to(self.root).as_posix() for path in self.root.glob("[!.]*/[!.]*") if path.is_dir()]
            raise UnknownRepositoryError(
                f"registry `{self.location}` has no repository `{repo_id}`",
                hint=_instead(repo_id, sorted(known)),
                repo_id=repo_id,
                registry=self.location,
            )
        return self.root

    def _versions(self, repo_id: str) -> list[int]:
        """The versions that have a ref, the newest first."""
        folder = layout.refs_folder(self._existing(repo_id), repo_id)
        try:
            names = [path.name for path in folder.iterdir()] if folder.exists() else []
        except OSError as error:
            raise self._unreadable(folder, error) from error
        return sorted((version for version in map(version_of, names) if version is not None), reverse=True)

    def _read_ref(self, repo_id: str, ref: str) -> str:
        path = layout.ref_path(self.root, repo_id, ref)
        data = self._read(path, _MAX_REF_BYTES)
        if data is None:
            version = version_of(ref)
            there = ", ".join(map(str, self._versions(repo_id))) or "none"
            raise RepositoryError(
                f"`{repo_id}` has no {f'ref `{ref}`' if version is None else f'version {version}'}"
                f" ({'its versions are' if version is None else 'there are'}: {there})",
                repo_id=repo_id,
                file=str(path),
            )
        commit = data.decode("ascii", "replace").removesuffix("\n")
        if not is_commit(commit):
            raise RepositoryError(
                f"ref `{ref}` of `{repo_id}` does not hold a commit (64 lower-case hex digits in one line)",
                hint=REPUBLISH,
                file=str(path),
            )
        return commit

    def _no_revision(self, repo_id: str, commit: str, path: Path) -> RepositoryError:
        there = self.versions(repo_id)
        if Ref(commit) in there.values():
            message, hint = f"`{repo_id}` lacks the file `{path}`, which a version points to", REPUBLISH
        else:
            known = "; ".join(f"version {version} is `{there[version].commit}`" for version in list(there)[:_SHOWN])
            message, hint = f"`{repo_id}` has no revision `{commit}`", known
        return RepositoryError(message, hint=hint, repo_id=repo_id, file=str(path))

    def _read(self, path: Path, limit: int = -1) -> bytes | None:
        """The bytes of `path`, at most `limit` of them, or None where there is no such file."""
        try:
            with path.open("rb") as file:
                return file.read(limit)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(path, error) from error

    def _unreadable(self, path: Path, error: OSError) -> TransportError:
        message = f"cannot read `{path}` in registry `{self.location}`: {error.strerror or error}"
        return TransportError(message, registry=self.location, file=str(path))


def _instead(repo_id: str, known: list[str]) -> str:
    """What to ask for instead of `repo_id`: one of `known` that is spelled much like it, else what there is."""

    def alike(part: str, other: str) -> bool:
        return bool(difflib.get_close_matches(part, [other], 1, _NEAR))

    near = [other for other in known if all(map(alike, repo_id.split("/"), other.split("/")))]
    if near:
        return f"did you mean `{difflib.get_close_matches(repo_id, near, 1)[0]}`?"
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return f"it holds: {', '.join(f'`{name}`' for name in known[:_SHOWN])}{more}" if known else "it holds none"
