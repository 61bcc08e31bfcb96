"""Downloads: artifacts into the cache, in parallel, resumed, and proved before they get their name."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock

from kernelworks.model.digest import hash_file
from kernelworks_build.errors import ToolchainError
from kernelworks_build.progress import Advance, Progress
from kernelworks_build.scratch import filling
from kernelworks_build.toolchain.locate import locate
from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.remote import Remote, RemoteError, shown, site

__all__ = ["Fetcher"]

_ARTIFACTS = "artifacts"
_PAUSES = (0.2, 1.0, 3.0)  # seconds before an origin is asked again after a passing fault
_CHUNK = 1 << 20
_SHOWN = 5  # packages named in a message; the context names all


class Fetcher:
    """Fetches artifacts into `cache`/artifacts, each under its SHA-256.

    Args:
        cache: The cache's root.
        origins: Where to look.
        progress: Who is told.
        jobs: Downloads at a time.
        shared: Other caches, whose files are used where they lie; nothing is ever written there.
    """

    def __init__(
        self, cache: Path, origins: Origins, progress: Progress, jobs: int = 4, shared: Iterable[Path] = ()
    ) -> None:
        self.origins = origins
        self.progress = progress
        self.cache = cache
        self.folder = cache / _ARTIFACTS
        self._folders = (self.folder, *(other / _ARTIFACTS for other in shared))
        self._jobs = jobs

    def fetch(self, artifacts: Iterable[Artifact], *, relock: str = "kernel-build lock") -> dict[Artifact, Path]:
        """The path of each artifact; every one has been read whole and has its size and SHA-256.

        A cached file that has been damaged is noted and fetched anew. `relock` is the command that pins the
        artifacts anew, for the hint of an error.

        Raises:
            ToolchainError: All faults of the batch: bytes that are not those of the lock, artifacts that no
                origin has.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        cached = {artifact: self.cached(artifact) for artifact in artifacts}
        missing = [artifact for artifact, path in cached.items() if path is None]
        faults = self._download(missing) if missing else []
        if faults:
            raise _together(faults, relock)
        return {artifact: path or self.folder / artifact.sha256 for artifact, path in cached.items()}

    def cached(self, artifact: Artifact) -> Path | None:
        """The path of `artifact` where it was fetched before, proved as `fetch` proves it."""
        return next((path for path in self.lying(artifact.sha256) if _is(artifact, path)), None)

    def lying(self, name: str) -> Iterator[Path]:
        """Every file `name` in the caches, our own first; nothing proves it."""
        return (folder / name for folder in self._folders if (folder / name).is_file())

    def _download(self, artifacts: Sequence[Artifact]) -> list[ToolchainError | _Missing]:
        stop = threading.Event()
        retried: set[str] = set()
        label = f"fetching {len(artifacts)} package{'s' if len(artifacts) > 1 else ''}"
        with (
            Remote(self.origins.python.certificate, self.origins.python.proxy) as remote,
            self.progress.task(label, sum(artifact.size for artifact in artifacts), "B") as advance,
            ThreadPoolExecutor(self._jobs) as pool,
        ):
            downloads = [
                _Download(artifact, self.folder, self.origins, remote, advance, self.progress, stop, retried)
                for artifact in artifacts
            ]
            running = [pool.submit(download.run) for download in downloads]
            try:
                return [fault for future in running if (fault := future.result())]
            except BaseException:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


@dataclass(frozen=True)
class _Missing:
    """An artifact that is at none of its origins: the places, and what each said."""

    artifact: Artifact
    looked: tuple[tuple[str, RemoteError], ...]

    @property
    def unasked(self) -> tuple[str, ...]:
        """The sites without an answer, with the reason; empty where one answered that it has not the file."""
        sites = {f"`{site(place)}` ({error})": error.asked for place, error in self.looked}
        return () if any(sites.values()) else tuple(sites)


@dataclass
class _Download:
    """One artifact on its way into the cache."""

    artifact: Artifact
    folder: Path
    origins: Origins
    remote: Remote
    advance: Advance
    progress: Progress
    stop: threading.Event
    retried: set[str]
    """Sites that were noted as asked again, by any download of the batch."""
    told: int = 0

    @property
    def path(self) -> Path:
        return self.folder / self.artifact.sha256

    @property
    def part(self) -> Path:
        return self.folder / f"{self.artifact.sha256}.part"

    def run(self) -> ToolchainError | _Missing | None:
        """Why the artifact is not in the cache afterwards; None where it is."""
        with FileLock(f"{self.path}.lock"):
            if self.path.is_file():
                if _is(self.artifact, self.path):  # another process was faster
                    self._tell(self.artifact.size)
                    return None
                self.progress.note(f"the cached `{self.artifact.file}` is damaged: fetching it again")
                self.path.unlink()
            looked: list[tuple[str, RemoteError]] = []
            for url in locate(self.artifact, self.origins, self.remote, lambda *fault: looked.append(fault)):
                try:
                    self._take(url)
                except RemoteError as error:  # noqa: PERF203  # the next origin may have it
                    looked.append((shown(url), error))
                except ToolchainError as error:
                    return error
                else:
                    return None
            return _Missing(self.artifact, tuple(looked))

    def _take(self, url: str) -> None:
        """Complete the part file from `url`, prove it, and give it its name."""
        pauses = iter(_PAUSES)
        while True:
            resumed = self.part.exists()
            try:
                self._stream(url)
            except RemoteError as error:
                pause = next(pauses, None)
                if error.lasting or pause is None:
                    if not error.asked:
                        self.remote.give_up(url, error)  # the other downloads need not find out for themselves
                    raise
                self._note_retry(url, error)
                if self.stop.wait(pause):
                    raise
            except ToolchainError:
                self.part.unlink()
                if not resumed:
                    raise  # else what an earlier run left was the wrong part: once more, from the start
            else:
                self.part.replace(self.path)
                return

    def _note_retry(self, url: str, error: RemoteError) -> None:
        if site(url) not in self.retried:
            self.retried.add(site(url))
            self.progress.note(f"`{site(url)}`: {error}; trying again")

    def _stream(self, url: str) -> None:
        wanted = self.artifact
        with filling(self.part.parent), self.part.open("a+b") as stream:
            digest, size = _digest_so_far(stream)
            if size < wanted.size:
                with self.remote.open(url, start=size) as body:
                    if body.total not in {None, wanted.size}:
                        raise _wrong(wanted, url, f"{wanted.size} bytes", f"{body.total} bytes")
                    if not body.ranged:
                        stream.truncate(0)
                        digest, size = hashlib.sha256(), 0
                    elif body.start != size:
                        raise RemoteError("gave another range than was asked for", lasting=True)
                    for chunk in body.chunks:
                        digest.update(chunk)
                        size += stream.write(chunk)
                        self._tell(size)
                        if size > wanted.size or self.stop.is_set():
                            break
            if size > wanted.size:
                raise _wrong(wanted, url, f"{wanted.size} bytes", "more")
            if size < wanted.size:
                raise RemoteError(f"the connection was cut after {size} of {wanted.size} bytes", lasting=False)
            if digest.hexdigest() != wanted.sha256:
                raise _wrong(wanted, url, wanted.sha256, digest.hexdigest())
            os.fsync(stream.fileno())

    def _tell(self, size: int) -> None:
        """Tell how far it is; what is fetched twice is told once."""
        self.advance(max(0, size - self.told))
        self.told = max(size, self.told)


def _is(artifact: Artifact, path: Path) -> bool:
    return path.is_file() and hash_file(path) == (artifact.size, artifact.sha256)


def _digest_so_far(stream: BinaryIO) -> tuple[hashlib._Hash, int]:
    stream.seek(0)
    digest = hashlib.sha256()
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
    return digest, stream.tell()


def _wrong(artifact: Artifact, url: str, expected: str, got: str) -> ToolchainError:
    return ToolchainError(
        f"`{artifact.file}` from `{shown(url)}` is not that of the lock: expected `{expected}`, got `{got}`",
        file=artifact.file,
        url=shown(url),
        expected=expected,
        got=got,
    )


def _gone(missing: _Missing) -> ToolchainError:
    artifact = missing.artifact
    where = ", ".join(f"`{place}` ({error})" for place, error in missing.looked)
    return ToolchainError(
        f"`{artifact.file}` ({artifact.name} {artifact.version}) is at none of its origins: {where}",
        file=artifact.file,
        looked=[{"place": place, "reason": str(error)} for place, error in missing.looked],
    )


def _unreachable(sites: tuple[str, ...], artifacts: Sequence[Artifact]) -> ToolchainError:
    """One error for all `artifacts` that the same `sites` should have given."""
    names = sorted(artifact.name for artifact in artifacts)
    count = f"{len(names)} packages are" if len(names) > 1 else "1 package is"
    return ToolchainError(
        f"cannot reach {' or '.join(sites)}: {count} missing: {_listed(names, ', ')}",
        hint="check the network, or name another origin by KERNELWORKS_DEB_MIRROR / KERNELWORKS_PYPI_INDEX, or a mirror"
        " by KERNELWORKS_ARTIFACTS",
        sites=sites,
        files=[artifact.file for artifact in artifacts],
    )


def _together(faults: Sequence[ToolchainError | _Missing], relock: str) -> ToolchainError:
    """One error for a batch, with what to do about each kind of fault."""
    others = "name another origin in KERNELWORKS_PYPI_INDEX or KERNELWORKS_DEB_MIRROR"
    errors, unasked = [], defaultdict(list)
    for fault in faults:
        if isinstance(fault, ToolchainError):
            fault.hint = f"an origin, or something on the way to it, has changed the file: {others}"
            errors.append(fault)
        elif fault.unasked:
            unasked[fault.unasked].append(fault.artifact)
        else:
            gone = _gone(fault)
            gone.hint = f"`{relock}` pins what the origins have now; or {others}"
            errors.append(gone)
    errors += [_unreachable(sites, artifacts) for sites, artifacts in unasked.items()]
    if len(errors) == 1:
        return errors[0]
    return ToolchainError(
        f"{len(faults)} packages cannot be had:\n  " + _listed([error.message for error in errors], "\n  "),
        hint="; ".join(dict.fromkeys(error.hint for error in errors if error.hint)),
        faults=[error.to_json() for error in errors],
    )


def _listed(words: Sequence[str], separator: str) -> str:
    more = len(words) - _SHOWN
    return separator.join(words[:_SHOWN]) + (f"{separator.rstrip(' ,')} and {more} more" if more > 0 else "")
