from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kernelworks
from kernelworks import (
    LoadError,
    RepositoryError,
    ResolveError,
    TransportError,
    UsageError,
    VerifyError,
    explain,
    get_kernel,
    get_loaded_kernels,
    get_local_kernel,
    has_kernel,
)
from kernelworks.backends.spec import HostBackend
from kernelworks.model.digest import hash_bytes, list_tree
from kernelworks.model.variant import BackendFacts, FrameworkFacts, Variant

Pack = Callable[..., tuple[Variant, bytes]]
NEWER = {
    "framework": FrameworkFacts("torch-stable-abi", (2, 14)),
    "name": "torch-stable-abi214-cpu-x86_64-linux",
}


def test_a_published_kernel_is_found_verified_and_loaded(registry: Any, pack: Pack) -> None:
    published = registry.publish("org/demo", 1, pack())
    module = get_kernel("org/demo", version=1)
    assert module.twice(4) == 8
    kernel = get_loaded_kernels()[-1]
    assert (kernel.origin.subject, kernel.origin.version, kernel.origin.commit) == (
        "org/demo",
        1,
        published.commit,
    )
    assert get_kernel("org/demo", revision=published.commit) is module
    assert get_kernel("org/demo", registry=registry.root.as_uri()) is module


def test_a_process_keeps_what_it_got_first(registry: Any, pack: Pack) -> None:
    registry.publish("org/demo", 1, pack({"__init__.py": b"x = 1\n"}))
    module = get_kernel("org/demo")
    registry.publish("org/demo", 2, pack({"__init__.py": b"x = 2\n"}))
    assert get_kernel("org/demo") is module
    assert get_kernel("org/demo", version=2).x == 2


def test_without_a_version_the_newest_that_fits_is_taken_and_said(
    registry: Any, pack: Pack, caplog: pytest.LogCaptureFixture
) -> None:
    registry.publish("org/demo", 9, pack({"__init__.py": b"x = 9\n"}))
    registry.publish("org/demo", 10, pack({"__init__.py": b"x = 10\n"}))
    registry.publish("org/demo", 11, pack({"__init__.py": b"x = 11\n"}, **NEWER))
    with caplog.at_level(logging.INFO, "kernelworks"):
        assert get_kernel("org/demo").x == 10
    assert "`org/demo`: loaded version 10" in caplog.text
    assert explain("org/demo").version == 10


def test_nothing_fits_is_told_over_all_versions(registry: Any, pack: Pack) -> None:
    registry.publish("org/demo", 1, pack(**NEWER))
    registry.publish("org/demo", 2, pack(**NEWER))
    assert not has_kernel("org/demo")
    with pytest.raises(ResolveError, match=r"needs torch 2\.14 or newer") as caught:
        get_kernel("org/demo")
    assert [item["revision"].split(",")[0] for item in caught.value.context["rejections"]] == [
        "version 2",
        "version 1",
    ]
    assert explain("org/demo").version == 2


def test_a_gpu_machine_gets_the_cpu_variant_only_if_it_asks(
    registry: Any, pack: Pack, this_process: Callable[..., Any]
) -> None:
    this_process(backends=(HostBackend("cuda", (13, 0), ("9.0",)), HostBackend("cpu")))
    registry.publish("org/demo", 1, pack())
    with pytest.raises(ResolveError, match='ask for it: `backend="cpu"`'):
        get_kernel("org/demo")
    assert has_kernel("org/demo", backend="cpu")
    assert get_kernel("org/demo", backend="cpu").twice(1) == 2


def test_an_explanation_has_every_variant_and_this_process(registry: Any, pack: Pack) -> None:
    registry.publish("org/demo", 1, pack(), pack(**NEWER))
    document = json.loads(json.dumps(explain("org/demo").to_json()))
    assert document["chosen"] == "torch-stable-abi211-cpu-x86_64-linux"
    assert [item["accepted"] for item in document["variants"]] == [True, False]
    assert document["host"]["torch"] == "2.13.0+cpu"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"version": True}, "version must be an integer of zero or more, not `True`"),
        ({"version": "1"}, "version must be an integer .*, not the text `1`"),
        ({"version": 1.0}, "not `1.0`"),
        ({"version": -1}, "not `-1`"),
        ({"version": 1, "revision": "v1"}, "both given"),
        ({"revision": "../x"}, "is not a revision"),
        ({"revision": 1}, "is not a revision"),
        ({"backend": "CPU"}, r"backend `CPU` is not known \(known: cpu, cuda.*\); did you mean `cpu`\?"),
        ({"backend": "cdua"}, r"backend `cdua` is not known .*; did you mean `cuda`\?"),
        ({"backend": ["cpu"]}, "is not known"),
        ({"trust_remote_code": "yes"}, "trust_remote_code must be True or False, not the text `yes`"),
        ({"registry": "ftp://registry.invalid"}, "is a URL of a kind that no registry has"),
        ({"registry": 3}, "registry must be a path or a URL, not `3`"),
    ],
)
def test_a_wrong_argument_is_refused(registry: Any, pack: Pack, arguments: dict[str, Any], words: str) -> None:
    registry.publish("org/demo", 1, pack())
    get_kernel("org/demo", version=1)
    with pytest.raises(UsageError, match=words):
        get_kernel("org/demo", **arguments)


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("repo_id", ["../../etc", "", "läb/ünï", "relu", None])
def test_a_bad_repository_id_is_refused(repo_id: Any) -> None:
    with pytest.raises(UsageError, match="is not a repository id"):
        get_kernel(repo_id)


def test_what_the_registry_lacks_is_an_error_for_has_kernel_too(registry: Any, pack: Pack) -> None:
    registry.publish("org/demo", 1, pack())
    (registry.root / "org/empty").mkdir()
    for arguments, words in (
        (("org/other",), "no repository `org/other`"),
        (("org/demo", 2), r"`org/demo` has no version 2 \(there are: 1\)"),
        (("org/empty",), "has no version"),
    ):
        repo_id, version = (*arguments, None)[:2]
        for function in (get_kernel, has_kernel, explain):
            with pytest.raises(RepositoryError, match=words):
                function(repo_id, version=version)  # type: ignore[operator]


def test_a_missing_registry_is_told_and_without_any_the_hub_is_asked(
    registry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWORKS_REGISTRY", str(registry.root / "nowhere"))
    with pytest.raises(TransportError, match=r"nowhere` does not exist; name the folder .* KERNELWORKS_REGISTRY"):
        get_kernel("org/demo")
    monkeypatch.delenv("KERNELWORKS_REGISTRY")
    monkeypatch.setenv("KERNELWORKS_OFFLINE", "1")
    with pytest.raises(TransportError, match=r"registry `https://huggingface\.co` may not be asked"):
        get_kernel("org/demo")


def test_a_ref_that_points_to_another_version_is_refused(registry: Any, pack: Pack) -> None:
    published = registry.publish("org/demo", 1, pack())
    (registry.root / "org/demo/refs/v2").write_text(published.commit)
    with pytest.raises(RepositoryError, match="version 2 of `org/demo` points to commit"):
        get_kernel("org/demo")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


SPY = {"__init__.py": b"import builtins\nbuiltins.ran = True\n", "_ops.abi3.so": b"\x7fELF" + bytes(4096)}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether the kernel `SPY` has run."""
    import builtins  # noqa: PLC0415

    monkeypatch.setattr(builtins, "ran", False, raising=False)
    return lambda: bool(builtins.ran)  # type: ignore[attr-defined]


def test_a_flipped_byte_in_a_wheel_is_refused_before_import(registry: Any, pack: Pack, ran: Callable[[], bool]) -> None:
    published = registry.publish("org/demo", 1, pack(SPY))
    flip(published.folder / published.variants[0].wheel.path)
    wheel = published.folder / published.variants[0].wheel.path
    with pytest.raises(VerifyError, match=f"`{wheel}` is not what was published: expected sha256 .*, got") as caught:
        get_kernel("org/demo")
    assert str(caught.value).count(".whl") == 1
    assert not ran()


@pytest.mark.parametrize("registry_is_there", [True, False])
@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: flip(folder / "_ops.abi3.so"),
        lambda folder: flip(folder / "__init__.py"),
        lambda folder: os.truncate(folder / "_ops.abi3.so", 100),
        lambda folder: (folder / "extra.py").touch(),
        lambda folder: (folder / "link").symlink_to("__init__.py"),
        lambda folder: (folder / "__pycache__").mkdir() or (folder / "__pycache__/x.pyc").touch(),
    ],
)
def test_a_damaged_unpacked_kernel_is_never_imported_but_its_wheel_if_there_is_one(
    *,
    registry: Any,
    pack: Pack,
    tmp_path: Path,
    processes: Any,
    damage: Callable[[Path], None],
    registry_is_there: bool,
    ran: Callable[[], bool],
) -> None:
    published = registry.publish("org/demo", 1, pack(SPY))
    get_kernel_elsewhere = processes.start("import kernelworks\nkernelworks.get_kernel('org/demo')")
    assert get_kernel_elsewhere.communicate() == ("", "")
    damage(tmp_path / "cache/kernels" / published.variants[0].wheel.sha256)
    if registry_is_there:
        assert tuple(list_tree(Path(str(get_kernel("org/demo").__file__)).parent)) == published.variants[0].files
        assert ran()
    else:
        (published.folder / published.variants[0].wheel.path).unlink()
        with pytest.raises(VerifyError, match=r"it could not be unpacked again: revision .* lacks the file"):
            get_kernel("org/demo")
        assert not ran()


def test_a_kernel_that_failed_can_be_tried_again(registry: Any, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.publish("org/demo", 1, pack({"__init__.py": b"import os\nx = 1 / int(os.environ['DIVISOR'])\n"}))
    monkeypatch.setenv("DIVISOR", "0")
    with pytest.raises(LoadError, match="ZeroDivisionError"):
        get_kernel("org/demo")
    monkeypatch.setenv("DIVISOR", "2")
    assert get_kernel("org/demo").x == 0.5


@pytest.fixture
def dist(tmp_path: Path, pack: Pack, make_revision: Callable[..., str], this_process: Callable[..., Any]) -> Path:
    this_process()
    make_revision(tmp_path / "dist", "demo", 3, [pack()])
    return tmp_path / "dist"


def test_a_dist_folder_is_loaded_in_place(dist: Path) -> None:
    module = get_local_kernel(dist)
    assert module.twice(2) == 4
    assert module.__file__ == str(dist / "build/torch-stable-abi211-cpu-x86_64-linux/__init__.py")
    assert get_local_kernel(str(dist)) is module


def test_local_kernels_takes_the_place_of_the_registry(dist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_KERNELS", f"org/other=/x{os.pathsep}org/demo={dist}")
    assert get_kernel("org/demo", version=99) is get_local_kernel(dist)
    assert explain("org/demo").version == 3


def test_a_folder_that_local_kernels_names_wrongly_is_told_with_the_variable(
    registry: Any, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.publish("org/demo", 1, pack())
    monkeypatch.setenv("LOCAL_KERNELS", "org/demo=/nonexist")
    with pytest.raises(RepositoryError, match=r"`/nonexist` does not exist; LOCAL_KERNELS names .* `org/demo`"):
        get_kernel("org/demo")


def test_a_changed_dist_folder_is_refused(dist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(dist / "build/torch-stable-abi211-cpu-x86_64-linux/layers.py")
    monkeypatch.setenv("LOCAL_KERNELS", f"org/demo={dist}")
    for _ in range(2):
        with pytest.raises(VerifyError, match=r"`layers\.py`"):
            get_local_kernel(dist)
        with pytest.raises(VerifyError, match=r"`layers\.py`"):
            get_kernel("org/demo")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "does not exist"),
        ("file", "is a file"),
        ("empty", "holds neither `kernel.json` nor a variant"),
    ],
)
def test_a_folder_that_is_no_kernel_says_what_it_lacks(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(RepositoryError, match=words):
        get_local_kernel(tmp_path / name)


def foreign(root: Path, name: str, sources: dict[str, bytes], **changes: Any) -> Path:
    """A variant folder as other builders write it."""
    folder = root / "build" / name
    for path, data in sources.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    digests = {path: base64.b64encode(bytes.fromhex(hash_bytes(data))).decode() for path, data in sources.items()}
    document = {
        "id": "_demo_cpu_abc1234",
        "name": "demo",
        "version": 1,
        "python-depends": [],
        "backend": {"type": "cpu"},
        "digest": {"algorithm": "sha256", "files": digests},
        **changes,
    }
    (folder / "metadata.json").write_text(json.dumps(document))
    return folder


@pytest.mark.usefixtures("this_process")
def test_a_foreign_folder_is_loaded_by_repository_build_or_variant_folder(
    tmp_path: Path, sources: dict[str, bytes]
) -> None:
    folder = foreign(tmp_path, "torch213-cxx11-cpu-x86_64-linux", sources)
    foreign(tmp_path, "torch29-cxx11-cpu-x86_64-linux", sources, id="_demo_cpu_other")
    module = get_local_kernel(tmp_path)
    assert module.twice(3) == 6
    assert module.__name__.startswith("kernelworks.loaded._demo_cpu_abc1234_")
    assert get_local_kernel(folder.parent) is get_local_kernel(folder) is module


@pytest.mark.usefixtures("this_process")
@pytest.mark.parametrize(
    ("name", "changes", "error", "words"),
    [
        ("torch29-cxx11-cpu-x86_64-linux", {}, ResolveError, "needs exactly torch 2.9"),
        ("torch213-cxx98-cpu-x86_64-linux", {}, ResolveError, "older string ABI"),
        ("torch213-cxx11-cpu-aarch64-darwin", {}, ResolveError, "`darwin`"),
        ("torch213-cxx11-cu130-x86_64-linux", {}, RepositoryError, "is `cpu`, and the folder is for `cuda`"),
        ("torch213-cpu-x86_64-linux", {"digest": None}, RepositoryError, "lacks the key `digest`"),
        ("torch213-cpu-x86_64-linux", {"id": "json"}, RepositoryError, "`id` .* does not match"),
        (
            "torch213-cpu-x86_64-linux",
            {"backend": {"type": "cpu", "archs": ["sm_90"]}},
            RepositoryError,
            "archs",
        ),
        ("torch213-cpu-x86_64-linux", {"id": "_a.b"}, RepositoryError, "`id` .* does not match"),
        (
            "torch213-cpu-x86_64-linux",
            {"digest": {"algorithm": "md5", "files": {}}},
            RepositoryError,
            "not one of",
        ),
        (
            "torch213-cpu-x86_64-linux",
            {"digest": {"algorithm": "sha256", "files": {}}},
            VerifyError,
            "not listed",
        ),
        (
            "torch213-cpu-x86_64-linux",
            {"digest": {"algorithm": "sha256", "files": {"../x": "AA=="}}},
            RepositoryError,
            "not a relative path",
        ),
        ("torch213-cpu5-x86_64-linux", {}, UsageError, "not a known cpu version"),
    ],
)
def test_a_foreign_folder_passes_the_same_checks(
    *,
    tmp_path: Path,
    sources: dict[str, bytes],
    name: str,
    changes: Any,
    error: Any,
    words: str,
) -> None:
    folder = foreign(tmp_path, name, sources, **changes)
    with pytest.raises(error, match=words):
        get_local_kernel(folder)


@pytest.mark.usefixtures("this_process")
def test_of_many_foreign_variants_one_with_an_unknown_version_is_skipped_and_said(
    tmp_path: Path, sources: dict[str, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    foreign(tmp_path, "torch213-cpu-x86_64-linux", sources)
    foreign(tmp_path, "torch999-cpu-x86_64-linux", sources)
    assert get_local_kernel(tmp_path).twice(1) == 2
    assert "`999` in `torch999-cpu-x86_64-linux` is not a known torch version" in caplog.text


@pytest.mark.usefixtures("this_process")
def test_a_linked_build_folder_is_refused(tmp_path: Path, sources: dict[str, bytes]) -> None:
    folder = foreign(tmp_path, "torch-cpu", sources)
    (tmp_path / "repo/build").mkdir(parents=True)
    (tmp_path / "repo/build/torch-cpu").symlink_to(folder)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/build").symlink_to(tmp_path / "build")
    with pytest.raises(VerifyError, match="a symbolic link"):
        get_local_kernel(tmp_path / "repo")
    with pytest.raises(RepositoryError, match="is a symbolic link"):
        get_local_kernel(tmp_path / "linked")
    assert get_local_kernel(folder).twice(1) == 2


def test_the_public_names_are_all_there() -> None:
    assert all(getattr(kernelworks, name) is not None for name in kernelworks.__all__)
    assert set(kernelworks.__all__) <= set(dir(kernelworks))
    with pytest.raises(AttributeError, match="no attribute `get_kernle`"):
        kernelworks.get_kernle  # noqa: B018


def test_a_cuda_variant_is_not_taken_for_a_cpu_torch(registry: Any, pack: Pack) -> None:
    registry.publish(
        "org/demo",
        1,
        pack(backend=BackendFacts("cuda", (13, 0)), name="torch-stable-abi211-cu130-x86_64-linux"),
    )
    with pytest.raises(ResolveError, match="needs a torch that is built for CUDA"):
        get_kernel("org/demo", backend="cuda")


def test_errors_travel_between_processes() -> None:
    error = VerifyError("`a` differs", hint="fetch it", file="a", path=Path("/x"))
    import pickle  # noqa: PLC0415

    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes
    assert (type(copy), str(copy), copy.context) == (VerifyError, "`a` differs; fetch it", error.context)
    assert copy.to_json()["context"] == {"file": "a", "path": "/x"}
