from __future__ import annotations

import itertools
import json
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelworks.errors import UsageError
from kernelworks.model.variant_name import VariantName, Version2, known_versions, parse_version, version_digits

TABLE = json.loads(files("kernelworks.model").joinpath("versions.json").read_bytes())


def versions(what: str) -> list[Version2]:
    return [parse_version(text) for text in TABLE["versions"].get(what, [])]


FRAMEWORKS = [
    *(("torch", version, cxx11) for version in versions("torch") for cxx11 in (None, True, False)),
    *(("torch-stable-abi", version, None) for version in versions("torch")),
    *(("tvm-ffi", version, None) for version in versions("tvm-ffi")),
]
BACKENDS = [(name, version) for name in TABLE["backends"] for version in versions(name) or [None]]
PLATFORMS = [("x86_64", "linux"), ("aarch64", "linux"), ("aarch64", "darwin"), ("x86_64", "windows")]


def test_every_known_combination_is_read_back_from_its_name() -> None:
    names = set()
    for framework, backend, platform in itertools.product(FRAMEWORKS, BACKENDS, PLATFORMS):
        name = VariantName(*framework, *backend, *platform)
        assert VariantName.parse(str(name)) == name
        names.add(str(name))
    assert len(names) == len(FRAMEWORKS) * len(BACKENDS) * len(PLATFORMS)


@pytest.mark.parametrize("what", sorted(TABLE["versions"]))
def test_no_two_known_versions_are_written_with_the_same_digits(what: str) -> None:
    digits = [version_digits(version) for version in versions(what)]
    assert len(set(digits)) == len(digits)


def test_a_version_with_two_digits_is_read_from_the_table() -> None:
    name = VariantName.parse("torch213-cxx11-rocm710-x86_64-linux")
    assert (name.framework_version, name.backend_version) == ((2, 13), (7, 10))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "torch213-cxx11-cu1210-x86_64-linux",
            "`1210` in .* is not a known cuda version .*did you mean `121`",
        ),
        ("torch1010-cpu-x86_64-linux", "`1010` in .* is not a known torch version"),
        ("torch213-cuda130-x86_64-linux", "`cuda` in .* is not a known backend .*cu,"),
        ("torch213-CU130-x86_64-linux", "is not a variant name"),
        ("torch213-cpu-x86_64-linux-musl", "is not a variant name"),
        ("torch213-cpu-../x-linux", "is not a variant name"),
        ("torch-", "is not a variant name"),
        ("torch-foo-bar", "is not a variant name"),
        ("torch213-cxx11-xpu202510-x86_64-linux", "`202510` in .* is not a known xpu version .*did you mean `20251`"),
        ("torch-stable-abi-cpu-x86_64-linux", "is not a variant name"),
        ("torch213-cu130", "is not a variant name"),
        ("torch-foo", "`foo` in .* is not a known backend"),
        ("torch-cuda\n", "is not a variant name"),
        ("torch213-cpu5-x86_64-linux", "`5` in .* is not a known cpu version"),
        ("", "is not a variant name"),
    ],
)
def test_a_name_that_would_need_a_guess_is_refused(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        VariantName.parse(text)


@given(st.text() | st.from_regex(r"torch[^/]*-(x86_64|aarch64)-linux"))
def test_any_text_is_a_name_or_refused_in_words(text: str) -> None:
    try:
        name = VariantName.parse(text)
    except UsageError as error:
        refusal = error
    else:
        assert str(name) == text
        return
    assert refusal.hint or "known" in refusal.message


def test_the_versions_of_a_backend_are_told_the_newest_first() -> None:
    assert known_versions("rocm")[:2] == ((7, 10), (7, 2))
    assert known_versions("cpu") == ()


@given(st.from_regex(r"(torch|tvm-ffi)(-stable-abi)?[0-9]{0,4}(-cxx11|-cxx98)?-[a-z]{2,6}[0-9]{0,4}(-x86_64-linux)?"))
def test_what_can_be_read_is_written_the_same(text: str) -> None:
    try:
        name = VariantName.parse(text)
    except UsageError:
        return
    assert str(name) == text
