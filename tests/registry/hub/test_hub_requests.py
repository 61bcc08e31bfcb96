"""What a load asks of a server that speaks the Hub's protocol, and with which token."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from kernelworks import (
    RepositoryError,
    TransportError,
    UsageError,
    explain,
    get_kernel,
    get_loaded_kernels,
)
from kernelworks.model.digest import FileEntry, hash_bytes
from kernelworks.model.variant import Variant
from kernelworks.transport import connect
from kernelworks.transport.url import endpoint_of

if TYPE_CHECKING:
    from conftest import Hub

Pack = Callable[..., tuple[Variant, bytes]]
REPO = "org/demo"
TOKEN = "kw_secret"


def load(**arguments: Any) -> Any:
    return get_kernel(REPO, trust_remote_code=True, **arguments)


def wheel_of(pack: Pack, filler: bytes = b"") -> tuple[Variant, bytes]:
    """A kernel whose wheel is not small enough to come in one piece."""
    return pack({"__init__.py": b"x = 1\n", "data.bin": filler or hash_bytes(b"").encode() * 4000})


def test_a_cold_load_is_the_refs_the_index_and_the_wheel(hub: Hub, pack: Pack) -> None:
    commit = hub.publish(1, pack())
    assert load().twice(4) == 8
    assert hub.requests == [
        f"/api/kernels/{REPO}/refs",
        f"/kernels/{REPO}/resolve/{commit}/kernel.json",
        f"/kernels/{REPO}/resolve/{commit}/{pack()[0].wheel.path}",
    ]
    assert get_loaded_kernels()[-1].origin.commit == commit


def test_a_version_needs_no_refs(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    load(version=1)
    assert [path.rpartition("/")[2] for path in hub.requests] == ["kernel.json", f"{pack()[0].name}.whl"]
    assert hub.requests[0] == f"/kernels/{REPO}/resolve/v1/kernel.json"


def test_the_newest_version_that_fits_is_taken(hub: Hub, pack: Pack) -> None:
    for version in (9, 10):
        hub.publish(version, pack({"__init__.py": b"x = %d\n" % version}))
    assert load().x == 10
    assert explain(REPO).version == 10


def test_a_pinned_commit_that_was_loaded_before_needs_no_registry_and_no_library(
    hub: Hub, pack: Pack, processes: Any
) -> None:
    commit = hub.publish(1, pack())
    load(version=1)
    hub.stop()
    program = (
        "import sys, kernelworks\n"
        f"kernel = kernelworks.get_kernel({REPO!r}, revision={commit!r}, trust_remote_code=True)\n"
        "print(kernel.twice(4), *sorted({'http.client', 'ssl', 'huggingface_hub'} & sys.modules.keys()))"
    )
    assert processes.start(program).communicate() == ("8\n", "")


def test_eight_processes_download_once(hub: Hub, pack: Pack, processes: Any) -> None:
    hub.publish(1, wheel_of(pack))
    program = f"import kernelworks; print(kernelworks.get_kernel({REPO!r}, version=1, trust_remote_code=True).x)"
    running = [processes.start(program) for _ in range(8)]
    assert [process.communicate() for process in running] == [("1\n", "")] * 8
    assert hub.asked(".whl") == 1


def test_registries_with_one_repository_id_share_nothing(make_hub: Callable[[], Hub], pack: Pack) -> None:
    one, two = make_hub(), make_hub()
    for number, hub in enumerate((one, two)):
        hub.publish(1, pack({"__init__.py": b"x = %d\n" % number}), commit="a" * 40)
    for number, hub in enumerate((one, two)):
        assert load(registry=hub.url, revision="a" * 40).x == number
    assert (one.asked("kernel.json"), two.asked("kernel.json")) == (1, 1)


def test_what_is_missing_is_named(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    hub.repos["org/empty"] = {}
    with pytest.raises(RepositoryError, match=r"shows no repository `org/nope` .*none for this registry is set"):
        get_kernel("org/nope")
    with pytest.raises(RepositoryError, match="`org/empty` has no version"):
        get_kernel("org/empty")
    with pytest.raises(RepositoryError, match=r"`org/demo` has no version 2 \(there are: 1\)"):
        load(version=2)
    with pytest.raises(RepositoryError, match=r"`org/demo` has no ref `dev` \(its versions are: 1\)"):
        load(revision="dev")
    with pytest.raises(RepositoryError, match=f"`org/demo` has no commit `{'f' * 40}`"):
        load(revision="f" * 40)
    transport = connect(hub.url)
    with pytest.raises(RepositoryError, match=r"lacks the file `wheels/x\.whl`"):
        transport.open(REPO, hub.repos[REPO]["v1"], FileEntry("wheels/x.whl", 1, "0" * 64))


def test_a_repository_of_another_builder_is_told_from_a_damaged_one(hub: Hub, pack: Pack) -> None:
    commit = hub.publish(1, pack())
    (hub.revisions[REPO, commit] / "kernel.json").unlink()
    with pytest.raises(RepositoryError, match=r"holds neither `kernel\.json` nor `build/<variant>/metadata\.json`"):
        load(version=1)


def test_a_gated_repository_says_where_to_ask(hub: Hub) -> None:
    hub.misbehave(
        "refs",
        lambda handler: handler.send(b"", status=403, X_Error_Code="GatedRepo", X_Error_Message="not in the list"),
    )
    with pytest.raises(RepositoryError, match=f"not in the list; ask on its page, `{hub.url}/kernels/{REPO}`"):
        load()


@pytest.mark.parametrize("repo_id", ["../../etc", "relu", "", "a/b/c"])
def test_a_bad_repository_id_is_refused_before_anything_is_asked(hub: Hub, repo_id: str) -> None:
    with pytest.raises(UsageError, match="is not a repository id"):
        connect(hub.url).versions(repo_id)
    assert hub.requests == []


# Tokens


def test_a_private_repository_is_read_with_a_token(hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.publish(1, pack())
    hub.private = True
    with pytest.raises(RepositoryError, match="none for this registry is set"):
        load()
    monkeypatch.setenv("HF_TOKEN", "kw_other")
    with pytest.raises(RepositoryError, match=r"a token that may read it$"):
        load()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert load().twice(4) == 8


def test_a_token_that_the_registry_does_not_know_is_told_from_a_missing_repository(
    hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.publish(1, pack())
    monkeypatch.setenv("HF_TOKEN", "kw_old")
    words = "Invalid credentials in Authorization header"
    hub.misbehave("refs", lambda handler: handler.send(b"", status=401, X_Error_Message=words))
    with pytest.raises(TransportError, match="does not know the token that it was sent"):
        load()


def test_a_token_of_the_hub_is_sent_to_no_other_registry(hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.publish(1, pack())
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    load(version=1)
    assert not any("Authorization" in headers for headers in hub.headers)
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    connect(hub.url).versions(REPO)
    assert hub.headers[-1]["Authorization"] == "Bearer hf_secret"


@pytest.mark.usefixtures("hub")
def test_a_token_that_cannot_be_sent_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "kw_se\x07cret")
    with pytest.raises(UsageError, match="the token holds characters") as caught:
        load()
    assert "cret" not in str(caught.value)


def test_a_token_stays_with_its_origin_when_the_registry_redirects(
    make_hub: Callable[[], Hub], hub: Hub, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_hub()
    commit = hub.publish(1, pack())
    wheel = pack()[1]
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    store.misbehave("signature=1", lambda handler: handler.send(wheel, "e" * 40))
    hub.misbehave(".whl", lambda handler: handler.send(b"", status=302, Location=f"{store.url}/blob?signature=1"))
    hub.misbehave("v1/kernel.json", lambda handler: handler.send(b"", status=307, Location=f"../{commit}/kernel.json"))
    assert load(version=1).twice(4) == 8
    assert [headers["Authorization"] for headers in hub.headers] == [f"Bearer {TOKEN}"] * 3
    assert [("Authorization" in headers) for headers in store.headers] == [False]


@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:,x", "//[", "", "kernel.json"])
def test_a_redirection_that_leads_nowhere_good_is_not_followed(hub: Hub, pack: Pack, target: str) -> None:
    hub.publish(1, pack())
    hub.misbehave("kernel.json", lambda handler: handler.send(b"", status=302, Location=target))
    with pytest.raises(TransportError, match="which is not followed"):
        load(version=1)


def test_redirections_end(hub: Hub, pack: Pack) -> None:
    hub.publish(1, pack())
    hub.misbehave("refs", lambda handler: handler.send(b"", status=302, Location=f"/x{handler.path}"))
    with pytest.raises(TransportError, match="redirected more than 5 times"):
        load()
    assert len(hub.requests) == 6


@pytest.mark.parametrize(
    ("location", "endpoint"),
    [
        ("HTTP://Host.Example:80/", "http://host.example"),
        ("https://host.example:443/team/", "https://host.example/team"),
        ("http://host.example:443", "http://host.example:443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_one_registry_has_one_url(location: str, endpoint: str) -> None:
    assert endpoint_of(location) == endpoint == endpoint_of(endpoint)


@pytest.mark.parametrize(
    "location",
    ["http://", "https:///x", "http://host:x", "http://host:99999", "http://host?x", "http://host#x", "http://h\x07", "http://ü",
     "http://user:pw@host", "http://["],
)  # fmt: skip
def test_what_is_no_url_of_a_registry_is_refused(location: str) -> None:
    with pytest.raises(UsageError) as caught:
        connect(location)
    assert "pw" not in str(caught.value)
    assert str(caught.value).isprintable()
