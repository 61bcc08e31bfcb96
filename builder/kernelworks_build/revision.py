"""A revision on disk: `kernel.json`, `wheels/`, `build/<variant>/`, `README.md`. A registry has many, `dist/` one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.model.variant import Variant
from kernelworks.transport.directory_layout import BUILD, listed_files
from kernelworks.verify import Fault, remote_faults
from kernelworks_build.errors import PublishError

__all__ = ["CARD", "check_revision", "copy_variant", "faults_of", "merge", "read_revision", "variant_folder"]

CARD = "README.md"


def read_revision(folder: Path) -> Index | None:
    """The index of the revision in `folder`, or None where there is none."""
    path = folder / INDEX_NAME
    return Index.from_bytes(path.read_bytes(), f"`{path}`") if path.is_file() else None


def variant_folder(root: Path, variant: Variant) -> Path:
    """Where the files of `variant` lie below the revision `root`."""
    return root / BUILD / variant.name


def merge(new: Index, old: Index | None) -> tuple[Index, tuple[str, ...]]:
    """`new` with the variants of `old` that it does not replace, and the names of those that it leaves behind.

    Variants stay together only when they were made from the same sources: a revision has one source.
    """
    if old is None:
        return new, ()
    names = {variant.name for variant in new.variants}
    others = tuple(variant for variant in old.variants if variant.name not in names)
    if (old.name, old.version, old.source.digest) != (new.name, new.version, new.source.digest):
        return new, tuple(variant.name for variant in others)
    return replace(new, variants=tuple(sorted((*new.variants, *others), key=lambda item: item.name))), ()


def copy_variant(variant: Variant, source: Path, target: Path) -> None:
    """Copy the wheel and the folder of `variant` from one revision to another, replacing what is there."""
    wheel = target / variant.wheel.path
    wheel.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source / variant.wheel.path, wheel)
    shutil.rmtree(variant_folder(target, variant), ignore_errors=True)
    for entry in variant.files:
        copy = variant_folder(target, variant) / entry.path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(variant_folder(source, variant) / entry.path, copy)


def faults_of(root: Path, index: Index) -> tuple[Fault, ...]:
    """Every file that `index` lists and that is missing below `root` or differs."""
    return tuple(remote_faults(listed_files(index), lambda entry: (root / entry.path).open("rb")))


def check_revision(root: Path, index: Index, *, hint: str) -> None:
    """Compare every file that `index` lists with the bytes below `root`.

    Raises:
        PublishError: Lists each file that is missing or differs, with what was expected and got.
    """
    if faults := faults_of(root, index):
        words = ", ".join(f"`{fault.file}` (expected {fault.expected}, got {fault.got})" for fault in faults)
        raise PublishError(
            f"files in `{root}` differ from what `{INDEX_NAME}` lists: {words}",
            hint=hint,
            faults=[vars(fault) for fault in faults],
        )
