"""What every backend must hold to, proved on those that are there and on one that is added as one file."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import kernelworks
from kernelworks import backends
from kernelworks.backends import cuda, rocm
from kernelworks.backends.spec import Backend, HostBackend
from kernelworks.compat import Accepted, Rejected, judge
from kernelworks.host import HostEnv
from kernelworks.model.variant import BackendFacts, DeviceArchs, Variant
from kernelworks.model.variant_name import Version2, known_backends

PACKAGE = Path(kernelworks.__file__).parent

TOY = """
from kernelworks.backends.spec import Backend, HostBackend, Toolkit

BACKEND = Backend(
    name="toy",
    label="Toy",
    rank=99,
    detect=lambda torch: HostBackend("toy", (1, 0), ("7.0",)) if torch else None,
    toolkit=Toolkit("exactly this version", lambda variant, torch: variant == torch),
    runs=lambda archs, device: device in archs.sass,
)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    (tmp_path / "toy_backend.py").write_text(TOY)
    monkeypatch.setattr(backends, "__path__", [*backends.__path__, str(tmp_path)])
    backends.registered.cache_clear()
    yield backends.registered()["toy"]
    backends.registered.cache_clear()


@pytest.fixture(params=[*backends.registered(), "toy"])
def backend(request: pytest.FixtureRequest, toy: Backend) -> Backend:
    return toy if request.param == "toy" else backends.registered()[request.param]


def test_a_backend_is_named_and_ranked_without_doubt(backend: Backend) -> None:
    others = [other for other in backends.registered().values() if other is not backend]
    assert re.fullmatch("[a-z][a-z0-9]*", backend.name)
    assert backend.label
    assert backend.rank not in {other.rank for other in others}


def test_a_backend_with_device_code_has_a_toolkit(backend: Backend) -> None:
    assert (backend.toolkit is None) == (backend.runs is None)


def test_a_backend_fits_a_variant_of_its_own_toolkit_version(backend: Backend) -> None:
    if backend.toolkit:
        assert backend.toolkit.accepts((7, 1), (7, 1))
        assert not backend.toolkit.accepts((7, 1), (8, 1))
        assert backend.toolkit.rule


def test_a_backend_runs_machine_code_for_its_own_device_only(backend: Backend) -> None:
    here, other = ("gfx942", "gfx90a") if backend.name == "rocm" else ("7.0", "6.0")
    if backend.runs:
        assert backend.runs(DeviceArchs((here,)), here)
        assert not backend.runs(DeviceArchs((here,)), other)
        assert not backend.runs(DeviceArchs(), here)


def test_the_loader_and_the_names_of_variants_know_the_same_backends() -> None:
    assert set(backends.registered()) <= set(known_backends())


def test_a_new_backend_is_one_file(toy: Backend, host: HostEnv, variant: Variant) -> None:
    found = toy.detect(object())
    assert found
    fit = dataclasses.replace(variant, backend=BackendFacts("toy", (1, 0), DeviceArchs(("7.0",))))
    wrong = dataclasses.replace(variant, backend=BackendFacts("toy", (1, 1), DeviceArchs(("8.0",))))
    here = dataclasses.replace(host, backends=(found, *host.backends))
    assert isinstance(judge(fit, here), Accepted)
    verdict = judge(wrong, here)
    assert isinstance(verdict, Rejected)
    assert [reason.text for reason in verdict.reasons] == [
        "is built with Toy 1.1, and torch with 1.0",
        "has device code for 8.0, which a visible device of arch 7.0 cannot run",
    ]


def test_no_other_file_of_the_loader_names_a_backend() -> None:
    """`cpu` is also the word for the processor, as a key of the index: only comparing with it is a branch."""
    names = set(known_backends())
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path.parent == PACKAGE / "backends":
            continue
        tree = ast.parse(path.read_text())
        branches = [node for node in ast.walk(tree) if isinstance(node, ast.Compare | ast.MatchValue)]
        compared = {id(node) for branch in branches for node in ast.walk(branch)}
        found += [
            f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and node.value in names and (node.value != "cpu" or id(node) in compared)
        ]
    assert found == []


@pytest.mark.parametrize(
    ("variant", "torch", "fits"),
    [
        ((13, 0), (13, 0), True),
        ((13, 0), (13, 2), True),
        ((13, 2), (13, 0), False),
        ((12, 8), (13, 0), False),
        ((13, 0), (12, 8), False),
    ],
)
def test_cuda_is_minor_compatible_within_one_major(variant: Version2, torch: Version2, fits: bool) -> None:
    assert cuda.BACKEND.toolkit
    assert cuda.BACKEND.toolkit.accepts(variant, torch) is fits


@pytest.mark.parametrize(
    ("sass", "ptx", "device", "runs"),
    [
        ("8.0", "", "8.0", True),
        ("8.0", "", "8.9", True),
        ("8.6", "", "8.0", False),
        ("8.0", "", "9.0", False),
        ("9.0a", "", "9.0", True),
        ("10.0a", "", "10.3", False),
        ("10.0f", "", "10.3", True),
        ("10.0f", "", "11.0", False),
        ("", "8.0", "8.0", True),
        ("", "8.0", "9.0", True),
        ("", "8.0", "12.1", True),
        ("", "9.0", "8.9", False),
        ("", "9.0a", "9.0", True),
        ("", "9.0a", "10.0", False),
        ("", "10.0f", "10.3", True),
        ("", "10.0f", "12.0", False),
        ("8.0 9.0", "", "12.0", False),
        ("gfx942", "gfx942", "9.4", False),
        ("8.0 9.0 12.0", "", "12.1", True),
    ],
)
def test_cuda_device_code_runs_where_nvidia_says(sass: str, ptx: str, device: str, runs: bool) -> None:
    assert cuda.BACKEND.runs
    assert cuda.BACKEND.runs(DeviceArchs(tuple(sass.split()), tuple(ptx.split())), device) is runs


@pytest.mark.parametrize(
    ("archs", "devices", "oldest"),
    [
        (DeviceArchs(("9.0",), ("9.0",)), ("9.0",), (13, 0)),
        (DeviceArchs(("9.0",), ("9.0",)), ("9.0", "12.0"), (13, 2)),
        (DeviceArchs((), ("8.0",)), ("8.0",), (13, 2)),
        (DeviceArchs(), ("8.0",), (13, 0)),
    ],
)
def test_cuda_needs_a_driver_of_its_major_and_for_ptx_of_its_own_version(
    archs: DeviceArchs, devices: tuple[str, ...], oldest: Version2
) -> None:
    assert cuda.BACKEND.driver
    assert cuda.BACKEND.driver(BackendFacts("cuda", (13, 2), archs), devices) == oldest


@pytest.mark.parametrize(
    ("code", "device", "runs"),
    [
        ("gfx942", "gfx942:sramecc+:xnack-", True),
        ("gfx942:xnack-", "gfx942:sramecc+:xnack-", True),
        ("gfx942:xnack+", "gfx942:sramecc+:xnack-", False),
        ("gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-", True),
        ("gfx90a:sramecc-:xnack-", "gfx90a:sramecc+:xnack-", False),
        ("gfx90a:xnack-", "gfx90a", False),
        ("gfx90a gfx942", "gfx942", True),
        ("gfx942", "gfx950", False),
        ("9.0", "gfx90a", False),
    ],
)
def test_rocm_code_runs_on_its_own_processor_in_the_states_that_it_asks_for(code: str, device: str, runs: bool) -> None:
    assert rocm.BACKEND.runs
    assert rocm.BACKEND.runs(DeviceArchs(tuple(code.split())), device) is runs


@pytest.mark.parametrize(
    ("versions", "runtime"),
    [
        ({"hip": "7.2.53211-671d39a"}, (7, 2)),
        ({"rocm": "7.2.0"}, (7, 2)),
        ({"hip": None, "rocm": "7.2.0"}, (7, 2)),
        ({"hip": "7.15.26333", "rocm": "10.0.0"}, (7, 15)),
    ],
)
def test_rocm_is_detected_whichever_version_torch_tells(versions: dict[str, str | None], runtime: Version2) -> None:
    archs = ["gfx942:sramecc+:xnack-", "gfx90a:sramecc+:xnack-", "gfx942:sramecc+:xnack-"]
    torch = SimpleNamespace(
        version=SimpleNamespace(cuda=None, **versions),
        cuda=SimpleNamespace(
            is_available=lambda: True,
            device_count=lambda: len(archs),
            get_device_properties=lambda device: SimpleNamespace(gcnArchName=archs[device]),
        ),
    )
    assert rocm.BACKEND.detect(torch) == HostBackend("rocm", runtime, (archs[1], archs[0]))
    assert cuda.BACKEND.detect(torch) is None
    torch.version = SimpleNamespace(cuda="13.0")
    assert rocm.BACKEND.detect(torch) is None
    assert rocm.BACKEND.detect(None) is None


def test_cuda_is_detected_from_what_torch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_driver", lambda: (13, 2))
    capabilities = [(9, 0), (8, 0), (9, 0)]
    torch = SimpleNamespace(
        version=SimpleNamespace(cuda="13.0"),
        cuda=SimpleNamespace(
            is_available=lambda: bool(capabilities),
            device_count=lambda: len(capabilities),
            get_device_capability=lambda device: capabilities[device],
        ),
    )
    assert cuda.BACKEND.detect(torch) == HostBackend("cuda", (13, 0), ("8.0", "9.0"), (13, 2))
    capabilities.clear()
    assert cuda.BACKEND.detect(torch) == HostBackend("cuda", (13, 0), (), (13, 2))
    torch.version.cuda = None
    assert cuda.BACKEND.detect(torch) is None
    assert cuda.BACKEND.detect(None) is None
