"""Xet, upload side: stock clients send large files as xorbs and shards; the registry makes plain files of them.

The client remembers per address what it has sent, for weeks, and refers to it later instead of sending it again. Each
repository has therefore an address of its own, made with the registry's secret, and another one every week: what was
sent to another repository, to a registry that is gone, or longer than two weeks ago is never referred to.

The hash that a client gives a xorb (a tree of keyed BLAKE3 hashes) is taken as its name and not computed again: a
file is kept only when its own SHA-256 is right, and only who may write to the repository can give a wrong name.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from functools import cache

from starlette.responses import JSONResponse, Response

from kernelworks_server.errors import BadRequest, InvalidSignature, TooLarge
from kernelworks_server.hub.endpoint import Call, Endpoint
from kernelworks_server.hub.shard import File, read_files
from kernelworks_server.hub.xorb import Layout, scan, unpack
from kernelworks_server.records import Repo
from kernelworks_server.services import Services
from kernelworks_server.signing import Grant

__all__ = ["ENDPOINTS"]

_WRITE = "xet-write"
_SECONDS = 3600  # that a token works
_PERIOD = 7 * 24 * 3600  # seconds that an address stays
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST_CHUNKS = 4 << 20  # of all xorbs that one shard names; files of 256 GiB have so many, as clients cut them


def _write_token(call: Call) -> Response:
    repo = call.writable()
    signer = call.services.signer
    token = signer.issue(action=_WRITE, repo=repo.id, actor=call.actor.name or "", seconds=_SECONDS)
    grant = signer.check(token, action=_WRITE)
    address = f"{call.base}/xet/{_space(call.services, grant)}"
    headers = {"X-Xet-Cas-Url": address, "X-Xet-Access-Token": token, "X-Xet-Token-Expiration": str(grant.expires)}
    return JSONResponse({"casUrl": address, "accessToken": token, "exp": grant.expires}, headers=headers)


def _space(services: Services, grant: Grant, *, earlier: int = 0) -> str:
    """The part of the address that is the repository's, in the week of `grant` or so many weeks earlier."""
    name = f"xet {grant.repo} {grant.expires // _PERIOD - earlier}"
    return hmac.new(services.config.secret, name.encode(), hashlib.sha256).hexdigest()[:32]


def _granted(call: Call) -> Repo:
    """The repository that the call's token may write to, if the address is that repository's.

    An upload that runs into a new week gets a new token, and stays at its address.
    """
    grant = call.services.signer.check(call.bearer or "", action=_WRITE)
    if call.fields["space"] not in {_space(call.services, grant, earlier=weeks) for weeks in (0, 1)}:
        raise InvalidSignature("this token is for the address of another repository")
    return call.services.repositories.find(grant.repo)


def _admit_xorb(call: Call) -> int:
    _granted(call)
    if not _HASH.fullmatch(call.fields["hash"]):
        raise BadRequest("the hash of a xorb is 64 hex digits in lower case")
    return call.services.config.limits.xorb


def _xorb(call: Call) -> Response:
    scan(call.blocks())
    inserted = call.services.repositories.receive_xorb(
        _granted(call), call.fields["hash"], call.blocks(), limit=call.services.config.limits.xorb
    )
    return JSONResponse({"was_inserted": inserted})


def _admit_shard(call: Call) -> int:
    _granted(call)
    return call.services.config.limits.shard


def _shard(call: Call) -> Response:
    """Put every file of the shard together, check it by its SHA-256, and keep it for the commit that follows.

    Clients send the shard of an unchanged upload again; what the repository holds is not put together twice.
    """
    repo = _granted(call)
    repositories, limit = call.services.repositories, call.services.config.limits.file
    xorbs = _Xorbs(call.services, repo)
    new = 0
    for file in read_files(call.body):
        if repositories.held(repo, [file.sha256]).get(file.sha256) == file.size:
            continue
        new += file.size
        if new > limit:  # a small shard can name the same chunks very often
            raise TooLarge(f"the files of a shard have at most {limit} bytes together", limit=limit)
        repositories.receive(repo, xorbs.plain(file), expected=file.sha256, limit=file.size)
    return JSONResponse({"result": int(new > 0)})


class _Xorbs:
    """The xorbs of one repository, as files are put together of their chunks; each is read through once."""

    def __init__(self, services: Services, repo: Repo) -> None:
        self._services = services
        self._repo = repo
        self._open = cache(self._scan)
        self._chunks = 0

    def plain(self, file: File) -> Iterator[bytes]:
        """The bytes of `file`.

        Raises:
            BadRequest: A xorb was never sent to this repository, or a segment does not fit it.
            TooLarge: The shard names xorbs with too many chunks.
        """
        for segment in file.segments:
            sha256, layout = self._open(segment.xorb)
            wanted = layout.chunks(segment.start, segment.stop)
            if len(wanted) != segment.stop - segment.start or sum(c.unpacked for c in wanted) != segment.size:
                raise BadRequest(f"a segment of the shard does not fit the xorb `{segment.xorb}`")
            yield from unpack(self._services.blobs.read(sha256, wanted[0].offset, wanted[-1].end), wanted)

    def _scan(self, xorb_hash: str) -> tuple[str, Layout]:
        sha256 = self._services.repositories.xorb(self._repo, xorb_hash)
        if sha256 is None:
            raise BadRequest(
                f"no xorb `{xorb_hash}` was sent to `{self._repo.repo_id}`",
                hint="delete the folder `xet` of HF_HOME, or set HF_HUB_DISABLE_XET=1, and upload again",
            )
        layout = scan(self._services.blobs.read(sha256))
        self._chunks += len(layout)
        if self._chunks > _MOST_CHUNKS:
            raise TooLarge(f"the xorbs of a shard have at most {_MOST_CHUNKS} chunks together", limit=_MOST_CHUNKS)
        return sha256, layout


ENDPOINTS = (
    Endpoint("GET", "/api/{kinds}/{org}/{name}/xet-write-token/{revision}", _write_token),
    Endpoint("POST", "/xet/{space}/v1/xorbs/{prefix}/{hash}", _xorb, _admit_xorb),
    Endpoint("POST", "/xet/{space}/v1/shards", _shard, _admit_shard),
)
