"""A kernel of this registry into a folder registry, which loaders read without a server."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from kernelworks.durable import replace_file, sync, sync_tree
from kernelworks.errors import VerifyError
from kernelworks.model.digest import FileEntry
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.transport.directory_layout import listed_files, ref_path, repo_folder, revision_folder
from kernelworks_server.documents import CARD, Documents
from kernelworks_server.records import Entry, Repo
from kernelworks_server.releases import Release, releases
from kernelworks_server.services import Services

__all__ = ["export_kernel"]


def export_kernel(services: Services, repo: Repo, root: Path) -> list[int]:
    """Write the versions of `repo` into the folder registry `root`, while nobody publishes there.

    Those that are yanked, which a folder cannot tell, and those without an index that proves their files are left out.
    A version is there when all of it is on the disk.

    Returns:
        The versions, the newest first.

    Raises:
        VerifyError: A file is not the one that the index of its version proves; versions before are there.
    """
    documents, yanked = Documents(services), services.repositories.yanks(repo)
    versions = []
    for release in releases(services.repositories.refs(repo)):
        index = documents.index(repo, release.commit)
        if isinstance(index, Index) and release.commit not in yanked:
            _write(services, repo, release, index, root)
            versions.append(release.number)
    return versions


def _write(services: Services, repo: Repo, release: Release, index: Index, root: Path) -> None:
    proved = {file.path: file for file in listed_files(index)}
    paths = [INDEX_NAME, CARD, *proved]
    entries = services.repositories.paths_info(repo, release.commit, paths)
    found = {entry.path: entry for entry in entries if entry.kind == "file"}
    _require(repo, release, proved.values(), found)
    commit = found[INDEX_NAME].sha256
    target = revision_folder(root, repo.repo_id, commit)
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = repo_folder(root, repo.repo_id) / f".export-{secrets.token_hex(8)}"
        try:
            for path, entry in sorted(found.items()):
                (fresh / path).parent.mkdir(parents=True, exist_ok=True)
                with (fresh / path).open("xb") as file:
                    file.writelines(services.blobs.read(entry.sha256))
            sync_tree(fresh)
            fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
        sync(target.parent)
    ref = ref_path(root, repo.repo_id, release.branch)
    ref.parent.mkdir(exist_ok=True)
    replace_file(ref, f"{commit}\n".encode())


def _require(repo: Repo, release: Release, proved: Iterable[FileEntry], found: dict[str, Entry]) -> None:
    faults = [file.path for file in proved if file.path not in found or found[file.path].sha256 != file.sha256]
    if faults:
        raise VerifyError(
            f"`{release.branch}` of `{repo.repo_id}` lacks what its index proves: {', '.join(faults)}",
            hint="publish this version again, or yank it",
            faults=faults,
        )
