"""What a publisher has to say to those who load: yanked, deprecated, renamed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks import RepositoryError, TransportError, TrustError, api, explain, get_kernel, selection
from kernelworks.model.variant import Variant

if TYPE_CHECKING:
    from conftest import Hub

Pack = Callable[..., tuple[Variant, bytes]]
REPO = "org/demo"


def load(repo_id: str = REPO, **arguments: Any) -> Any:
    """What a new process would get."""
    api._modules.clear()
    return get_kernel(repo_id, trust_remote_code=True, **arguments)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.fixture
def two_versions(hub: Hub, pack: Pack) -> Hub:
    """A registry with the versions 1 and 2 of a kernel whose `x` is the version."""
    for version in (1, 2):
        hub.publish(version, pack({"__init__.py": b"x = %d\n" % version}))
    return hub


def test_a_yanked_version_is_passed_over_without_a_word(two_versions: Hub, caplog: pytest.LogCaptureFixture) -> None:
    two_versions.yanked[two_versions.repos[REPO]["v2"]] = "wrong on odd sizes"
    assert load().x == 1
    assert explain(REPO).version == 1
    assert warnings(caplog) == []


@pytest.mark.parametrize("arguments", [{"version": 2}, {"revision": "v2"}])
def test_a_yanked_version_that_is_named_is_loaded_with_a_warning(
    two_versions: Hub, caplog: pytest.LogCaptureFixture, arguments: dict[str, Any]
) -> None:
    commit = two_versions.repos[REPO]["v2"]
    two_versions.yanked[commit] = "wrong on odd sizes: 7 % 2"
    for _ in range(2):
        assert load(**arguments).x == 2
    assert warnings(caplog) == [
        f"commit `{commit}` of `{REPO}` was yanked: wrong on odd sizes: 7 % 2; use another version"
    ]


def test_a_commit_that_is_remembered_keeps_the_warning(two_versions: Hub, caplog: pytest.LogCaptureFixture) -> None:
    commit = two_versions.repos[REPO]["v2"]
    two_versions.yanked[commit] = ""
    load(version=2)
    two_versions.stop()
    selection._said.clear()
    caplog.clear()
    assert load(revision=commit).x == 2
    assert warnings(caplog) == [
        f"commit `{commit}` of `{REPO}` was yanked: its publisher gives no reason; use another version"
    ]


def test_if_all_are_yanked_the_newest_is_loaded_with_a_warning(
    two_versions: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    two_versions.yanked = dict.fromkeys(two_versions.repos[REPO].values(), "all wrong")
    assert load().x == 2
    assert len(warnings(caplog)) == 1
    assert "was yanked: all wrong" in caplog.text


def test_a_withdrawal_that_is_taken_back_is_forgotten(
    two_versions: Hub, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_versions.yanked[two_versions.repos[REPO]["v2"]] = "too early"
    assert load().x == 1
    two_versions.yanked.clear()
    assert load().x == 2
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")
    assert load().x == 2
    assert warnings(caplog) == []


def test_offline_a_yanked_version_is_passed_over_too(two_versions: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    load(version=2)
    two_versions.yanked[two_versions.repos[REPO]["v2"]] = "wrong"
    load()
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")
    assert load().x == 1


def test_a_deprecated_repository_is_loaded_with_one_warning(
    two_versions: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    two_versions.deprecated = "use `org/better`\x1b[2J"
    for _ in range(2):
        load()
        load(version=1)
    assert warnings(caplog) == [f"`{REPO}` is deprecated: use `org/better`\\x1b[2J"]


def test_a_renamed_repository_is_loaded_and_its_new_name_said_once(
    two_versions: Hub, caplog: pytest.LogCaptureFixture
) -> None:
    two_versions.renamed["org/former"] = REPO
    for arguments in ({}, {"version": 1}, {"version": 1}):
        assert load("org/former", **arguments).x in {1, 2}
    assert warnings(caplog) == [f"`org/former` is now `{REPO}` in registry `{two_versions.url}`: use that name"]


def test_whoever_took_a_repository_over_is_the_publisher_that_has_to_be_trusted(
    hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    hub.publish(1, pack(), repo_id="mallory/demo")
    hub.renamed[REPO] = "mallory/demo"
    with pytest.raises(TrustError, match="runs code of `mallory`"):
        get_kernel(REPO, version=1)
    assert "/api/organizations/mallory/overview" in hub.requests
    policy = tmp_path / "policy.json"
    policy.write_text('{"registries": {"*": {"deny": ["mallory"]}}}')
    monkeypatch.setenv("KERNELWORKS_POLICY", str(policy))
    with pytest.raises(TrustError, match="denies `mallory/demo`"):
        load(version=1)


def test_a_rename_that_leads_back_ends(hub: Hub) -> None:
    hub.renamed = {"org/a": "org/b", "org/b": "org/a"}
    with pytest.raises(TransportError, match="redirected more than 5 times"):
        load("org/a")


def test_a_rename_to_what_is_gone_is_told(hub: Hub) -> None:
    hub.renamed = {"org/a": "org/gone"}
    with pytest.raises(RepositoryError, match="shows no repository `org/a`"):
        load("org/a")
