"""At which URLs an artifact may lie, given the origins of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.remote import Remote, RemoteError, shown
from kernelworks_build.toolchain.shelf import place
from kernelworks_build.toolchain.simple_index import IndexFile, files_of, linked_files

__all__ = ["locate"]


def locate(
    artifact: Artifact, origins: Origins, remote: Remote, on_fault: Callable[[str, RemoteError], None]
) -> Iterator[str]:
    """The URLs that may hold `artifact`, best first; `on_fault` hears who has not, and why."""
    yield from (place(artifact.sha256, root) for root in origins.mirrors)
    if artifact.kind == "deb":
        yield from (f"{root.rstrip('/')}/{quote(artifact.path)}" for root in origins.archives)
        if not origins.archives:
            what = "neither apt's configuration nor KERNELWORKS_DEB_MIRROR names one"
            on_fault("a Debian archive", RemoteError(what, lasting=True, asked=False))
        return
    for listing, files in _listings(artifact, origins, remote):
        try:
            urls = [file.url for file in files() if file.name == artifact.file]
        except RemoteError as error:
            on_fault(listing, error)
            continue
        yield from urls
        if not urls:
            on_fault(listing, RemoteError("it does not list the file", lasting=True))


def _listings(
    artifact: Artifact, origins: Origins, remote: Remote
) -> Iterator[tuple[str, Callable[[], tuple[IndexFile, ...]]]]:
    for link in origins.python.links:
        yield shown(link), lambda link=link: linked_files(remote, link)  # type: ignore[misc]
    for index in origins.python.indexes:
        yield shown(index), lambda index=index: files_of(remote, index, artifact.name)  # type: ignore[misc]
