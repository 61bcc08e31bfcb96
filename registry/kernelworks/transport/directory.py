"""A folder is a registry: `directory_layout` says what lies where."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from kernelworks.errors import RepositoryError, TransportError, UsageError
from kernelworks.model.digest import hash_bytes
from kernelworks.model.index import INDEX_NAME
from kernelworks.transport import directory_layout as layout
from kernelworks.transport.repo_id import check_commit_or_ref, check_repo_id, is_commit
from kernelworks.verify import Fault, verify_error

__all__ = ["DirectoryTransport", "folder_of"]

_REF_NAME = re.compile(r"v(0|[1-9][0-9]{0,8})", re.ASCII)
_MAX_REF_BYTES = 128


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
            f"registry `{location}` is a URL, and this version knows folders only",
            hint="name a folder by KERNELWORKS_REGISTRY or pass its path",
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
            raise TransportError(
                f"registry `{self.root}` is not a folder",
                hint="name one that `kernel-build publish` wrote, by KERNELWORKS_REGISTRY or `registry=`",
                registry=self.location,
            )

    def versions(self, repo_id: str) -> Mapping[int, str]:
        folder = layout.refs_folder(self._existing(repo_id), repo_id)
        try:
            names = [path.name for path in folder.iterdir()] if folder.exists() else []
        except OSError as error:
            raise self._unreadable(folder, error) from error
        found = {int(name[1]): name[0] for name in filter(None, map(_REF_NAME.fullmatch, names))}
        return {version: self._read_ref(repo_id, found[version]) for version in sorted(found, reverse=True)}

    def read_index(self, repo_id: str, revision: str) -> tuple[str, bytes]:
        check_commit_or_ref(revision)
        root = self._existing(repo_id)
        commit = revision if is_commit(revision) else self._read_ref(repo_id, revision)
        path = layout.revision_folder(root, repo_id, commit) / INDEX_NAME
        data = self._read(path, f"`{repo_id}` has no revision `{commit}`")
        if hash_bytes(data) != commit:
            fault = Fault(INDEX_NAME, f"sha256 {commit}", f"sha256 {hash_bytes(data)}")
            raise verify_error(str(path), (fault,), hint="the registry is damaged: publish the revision again")
        return commit, data

    def open(self, repo_id: str, commit: str, path: str) -> BinaryIO:
        file = layout.revision_folder(self._existing(repo_id), repo_id, commit) / path
        try:
            return file.open("rb")
        except FileNotFoundError:
            message = f"revision `{commit}` of `{repo_id}` lacks the file `{path}`"
            raise RepositoryError(message, hint="publish the revision again", repo_id=repo_id, file=path) from None
        except OSError as error:
            raise self._unreadable(file, error) from error

    def _existing(self, repo_id: str) -> Path:
        check_repo_id(repo_id)
        if not layout.repo_folder(self.root, repo_id).is_dir():
            known = [path.relative_to(self.root).as_posix() for path in self.root.glob("[!.]*/[!.]*") if path.is_dir()]
            near = difflib.get_close_matches(repo_id, known, 1)
            raise RepositoryError(
                f"registry `{self.location}` has no repository `{repo_id}`",
                hint=f"did you mean `{near[0]}`?" if near else None,
                repo_id=repo_id,
                registry=self.location,
            )
        return self.root

    def _read_ref(self, repo_id: str, ref: str) -> str:
        path = layout.ref_path(self.root, repo_id, ref)
        text = self._read(path, f"`{repo_id}` has no ref `{ref}`", _MAX_REF_BYTES).decode("ascii", "replace")
        commit = text.removesuffix("\n")
        if not is_commit(commit):
            raise RepositoryError(
                f"ref `{ref}` of `{repo_id}` does not hold a commit (64 lower-case hex digits in one line)",
                hint="the registry is damaged: publish the version again",
                file=str(path),
            )
        return commit

    def _read(self, path: Path, absent: str, limit: int = -1) -> bytes:
        try:
            with path.open("rb") as file:
                return file.read(limit)
        except FileNotFoundError:
            raise RepositoryError(absent, hint=f"it would be `{path}`", file=str(path)) from None
        except OSError as error:
            raise self._unreadable(path, error) from error

    def _unreadable(self, path: Path, error: OSError) -> TransportError:
        message = f"cannot read `{path}` in registry `{self.location}`: {error.strerror or error}"
        return TransportError(message, registry=self.location, file=str(path))
