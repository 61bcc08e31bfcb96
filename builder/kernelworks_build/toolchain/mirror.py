"""Mirrors of locked artifacts, addressed by SHA-256: a lock outlives its origin, and machines without a network build.

A mirror is a folder or a URL. It holds `artifacts/<aa>/<sha256>`, where `aa` are the first two digits. Of a wheel of
which only some files are ever read it holds these as a zip file of their own; the digest of the tree proves them.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelworks.durable import replace_file
from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain.cut import cut
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import Artifact, Lock
from kernelworks_build.toolchain.origins import Origins, address
from kernelworks_build.toolchain.recipes import layout
from kernelworks_build.toolchain.remote import Remote, RemoteError, shown
from kernelworks_build.toolchain.shelf import excerpt_name, holds, put, read_excerpt
from kernelworks_build.toolchain.torch_sdk import HEADERS

__all__ = ["Copied", "Item", "pull", "push"]

_Part = tuple[Artifact, re.Pattern[str]]

_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Item:
    """One file of a mirror.

    Attributes:
        artifact: What it is, or what it was cut out of.
        name: The file's name.
        size: Bytes.
        copied: Whether it was not there before.
    """

    artifact: Artifact
    name: str
    size: int
    copied: bool


@dataclass(frozen=True)
class Copied:
    """What was done.

    Attributes:
        items: What is at both ends now.
        left_out: What may not be passed on: each machine fetches it from its origin.
    """

    items: tuple[Item, ...]
    left_out: tuple[Artifact, ...]


def push(locks: Iterable[Lock], target: str, fetcher: Fetcher) -> Copied:
    """Copy what `locks` pin, and may be passed on, to the mirror `target`; what is not in the cache is fetched.

    Raises:
        ToolchainError: An artifact cannot be had, or the mirror takes nothing.
    """
    whole, parts = _wanted(locks)
    free = [item for item in whole if not item.restricted]
    root = address(target)
    with Remote() as remote:
        files = [(item, item.sha256, path) for item, path in fetcher.fetch(free).items()]
        files += [(item, *_excerpt(item, wanted, fetcher)) for item, wanted in parts]
        try:
            items = tuple(
                Item(item, name, path.stat().st_size, put(path, name, root, remote))
                for item, name, path in sorted(files)
            )
        except RemoteError as error:
            raise ToolchainError(f"the mirror `{shown(root)}` takes nothing: {error}", mirror=shown(root)) from error
    return Copied(items, _others(whole, free))


def pull(locks: Iterable[Lock], source: str, fetcher: Fetcher) -> Copied:
    """Copy what `locks` pin from the mirror `source` into the cache of `fetcher`.

    What may not be passed on is left out where neither the cache nor the mirror has it.

    Raises:
        ToolchainError: What else the mirror lacks, or has with other bytes.
    """
    whole, parts = _wanted(locks)
    mirrored = Fetcher(fetcher.cache, Origins.of(mirrors=[source]), fetcher.progress)
    known = {item for item in whole if mirrored.cached(item)}
    there = [
        item for item in whole if item in known or not item.restricted or holds(item.sha256, mirrored.origins.mirrors)
    ]
    items = [
        Item(item, item.sha256, item.size, item not in known)
        for item in sorted(mirrored.fetch(there, relock="kernel-build toolchain push"))
    ]
    return Copied((*items, *_pull_parts(parts, mirrored)), _others(whole, there))


def _pull_parts(parts: Iterable[_Part], mirrored: Fetcher) -> Iterator[Item]:
    """The excerpts, or the whole wheel where the mirror has that."""
    for item, wanted in sorted(parts, key=lambda part: excerpt_name(*part)):
        name = excerpt_name(item, wanted)
        place = mirrored.folder / name
        if place.is_file() or mirrored.cached(item):
            yield Item(item, name, place.stat().st_size if place.is_file() else item.size, copied=False)
        elif found := read_excerpt(name, mirrored.origins.mirrors):
            replace_file(place, found[0])
            yield Item(item, name, len(found[0]), copied=True)
        else:
            mirrored.fetch([item], relock="kernel-build toolchain push")
            yield Item(item, item.sha256, item.size, copied=True)


def _wanted(locks: Iterable[Lock]) -> tuple[list[Artifact], set[_Part]]:
    """The artifacts that are needed whole, and those of which some files are."""
    whole: list[Artifact] = []
    parts: set[_Part] = set()
    for lock in locks:
        cuts = _cuts(lock)
        parts |= set(cuts.items())
        whole += [item for item in lock.artifacts if item not in cuts]
    return whole, parts


def _others(whole: Iterable[Artifact], taken: Iterable[Artifact]) -> tuple[Artifact, ...]:
    return tuple(sorted(set(whole) - set(taken)))


def _cuts(lock: Lock) -> dict[Artifact, re.Pattern[str]]:
    if lock.recipe == "torch":
        return dict.fromkeys(lock.artifacts, HEADERS)
    return {item: wanted for item in lock.artifacts if (wanted := layout(lock.recipe).cut_of(item))}


def _excerpt(item: Artifact, wanted: re.Pattern[str], fetcher: Fetcher) -> tuple[str, Path]:
    """Name and path, in the cache, of the zip file of what is read of `item`."""
    name = excerpt_name(item, wanted)
    path = fetcher.folder / name
    if not path.is_file():
        members, _ = cut(item, wanted, fetcher, relock="kernel-build lock")
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, data in members:
                archive.writestr(zipfile.ZipInfo(member, _EPOCH), data, zipfile.ZIP_DEFLATED)
        replace_file(path, content.getvalue())
    return name, path
