"""Counts a file that is sent as a download of its variant, where it is one."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import Response

from kernelworks.model.index import Index
from kernelworks_server.documents import Documents
from kernelworks_server.downloads import variant_at
from kernelworks_server.hub.endpoint import Call
from kernelworks_server.records import Repo

__all__ = ["count_download"]


def count_download(call: Call, repo: Repo, commit: str, path: str, response: Response) -> None:
    """Count `response`, which sends the file at `path`, if it begins a download; HEAD and later parts do not."""
    whole = response.status_code == HTTPStatus.OK
    begins = whole or response.headers.get("content-range", "").startswith("bytes 0-")
    of_variant = path.endswith(".whl") or path.startswith("build/")
    if call.method != "GET" or not begins or not of_variant:
        return
    index = Documents(call.services).index(repo, commit)
    variant = variant_at(path, index if isinstance(index, Index) else None)
    if variant is not None:
        call.services.downloads.count(repo.id, variant)
