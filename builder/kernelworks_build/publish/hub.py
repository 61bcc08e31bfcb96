"""Publishes to a server that speaks the Hub's protocol: one commit on the version's branch.

The commit names the head that it was made from, and the registry refuses it where the branch has moved since. A
version that is new gets its branch after its commit, which is made on a branch that nobody loads from: so whenever
the process dies, no version points to something half-published.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import HfHubHTTPError, HTTPError  # type: ignore[attr-defined]  # of whatever it speaks with
from huggingface_hub.hf_api import RepoFile

from kernelworks._version import __version__
from kernelworks.errors import RepositoryError, TransportError
from kernelworks.model.decode import printable
from kernelworks.model.digest import FileEntry
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.transport import read_revision
from kernelworks.transport.directory_layout import BUILD, listed_files
from kernelworks.transport.hub import HubTransport
from kernelworks.transport.repo_id import version_ref, work_ref
from kernelworks.transport.revision import Ref
from kernelworks.transport.token import token_for
from kernelworks_build.errors import PublishError
from kernelworks_build.publish.published import Published
from kernelworks_build.revision import CARD, merge

__all__ = ["publish_to_hub"]

_Operation = CommitOperationAdd | CommitOperationDelete

_KIND = "kernel"
_OURS = (f"{BUILD}/", "wheels/")
"""Where the index lists every file, and what it does not list goes."""
_DENIED = {401, 403}
_MOVED = {409, 412}


def publish_to_hub(dist: Path, index: Index, location: str, repo_id: str) -> Published:
    """Publish `index`, whose files are in `dist`, as `repo_id` to the server at the URL `location`.

    The repository is created where there is none. What the registry has already is not sent again.

    Raises:
        PublishError: The registry refuses, lacks what the revision before had, or has moved meanwhile.
        TransportError: It does not answer, or serves something else than it was sent.
    """
    registry = HubTransport(location)
    token = token_for(registry.location)
    api = HfApi(registry.location, token=token or False, library_name="kernelworks", library_version=__version__)
    branch = version_ref(index.version)
    with _refusals(registry.location, repo_id, has_token=bool(token)):
        branches = {name: ref.commit for name, ref in _branches(registry, api, repo_id).items()}
        before = branches.get(branch)
        head = before or branches.get("main")
        there = _tree(api, repo_id, head)
        old = _index_of(registry, repo_id, before) if before and INDEX_NAME in there else None
        merged, _ = merge(index, old)
        _check_kept(merged, index, there)
        operations: list[_Operation] = [*_additions(dist, index, merged, there), *_deletions(merged, there)]
        commit = before
        if commit is None or operations:
            commit = _commit(api, repo_id, operations, index, head=head, is_new=before is None)
    if registry.read_index(repo_id, commit).index != merged.to_bytes():
        raise TransportError(
            f"registry `{registry.location}` serves another `{INDEX_NAME}` for commit `{commit}` than it was sent",
            hint="load nothing of it before whoever runs the registry knows why",
            registry=registry.location,
            commit=commit,
        )
    left_behind = sorted(_variants(there) - {variant.name for variant in merged.variants}) if before else ()
    return Published.of(merged, commit, before, left_behind=tuple(left_behind), changed=commit != before)


def _branches(registry: HubTransport, api: HfApi, repo_id: str) -> Mapping[str, Ref]:
    """The branches of the repository, which is there afterwards."""
    try:
        return registry.branches(repo_id)
    except RepositoryError:
        api.create_repo(repo_id, repo_type=_KIND, exist_ok=True)
        return registry.branches(repo_id)


def _tree(api: HfApi, repo_id: str, commit: str | None) -> Mapping[str, RepoFile]:
    """Every file of a revision by its path."""
    if commit is None:
        return {}
    entries = api.list_repo_tree(repo_id, recursive=True, revision=commit, repo_type=_KIND)
    return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}


def _variants(tree: Mapping[str, RepoFile]) -> set[str]:
    return {path.split("/")[1] for path in tree if path.startswith(f"{BUILD}/")}


def _index_of(registry: HubTransport, repo_id: str, commit: str) -> Index:
    return read_revision(registry, repo_id, commit)[1]


def _check_kept(merged: Index, new: Index, there: Mapping[str, RepoFile]) -> None:
    """Refuse where the registry has not all files of the variants that stay."""
    kept = set(listed_files(merged)) - set(listed_files(new))
    if faults := sorted(entry.path for entry in kept if not _is(there.get(entry.path), entry)):
        raise PublishError(
            f"the registry lacks files of variants that would stay, or has others: {', '.join(faults)}",
            hint="build every variant again; nothing was published",
            files=faults,
        )


def _additions(dist: Path, new: Index, merged: Index, there: Mapping[str, RepoFile]) -> Iterator[CommitOperationAdd]:
    """What is sent: the files of the new variants, the index and the card, but nothing that is there already."""
    contents: dict[str, Path | bytes] = {entry.path: dist / entry.path for entry in listed_files(new)}
    contents[INDEX_NAME] = merged.to_bytes()
    if (dist / CARD).is_file():
        contents[CARD] = dist / CARD
    for path, content in contents.items():
        addition = CommitOperationAdd(path, content)
        info = addition.upload_info
        entry = FileEntry(path, info.size, info.sha256.hex())
        if not _is(there.get(path), entry, content):
            yield addition


def _deletions(merged: Index, there: Mapping[str, RepoFile]) -> Iterator[CommitOperationDelete]:
    listed = {entry.path for entry in listed_files(merged)}
    return (CommitOperationDelete(path) for path in there if path.startswith(_OURS) and path not in listed)


def _is(file: RepoFile | None, entry: FileEntry, content: Path | bytes | None = None) -> bool:
    """Whether the registry's file is `entry`; of small ones it tells a git id only, which needs the `content`."""
    if file is None or file.size != entry.size:
        return False
    if file.lfs is not None:
        return file.lfs.sha256 == entry.sha256
    if content is None:
        return True
    data = content if isinstance(content, bytes) else content.read_bytes()
    return file.blob_id == hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _commit(
    api: HfApi,
    repo_id: str,
    operations: list[_Operation],
    new: Index,
    *,
    head: str | None,
    is_new: bool,
) -> str:
    """The id of one commit with `operations` on top of `head`, which the version's branch points to afterwards."""
    branch = version_ref(new.version)
    work = work_ref(new.version) if is_new else branch
    if is_new:
        api.create_branch(repo_id, branch=work, revision=head, repo_type=_KIND)
    try:
        commit = api.create_commit(
            repo_id,
            operations,
            commit_message=f"Publish {new.name} version {new.version}",
            commit_description="\n".join(variant.name for variant in new.variants),
            repo_type=_KIND,
            revision=work,
            parent_commit=head,
        ).oid
        if is_new:
            api.create_branch(repo_id, branch=branch, revision=commit, repo_type=_KIND)
    finally:
        if is_new:
            with suppress(HTTPError):
                api.delete_branch(repo_id, branch=work, repo_type=_KIND)
    return commit


@contextmanager
def _refusals(location: str, repo_id: str, *, has_token: bool) -> Iterator[None]:
    """Say in words what huggingface_hub raises."""
    facts = {"registry": location, "repo_id": repo_id}
    try:
        yield
    except HfHubHTTPError as error:
        status = error.response.status_code
        words = printable(error.response.headers.get("X-Error-Message") or f"{status}")
        if status in _MOVED:
            message = f"`{repo_id}` has changed in registry `{location}` while this was published ({words})"
            raise PublishError(message, hint="nothing was published: run the command again", **facts) from error
        hint = None
        if status in _DENIED:
            hint = (
                f"does the token have the right to write to `{repo_id}`?"
                if has_token
                else "set HF_TOKEN to a token of this registry that may write"
            )
        raise PublishError(f"registry `{location}` refuses `{repo_id}`: {words}", hint=hint, **facts) from error
    except HTTPError as error:
        message = f"registry `{location}` stopped answering: {error or type(error).__name__}"
        raise TransportError(message, hint="nothing was published: run the command again", **facts) from error
    except (ValueError, RuntimeError) as error:  # a card that the registry refuses; an upload by way of hf_xet
        raise PublishError(f"`{repo_id}` cannot be published to registry `{location}`: {error}", **facts) from error
