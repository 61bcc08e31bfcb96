"""The page of one kernel: signatures, relations, downloads, yanks, deprecations, former names, changes of versions."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from kernelworks.model.digest import FileEntry
from kernelworks.model.variant import (
    BackendFacts,
    KernelDependency,
    Platform,
    PythonAbi,
    TorchSymbols,
    Variant,
)
from kernelworks_server.pages.plot import HEIGHT, plot
from kernelworks_server.rights import MACHINE

if TYPE_CHECKING:
    from conftest import Site  # type: ignore[import-not-found]

Variants = Callable[..., Variant]
Indexes = Callable[..., bytes]


@pytest.mark.server
def test_each_variant_says_what_signatures_lie_beside_it(site: Site, variant: Variants, index: Indexes) -> None:
    names = ("demo-both", "demo-one", "demo-none")
    files = {
        "kernel.json": index(1, *(variant(name) for name in names)),
        "attestations/demo-both.dsse.json": b"{}",
        "build/demo-both/metadata.json.sigstore": b"{}",
        "build/demo-one/metadata.json.sigstore": b"{}",
        "attestations/demo-other.dsse.json": b"{}",
    }
    site.commit(site.repo("demo/relu"), "v1", files)
    page = site.get("/demo/relu").text
    said = {
        name: re.findall(r'<span class="mark" title="[^"]*">([^<]+)</span>', cell)
        for name, cell in re.findall(r'<div class="variant" title="([^"]+)">(.*?)</div>', page, re.DOTALL)
    }
    assert said == {
        "demo-both": ["attestation", "sigstore bundle"],
        "demo-one": ["sigstore bundle"],
        "demo-none": ["unsigned"],
    }
    assert "whether it holds is not checked here" in page


@pytest.mark.server
def test_kernels_lead_to_what_they_load_and_to_what_loads_them(site: Site, variant: Variants, index: Indexes) -> None:
    needs = (KernelDependency("demo/relu", 1), KernelDependency("far/away", revision="c0ffee"))
    site.commit(site.repo("demo/relu"), "v1", {"kernel.json": index(1, variant("relu-cpu"))})
    for repo_id, private in (("other/mlp", False), ("other/hidden", True)):
        facts = index(1, variant("mlp-cpu", kernel_depends=needs))
        site.commit(site.repo(repo_id, private=private), "v1", {"kernel.json": facts})
    mlp = site.get("/other/mlp").text
    assert '<a href="/demo/relu">demo/relu</a> <small>version 1</small>' in mlp
    assert "<bdi>far/away</bdi> <small>c0ffee, not here</small>" in mlp
    assert '<dt>Is loaded by</dt><dd><a href="/other/mlp">other/mlp</a></dd>' in site.get("/demo/relu").text
    assert "other/hidden" in site.get("/demo/relu", token=site.server.token).text


@pytest.mark.server
def test_a_kernel_that_was_renamed_is_still_known_to_those_that_load_it(
    site: Site, variant: Variants, index: Indexes
) -> None:
    site.commit(site.repo("demo/relu"), "v1", {"kernel.json": index(1, variant("relu-cpu"))})
    facts = index(1, variant("mlp-cpu", kernel_depends=(KernelDependency("demo/relu", 1),)))
    site.commit(site.repo("demo/mlp"), "v1", {"kernel.json": facts})
    site.server.services.repositories.rename(MACHINE, "kernel", "demo/relu", "demo/rectify")
    assert 'Is loaded by</dt><dd><a href="/demo/mlp">' in site.get("/demo/rectify").text
    assert '<a href="/demo/rectify">demo/relu</a>' in site.get("/demo/mlp").text


@pytest.mark.server
@pytest.mark.parametrize("rest", ["", "/fit", "?revision=v1", "/fit?revision=v1"])
def test_an_address_with_a_former_name_leads_to_the_same_page_of_the_new_one(
    site: Site, variant: Variants, index: Indexes, rest: str
) -> None:
    site.commit(site.repo("demo/relu"), "v1", {"kernel.json": index(1, variant("relu-cpu"))})
    site.server.services.repositories.rename(MACHINE, "kernel", "demo/relu", "demo/rectify")
    answer = site.get(f"/demo/relu{rest}")
    assert (answer.status, answer.headers["Location"]) == (307, f"/demo/rectify{rest}")
    assert site.get(f"/demo/rectify{rest}").status == 200


@pytest.mark.server
def test_the_former_name_of_a_private_kernel_tells_nobody_of_it(site: Site) -> None:
    site.repo("demo/relu", private=True)
    site.server.services.repositories.rename(MACHINE, "kernel", "demo/relu", "demo/rectify")
    assert site.get("/demo/relu").status == 404
    assert site.get("/demo/relu", token=site.server.token).status == 307


@pytest.mark.server
def test_a_yanked_version_is_marked_and_another_one_shown_first(site: Site, variant: Variants, index: Indexes) -> None:
    repo = site.repo("demo/relu")
    for version in (1, 2):
        site.commit(repo, f"v{version}", {"kernel.json": index(version, variant("relu-cpu", size=version))})
    site.server.services.repositories.yank(MACHINE, repo, "v2", "wrong <gradients>")
    shown = site.get("/demo/relu").text
    assert "version=1)" in shown
    assert "This revision is yanked" not in shown
    assert '<span class="badge bad" title="wrong &lt;gradients&gt;">yanked</span>' in shown
    yanked = site.get("/demo/relu?revision=v2").text
    assert "This revision is yanked:</strong> <bdi>wrong &lt;gradients&gt;</bdi>" in yanked
    assert "Version 1</a> is the newest that is not yanked" in yanked
    assert "version 1" in site.get("/").text


@pytest.mark.server
def test_a_deprecated_kernel_says_so_on_its_pages_and_in_lists(site: Site, variant: Variants, index: Indexes) -> None:
    repo = site.repo("demo/relu")
    site.commit(repo, "v1", {"kernel.json": index(1, variant("relu-cpu"))})
    site.server.services.repositories.deprecate(MACHINE, repo, "slow", "demo/rectify")
    for path in ("/demo/relu", "/demo/relu/fit"):
        page = site.get(path).text
        assert "This kernel is deprecated:</strong> <bdi>slow</bdi>" in page
        assert 'Use <a href="/demo/rectify">demo/rectify</a> instead' in page
    site.server.services.repositories.yank(MACHINE, repo, "v1")
    for path in ("/", "/demo"):
        assert '<span class="badge bad">deprecated</span>' in site.get(path).text
        assert '<span class="badge bad">yanked</span>' in site.get(path).text


@pytest.mark.server
def test_downloads_are_a_plot_with_the_same_numbers_as_text(site: Site, variant: Variants, index: Indexes) -> None:
    repo = site.repo("demo/relu")
    site.commit(repo, "v1", {"kernel.json": index(1, variant("relu-cpu"))})
    assert "<svg" not in site.get("/demo/relu").text.partition("<main")[2]
    for _ in range(1_234):
        site.server.services.downloads.count(repo.id, "relu-cpu")
    site.server.services.downloads.flush()
    page = site.get("/demo/relu").text
    assert 'role="img" aria-labelledby="plot-title plot-text"' in page
    assert page.count("<rect") == 1
    assert ": 1,234</title>" in page
    assert "<td>1,234</td>" in page
    assert "<td><code>relu-cpu</code></td><td>1,234</td>" in page
    assert ">1,234 downloads</span>" in site.get("/").text


def test_a_plot_keeps_its_proportions_and_shows_a_single_download() -> None:
    first = date(2026, 1, 1)
    counts = {first + timedelta(day): count for day, count in enumerate([0] * 12 + [1, 1_000])}
    made = plot(counts)
    one, most = made.bars
    assert (most.y, most.height) == (0, HEIGHT)
    assert 0 < one.height < HEIGHT / 10
    assert one.x + one.width <= most.x
    assert most.x + most.width <= made.width
    assert made.weeks == ((first + timedelta(7), 1_001), (first, 0))
    assert made.total == 1_001


def test_a_plot_of_nothing_is_empty() -> None:
    assert plot({date(2026, 1, 1): 0}).bars == ()


@pytest.mark.server
def test_a_rebuilt_variant_says_what_of_it_is_another(site: Site, variant: Variants, index: Indexes) -> None:
    repo = site.repo("demo/relu")
    before = variant("relu-cuda", size=1_000_000, backend=BackendFacts("cuda", (13, 0)), archs=("8.0", "9.0"))
    after = variant(
        "relu-cuda",
        size=2_500_000,
        backend=BackendFacts("cuda", (13, 0)),
        archs=("9.0", "10.0"),
        platform=Platform("x86_64", "linux", (2, 34)),
        python_abi=PythonAbi("abi3", (3, 11)),
        torch_symbols=TorchSymbols(("aoti_torch_empty",)),
        libraries=("libc.so.6", "libcudart.so.13"),
    )
    site.commit(repo, "v1", {"kernel.json": index(1, before)})
    site.commit(repo, "v1", {"kernel.json": index(1, after)})
    told = re.search(r'<li class="rebuilt"><code>relu-cuda</code><small>(.*?)</small>', site.get("/demo/relu").text)
    assert told is not None
    assert told[1].split(", ") == [
        "+1.5 MB",
        "glibc 2.28 → glibc 2.34",
        "Python ≥ 3.10 → Python ≥ 3.11",
        "torch symbols 0 → 1",
        "archs +10.0 \N{MINUS SIGN}8.0",
        "libraries +libcudart.so.13",
    ]


@pytest.mark.server
def test_a_variant_with_another_digest_alone_is_told_by_its_size(site: Site, variant: Variants, index: Indexes) -> None:
    repo, built = site.repo("demo/relu"), variant("relu-cpu")
    again = dataclasses.replace(built, wheel=FileEntry(built.wheel.path, built.wheel.size, "f" * 64))
    site.commit(repo, "v1", {"kernel.json": index(1, built)})
    site.commit(repo, "v1", {"kernel.json": index(1, again)})
    assert "<small>same size</small>" in site.get("/demo/relu").text
