"""What `kernelworks doctor --json` says of a process, read back by a program that trusts none of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelworks.backends.spec import HostBackend
from kernelworks.errors import RepositoryError
from kernelworks.host import HostEnv, Libc, detect
from kernelworks.model.decode import parse_json

VERSIONS = st.tuples(st.integers(0, 9999), st.integers(0, 9999))
BACKENDS = st.one_of(
    st.just(HostBackend("cpu")),
    st.builds(HostBackend, st.just("cuda"), VERSIONS, st.just(("8.6", "12.0")), st.none() | VERSIONS),
    st.builds(HostBackend, st.just("rocm"), VERSIONS, st.just(("gfx90a:sramecc+:xnack-",))),
    st.builds(HostBackend, st.just("newer"), st.none(), st.just(("gfx942:sramecc+",))),
)
HOSTS = st.builds(
    HostEnv,
    python=VERSIONS,
    implementation=st.sampled_from(["cpython", "pypy"]),
    free_threaded=st.booleans(),
    torch=st.sampled_from([None, "2.13.0+cu130", "2.9.0a0+git12ab"]),
    cxx11=st.sampled_from([None, True, False]),
    backends=st.lists(BACKENDS, min_size=1, max_size=3).map(tuple),
    cpu=st.sampled_from(["x86_64", "aarch64"]),
    os=st.just("linux"),
    libc=st.none() | st.builds(Libc, st.sampled_from(["glibc", "musl"]), VERSIONS),
    cpu_features=st.sampled_from([(), ("avx2", "sse4_2")]),
)

FACTS: dict[str, Any] = {
    "python": "3.12",
    "implementation": "cpython",
    "free-threaded": False,
    "torch": "2.13.0+cu130",
    "cxx11-abi": True,
    "backends": [{"name": "cuda", "version": "13.0", "devices": ["9.0"]}],
    "cpu": "x86_64",
    "os": "linux",
    "libc": "glibc 2.39",
}


def read(facts: Any) -> HostEnv:
    return HostEnv.from_json(parse_json(json.dumps(facts).encode(), "the report"))


@given(HOSTS)
def test_a_process_is_read_back_as_it_was_written(host: HostEnv) -> None:
    assert read(host.to_json()) == host


def test_this_process_is_read_back_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelworks.host._torch", lambda: None)
    host = detect()
    assert read(host.to_json()) == host


def test_unknown_facts_of_a_newer_version_are_ignored() -> None:
    assert read({**FACTS, "moon-phase": "full"}) == read(FACTS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"python": None}, "lacks the key `python`"),
        ({"python": "3"}, "`python` in the report is `3`, which does not match"),
        ({"python": "3.٣"}, "`python`"),
        ({"free-threaded": "no"}, "`free-threaded` in the report must be true or false"),
        ({"torch": 2.13}, "`torch` in the report must be a string"),
        ({"torch": "nightly"}, "`torch` in the report is `nightly`"),
        ({"torch": "2.13" + "0" * 100}, "`torch`"),
        ({"torch": "2.13\u202e"}, "characters that cannot be printed"),
        ({"cxx11-abi": 1}, "`cxx11-abi` in the report must be true or false"),
        ({"backends": []}, "`backends` in the report names no backend"),
        ({"backends": {}}, "`backends` in the report must be an array"),
        ({"backends": [{"name": "cuda", "version": "13.0"}]}, "lacks the key `devices`"),
        ({"backends": [{"name": "cuda", "devices": ["gfx942"]}]}, "`gfx942`, which no CUDA device has"),
        ({"backends": [{"name": "cuda", "devices": ["<b>"]}]}, "`backends[0].devices[0]`"),
        ({"libc": "glibc"}, "`libc` in the report is `glibc`"),
        ({"cpu": "X86 64"}, "`cpu`"),
        ({"cpu-features": ["avx 2"]}, "`cpu-features[0]`"),
        ({"backends": [{"name": "cuda", "devices": [], "driver": "new"}]}, "`backends[0].driver`"),
        ({"backends": [{"name": "rocm", "devices": ["9.0"]}]}, "`9.0`, which no ROCm device has"),
    ],
)
def test_a_fact_that_cannot_be_is_refused_by_its_path(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(RepositoryError) as refusal:
        read({**FACTS, **changes})
    assert words in refusal.value.message
