"""Several registries in one process, whom their tokens are for, and what a policy allows of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks import RepositoryError, TransportError, TrustError, UsageError, api, get_kernel
from kernelworks.cli import main
from kernelworks.model.variant import Variant
from kernelworks.transport.token import token_for

if TYPE_CHECKING:
    from conftest import Hub

Pack = Callable[..., tuple[Variant, bytes]]
REPO = "org/demo"


def load(repo_id: str = REPO, **arguments: Any) -> Any:
    """What a new process would get."""
    api._modules.clear()
    return get_kernel(repo_id, trust_remote_code=True, **arguments)


# Several registries


def test_the_first_registry_that_has_the_repository_answers(
    make_hub: Callable[[], Hub], pack: Pack, monkeypatch: pytest.MonkeyPatch, registry: Any
) -> None:
    company, public = make_hub(), make_hub()
    company.publish(1, pack({"__init__.py": b"x = 'company'\n"}))
    public.publish(1, pack({"__init__.py": b"x = 'public'\n"}))
    public.publish(1, pack({"__init__.py": b"x = 'public'\n"}), repo_id="org/other")
    registry.publish("org/third", 1, pack({"__init__.py": b"x = 'folder'\n"}))
    monkeypatch.setenv("KERNELWORKS_REGISTRY", f"{company.url} {public.url}  {registry.root.as_uri()}")
    assert [load(repo_id).x for repo_id in (REPO, "org/other", "org/third")] == ["company", "public", "folder"]
    with pytest.raises(RepositoryError, match="no registry has repository `org/none`") as caught:
        load("org/none")
    for where in (company.url, public.url, str(registry.root)):
        assert where in caught.value.message


@pytest.mark.parametrize("command", ["info", "verify"])
def test_info_and_verify_look_where_a_load_would(
    make_hub: Callable[[], Hub], pack: Pack, monkeypatch: pytest.MonkeyPatch, capsys: Any, command: str
) -> None:
    company, public = make_hub(), make_hub()
    company.publish(1, pack(), repo_id="org/other")
    public.publish(1, pack())
    monkeypatch.setenv("KERNELWORKS_REGISTRY", f"{company.url} {public.url}")
    assert main([command, REPO, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["registry"] == public.url
    assert main([command, "org/none", "--json"]) == RepositoryError.exit_code
    assert "no registry has repository `org/none`" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_a_registry_that_is_away_is_not_replaced_by_the_next(
    make_hub: Callable[[], Hub], pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    company, public = make_hub(), make_hub()
    public.publish(1, pack())
    company.stop()
    monkeypatch.setenv("KERNELWORKS_REGISTRY", f"{company.url} {public.url}")
    with pytest.raises(TransportError, match=f"registry `{company.url}` cannot be reached"):
        load()
    assert public.requests == []


def test_a_missing_version_is_not_looked_for_in_the_next(
    make_hub: Callable[[], Hub], pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    company, public = make_hub(), make_hub()
    company.publish(1, pack())
    public.publish(2, pack())
    monkeypatch.setenv("KERNELWORKS_REGISTRY", f"{company.url} {public.url}")
    with pytest.raises(RepositoryError, match=r"no version 2 \(there are: 1\)"):
        load(version=2)


def test_registries_with_one_repository_id_share_nothing(make_hub: Callable[[], Hub], pack: Pack) -> None:
    one, two = make_hub(), make_hub()
    for number, hub in enumerate((one, two)):
        hub.publish(1, pack({"__init__.py": b"x = %d\n" % number}), commit="a" * 40)
    for number, hub in enumerate((one, two)):
        assert load(registry=hub.url, revision="a" * 40).x == number
    assert (one.asked("kernel.json"), two.asked("kernel.json")) == (1, 1)


# Tokens

HUB, OURS, OTHER = "https://huggingface.co", "https://kernels.example.org", "https://other.example.org"


@pytest.mark.parametrize(
    ("token", "environment", "sent_to"),
    [
        ("hf_x", {}, {HUB}),
        ("hf_x", {"KERNELWORKS_REGISTRY": OURS}, {HUB}),
        ("hf_x", {"HF_ENDPOINT": OURS}, {OURS}),
        ("kw_x", {}, {HUB, OURS, OTHER}),
        ("kw_x", {"KERNELWORKS_REGISTRY": OURS}, {OURS}),
        ("kw_x", {"KERNELWORKS_REGISTRY": f"/folder {OURS}/team"}, {OURS}),
        ("kw_x", {"HF_ENDPOINT": OURS}, {OURS}),
        ("kw_x", {"KERNELWORKS_REGISTRY": OTHER, "HF_ENDPOINT": OURS}, {OTHER}),
    ],
)
@pytest.mark.usefixtures("make_hub")
def test_a_token_goes_where_it_belongs(
    monkeypatch: pytest.MonkeyPatch, token: str, environment: dict[str, str], sent_to: set[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert {endpoint for endpoint in (HUB, OURS, OTHER) if token_for(endpoint)} == sent_to
    tied = sent_to if token == "hf_x" or environment else set()
    assert {endpoint for endpoint in (HUB, OURS, OTHER) if token_for(endpoint, named_by_file=True)} == tied


@pytest.mark.parametrize(
    ("environment", "files"),
    [
        ({"HF_TOKEN": " hf_1\n"}, {"home/token": "hf_2"}),
        ({"HF_TOKEN": "", "HUGGING_FACE_HUB_TOKEN": "hf_1"}, {"home/token": "hf_2"}),
        ({}, {"home/token": "hf_2\n"}),
        ({"HF_TOKEN_PATH": "$ROOT/elsewhere"}, {"elsewhere": "hf_3", "home/token": "hf_2"}),
        ({"HF_HOME": "", "XDG_CACHE_HOME": "$ROOT"}, {"huggingface/token": "hf_4"}),
        ({"HF_TOKEN": "hf_1", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, {}),
        ({}, {}),
        ({}, {"home/token": "\n"}),
    ],
)
def test_the_token_is_the_one_that_huggingface_hub_finds(
    tmp_path: Path, environment: dict[str, str], files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    given = {"HF_HOME": str(tmp_path / "home"), "ROOT": str(tmp_path), "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    given |= {name: value.replace("$ROOT", str(tmp_path)) for name, value in environment.items()}
    given = {name: value for name, value in given.items() if value or name != "HF_HOME"}
    ours = "from kernelworks.transport.token import token_for; print(token_for('https://huggingface.co'))"
    theirs = (
        "from huggingface_hub import constants, get_token\n"
        "print(None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token())"
    )
    answers = [
        subprocess.run([sys.executable, "-c", program], env=given, capture_output=True, text=True, check=True).stdout
        for program in (ours, theirs)
    ]
    assert answers[0] == answers[1]


# Who asks


@pytest.mark.parametrize(
    ("agent", "sent"),
    [("lib/1.2", "; lib/1.2"), ({"lib": "1.2", "is_ci": "true"}, "; lib/1.2; is_ci/true"), (None, ""), ("", "")],
)
def test_a_registry_is_told_who_asks(hub: Hub, pack: Pack, agent: Any, sent: str) -> None:
    hub.publish(1, pack())
    load(user_agent=agent)
    agents = {headers["User-Agent"] for headers in hub.headers}
    assert len(agents) == 1
    assert agents.pop().partition("kernelworks/")[2].lstrip("0123456789.abrc+dev") == sent


@pytest.mark.parametrize("agent", ["a\r\nX-Evil: 1", "ü", 3, "x" * 501, {"a": "\x00"}, ["a"]])
def test_what_cannot_be_sent_of_the_caller_is_refused(hub: Hub, agent: Any) -> None:
    with pytest.raises(UsageError, match="user_agent must be"):
        load(user_agent=agent)
    assert hub.requests == []


# Policy


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Sets the policy of this machine."""

    def write(document: Any) -> None:
        (tmp_path / "policy.json").write_text(document if isinstance(document, str) else json.dumps(document))
        monkeypatch.setenv("KERNELWORKS_POLICY", str(tmp_path / "policy.json"))

    return write


def test_the_policy_denies_whatever_the_call_consents_to(hub: Hub, pack: Pack, policy: Callable[[Any], None]) -> None:
    hub.publish(1, pack())
    hub.trusted = True
    for denied in ("org", "org/demo", "*"):
        policy({"registries": {"*": {"deny": [denied]}}})
        with pytest.raises(TrustError, match=r"policy `.*policy\.json` denies `org/demo`; no consent in a call"):
            load()
    assert hub.requests == []


def test_the_policy_allows_without_consent_and_without_asking(
    hub: Hub, pack: Pack, policy: Callable[[Any], None]
) -> None:
    hub.publish(1, pack())
    policy({"registries": {hub.url.upper().replace("HTTP", "http"): {"allow": ["org"], "deny": ["*"]}}})
    assert get_kernel(REPO).twice(1) == 2
    assert hub.asked("overview") == 0
    with pytest.raises(TrustError, match="denies `else/demo`"):
        load("else/demo")


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ({"allow": ["org/demo"], "deny": ["org"]}, True),
        ({"allow": ["org"], "deny": ["org/demo"]}, False),
        ({"allow": ["org"], "deny": ["org"]}, False),
        ({"allow": ["*"], "deny": ["org"]}, False),
        ({"allow": ["org"], "deny": ["*"]}, True),
        ({"allow": ["other"], "deny": ["other/demo"]}, None),
    ],
)
def test_the_most_precise_rule_decides_and_a_no_beats_a_yes(
    hub: Hub, pack: Pack, policy: Callable[[Any], None], rules: dict[str, list[str]], *, allowed: bool | None
) -> None:
    hub.publish(1, pack())
    policy({"registries": {hub.url: rules}})
    if allowed:
        assert get_kernel(REPO).twice(1) == 2
    else:
        with pytest.raises(TrustError, match="denies" if allowed is False else "does not call a trusted publisher"):
            get_kernel(REPO)


def test_rules_of_another_registry_do_not_count(hub: Hub, pack: Pack, policy: Callable[[Any], None]) -> None:
    hub.publish(1, pack())
    policy({"registries": {"https://other.example.org": {"deny": ["*"], "pinned": True}}})
    assert load().twice(1) == 2


def test_a_policy_can_demand_commits(hub: Hub, pack: Pack, policy: Callable[[Any], None]) -> None:
    commit = hub.publish(1, pack())
    policy({"registries": {"*": {"pinned": True}, hub.url: {"allow": ["org"]}}})
    for arguments in ({}, {"version": 1}, {"revision": "v1"}):
        with pytest.raises(TrustError, match=r"by its commit only; give the commit: `revision="):
            load(**arguments)
    assert hub.requests == []
    assert load(revision=commit).twice(1) == 2


def test_a_policy_holds_for_folders_too_whichever_way_leads_there(
    registry: Any, pack: Pack, policy: Callable[[Any], None], tmp_path: Path
) -> None:
    registry.publish(REPO, 1, pack())
    policy({"registries": {registry.root.as_uri(): {"deny": ["org"]}}})
    (tmp_path / "link").symlink_to(registry.root)
    for way in (registry.root, tmp_path / "link", registry.root / REPO / "../.."):
        with pytest.raises(TrustError, match="denies"):
            load(registry=way)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("", "is not valid JSON"),
        ("[]", "must be an object"),
        ({}, "lacks the key `registries`"),
        ({"registries": []}, "must be an object"),
        ({"registries": {"*": {"denies": []}}}, "has the key `denies`, which is none of allow, deny, pinned"),
        ({"registries": {"*": {"deny": "org"}}}, "must be an array"),
        ({"registries": {"*": {"deny": ["a b"]}}}, "does not match"),
        ({"registries": {"*": {"pinned": 1}}}, "must be true or false"),
        ('{"registries": {"*": {}, "*": {}}}', "is given twice"),
    ],
)
def test_with_a_policy_that_cannot_be_read_nothing_is_loaded(
    hub: Hub, pack: Pack, policy: Callable[[Any], None], document: Any, words: str
) -> None:
    hub.publish(1, pack())
    policy(document)
    with pytest.raises(UsageError, match=f"the policy cannot be read: .*{words}.*KERNELWORKS_POLICY"):
        load()
    assert hub.requests == []


def test_the_policy_in_the_documentation_is_one(hub: Hub, pack: Pack, policy: Callable[[Any], None]) -> None:
    hub.publish(1, pack())
    text = (Path(__file__).parents[3] / "docs" / "getting.md").read_text()
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    policy(example)
    assert load().twice(1) == 2
    with pytest.raises(TrustError, match="denies `mallory/relu`"):
        load("mallory/relu")


def test_a_policy_that_is_named_and_not_there_is_an_error(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWORKS_POLICY", "/nowhere/policy.json")
    with pytest.raises(UsageError, match=r"the policy cannot be read: .*/nowhere"):
        load()
    assert hub.requests == []


def test_the_usual_policy_is_below_the_users_settings(hub: Hub, pack: Pack, tmp_path: Path) -> None:
    hub.publish(1, pack())
    (tmp_path / "config/kernelworks").mkdir(parents=True)
    (tmp_path / "config/kernelworks/policy.json").write_text('{"registries": {"*": {"deny": ["org"]}}}')
    with pytest.raises(TrustError, match="denies"):
        load()
