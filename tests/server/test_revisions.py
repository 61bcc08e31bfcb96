"""What most reads begin with: one question says what a revision means; and changes wait in line."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, select

from kernelworks_server.database.tables import holdings, refs, repos
from kernelworks_server.errors import RepoMoved, RepoNotFound, RevisionNotFound
from kernelworks_server.records import AddFile, Notice, Remarks, Repo
from kernelworks_server.rights import ANONYMOUS, MACHINE, Actor
from kernelworks_server.services import Services

if TYPE_CHECKING:
    from conftest import Server

EVERYWHERE = pytest.mark.backing("sqlite+folder", "postgresql+folder")


@pytest.fixture
def repo(services: Services) -> Repo:
    services.people.create_org("kernels-of-us")
    return services.repositories.create(MACHINE, "kernel", "kernels-of-us/relu", private=False)


@EVERYWHERE
def test_a_revision_is_a_branch_a_tag_a_commit_or_a_spelled_out_ref(services: Services, repo: Repo) -> None:
    services.repositories.create_tag(MACHINE, repo, "first", "main", "")
    head = services.repositories.resolve_revision(repo, "main")
    for revision in ("main", "first", head, "refs/heads/main", "refs/tags/first"):
        at = services.repositories.at(ANONYMOUS, "kernel", "Kernels-of-us/RELU", revision)
        assert (at.repo, at.commit, at.remarks) == (repo, head, Remarks(None, None))


@EVERYWHERE
def test_what_is_said_against_a_revision_comes_with_it(services: Services, repo: Repo) -> None:
    services.repositories.yank(MACHINE, repo, "main", "wrong for NaN")
    services.repositories.deprecate(MACHINE, repo, "use gelu", "kernels-of-us/gelu")
    at = services.repositories.at(ANONYMOUS, "kernel", repo.repo_id, "main")
    assert at.remarks == Remarks("wrong for NaN", Notice("use gelu", "kernels-of-us/gelu"))


@pytest.mark.parametrize("revision", ["v1", "refs/tags/main", "0" * 40, ""])
def test_a_revision_that_means_nothing_is_refused(services: Services, repo: Repo, revision: str) -> None:
    with pytest.raises(RevisionNotFound):
        services.repositories.at(ANONYMOUS, "kernel", repo.repo_id, revision)


def test_a_private_repository_has_no_revisions_for_strangers(services: Services, repo: Repo) -> None:
    secret = services.repositories.create(MACHINE, "kernel", "kernels-of-us/secret", private=True)
    for repo_id in (secret.repo_id, "kernels-of-us/absent"):
        with pytest.raises(RepoNotFound, match="no kernel"):
            services.repositories.at(ANONYMOUS, "kernel", repo_id, "main")
    assert services.repositories.at(MACHINE, "kernel", secret.repo_id, "main").repo == secret
    with pytest.raises(RepoNotFound):
        services.repositories.at(ANONYMOUS, "model", repo.repo_id, "main")


def test_a_former_name_leads_to_the_present_one(services: Services, repo: Repo) -> None:
    services.repositories.rename(MACHINE, "kernel", repo.repo_id, "kernels-of-us/gelu")
    with pytest.raises(RepoMoved, match="kernels-of-us/gelu"):
        services.repositories.at(ANONYMOUS, "kernel", repo.repo_id, "main")


@pytest.mark.server
@pytest.mark.parametrize("path", ["resolve/main/kernel.json", "resolve/main/absent.json"])
def test_an_index_that_was_read_before_is_one_question_to_the_database(server: Server, path: str) -> None:
    services, operator = server.services, server.operator
    repo = services.repositories.create(operator, "kernel", "admin/relu", private=False)
    commit(services, operator, repo, upload_index(services, repo))
    server.ask("GET", f"/kernels/admin/relu/{path}")
    asked: list[str] = []

    @event.listens_for(services.database._engine, "before_cursor_execute")
    def note(*facts: Any) -> None:
        asked.append(facts[2])

    server.ask("GET", f"/kernels/admin/relu/{path}")
    questions = [statement for statement in asked if statement.startswith("SELECT")]
    assert len(questions) <= (1 if path.endswith("kernel.json") else 2)


@pytest.mark.server
def test_a_new_commit_is_read_at_once_however_often_the_old_one_was(server: Server) -> None:
    services, operator = server.services, server.operator
    repo = services.repositories.create(operator, "kernel", "admin/relu", private=False)
    for content in (b"{}", b"[]"):
        commit(services, operator, repo, upload_index(services, repo, content))
        answers = [server.ask("GET", "/kernels/admin/relu/resolve/main/kernel.json").body for _ in range(2)]
        assert answers == [content, content]


@pytest.mark.backing("postgresql+folder")
def test_who_waits_for_a_repository_holds_nothing_of_it(services: Services, repo: Repo) -> None:
    added = upload_index(services, repo)
    with services.database.write() as deletion:
        deletion.execute(select(repos.c.id).where(repos.c.id == repo.id).with_for_update())
        committing = threading.Thread(target=commit, args=(services, MACHINE, repo, added))
        committing.start()
        while committing.is_alive() and not waiting_for_locks(services):
            committing.join(0.01)
        assert committing.is_alive()
        for table in (refs, holdings):  # else each of the two would wait for the other
            deletion.execute(select(table).where(table.c.repo == repo.id).with_for_update(nowait=True))
    committing.join()


def waiting_for_locks(services: Services) -> int:
    with services.database.read() as connection:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return int(connection.exec_driver_sql(query).scalar_one())


def upload_index(services: Services, repo: Repo, content: bytes = b"{}") -> AddFile:
    sha256, size = services.repositories.receive(repo, [content], expected=None, limit=1 << 20)
    return AddFile("kernel.json", sha256, size, lfs=False)


def commit(services: Services, actor: Actor, repo: Repo, added: AddFile) -> None:
    services.repositories.commit(actor, repo, "main", [added], message="m", description="", parent=None)
