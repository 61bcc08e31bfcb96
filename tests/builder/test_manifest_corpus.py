"""Every public manifest of a corpus is read, planned and migrated; running this file writes the golden plans again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelworks_build.manifest import Manifest, migrate, parse_manifest
from kernelworks_build.matrix import Matrix
from kernelworks_build.plan import make_plan
from kernelworks_build.toolchain.lock import LockSet

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus" / "manifests"
GOLDEN = Path(__file__).parent / "golden" / "plans.txt"
LOCKS = set(LockSet.load(None).locks)
PATHS = sorted(CORPUS.glob("*.toml"))

pytestmark = pytest.mark.skipif(not PATHS, reason="the corpus of public manifests is not beside this checkout")


def read(path: Path) -> Manifest:
    manifest, diagnostics = parse_manifest(path.read_bytes(), path.name)
    assert manifest, "\n".join(map(str, diagnostics))
    return manifest


def plans() -> Iterator[str]:
    """What is planned for each manifest, and why nothing else is; as lines."""
    for path in PATHS:
        plan = make_plan(read(path), Matrix.load(), LOCKS)
        yield path.stem
        yield from (f"  {variant.name}" for variant in plan.variants)
        yield from (f"  not {skipped.subject}: {skipped.reason}" for skipped in plan.skipped)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_public_manifest_is_read_without_an_error_and_says_the_same_when_it_is_migrated(path: Path) -> None:
    manifest = read(path)
    assert manifest.name == path.stem
    migrated = migrate(path.read_bytes(), path.name)
    assert parse_manifest(migrated.new, path.name)[0] == manifest
    assert migrate(migrated.new, path.name).new == migrated.new
    if migrated.edition == 4:
        kept = migrated.new.decode().replace("\nedition = 5\n", "\n", 1)
        assert kept == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_backend_of_a_public_manifest_is_planned_or_has_its_reason(path: Path) -> None:
    manifest = read(path)
    for backend in manifest.backends:
        alone = manifest.model_copy(update={"general": manifest.general.model_copy(update={"backends": (backend,)})})
        plan = make_plan(alone, Matrix.load(), LOCKS)
        assert {variant.backend.kind for variant in plan.variants} <= {backend}
        assert plan.variants or plan.skipped
        assert all(skipped.reason for skipped in plan.skipped)


def test_the_plans_of_the_public_manifests_are_the_golden_ones() -> None:
    assert list(plans()) == GOLDEN.read_text(encoding="utf-8").splitlines(), (
        f"if this is meant: `python {Path(__file__).name}` writes them again"
    )


if __name__ == "__main__":
    GOLDEN.write_text("".join(f"{line}\n" for line in plans()), encoding="utf-8")
