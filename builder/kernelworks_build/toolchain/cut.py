"""Some files of a large wheel, by range requests: headers are a few kilobytes of what weighs hundreds of megabytes."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.locate import locate
from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.range_zip import read_members
from kernelworks_build.toolchain.remote import Remote, RemoteError, shown
from kernelworks_build.toolchain.shelf import excerpt_name, read_excerpt

__all__ = ["Member", "cut", "cut_whole"]

Member = tuple[str, bytes]
"""Name in the wheel, and content."""


def cut(
    wheel: Artifact, wanted: re.Pattern[str], fetcher: Fetcher, *, relock: str
) -> tuple[Iterable[Member], str | None]:
    """The files of `wheel` whose whole name is `wanted`.

    They come from the cache, a mirror, or the first origin that allows ranges; else the whole wheel is fetched.
    With them comes the place that gave them, which no SHA-256 of the wheel proves; None for the whole wheel.

    Raises:
        ToolchainError: The wheel cannot be had or is damaged.
    """
    if whole := fetcher.cached(wheel):
        return cut_whole(wheel, whole, wanted, fetcher), None
    if stored := _stored(wheel, wanted, fetcher):
        return stored
    python, progress = fetcher.origins.python, fetcher.progress
    refused = []
    with Remote(python.certificate, python.proxy) as remote:
        for url in locate(wheel, fetcher.origins, remote, lambda _place, _reason: None):
            try:
                return list(read_members(remote, url, wheel.size, wanted, progress, wheel.name)), shown(url)
            except RemoteError as error:  # noqa: PERF203  # the whole wheel is left; its download says what is wrong
                refused.append(f"`{shown(url)}` gives no ranges ({error})")
    if refused:
        progress.note(f"{'; '.join(refused)}: fetching all {wheel.size / 1e6:.0f} MB of it for some files")
    return cut_whole(wheel, fetcher.fetch([wheel], relock=relock)[wheel], wanted, fetcher), None


def _stored(wheel: Artifact, wanted: re.Pattern[str], fetcher: Fetcher) -> tuple[tuple[Member, ...], str] | None:
    """The files that the cache or a mirror has apart from their wheel, and where."""
    name = excerpt_name(wheel, wanted)
    cached = next(fetcher.lying(name), None)
    found = (cached.read_bytes(), str(cached)) if cached else read_excerpt(name, fetcher.origins.mirrors)
    if found is None:
        return None
    content, where = found
    try:
        with ZipFile(io.BytesIO(content)) as archive:
            return tuple((member, archive.read(member)) for member in archive.namelist()), where
    except (BadZipFile, zlib.error) as error:
        raise ToolchainError(
            f"`{where}` is no zip file of what is read of `{wheel.file}`: {error}", hint="remove it", place=where
        ) from error


def cut_whole(wheel: Artifact, path: Path, wanted: re.Pattern[str], fetcher: Fetcher) -> Iterator[Member]:
    """The files whose whole name is `wanted` of the `wheel` that lies at `path`."""
    with Remote() as remote:
        yield from read_members(remote, path.absolute().as_uri(), wheel.size, wanted, fetcher.progress, wheel.name)
