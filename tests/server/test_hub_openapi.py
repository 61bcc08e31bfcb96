"""The documented interface: it is the one that the registry has, and holds whatever is asked of it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kernelworks_server.hub import routes
from kernelworks_server.openapi import document
from kernelworks_server.records import AddFile
from kernelworks_server.services import Services

if TYPE_CHECKING:
    from conftest import Server

pytestmark = pytest.mark.server

UNDOCUMENTED = {"/api/agent-harnesses", "/xet/{space}/v1/xorbs/{prefix}/{hash}", "/xet/{space}/v1/shards"}
"""What only the Hub's own clients ask for."""
FIELDS = {
    "org": ["ann", "acme", "nobody"],
    "name": ["a", "none"],
    "revision": ["main", "v1", "none"],
    "path": ["README.md", "docs", "docs/large", "none"],
}
"""What most requests ask for, so that there is an answer."""


def test_what_is_documented_is_what_the_registry_answers(services: Services) -> None:
    answered = {
        (method.lower(), re.sub(r"\.\.\.(?=\})", "", re.sub(r"\[(.*?)\]", optional, route.path_format)))
        for route in routes.router(services)
        for method in route.endpoint.methods.replace("HEAD", "").split()
        for optional in ("", r"\1")
        if route.path_format not in UNDOCUMENTED
    }
    documented = {
        (method, path)
        for path, item in document()["paths"].items()
        for method in item.keys() - {"parameters"}
        if path not in {"/healthz", "/metrics"}
    }

    assert documented == {(method, path) for method, path in answered if not path.startswith("/{org}")}


def test_every_answer_is_as_documented_whatever_is_asked(
    server: Server, environment: Callable[[str], Path], tmp_path: Path
) -> None:
    server.org("acme", trusted=True)
    repositories, token = server.services.repositories, server.user("ann")
    repo = repositories.create(server.operator, "kernel", "ann/a", private=False)
    files = []
    for path in ("README.md", "docs/large"):
        sha256, size = repositories.receive(repo, [path.encode()], expected=None, limit=1 << 10)
        files.append(AddFile(path, sha256, size, lfs=path == "docs/large"))
    repositories.commit(server.operator, repo, "main", files, message="m", description="", parent=None)
    repositories.create_branch(server.operator, repo, "v1", None)
    told = server.ask("GET", "/api/openapi.json").json()
    for name, values in FIELDS.items():
        told["components"]["parameters"][name]["schema"] = {"enum": values}
    lines = told["paths"]["/api/{kinds}/{org}/{name}/commit/{revision}"]["post"]["requestBody"]["content"]
    lines["text/plain"] = lines.pop("application/x-ndjson")  # schemathesis writes no lines of JSON
    (tmp_path / "openapi.json").write_text(json.dumps(told))
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"

    done = subprocess.run(
        [
            *(str(environment("schemathesis").with_name("schemathesis")), "--no-color", "run", "openapi.json"),
            *("--url", server.url, "--header", f"Authorization: Bearer {token}", "--warnings", "off"),
            *("--checks", f"{checks},response_headers_conformance", "--phases", "fuzzing"),
            *("--max-examples", "20", "--seed", "1", "--no-shrink"),
            *("--request-timeout", "300", "--suppress-health-check", "too_slow"),  # it is no race
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
