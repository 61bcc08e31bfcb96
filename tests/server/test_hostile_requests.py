"""Every address of the registry, asked as no friendly client asks: hostile names, numbers, methods and bodies."""

from __future__ import annotations

import base64
import gzip
import json
import re
import select
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import pytest

from kernelworks_server.app import create_app
from kernelworks_server.config import Limits

if TYPE_CHECKING:
    from conftest import Server

pytestmark = pytest.mark.server

FIELD = re.compile(r"\{(\w+)[^}]*\}")
OID = "0" * 64
FIELDS = {
    "kinds": "kernels",
    "org": "ann",
    "owner": "ann",
    "revision": "main",
    "commit": "main",
    "path": "a.txt",
    "branch": "v9",
    "oid": OID,
    "space": OID[:32],
    "prefix": "default",
    "hash": OID,
    "flavour": "torch213-cpu",
    "file": "pages.css",
}
"""What a friendly client writes for the variable parts of an address; `a` for all others."""
SPELLINGS = [
    "..",
    "../../../../etc/passwd",
    "..%2F..%2F..%2F..%2Fetc%2Fpasswd",
    "%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%252e%252e%252f%252e%252e%252fetc%252fpasswd",
    "%2Fetc%2Fpasswd",
    "//etc/passwd",
    "..%5C..%5Cetc%5Cpasswd",
    "..\\..\\etc\\passwd",
    "C:%5CWindows%5Cwin.ini",
    "file:%2F%2F%2Fetc%2Fpasswd",
    "%C0%AE%C0%AE%2Fetc%2Fpasswd",
    "%00",
    "a%00.txt",
    "%FF",
    "%ED%A0%80",
    "a%0D%0AX-Evil:%20yes",
    "%E2%80%AEgnp.exe",
    "a" * 9_000,
]
NUMBERS = ["-1", "0", "1e9", "9" * 5_000, "\u0663", "", "\0", "a\r\nX-Evil: yes"]
BODIES = {
    "no JSON": b"{",
    "a list": b"[]",
    "a text": b'"a"',
    "a number": b"7",
    "a key twice": b'{"name": "a", "name": "b", "organization": "ann", "type": "kernel"}',
    "a deeper key twice": b'{"tag": {"a": 1, "a": 2}, "name": {"a": 1, "a": 2}}',
    "not a number": b'{"size": NaN}',
    "a number of 5000 digits": b'{"size": ' + b"9" * 5_000 + b"}",
    "half a character": b'{"name": "\\ud800", "tag": "\\ud800", "startingPoint": "\\ud800", "message": "\\ud800"}',
    "line breaks": b'{"name": "a\\r\\nb", "tag": "a\\r\\nb", "startingPoint": "a\\r\\nb", "message": "a\\r\\nb"}',
    "a way out": json.dumps(
        {"paths": ["../b"], "files": [{"path": "../b", "size": 1}], "objects": [{"oid": "../b", "size": 1}]}
        | dict.fromkeys(["name", "organization", "fromRepo", "toRepo", "tag", "startingPoint"], "../b")
        | dict.fromkeys(["revision", "successor"], "../b")
    ).encode(),
    "a byte that is no character": b'{"name": "\xff"}',
    "a mark of the byte order": b"\xef\xbb\xbf{}",
    "UTF-16": '{"name": "a"}'.encode("utf-16"),
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "packed": gzip.compress(b'{"name": "a", "organization": "ann", "type": "kernel"}'),
}
JSON = {"Content-Type": "application/json"}
CHUNK = b"10000\r\n" + bytes(1 << 16) + b"\r\n"
BUFFERS = 16 << 20  # bytes that fit between two programs, at most
SMALL = Limits(commit=1 << 20, file=1 << 20, xorb=1 << 20, shard=1 << 20)


def addresses(server: Server) -> Mapping[str, frozenset[str]]:
    """The methods of every address of the registry, whose variable parts are in braces; `ann/a` is there."""
    server.user("ann")
    server.services.repositories.create(server.operator, "kernel", "ann/a", private=False)
    app = create_app(server.services.config)
    app.state.services.close()
    found: dict[str, frozenset[str]] = {}
    for route in app.router.routes:
        template = re.sub(r"\[(.*?)\](?!\})", r"\1", route.path_format)
        methods = getattr(route, "methods", None) or route.endpoint.methods.split()
        found[template] = found.get(template, frozenset()) | frozenset(methods)
    return found


def filled(template: str, **other: str) -> str:
    return FIELD.sub(lambda field: (FIELDS | other).get(field[1], "a"), template)


def readers(server: Server) -> Iterator[tuple[str, str, str]]:
    """(method, address, token) of all that may read a body, each with the right to do it."""
    writers = [
        (method, template)
        for template, methods in addresses(server).items()
        for method in methods & {"POST", "PUT", "DELETE"}
    ]
    xet = server.ask("GET", "/api/kernels/ann/a/xet-write-token/main", token=server.token).json()
    for method, template in writers:
        if "{space}" in template:
            yield method, filled(template, space=xet["casUrl"].rpartition("/")[2]), xet["accessToken"]
        elif "/lfs/" in template:
            repo = server.services.repositories.get(server.operator, "kernel", "ann/a")
            grant = server.services.signer.issue(action="lfs-put", repo=repo.id, oid=OID, size=1 << 20)
            yield method, f"{filled(template)}?grant={grant}", server.token
        else:
            yield method, filled(template), server.token


def state(server: Server) -> object:
    repositories = server.services.repositories
    found = repositories.search(server.operator, kind="kernel")
    return found, [repositories.refs(repo) for repo in found], server.services.people.accounts("user")


def test_no_part_of_an_address_leads_out_of_its_place(server: Server, tmp_path: Path) -> None:
    templates = addresses(server)
    before = state(server)
    faults = []
    for template, methods in templates.items():
        spelled = [filled(template, **{field: s}) for field in FIELD.findall(template) for s in SPELLINGS]
        for method, address in ((method, address) for method in methods - {"HEAD"} for address in spelled):
            answer = server.ask(method, address, b"{}", token=server.token, headers=JSON)
            location = answer.headers.get("Location", "/")
            here = location.startswith((server.url, "/")) and not location.startswith("//") and "\n" not in location
            if answer.status >= 500 or not here or answer.headers["X-Evil"] or b"root:" in answer.body:
                faults.append((method, address, answer.status, location))

    assert len(templates) > 30
    assert faults == []
    assert state(server) == before
    assert [path.name for path in tmp_path.iterdir()] == ["registry"]


def test_a_number_or_cursor_that_is_none_is_refused_or_ignored(server: Server) -> None:
    faults = []
    for template in (template for template, methods in addresses(server).items() if "GET" in methods):
        for name in ("limit", "cursor", "after", "revision", "torch"):
            for number in NUMBERS:
                answer = server.ask("GET", f"{filled(template)}?{name}={quote(number)}", token=server.token)
                if answer.status >= 500 or answer.headers["X-Evil"]:
                    faults.append((template, name, number[:20], answer.status))

    assert faults == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_a_method_that_an_address_lacks_is_refused_with_those_that_it_has(server: Server, method: str) -> None:
    methods: dict[str, set[str]] = {}
    for template, some in addresses(server).items():
        methods.setdefault(filled(template), set()).update(some)

    for address in (address for address, known in methods.items() if method not in known):
        answer = server.ask(method, address, b"{}", token=server.token)
        allowed = set((answer.headers["Allow"] or "").split(", "))
        assert (answer.status, methods[address] - allowed) == (405, set()), address


@pytest.mark.parametrize("header", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"])
def test_a_method_in_a_header_or_a_query_is_none(server: Server, header: str) -> None:
    body = {"name": "a", "organization": "ann", "type": "kernel"}
    addresses(server)

    answer = server.ask(
        "POST", "/api/repos/delete?_method=DELETE", body, token=server.token, headers={header: "DELETE"}
    )

    assert answer.status == 405
    assert server.services.repositories.get(server.operator, "kernel", "ann/a")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_malformed_body_changes_nothing(server: Server, body: bytes) -> None:
    headers = JSON | ({"Content-Encoding": "gzip"} if body.startswith(b"\x1f\x8b") else {})
    asked = list(readers(server))
    before = state(server)

    faults = []
    for method, address, token in asked:
        answer = server.ask(method, address, body, token=token, headers=headers)
        if not 400 <= answer.status < 500 and answer.body != b"[]":  # of paths that lead out, nothing is found
            faults.append((method, address, answer.status))

    assert faults == []
    assert state(server) == before


def test_a_body_without_end_is_read_to_the_limit_and_no_further(
    start_server: Callable[..., AbstractContextManager[Server]],
) -> None:
    with start_server(SMALL) as server:
        statuses = [endless(server, *one) for one in readers(server)]

    assert {400 <= status < 500 for status in statuses} == {True}
    assert statuses.count(413) > 10


def endless(server: Server, method: str, address: str, token: str) -> int:
    """The status of the answer to a body that goes on until there is one."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        head = f"{method} {address} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        connection.setblocking(False)
        sent, rest = 0, CHUNK
        while not select.select([connection], [], [], 0)[0]:
            _, writable, _ = select.select([connection], [connection], [], 60)
            with suppress(ConnectionError):  # it has answered and closed
                taken = connection.send(rest) if writable else 0
                sent, rest = sent + taken, rest[taken:] or CHUNK
            assert sent < BUFFERS, address
        return int(connection.recv(1_000).split()[1])


@pytest.mark.parametrize("name", ["a;filename=evil.html", "a', filename*=UTF-8''evil.html", "a%0D%0AX-Evil=yes", "ü,é"])
def test_the_name_of_a_file_is_one_name_in_the_headers_of_its_answer(server: Server, name: str) -> None:
    addresses(server)
    content = {"path": name, "content": base64.b64encode(b"bytes").decode(), "encoding": "base64"}
    lines = [{"key": "header", "value": {"summary": "x"}}, {"key": "file", "value": content}]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    done = server.ask("POST", "/api/kernels/ann/a/commit/main", body, token=server.token)
    assert done.status == 200, done.body

    answer = server.ask("GET", f"/kernels/ann/a/resolve/main/{quote(name, safe='')}")

    disposition, _, shown = answer.headers["Content-Disposition"].partition("filename*=UTF-8''")
    assert (disposition, unquote(shown), answer.body) == ("inline; ", name, b"bytes")
    assert set(shown).isdisjoint(";,' \"")
    assert answer.headers["X-Evil"] is None
