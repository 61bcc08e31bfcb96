"""Signed permissions: good for what they were made for, and for nothing else."""

from __future__ import annotations

import base64
import re

import pytest

from kernelworks_server.errors import InvalidSignature
from kernelworks_server.signing import Grant, Signer

SIGNER = Signer(b"secret", clock=lambda: 1_000.5)


def token(seconds: int = 60) -> str:
    return SIGNER.issue(action="upload", repo=7, oid="ab", size=3, actor="alice", seconds=seconds)


def test_a_grant_comes_back_as_it_was_issued_in_characters_of_a_url() -> None:
    grant = Grant("upload", repo=7, oid="ab", size=3, actor="alice", expires=1_060)
    assert SIGNER.check(token(), action="upload", repo=7, oid="ab") == grant
    assert SIGNER.check(token(), action="upload", oid="ab") == grant
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", token())


@pytest.mark.parametrize(
    ("action", "repo", "oid"), [("download", 7, "ab"), ("upload", 8, "ab"), ("upload", 7, "ac"), ("upload", 7, "")]
)
def test_a_grant_is_for_one_action_repository_and_object(action: str, repo: int, oid: str) -> None:
    with pytest.raises(InvalidSignature, match="something else"):
        SIGNER.check(token(), action=action, repo=repo, oid=oid)


def test_a_grant_ends_at_its_time() -> None:
    genuine = token(seconds=10)
    Signer(b"secret", clock=lambda: 1_009.9).check(genuine, action="upload", oid="ab")
    with pytest.raises(InvalidSignature, match="expired"):
        Signer(b"secret", clock=lambda: 1_010.0).check(genuine, action="upload", oid="ab")


def test_another_registrys_grant_is_refused() -> None:
    with pytest.raises(InvalidSignature):
        Signer(b"another", clock=lambda: 1_000.0).check(token(), action="upload", oid="ab")


def test_every_changed_character_is_noticed() -> None:
    genuine = token()
    for position, character in enumerate(genuine):
        forged = genuine[:position] + ("A" if character != "A" else "B") + genuine[position + 1 :]
        if _decoded(forged) != _decoded(genuine):  # the last character of a part has bits that say nothing
            with pytest.raises(InvalidSignature):
                SIGNER.check(forged, action="upload", oid="ab")


@pytest.mark.parametrize("text", ["", ".", "a.b", "a.b.c", "é.é", "\0.\0", "x" * 5_000, "e30.e30"])
def test_what_is_no_grant_at_all_is_refused(text: str) -> None:
    with pytest.raises(InvalidSignature):
        SIGNER.check(text, action="upload", oid="ab")


def _decoded(text: str) -> list[bytes] | None:
    try:
        return [base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_") for part in text.split(".")]
    except ValueError:
        return None
