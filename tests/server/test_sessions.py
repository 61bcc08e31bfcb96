"""Sessions of browsers: for whom, how long, and that nobody can make one up."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from kernelworks_server.database.tables import sessions
from kernelworks_server.errors import InvalidToken
from kernelworks_server.rights import ANONYMOUS
from kernelworks_server.services import Services


@pytest.fixture
def token(services: Services) -> str:
    services.people.create_user("ann")
    return services.people.create_token("ann", label="browser", scope="read")


def test_a_session_is_whom_its_token_speaks_for(services: Services, token: str) -> None:
    secret = services.sessions.begin(token)
    assert services.sessions.actor(secret) == services.people.actor(token)


def test_neither_the_secret_nor_the_token_lies_in_the_database(services: Services, token: str) -> None:
    secret = services.sessions.begin(token)
    assert token not in secret
    with services.database.read() as connection:
        row = connection.execute(select(sessions)).one()
    assert secret not in map(str, row)
    assert token not in map(str, row)


@pytest.mark.parametrize("secret", [None, "", "made up", "\ud800", "x" * 10_000])
def test_an_invented_secret_is_nobodys(services: Services, token: str, secret: str | None) -> None:
    services.sessions.begin(token)
    assert services.sessions.actor(secret) == ANONYMOUS
    assert services.sessions.actor(token) == ANONYMOUS


def test_a_session_ends_with_sign_out_and_no_other_does(services: Services, token: str) -> None:
    first, second = services.sessions.begin(token), services.sessions.begin(token)
    services.sessions.end(first)
    assert services.sessions.actor(first) == ANONYMOUS
    assert services.sessions.actor(second).name == "ann"


def test_a_session_ends_when_its_token_is_revoked(services: Services, token: str) -> None:
    secret = services.sessions.begin(token)
    services.people.revoke("ann", "browser")
    assert services.sessions.actor(secret) == ANONYMOUS


def test_a_session_ends_with_its_time_and_is_forgotten_at_the_next_sign_in(services: Services, token: str) -> None:
    secret = services.sessions.begin(token)
    with services.database.write() as connection:
        connection.execute(update(sessions).values(expires=1))
    assert services.sessions.actor(secret) == ANONYMOUS
    services.sessions.begin(token)
    with services.database.read() as connection:
        assert len(connection.execute(select(sessions)).all()) == 1


@pytest.mark.parametrize("shown", ["", "kw_nobody"])
def test_no_session_begins_with_a_token_that_does_not_work(services: Services, token: str, shown: str) -> None:
    services.people.revoke("ann", "browser")
    for given in (shown, token):
        with pytest.raises(InvalidToken):
            services.sessions.begin(given)
