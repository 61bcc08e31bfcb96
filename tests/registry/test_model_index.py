from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelworks.errors import RepositoryError
from kernelworks.model.digest import FileEntry
from kernelworks.model.index import Index, Source
from kernelworks.model.variant import (
    BackendFacts,
    DeviceArchs,
    FrameworkFacts,
    KernelDependency,
    Platform,
    PythonAbi,
    TorchSymbols,
    Variant,
)

hexes = st.binary(min_size=32, max_size=32).map(bytes.hex)
versions = st.tuples(st.integers(0, 30), st.integers(0, 30))
words = st.from_regex(r"[a-z][a-z0-9_]{1,12}", fullmatch=True)
entries = st.builds(FileEntry, words.map("{}.py".format), st.integers(0, 1 << 40), hexes)
archs = st.lists(st.sampled_from(["8.0", "9.0", "9.0a", "10.0f", "gfx942", "gfx90a:sramecc+:xnack-"]), unique=True).map(
    tuple
)
frameworks = st.one_of(
    st.just(FrameworkFacts("none", None)),
    st.builds(
        FrameworkFacts,
        st.sampled_from(["torch", "torch-stable-abi", "tvm-ffi"]),
        versions,
        st.none() | st.booleans(),
    ),
)
pythons = (
    st.just(PythonAbi("none", None))
    | st.builds(PythonAbi, st.sampled_from(["abi3", "exact"]), versions)
    | st.builds(PythonAbi, st.just("exact"), versions, st.booleans())
)
dependencies = st.builds(KernelDependency, st.just("org/base"), st.integers(0, 9)) | st.builds(
    KernelDependency, st.just("org/base"), st.none(), words
)
variants = st.builds(
    Variant,
    name=words,
    id=words.map("_{}".format),
    framework=frameworks,
    backend=st.builds(BackendFacts, st.just("toy"), st.none() | versions, st.builds(DeviceArchs, archs, archs)),
    python_abi=pythons,
    platform=st.builds(Platform, st.none() | st.just("x86_64"), st.none() | st.just("linux"), st.none() | versions),
    libraries=st.lists(words).map(tuple),
    torch_symbols=st.builds(TorchSymbols, st.lists(words).map(tuple)),
    python_depends=st.lists(words).map(tuple),
    wheel=entries,
    package=words,
    files=st.lists(entries, unique_by=lambda entry: entry.path).map(lambda items: tuple(sorted(items))),
    lock=hexes,
    hermetic=st.booleans(),
    kernel_depends=st.lists(dependencies, max_size=2).map(tuple),
    cpu_features=st.sampled_from([(), ("avx512f",), ("x86-64-v3", "sve")]),
)
indexes = st.builds(
    Index,
    name=st.just("demo"),
    version=st.integers(0, 1000),
    license=st.text(st.characters(codec="utf-8").filter(str.isprintable), max_size=20),
    source=st.builds(Source, hexes, st.none() | hexes, st.booleans()),
    builder=st.just("test 0"),
    variants=st.lists(variants, max_size=4, unique_by=lambda variant: variant.name).map(
        lambda items: tuple(sorted(items, key=lambda variant: variant.name))
    ),
)


@given(indexes)
def test_an_index_is_read_back_from_its_bytes(index: Index) -> None:
    assert Index.from_bytes(index.to_bytes(), "test") == index


@given(indexes, st.randoms())
def test_the_bytes_do_not_depend_on_the_order_of_the_variants(index: Index, random: Any) -> None:
    shuffled = list(index.variants)
    random.shuffle(shuffled)
    assert dataclasses.replace(index, variants=tuple(shuffled)).to_bytes() == index.to_bytes()


def test_an_index_from_before_there_were_dependencies_and_cpu_features_keeps_its_bytes(variant: Variant) -> None:
    data = Index("demo", 1, "Apache-2.0", Source("0" * 64), "test 0", (variant,)).to_bytes()
    assert not {"kernel-depends", "cpu-features"} & json.loads(data)["variants"][0].keys()
    assert Index.from_bytes(data, "test").to_bytes() == data


def test_unknown_fields_are_ignored(document: dict[str, Any], variant: Variant) -> None:
    document["new"] = document["variants"][0]["new"] = {"a": 1}
    assert Index.from_bytes(json.dumps(document).encode(), "test").variants == (variant,)


@pytest.fixture
def document(variant: Variant) -> dict[str, Any]:
    index = Index("demo", 1, "Apache-2.0", Source("0" * 64), "test 0", (variant,))
    value: dict[str, Any] = json.loads(index.to_bytes())
    return value


def set_in(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        target: Any = document["variants"][0]
        for key in parents:
            target = target[int(key)] if key.isdigit() else target[key]
        target[last] = value

    return change


FILE = {"path": "a.py", "size": 1, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda document: document.update(schema=2), "`schema` .* upgrade kernelworks"),
        (lambda document: document.pop("variants"), "lacks the key `variants`"),
        (lambda document: document.update(version=True), "`version` .* integer"),
        (lambda document: document.update(version=-1), "`version` .* integer"),
        (lambda document: document["variants"].append(document["variants"][0]), "names a variant twice"),
        (set_in("id", "json"), r"`variants\[0\].id` .* does not match"),
        (set_in("id", "../x"), r"`variants\[0\].id`"),
        (set_in("id", ""), r"`variants\[0\].id`"),
        (set_in("id", "_os.path.evil"), r"`variants\[0\].id`"),
        (set_in("id", "_läb"), r"`variants\[0\].id`"),
        (set_in("name", "../x"), r"`variants\[0\].name`"),
        (set_in("package", "a/b"), r"`variants\[0\].package`"),
        (set_in("wheel.path", "../x.whl"), r"`variants\[0\].wheel.path` .* not a relative path"),
        (set_in("wheel.path", "/x.whl"), r"`variants\[0\].wheel.path`"),
        (set_in("wheel.sha256", "0" * 63 + "A"), r"`variants\[0\].wheel.sha256` .* hex"),
        (set_in("files", [FILE, FILE | {"path": "A.py"}]), "lists a path twice"),
        (
            set_in("files", [FILE, FILE | {"path": "a.py/b"}]),
            r"`variants\[0\].files` .* `a.py` as a file and as a folder",
        ),
        (set_in("files", [FILE | {"path": "A.py/b/c"}, FILE]), "`a.py` as a file and as a folder"),
        (set_in("files", [FILE | {"path": "ä" * 128}]), "at most 255 bytes"),
        (set_in("files", [FILE | {"path": "a\\b"}]), r"`variants\[0\].files\[0\].path`"),
        (set_in("files", [FILE | {"path": "C:a"}]), r"`variants\[0\].files\[0\].path`"),
        (set_in("files", [FILE | {"size": 1.5}]), r"`variants\[0\].files\[0\].size`"),
        (set_in("kernel-depends", [{"repo-id": "org/base"}]), r"`variants\[0\].kernel-depends\[0\]` .* exactly one of"),
        (
            set_in("kernel-depends", [{"repo-id": "org/base", "version": 1, "revision": "v1"}]),
            r"`variants\[0\].kernel-depends\[0\]` .* exactly one of `version` and `revision`",
        ),
        (set_in("kernel-depends", [{"version": 1}]), "lacks the key `repo-id`"),
        (set_in("cpu-features", ["AVX2"]), r"`variants\[0\].cpu-features\[0\]` .* does not match"),
        (set_in("python-abi.free-threaded", True), "`abi3` says nothing of free-threaded builds"),
        (set_in("framework.kind", "jax"), r"`variants\[0\].framework.kind` .* not one of"),
        (set_in("framework.version", "9" * 5000 + ".0"), r"`variants\[0\].framework.version` .* does not match"),
        (set_in("backend.archs.sass", ["sm_90"]), r"`variants\[0\].backend.archs.sass\[0\]`"),
        (set_in("backend.archs.sass", ["9" * 5000 + ".0"]), r"`variants\[0\].backend.archs.sass\[0\]`"),
        (set_in("backend.archs.ptx", ["gfx" + "9" * 5000]), r"`variants\[0\].backend.archs.ptx\[0\]`"),
        (lambda document: document.update(license="\ud800"), r"`license` .* is `\\ud800`, which .* cannot be printed"),
        (
            lambda document: document.update(license="\x1b[2J"),
            r"`license` .* is `\\x1b\[2J`, which .* cannot be printed",
        ),
        (set_in("libraries", ["libc\n.so"]), r"`variants\[0\].libraries\[0\]` .* cannot be printed"),
        (set_in("id", "\x9b2J"), r"`variants\[0\].id` .* cannot be printed"),
    ],
)
def test_a_malformed_index_is_refused_with_the_path_of_the_key(
    document: dict[str, Any], change: Callable[[dict[str, Any]], None], words: str
) -> None:
    change(document)
    with pytest.raises(RepositoryError, match=words):
        Index.from_bytes(json.dumps(document).encode(), "test")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not valid JSON"),
        (b"\xff", "not UTF-8: invalid start byte at byte 0"),
        ("{}".encode("utf-16"), "not UTF-8"),
        ("{}".encode("utf-16-le"), "not valid JSON"),
        ("{}".encode("utf-32"), "not UTF-8"),
        ("{}".encode("utf-8-sig"), "starts with a byte order mark"),
        (b'{"version": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b"[]", "must be an object"),
        (b'{"a": 1, "a": 2}', "key `a` is given twice"),
        (b'{"\\u001b": 1, "\\u001b": 2}', r"key `\\x1b` is given twice"),
        (b'{"a": NaN}', "not a JSON number"),
        (b"[" * 40 + b"]" * 40, "nested deeper"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
def test_what_is_no_index_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(RepositoryError, match=words):
        Index.from_bytes(data, "test")


def reads_or_refuses(data: bytes) -> None:
    try:
        index = Index.from_bytes(data, "test")
    except RepositoryError as error:
        str(error).encode()
    else:
        assert Index.from_bytes(index.to_bytes(), "test") == index


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    reads_or_refuses(data)


@given(indexes, st.data())
def test_an_index_with_wrong_bytes_in_it_is_refused_or_read(index: Index, data: st.DataObject) -> None:
    valid = index.to_bytes()
    start = data.draw(st.integers(0, len(valid)))
    stop = data.draw(st.integers(start, min(start + 8, len(valid))))
    reads_or_refuses(valid[:start] + data.draw(st.binary(max_size=8)) + valid[stop:])


odd_texts = st.text(st.characters(), max_size=8) | st.integers(0, 6000).map(lambda size: "9" * size + ".0")
odd_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | odd_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_texts, inner, max_size=3),
    max_leaves=4,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value inside `value`."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *places(value[key]))]


@settings(max_examples=100)
@given(indexes, odd_values, st.randoms())
def test_an_index_with_a_wrong_value_in_it_is_refused_or_read(index: Index, value: Any, random: Any) -> None:
    document = json.loads(index.to_bytes())
    container, key = random.choice(places(document))
    container[key] = value
    reads_or_refuses(json.dumps(document).encode())
