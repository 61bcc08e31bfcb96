"""What the registry counts about itself: as Prometheus reads it, by route and not by address, for operators only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from kernelworks_server.metrics import Counts, Family, exposition, stock
from kernelworks_server.services import Services

if TYPE_CHECKING:
    from conftest import Server

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? (\S+)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Every sample of an exposition; none may be there twice, and each line must have its form."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP [a-z_]+ .+|TYPE [a-z_]+ (counter|gauge|histogram))", line), line
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        key = match[1], frozenset(LABEL.findall(match[2] or ""))
        assert key not in found, line
        found[key] = float(match[3])
    return found


def ask(server: Server, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
    connection = HTTPConnection(server.url.removeprefix("http://"), timeout=30)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"kernel_registry_{name}", frozenset(labels.items())


def test_an_exposition_escapes_what_labels_hold_and_ends_with_a_line_break() -> None:
    labels: Mapping[str, str] = {"text": 'a "b"\\\n'}
    text = exposition([Family("kernel_things", "gauge", "Things.", [("", labels, 2), ("", {}, 0.5)])])
    assert text == (
        "# HELP kernel_things Things.\n# TYPE kernel_things gauge\n"
        'kernel_things{text="a \\"b\\"\\\\\\n"} 2\nkernel_things 0.5\n'
    )


def test_a_histogram_is_cumulative_and_takes_a_time_on_the_bound() -> None:
    counts = Counts()
    for seconds in (0.001, 0.005, 0.2, 100.0):
        counts.add("GET", "/x", 200, seconds)
    found = read(exposition(counts.families()))
    bounds = ("0.005", "0.25", "60", "+Inf")
    assert [found[key("request_seconds_bucket", route="/x", le=bound)] for bound in bounds] == [2, 3, 3, 4]
    assert found[key("request_seconds_count", route="/x")] == 4
    assert found[key("request_seconds_sum", route="/x")] == pytest.approx(100.206)


def test_methods_that_nobody_knows_are_one() -> None:
    counts = Counts()
    for method in ("BREW", "WHEN"):
        counts.add(method, "none", 404, 0.0)
    assert read(exposition(counts.families()))[key("requests_total", method="other", route="none", status="404")] == 2


@pytest.mark.server
def test_requests_are_counted_by_template_and_bytes_both_ways(server: Server) -> None:
    body = b'{"content": "no front matter"}'
    for path in ("/api/organizations/one/overview", "/api/organizations/two/overview"):
        assert ask(server, "GET", path)[0] == 404
    sent = len(ask(server, "POST", "/api/validate-yaml", body)[1])
    ask(server, "GET", "/no/such/thing/anywhere")
    ask(server, "GET", "/")
    ask(server, "GET", "/healthz")

    status, text = ask(server, "GET", "/metrics")

    found = read(text)
    requests = {labels: value for (name, labels), value in found.items() if name.endswith("_requests_total")}
    routes = {(dict(labels)["route"], dict(labels)["status"]): value for labels, value in requests.items()}
    assert status == 200
    assert routes == {
        ("/api/organizations/{org}/overview", "404"): 2,
        ("/api/validate-yaml", "200"): 1,
        ("none", "404"): 1,
        ("/", "200"): 1,
        ("/healthz", "200"): 1,
    }
    assert found[key("received_bytes_total")] == len(body)
    assert found[key("sent_bytes_total")] > sent
    assert found[key("requests_running")] == 1  # the one that asks


@pytest.mark.server
def test_the_stock_of_the_registry_is_told(server: Server) -> None:
    repositories, operator = server.services.repositories, server.operator
    repo = repositories.create(operator, "kernel", "admin/relu", private=True)
    repositories.receive(repo, [b"12345"], expected=None, limit=100)
    found = read(ask(server, "GET", "/metrics")[1])
    assert found[key("repositories", kind="kernel")] == 1
    assert (found[key("blobs")], found[key("blob_bytes")]) == (1, 5)


@pytest.mark.server
def test_from_elsewhere_only_an_operator_reads_them(server: Server) -> None:
    elsewhere = {"X_Forwarded_For": "192.0.2.1"}
    through_a_proxy = {"Via": "1.1 proxy"}
    reader = {"Authorization": f"Bearer {server.user('ann', scope='admin')}"}
    operator = {"Authorization": f"Bearer {server.token}"}
    forged = {"Authorization": "Bearer kw_forged"}
    local = [ask(server, "GET", "/metrics", **headers)[0] for headers in ({}, reader, operator, forged)]
    distant = [ask(server, "GET", "/metrics", **elsewhere, **headers)[0] for headers in ({}, reader, operator, forged)]
    assert local == [200, 403, 200, 401]
    assert distant == [401, 403, 200, 401]
    assert ask(server, "GET", "/metrics", **through_a_proxy)[0] == 401


def test_an_empty_registry_has_a_stock(services: Services) -> None:
    assert read(exposition(stock(services.database)))[key("blob_bytes")] == 0
