"""Lock files as text: ours in its one form, those of the `kernels` package, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelworks.errors import LockError
from kernelworks.lockfile import Lock, Pin, find_lock, parse_lock, read_lock
from kernelworks.model.variant import KernelDependency

COMMIT = "a" * 40
SHA256 = "b" * 64
OURS = {"repo-id": "org/relu", "version": 1, "commit": COMMIT, "direct": True, "variants": {"torch-cpu": SHA256}}
ANCHOR = {"dependency": {"repo-id": "org/relu", "version": 1}, "lock": {"commit": COMMIT}}
OLDER = {
    "repo_id": "org/relu",
    "sha": COMMIT,
    "variants": {"torch-cpu": {"hash": f"sha256-{SHA256}", "hash_type": "git_lfs_concat"}},
}

repo_ids = st.sampled_from(["org/relu", "org/gelu", "lab/relu", "lab/a.b-c"])
needs = st.builds(KernelDependency, repo_ids, st.integers(0, 99), st.none()) | st.builds(
    KernelDependency, repo_ids, st.none(), st.sampled_from(["main", "v1", COMMIT])
)
pins = st.builds(
    Pin,
    needs,
    st.sampled_from([COMMIT, "c" * 64]),
    st.sampled_from([None, "https://kernels.example.org"]),
    st.dictionaries(st.sampled_from(["torch-cpu", "torch-cuda"]), st.sampled_from([SHA256, "d" * 64])),
    st.booleans(),
)


@given(st.lists(pins, unique_by=lambda pin: pin.need).map(tuple), st.randoms())
def test_what_is_written_is_read_back_and_the_order_never_matters(locked: tuple[Pin, ...], order: Any) -> None:
    data = Lock("", locked).to_bytes()
    assert sorted(parse_lock(data, "x").pins, key=repr) == sorted(locked, key=repr)
    assert Lock("", tuple(order.sample(locked, len(locked)))).to_bytes() == data


def test_a_lock_file_has_one_line_per_fact() -> None:
    pin = Pin(KernelDependency("org/relu", 1), COMMIT, None, {"torch-cuda": SHA256, "torch-cpu": SHA256})
    assert Lock("", (pin,)).to_bytes().decode() == (
        "{\n"
        '  "kernels": [\n'
        "    {\n"
        f'      "commit": "{COMMIT}",\n'
        '      "direct": true,\n'
        '      "repo-id": "org/relu",\n'
        '      "variants": {\n'
        f'        "torch-cpu": "{SHA256}",\n'
        f'        "torch-cuda": "{SHA256}"\n'
        "      },\n"
        '      "version": 1\n'
        "    }\n"
        "  ],\n"
        '  "schema": 1\n'
        "}\n"
    )


def test_both_forms_of_the_kernels_package_are_read() -> None:
    present = parse_lock(json.dumps([ANCHOR]).encode(), "kernels.lock")
    assert present.pins == (Pin(KernelDependency("org/relu", 1), COMMIT),)
    older = parse_lock(json.dumps([OLDER]).encode(), "kernels.lock")
    assert older.pins == (Pin(KernelDependency("org/relu"), COMMIT),)


def test_without_a_version_what_the_project_asks_for_comes_before_what_another_kernel_needs() -> None:
    needed = Pin(KernelDependency("org/relu", 1), COMMIT, direct=False)
    asked = Pin(KernelDependency("org/relu", 2), "c" * 40)
    lock = Lock("x", (needed, asked))
    assert lock.find(KernelDependency("org/relu")) == asked
    assert lock.find(KernelDependency("org/relu", 1)) == needed
    with pytest.raises(LockError, match=r"has no `org/relu` version 3 \(it has `org/relu` version 1, `org/relu` vers"):
        lock.find(KernelDependency("org/relu", 3))


def ours(**changes: Any) -> dict[str, Any]:
    entry = {key: value for key, value in {**OURS, **changes}.items() if value is not None}
    return {"schema": 1, "kernels": [entry]}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "is not valid JSON: .*line 1 column 2"),
        ('{"schema": 1, "schema": 1}', "key `schema` is given twice"),
        ("7", "must be an array"),
        ({"schema": 2, "kernels": []}, "`schema` .* reads schema 1; upgrade kernelworks"),
        ({"schema": 1, "kernels": [], "extra": 1}, "has the key `extra`, which is none of kernels, schema"),
        (ours(extra=1), r"`kernels\[0\]` .* has the key `extra`"),
        (ours(commit="main"), r"`kernels\[0\].commit` .* is `main`"),
        (ours(version=True), r"`kernels\[0\].version` .* must be an integer"),
        (ours(version=None), r"`kernels\[0\]` .* exactly one of `version` and `revision`"),
        (ours(revision="main"), r"`kernels\[0\]` .* exactly one of `version` and `revision`"),
        (ours(**{"repo-id": "../../etc"}), r"`kernels\[0\].repo-id` .* is `../../etc`, not a repository id"),
        (ours(version=None, revision="a/b"), r"`kernels\[0\].revision` .* not a commit or ref"),
        (ours(variants={"torch-cpu": "short"}), r"`kernels\[0\].variants.torch-cpu` .* 64 lower-case hex digits"),
        (ours(variants=None), r"`kernels\[0\]` .* lacks the key `variants`"),
        ({"schema": 1, "kernels": [OURS, OURS]}, "locks `org/relu` version 1 twice"),
        ([ANCHOR, ANCHOR], "locks `org/relu` version 1 twice"),
        ([{**ANCHOR, "x": 1}], r"`\[0\]` .* has the key `x`, which is none of dependency, lock"),
        ([{**ANCHOR, "lock": {"commit": COMMIT, "variants": {}}}], r"`\[0\].lock` .* has the key `variants`"),
        ([{**OLDER, "commit": COMMIT}], r"`\[0\]` .* has the key `commit`"),
        ([{**OLDER, "sha": "0"}], r"`\[0\].sha` .* is `0`"),
        ([7], r"`\[0\]` .* must be an object"),
        ([{**ANCHOR, "dependency": 7}], r"`\[0\].dependency` .* must be an object"),
    ],
)
def test_what_is_malformed_is_refused_and_said_where(document: Any, words: str) -> None:
    data = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(LockError, match=words) as caught:
        parse_lock(data.encode(), "the.lock")
    assert "`the.lock`" in caught.value.message
    assert caught.value.hint


def test_ours_is_found_before_that_of_the_kernels_package(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"holds neither `kernelworks\.lock` nor `kernels\.lock`"):
        find_lock(tmp_path)
    for name in ("kernels.lock", "kernelworks.lock"):
        (tmp_path / name).write_text("[]")
        assert find_lock(tmp_path) == tmp_path / name
    assert read_lock(find_lock(tmp_path / "kernels.lock")).pins == ()
    with pytest.raises(LockError, match="cannot be read: No such file"):
        read_lock(tmp_path / "other.lock")
