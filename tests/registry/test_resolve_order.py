from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kernelworks.backends.spec import HostBackend
from kernelworks.compat import Accepted, Rejected, judge
from kernelworks.host import HostEnv, Libc
from kernelworks.lookup import Absent
from kernelworks.model.cpu_features import single_flags
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
from kernelworks.resolve import chosen, no_fit, ways_out, weigh

HOST = HostEnv(
    (3, 12),
    "cpython",
    False,
    "2.13.0+cu132",
    True,
    (HostBackend("cuda", (13, 2), ("9.0",), (13, 2)), HostBackend("cpu")),
    "x86_64",
    "linux",
    Libc("glibc", (2, 36)),
    tuple(sorted(single_flags(["x86-64-v3"]))),
)

versions = st.tuples(st.just(2), st.integers(9, 15))
frameworks = st.builds(FrameworkFacts, st.sampled_from(["torch", "torch-stable-abi"]), versions) | st.just(
    FrameworkFacts("none", None)
)
backends = st.sampled_from([BackendFacts("cpu", None), BackendFacts("universal", None)]) | st.builds(
    BackendFacts,
    st.just("cuda"),
    st.tuples(st.sampled_from([12, 13]), st.integers(0, 3)),
    st.builds(
        DeviceArchs,
        st.sampled_from([(), ("8.0",), ("9.0",), ("8.0", "9.0")]),
        st.sampled_from([(), ("8.0",), ("9.0",)]),
    ),
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
    cpu_features=st.sampled_from([(), ("x86-64-v2",), ("x86-64-v3",), ("x86-64-v4",), ("avx2", "fma")]),
)
variant_lists = st.lists(unnamed, max_size=8).map(
    lambda items: [dataclasses.replace(item, name=f"variant{position}") for position, item in enumerate(items)]
)


def lacks_one_in_two(variant: Variant, _host: HostEnv) -> Absent:
    """A machine that lacks what every second variant needs."""
    return Absent(libraries=("libnowhere.so.7",) if int(variant.name.removeprefix("variant")) % 2 else ())


checks = st.sampled_from([None, lacks_one_in_two])
asked = st.sampled_from([None, "cpu", "cuda", "rocm"])


@given(variant_lists, st.randoms(), asked, checks)
def test_the_order_of_the_input_never_matters(
    variants: list[Variant], random: Any, backend: str | None, check: Any
) -> None:
    shuffled = list(variants)
    random.shuffle(shuffled)
    assert weigh(shuffled, HOST, backend, check) == weigh(variants, HOST, backend, check)


@given(variant_lists, checks)
def test_an_unfit_variant_never_changes_the_choice(variants: list[Variant], check: Any) -> None:
    fit = [verdict.variant for verdict in weigh(variants, HOST, check=check) if isinstance(verdict, Accepted)]
    assert chosen(weigh(fit, HOST, check=check)) == chosen(weigh(variants, HOST, check=check))


@given(variant_lists, asked, checks)
def test_every_rejection_has_a_reason_and_what_is_chosen_lacks_nothing(
    variants: list[Variant], backend: str | None, check: Any
) -> None:
    verdicts = weigh(variants, HOST, backend, check)
    assert all(verdict.reasons for verdict in verdicts if isinstance(verdict, Rejected))
    choice = chosen(verdicts)
    assert choice is None or check is None or check(choice, HOST) == Absent()


@given(variant_lists, asked)
def test_a_variant_is_judged_by_itself_and_always_alike(variants: list[Variant], backend: str | None) -> None:
    alone = {variant.name: judge(variant, HOST, backend) for variant in variants}
    assert {verdict.variant.name: verdict for verdict in weigh(variants, HOST, backend)} == alone


@given(variant_lists, asked)
def test_a_way_out_has_a_remedy_for_every_reason(variants: list[Variant], backend: str | None) -> None:
    verdicts = weigh(variants, HOST, backend)
    ways = ways_out(verdicts)
    assert [way.in_call for way in ways] in ([], [False], [True], [False, True])
    misses = {verdict.variant: verdict for verdict in verdicts if isinstance(verdict, Rejected)}
    for way in ways:
        assert list(way.remedies) == [reason.remedy for reason in misses[way.variant].reasons]


@given(variant_lists)
def test_every_variant_gets_one_verdict_and_the_fit_ones_come_first(variants: list[Variant]) -> None:
    verdicts = weigh(variants, HOST)
    fits = [isinstance(verdict, Accepted) for verdict in verdicts]
    assert sorted(verdict.variant.name for verdict in verdicts) == [variant.name for variant in variants]
    assert fits == sorted(fits, reverse=True)


def test_the_documented_order(variant: Variant) -> None:
    def cuda(name: str, kind: str, minor: int, toolkit: tuple[int, int], **facts: Any) -> Variant:
        framework = FrameworkFacts(kind, (2, minor) if minor else None)
        backend = BackendFacts("cuda", toolkit, DeviceArchs(("9.0",)))
        return dataclasses.replace(variant, **{"name": name, "framework": framework, "backend": backend, **facts})

    only_ptx = BackendFacts("cuda", (13, 2), DeviceArchs(("8.0",), ("8.0",)))
    best_first = [
        cuda("z-exact", "torch", 13, (13, 0)),
        cuda("newest-floor", "torch-stable-abi", 12, (13, 0)),
        cuda("z-more-of-the-cpu", "torch-stable-abi", 11, (13, 0), cpu_features=("x86-64-v3",)),
        cuda("z-some-of-the-cpu", "torch-stable-abi", 11, (13, 0), cpu_features=("x86-64-v2",)),
        cuda("highest-toolkit", "torch-stable-abi", 11, (13, 2)),
        cuda("a-name", "torch-stable-abi", 11, (13, 0)),
        cuda("b-name", "torch-stable-abi", 11, (13, 0)),
        cuda("a-ptx", "torch-stable-abi", 11, (13, 2), backend=only_ptx, cpu_features=("x86-64-v3",)),
        cuda("a-none", "none", 0, (13, 2)),
        cuda("a-universal", "none", 0, (13, 2), backend=BackendFacts("universal", None)),
    ]
    assert all(isinstance(judge(item, HOST), Accepted) for item in best_first)
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


def test_the_error_names_both_ways_out(variant: Variant) -> None:
    variants = [
        dataclasses.replace(
            variant,
            name="newer-gpu",
            framework=FrameworkFacts("torch-stable-abi", (2, 14)),
            backend=BackendFacts("cuda", (13, 0), DeviceArchs(("9.0",))),
        ),
        dataclasses.replace(variant, name="for-the-cpu"),
    ]
    error = no_fit("org/demo", [("version 1", weigh(variants, HOST))])
    assert error.hint == (
        'to use `newer-gpu`, install it: `pip install "torch>=2.14"`;'
        ' or to use `for-the-cpu`, ask for it: `backend="cpu"`'
    )


def test_a_variant_for_a_backend_that_nobody_knows_is_the_farthest_miss() -> None:
    host = dataclasses.replace(HOST, backends=(HostBackend("cpu"),))
    unknown, cuda = (
        Variant(
            name=f"torch-{kind}",
            id="_demo",
            framework=FrameworkFacts("none", None),
            backend=BackendFacts(kind, None),
            python_abi=PythonAbi("none", None),
            platform=Platform("x86_64", "linux", None),
            libraries=(),
            torch_symbols=TorchSymbols(()),
            python_depends=(),
            wheel=FileEntry("wheels/demo.whl", 1, "0" * 64),
            package="demo",
            files=(),
            lock="0" * 64,
            hermetic=True,
        )
        for kind in ("abacus", "cuda")
    )
    verdicts = weigh([unknown, cuda], host)
    assert [verdict.variant for verdict in verdicts] == [cuda, unknown]
    assert "nearest is `torch-cuda`" in (no_fit("org/demo", [("version 1", verdicts)]).hint or "")
