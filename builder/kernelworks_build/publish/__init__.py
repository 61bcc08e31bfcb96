"""Publishes what was built: checked first, then into a folder or to a server, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from kernelworks.model.index import Index
from kernelworks.transport import is_url
from kernelworks.transport.repo_id import check_repo_id
from kernelworks_build.errors import PublishError
from kernelworks_build.publish.folder import publish_to_folder
from kernelworks_build.publish.published import Published
from kernelworks_build.revision import check_revision, read_revision

__all__ = ["Published", "publish"]


def publish(
    dist: Path,
    registry: str | os.PathLike[str],
    repo_id: str,
    *,
    allow_dirty: bool = False,
    uncommitted: Sequence[str] = (),
) -> Published:
    """Publish the revision in `dist` as `repo_id` into `registry`, a folder or the URL of a server.

    Every byte is checked against the index before. Variants of the version's revision before that were made from the
    same sources stay. `uncommitted` are the sources that are known to differ from git's commit, for the message.

    Raises:
        PublishError: Nothing to publish, bytes that differ from the index, sources that differ from their commit, or
            a registry that refuses.
        TransportError: The server does not answer.
        UsageError: `repo_id` is not `org/name`, or `registry` is no registry.
    """
    check_repo_id(repo_id)
    index = _publishable(dist, uncommitted, allow_dirty=allow_dirty)
    location = os.fspath(registry)
    if is_url(location):
        from kernelworks_build.publish.hub import publish_to_hub  # noqa: PLC0415  # huggingface_hub is slow to import

        return publish_to_hub(dist, index, location, repo_id)
    return publish_to_folder(dist, index, location, repo_id)


def _publishable(dist: Path, uncommitted: Sequence[str], *, allow_dirty: bool) -> Index:
    index = read_revision(dist)
    if index is None or not index.variants:
        raise PublishError(f"`{dist}` holds nothing that was built", hint="run `kernel-build build` first", path=dist)
    if index.source.dirty and not allow_dirty:
        listed = f": {', '.join(f'`{path}`' for path in uncommitted)}" if uncommitted else ""
        raise PublishError(
            f"the sources differ from commit {index.source.commit}, which the index would name{listed}",
            hint="commit and build again, or pass `--allow-dirty`",
            commit=index.source.commit,
            uncommitted=list(uncommitted),
        )
    check_revision(dist, index, hint="build again; nothing was published")
    return index
