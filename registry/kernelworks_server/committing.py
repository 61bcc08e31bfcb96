"""How a commit comes to be: its operations done on a folder in memory, its branch moved by compare-and-set."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select, update

from kernelworks.model.index import INDEX_NAME
from kernelworks_server import events, history, trees
from kernelworks_server.blobs import Blobs
from kernelworks_server.config import Limits
from kernelworks_server.contents import Contents, no_entry
from kernelworks_server.database import tables
from kernelworks_server.database.engine import Database, now, upsert
from kernelworks_server.errors import PreconditionFailed, RevisionNotFound, TooLarge, Unprocessable
from kernelworks_server.records import (
    AddFile,
    CopyFile,
    DeleteFile,
    DeleteFolder,
    Operation,
    Repo,
    check_message,
    check_operations,
)
from kernelworks_server.rights import Actor, require
from kernelworks_server.shelf import Shelf
from kernelworks_server.uploads import Uploads, keep_for_good

__all__ = ["Committing"]


class Committing:
    """Commits to the branches of all repositories of one registry."""

    def __init__(
        self, database: Database, blobs: Blobs, limits: Limits, contents: Contents, uploads: Uploads, shelf: Shelf
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._limits = limits
        self._contents = contents
        self._uploads = uploads
        self._shelf = shelf

    def commit(
        self,
        actor: Actor,
        repo: Repo,
        branch: str,
        operations: Sequence[Operation],
        *,
        message: str,
        description: str,
        parent: str | None,
    ) -> str:
        """The id of the new head of `branch`, on the disk; the old head where `operations` change nothing.

        Deletions are done first, whatever the order. Of commits that run at the same time one waits for the other, and
        then fails if it gave a parent that is the head no longer.

        Args:
            actor: Who commits.
            repo: Where.
            branch: A branch that exists.
            operations: What changes.
            message: The first line.
            description: The rest, or nothing.
            parent: The commit that the operations were prepared on, or None to commit on whatever is there.

        Raises:
            BadRequest: A path cannot be, or is given twice.
            Conflict: Paths stand in each other's way.
            EntryNotFound: What is to be copied or deleted is not there.
            PreconditionFailed: `parent` is not the head.
            RevisionNotFound: No such branch.
            TooLarge: Too many operations, or a file that must go through LFS.
            Unprocessable: Bytes were not uploaded to this repository, or have another size.
        """
        require(actor, "write", repo, f"write `{repo.repo_id}`")
        check_message(message + description, self._limits.message)
        check_operations(operations, self._limits.operations)
        files = self._files([operation for operation in operations if isinstance(operation, AddFile)], repo)
        self._shelf.foresee(files.get(INDEX_NAME))
        refs = tables.refs
        chosen = (refs.c.repo == repo.id) & (refs.c.kind == "branch") & (refs.c.name == branch)
        with self._database.write() as connection:
            history.claim(connection, repo.id)
            head = connection.scalar(select(refs.c.commit).where(chosen))
            if head is None:
                raise RevisionNotFound(f"`{repo.repo_id}` has no branch `{branch[:200]}`", revision=branch)
            if parent not in {None, head}:
                raise PreconditionFailed(
                    f"the branch `{branch}` is at `{head}`, not at `{parent}`: somebody committed meanwhile",
                    hint="look at what changed and commit again",
                    expected=parent,
                    got=head,
                )
            old = history.commit_row(connection, repo, head).tree
            workspace = trees.Workspace(old, self._contents.folder, self._limits.folder)
            _delete(workspace, operations, repo, head)
            for path, file in files.items():
                workspace.put(path, file)
            for operation in operations:
                if isinstance(operation, CopyFile):
                    workspace.put(operation.path, self._source(connection, repo, operation, head))
            tree, encodings = workspace.seal()
            if tree == old:
                return str(head)
            rows = [{"sha256": key, "data": data} for key, data in sorted(encodings.items())]
            upsert(connection, tables.trees, rows)  # in one order: other repositories may add the same ones
            keep_for_good(connection, repo, {file.sha256 for file in files.values()})
            new = history.add_commit(
                connection, repo.id, repo.repo_id, head, tree, actor.name or "", message, description
            )
            moved = connection.execute(update(refs).where(chosen, refs.c.commit == head).values(commit=new)).rowcount
            if moved != 1:
                raise PreconditionFailed(f"the branch `{branch}` moved meanwhile", hint="commit again")
            connection.execute(update(tables.repos).where(tables.repos.c.id == repo.id).values(updated=now()))
            self._shelf.record(connection, repo.id, branch, new)
            events.record(connection, actor.name, "commit", repo.repo_id, commit=new, branch=branch, parent=head)
            return new

    def _files(self, added: Sequence[AddFile], repo: Repo) -> dict[str, trees.File]:
        """The files to add by their paths, each proved to be held by this repository."""
        sizes = self._uploads.held(repo, {operation.sha256 for operation in added})
        files = {}
        for operation in added:
            path, sha256, size = operation.path, operation.sha256, operation.size
            if sizes.get(sha256) != size or self._blobs.size(sha256) != size:
                raise Unprocessable(
                    f"`{path}`: no {size} bytes with the SHA-256 `{sha256[:64]}` were uploaded to `{repo.repo_id}`",
                    hint="upload the file again",
                    path=path,
                    sha256=sha256,
                )
            if not operation.lfs and size > self._limits.regular_file:
                raise TooLarge(
                    f"`{path}` has {size} bytes; from {self._limits.regular_file} on a file must go through LFS",
                    path=path,
                )
            if operation.lfs:
                oid = trees.pointer_oid(sha256, size)
            else:
                oid = trees.blob_oid(b"".join(self._blobs.read(sha256)))
            files[path] = trees.File(size, oid, sha256, operation.lfs)
        return files

    def _source(self, connection: Connection, repo: Repo, operation: CopyFile, head: str) -> trees.File:
        commit = history.resolve(connection, repo, operation.source_revision) if operation.source_revision else head
        return self._contents.file(connection, repo, commit, operation.source_path)


def _delete(workspace: trees.Workspace, operations: Sequence[Operation], repo: Repo, head: str) -> None:
    for operation in operations:
        if isinstance(operation, DeleteFile | DeleteFolder):
            removed = workspace.remove(operation.path, folder=isinstance(operation, DeleteFolder))
            if not removed:
                raise no_entry(repo, head, operation.path)
