"""Publishes a revision into a folder registry: whole or not at all, whenever the process dies."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from filelock import FileLock

from kernelworks.durable import replace_file, sync, sync_tree
from kernelworks.model.digest import hash_bytes
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.transport.directory import folder_of
from kernelworks.transport.directory_layout import INCOMING, ref_path, repo_folder, revision_folder
from kernelworks.transport.repo_id import version_ref
from kernelworks_build.publish.published import Published
from kernelworks_build.revision import CARD, check_revision, copy_variant, faults_of, merge, read_revision

__all__ = ["publish_to_folder"]


def publish_to_folder(dist: Path, index: Index, location: str, repo_id: str) -> Published:
    """Publish `index`, whose files are in `dist`, as `repo_id` into the folder `location`.

    Every byte is checked again before the revision gets its name. A revision that is there and damaged is written
    again.

    Raises:
        PublishError: Bytes that differ from the index.
    """
    registry = folder_of(location)
    repo = repo_folder(registry, repo_id)
    repo.mkdir(parents=True, exist_ok=True)
    # one publisher of a repo at a time: a ref moves from the revision that was read to the one made from it
    with FileLock(repo / ".publish.lock"):
        ref = ref_path(registry, repo_id, version_ref(index.version))
        before = ref.read_text().strip() if ref.is_file() else None
        previous = revision_folder(registry, repo_id, before) if before else None
        merged, left_behind = merge(index, read_revision(previous) if previous else None)
        commit = hash_bytes(merged.to_bytes())
        target = revision_folder(registry, repo_id, commit)
        whole = target.is_dir() and not faults_of(target, merged)
        if not whole:
            origins = {variant.name: previous or dist for variant in merged.variants}
            _write(target, merged, origins | {variant.name: dist for variant in index.variants}, dist / CARD)
        if commit != before:
            ref.parent.mkdir(exist_ok=True)
            replace_file(ref, f"{commit}\n".encode())
        changed = not whole or commit != before
        return Published.of(merged, commit, before, left_behind=left_behind, changed=changed)


def _write(target: Path, index: Index, origins: dict[str, Path], card: Path) -> None:
    """Write the revision `target`, each variant copied from its origin; what is there is replaced."""
    repo = target.parents[1]
    for left in repo.glob(f"{INCOMING}*"):  # by a killed publisher: a living one holds the lock
        shutil.rmtree(left)
    fresh = repo / f"{INCOMING}{target.name[:16]}"
    fresh.mkdir()
    for variant in index.variants:
        copy_variant(variant, origins[variant.name], fresh)
    with suppress(FileNotFoundError):
        shutil.copyfile(card, fresh / CARD)
    (fresh / INDEX_NAME).write_bytes(index.to_bytes())
    check_revision(fresh, index, hint="build every variant again; nothing was published")
    sync_tree(fresh)
    target.parent.mkdir(exist_ok=True)
    if target.is_dir():
        target.rename(repo / f"{INCOMING}damaged-{target.name[:16]}")
    fresh.rename(target)
    sync(target.parent)
    for left in repo.glob(f"{INCOMING}*"):
        shutil.rmtree(left)
