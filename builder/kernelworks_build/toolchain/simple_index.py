"""Simple package indexes (PEP 503, and as JSON PEP 691) and plain folders: which files they list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit
from urllib.request import url2pathname

from packaging.utils import canonicalize_name

from kernelworks_build.toolchain.remote import Body, Remote, RemoteError

__all__ = ["IndexFile", "files_of", "linked_files"]

_JSON = "application/vnd.pypi.simple.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_PAGE_LIMIT = 64 << 20  # bytes; the largest project pages have a few millions


@dataclass(frozen=True)
class IndexFile:
    """One file as an index lists it; what it does not tell is None."""

    name: str
    url: str
    sha256: str | None = None
    size: int | None = None
    yanked: bool = False


def files_of(remote: Remote, index: str, project: str) -> tuple[IndexFile, ...]:
    """The files of `project` in the simple index `index`.

    Raises:
        RemoteError: No such index or project, or no page that this can read.
    """
    page = f"{index.rstrip('/')}/{canonicalize_name(project)}/"
    return _page(remote, f"{page}index.html" if urlsplit(page).scheme == "file" else page)


def linked_files(remote: Remote, link: str) -> tuple[IndexFile, ...]:
    """The files in a folder (a path or a file URL), or linked from a page: pip's `find-links`.

    Raises:
        RemoteError: No such folder or page.
    """
    folder = Path(url2pathname(urlsplit(link).path) if link.startswith("file:") else link)
    if link.startswith(("http:", "https:")) or folder.is_file():
        return _page(remote, link if "://" in link else folder.absolute().as_uri())
    if not folder.is_dir():
        raise RemoteError("no such folder", lasting=True)
    return tuple(IndexFile(path.name, path.absolute().as_uri()) for path in sorted(folder.iterdir()))


def _page(remote: Remote, url: str) -> tuple[IndexFile, ...]:
    data = bytearray()
    with remote.open(url, accept=_ACCEPT) as body:
        for chunk in body.chunks:
            data += chunk
            if len(data) > _PAGE_LIMIT:
                raise RemoteError(f"a page of more than {_PAGE_LIMIT} bytes", lasting=True)
    try:
        return tuple(_json_files(body, data) if body.kind == _JSON else _html_files(body, data))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RemoteError("its page is no simple index", lasting=True) from error


def _json_files(body: Body, data: bytearray) -> Iterator[IndexFile]:
    for item in json.loads(data)["files"]:
        yield IndexFile(
            str(item["filename"]),
            urljoin(body.url, item["url"]),
            item.get("hashes", {}).get("sha256"),
            item.get("size"),
            bool(item.get("yanked", False)),
        )


def _html_files(body: Body, data: bytearray) -> Iterator[IndexFile]:
    parser = _Anchors()
    parser.feed(data.decode())
    for attributes in parser.found:
        url, fragment = urldefrag(urljoin(body.url, attributes["href"]))
        kind, _, value = fragment.partition("=")
        name = unquote(urlsplit(url).path).rpartition("/")[2]
        yield IndexFile(name, url, value if kind == "sha256" else None, None, "data-yanked" in attributes)


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in attributes:
            self.found.append(attributes)
