"""Publishes a revision into a folder registry: whole or not at all, whenever the process dies."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from kernelworks.durable import replace_file, sync, sync_tree
from kernelworks.model.digest import hash_bytes
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.transport.directory_layout import INCOMING, ref_path, repo_folder, revision_folder, version_ref
from kernelworks_build.errors import PublishError
from kernelworks_build.revision import CARD, check_revision, copy_variant, faults_of, merge, read_revision

__all__ = ["Published", "publish"]


@dataclass(frozen=True)
class Published:
    """What a registry has now.

    Attributes:
        commit: Id of the new revision: the SHA-256 of its index.
        before: Commit that the version pointed to before, or None.
        version: The version whose ref points to it now.
        variants: Names of all variants of the revision.
        left_behind: Variants of the revision before, made from other sources; it stays readable by its commit.
        changed: False where the registry had exactly this revision already, every byte of it.
        not_hermetic: Names of the variants that were built without isolation from the host.
    """

    commit: str
    before: str | None
    version: int
    variants: tuple[str, ...]
    left_behind: tuple[str, ...]
    changed: bool
    not_hermetic: tuple[str, ...]


def publish(dist: Path, registry: Path, repo_id: str, *, allow_dirty: bool = False) -> Published:
    """Publish the revision in `dist` as `repo_id` into the folder `registry`.

    Every byte is checked against the index before the revision gets its name. Variants of the version's revision before
    that were made from the same sources stay. A revision that is there and damaged is written again.

    Raises:
        PublishError: Nothing to publish, bytes that differ from the index, or sources that differ from their commit.
        UsageError: `repo_id` is not `org/name`.
    """
    index = _publishable(dist, allow_dirty=allow_dirty)
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
        return Published(
            commit=commit,
            before=before,
            version=index.version,
            variants=tuple(variant.name for variant in merged.variants),
            left_behind=left_behind,
            changed=not whole or commit != before,
            not_hermetic=tuple(variant.name for variant in merged.variants if not variant.hermetic),
        )


def _publishable(dist: Path, *, allow_dirty: bool) -> Index:
    index = read_revision(dist)
    if index is None or not index.variants:
        raise PublishError(f"`{dist}` holds nothing that was built", hint="run `kernel-build build` first", path=dist)
    if index.source.dirty and not allow_dirty:
        raise PublishError(
            f"the sources differ from commit {index.source.commit}, which the index would name",
            hint="commit and build again, or pass `--allow-dirty`",
            commit=index.source.commit,
        )
    check_revision(dist, index, hint="build again; nothing was published")
    return index


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
