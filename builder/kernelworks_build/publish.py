"""Publishes a revision into a folder registry: whole or not at all, whenever the process dies."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from kernelworks.model.digest import hash_bytes
from kernelworks.model.index import INDEX_NAME
from kernelworks.transport.directory_layout import (
    INCOMING,
    ref_path,
    repo_folder,
    revision_folder,
    version_ref,
)
from kernelworks_build.errors import PublishError
from kernelworks_build.revision import (
    CARD,
    check_revision,
    copy_variant,
    merge,
    read_revision,
    sync,
    sync_tree,
)

__all__ = ["Published", "publish"]


@dataclass(frozen=True)
class Published:
    """What a registry has now.

    Attributes:
        commit: Id of the new revision: the SHA-256 of its index.
        version: The version whose ref points to it.
        variants: Names of all variants of the revision.
        left_behind: Variants of the revision before, made from other sources; it stays readable by its commit.
        changed: False where the registry had exactly this revision already.
    """

    commit: str
    version: int
    variants: tuple[str, ...]
    left_behind: tuple[str, ...]
    changed: bool


def publish(dist: Path, registry: Path, repo_id: str, *, allow_dirty: bool = False) -> Published:
    """Publish the revision in `dist` as `repo_id` into the folder `registry`.

    Every byte is checked against the index before anything is written. Variants of the version's revision before that
    were made from the same sources stay.

    Raises:
        PublishError: Nothing to publish, bytes that differ from the index, or sources that differ from their commit.
        UsageError: `repo_id` is not `org/name`.
    """
    index = read_revision(dist)
    if index is None:
        raise PublishError(f"`{dist}` holds no `{INDEX_NAME}`", hint="run `kernel-build build` first", path=dist)
    if index.source.dirty and not allow_dirty:
        raise PublishError(
            f"the sources differ from commit {index.source.commit}, which the wheels would name",
            hint="commit and build again, or pass `--allow-dirty`",
            commit=index.source.commit,
        )
    check_revision(dist, index)
    repo = repo_folder(registry, repo_id)
    repo.mkdir(parents=True, exist_ok=True)
    # one publisher of a repo at a time: a ref moves from the revision that was read to the one made from it
    with FileLock(repo / ".publish.lock"):
        ref = ref_path(registry, repo_id, version_ref(index.version))
        before = ref.read_text().strip() if ref.is_file() else None
        previous = revision_folder(registry, repo_id, before) if before else None
        merged, left_behind = merge(index, read_revision(previous) if previous else None)
        commit = hash_bytes(merged.to_bytes())
        names = tuple(variant.name for variant in merged.variants)
        if commit == before:
            return Published(commit, index.version, names, (), changed=False)
        target = revision_folder(registry, repo_id, commit)
        if not target.is_dir():
            for left in repo.glob(f"{INCOMING}*"):  # by a killed publisher: a living one holds the lock
                shutil.rmtree(left)
            fresh = repo / f"{INCOMING}{commit[:16]}"
            fresh.mkdir()
            new = {variant.name for variant in index.variants}
            for variant in merged.variants:
                copy_variant(variant, dist if variant.name in new else previous or dist, fresh)
            with suppress(FileNotFoundError):
                shutil.copyfile(dist / CARD, fresh / CARD)
            (fresh / INDEX_NAME).write_bytes(merged.to_bytes())
            sync_tree(fresh)
            target.parent.mkdir(exist_ok=True)
            fresh.rename(target)
            sync(target.parent)
        _replace(ref, f"{commit}\n")
        return Published(commit, index.version, names, left_behind, changed=True)


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)
    sync(path.parent)
