from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kernelworks.backends.spec import HostBackend
from kernelworks.compat import Accepted
from kernelworks.host import HostEnv, Libc
from kernelworks.model.digest import FileEntry
from kernelworks.model.variant import (
    BackendFacts,
    DeviceArchs,
    FrameworkFacts,
    Platform,
    PythonAbi,
    TorchSymbols,
    Variant,
)
from kernelworks.resolve import chosen, no_fit, weigh

HOST = HostEnv(
    (3, 12),
    "cpython",
    False,
    "2.13.0+cu132",
    True,
    (HostBackend("cuda", (13, 2), ("9.0",)), HostBackend("cpu")),
    "x86_64",
    "linux",
    Libc("glibc", (2, 36)),
)

versions = st.tuples(st.just(2), st.integers(9, 15))
frameworks = st.builds(FrameworkFacts, st.sampled_from(["torch", "torch-stable-abi"]), versions) | st.just(
    FrameworkFacts("none", None)
)
backends = st.just(BackendFacts("cpu", None)) | st.builds(
    BackendFacts,
    st.just("cuda"),
    st.tuples(st.sampled_from([12, 13]), st.integers(0, 3)),
    st.builds(DeviceArchs, st.sampled_from([("8.0",), ("9.0",), ("8.0", "9.0")])),
)
unnamed = st.builds(
    Variant,
    name=st.just(""),
    id=st.just("_demo"),
    framework=frameworks,
    backend=backends,
    python_abi=st.sampled_from([PythonAbi("none", None), PythonAbi("abi3", (3, 9)), PythonAbi("exact", (3, 13))]),
    platform=st.sampled_from([Platform("x86_64", "linux", (2, 28)), Platform("aarch64", "linux", None)]),
    libraries=st.just(()),
    torch_symbols=st.just(TorchSymbols(())),
    python_depends=st.just(()),
    wheel=st.just(FileEntry("w", 0, "0" * 64)),
    package=st.just("demo"),
    files=st.just(()),
    lock=st.just("0" * 64),
    hermetic=st.just(value=True),
)
variant_lists = st.lists(unnamed, max_size=8).map(
    lambda items: [dataclasses.replace(item, name=f"variant{position}") for position, item in enumerate(items)]
)


@given(variant_lists, st.randoms(), st.sampled_from([None, "cpu", "cuda"]))
def test_the_order_of_the_input_never_matters(variants: list[Variant], random: Any, backend: str | None) -> None:
    shuffled = list(variants)
    random.shuffle(shuffled)
    assert weigh(shuffled, HOST, backend) == weigh(variants, HOST, backend)


@given(variant_lists)
def test_an_unfit_variant_never_changes_the_choice(variants: list[Variant]) -> None:
    fit = [verdict.variant for verdict in weigh(variants, HOST) if isinstance(verdict, Accepted)]
    assert chosen(weigh(fit, HOST)) == chosen(weigh(variants, HOST))


@given(variant_lists)
def test_every_variant_gets_one_verdict_and_the_fit_ones_come_first(variants: list[Variant]) -> None:
    verdicts = weigh(variants, HOST)
    fits = [isinstance(verdict, Accepted) for verdict in verdicts]
    assert sorted(verdict.variant.name for verdict in verdicts) == [variant.name for variant in variants]
    assert fits == sorted(fits, reverse=True)


def test_the_documented_order(variant: Variant) -> None:
    def cuda(name: str, kind: str, framework: tuple[int, int] | None, toolkit: tuple[int, int]) -> Variant:
        return dataclasses.replace(
            variant,
            name=name,
            framework=FrameworkFacts(kind, framework),
            backend=BackendFacts("cuda", toolkit, DeviceArchs(("9.0",))),
        )

    best_first = [
        cuda("z-exact", "torch", (2, 13), (13, 0)),
        cuda("newest-floor", "torch-stable-abi", (2, 12), (13, 0)),
        cuda("highest-toolkit", "torch-stable-abi", (2, 11), (13, 2)),
        cuda("a-name", "torch-stable-abi", (2, 11), (13, 0)),
        cuda("b-name", "torch-stable-abi", (2, 11), (13, 0)),
        cuda("a-none", "none", None, (13, 2)),
    ]
    assert [verdict.variant.name for verdict in weigh(best_first[::-1], HOST)] == [item.name for item in best_first]


def test_the_error_names_every_variant_with_every_reason_and_the_nearest_way_out(
    variant: Variant, host: HostEnv
) -> None:
    variants = [
        dataclasses.replace(variant, name="far", platform=Platform("aarch64", "darwin", None)),
        dataclasses.replace(variant, name="near", framework=FrameworkFacts("torch-stable-abi", (2, 14))),
    ]
    error = no_fit("org/demo", [("version 1", weigh(variants, host))])
    assert str(error) == (
        "no variant of `org/demo` fits this process:\n"
        "  version 1, `near`: needs torch 2.14 or newer, and this is torch 2.13.0+cpu\n"
        "  version 1, `far`: needs the operating system `darwin`, and this is `linux`;"
        " needs a `aarch64` CPU, and this is `x86_64`"
        '\nto use `near`, install it: `pip install "torch>=2.14"`; or ask the publisher for one that fits'
    )
    assert [(item["variant"], len(item["reasons"])) for item in error.context["rejections"]] == [
        ("near", 1),
        ("far", 2),
    ]
