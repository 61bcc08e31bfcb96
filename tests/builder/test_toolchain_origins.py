"""Where packages come from: the settings of pip and apt on this machine, and what overrides them."""

from __future__ import annotations

import shutil
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain import origins, pin
from kernelworks_build.toolchain.origins import Origins


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "KERNELWORKS_PYPI_INDEX",
        "KERNELWORKS_DEB_MIRROR",
        "PIP_INDEX_URL",
        "PIP_FIND_LINKS",
        "PIP_CERT",
        "PIP_EXTRA_INDEX_URL",
        "PIP_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)


def program(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def pip_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    (tmp_path / "pip.conf").write_text(text)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))


def test_pips_configuration_says_where_wheels_come_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip_settings(
        monkeypatch,
        tmp_path,
        "[global]\nindex-url = http://one.invalid/simple\nextra-index-url =\n  file:///two\n  file:///three\n"
        "find-links = /wheels\ncert = /certificate\n",
    )

    found = Origins().python

    assert found.indexes == ("http://one.invalid/simple", "file:///two", "file:///three")
    assert found.links == ("/wheels",)
    assert found.certificate == "/certificate"


def test_the_environment_stands_before_pips_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip_settings(monkeypatch, tmp_path, "[global]\nindex-url = http://one.invalid\n[download]\ncert = /certificate\n")
    monkeypatch.setenv("PIP_INDEX_URL", "http://two.invalid")

    assert Origins().python.indexes[0] == "http://two.invalid"
    assert Origins().python.certificate == "/certificate"


def test_without_an_index_leaves_the_links(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip_settings(monkeypatch, tmp_path, "[global]\nno-index = true\nfind-links = /a /b\n")

    assert (Origins().python.indexes, Origins().python.links) == ((), ("/a", "/b"))


def test_our_own_variables_stand_before_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip_settings(monkeypatch, tmp_path, "[global]\nindex-url = http://one.invalid\ncert = /certificate\n")
    monkeypatch.setenv("KERNELWORKS_PYPI_INDEX", "file:///a http://b.invalid")
    monkeypatch.setenv("KERNELWORKS_DEB_MIRROR", "file:///c http://d.invalid")

    assert Origins().python.indexes == ("file:///a", "http://b.invalid")
    assert Origins().python.certificate == "/certificate"
    assert Origins().archives == ("file:///c", "http://d.invalid")


def test_an_interpreter_without_pip_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(program(tmp_path, "python", "exit 1")))

    with pytest.raises(ToolchainError, match="has no pip to ask") as caught:
        _ = Origins().python
    assert "KERNELWORKS_PYPI_INDEX" in str(caught.value.hint)

    monkeypatch.setenv("KERNELWORKS_PYPI_INDEX", "file:///a")
    assert Origins().python.indexes == ("file:///a",)


def test_without_pip_its_variables_still_say_where_wheels_come_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(program(tmp_path, "python", "exit 1")))
    monkeypatch.setenv("PIP_INDEX_URL", "http://one.invalid")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "file:///two file:///three")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels")

    assert Origins().python.indexes == ("http://one.invalid", "file:///two", "file:///three")
    assert Origins().python.links == ("/wheels",)


def test_requests_go_through_pips_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        pip_settings(monkeypatch, tmp_path, f"[global]\nproxy = http://127.0.0.1:{server.server_port}\n")
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # the environment's stands behind
        monkeypatch.setenv("KERNELWORKS_PYPI_INDEX", "http://index.invalid/simple")
        with pytest.raises(ToolchainError, match="404"):
            pin.wheel("ninja", "==1.*", Origins())
        server.shutdown()
        thread.join()

    assert asked == ["http://index.invalid/simple/ninja/"]


def test_the_default_index_is_the_one_that_pip_itself_knows() -> None:
    internals = pytest.importorskip("pip._internal.models.index", reason="this interpreter has no pip")

    assert origins._default_index() == internals.PyPI.simple_url


def test_debians_archives_stand_before_others_and_mirror_lists_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mirrors = tmp_path / "mirrors.txt"
    mirrors.write_text("# ours\nhttp://near.invalid/debian\tpriority:1\nhttp://far.invalid/debian\n")
    rows = [
        "Other Org http://other.invalid/apt/",
        f"Debian mirror+file:{mirrors}/",
        "Debian http://far.invalid/debian",
        "Debian cdrom://disk/",
    ]
    program(tmp_path, "apt-get", f"printf '%s\\n' {' '.join(repr(row) for row in rows)}")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert Origins().archives == (
        "http://near.invalid/debian",
        "http://far.invalid/debian",
        "http://other.invalid/apt/",
    )


def test_a_system_that_is_no_debian_takes_the_archives_of_its_template(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    template = tmp_path / "Debian.info"
    template.write_text("Suite: x\nBaseURI: http://deb.invalid/debian/\nDescription: x\nBaseURI: http://sec.invalid/\n")
    monkeypatch.setattr(origins, "_DEBIAN_TEMPLATE", template)
    program(tmp_path, "apt-get", "echo Ubuntu http://ubuntu.invalid/ubuntu/")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert Origins().archives == (
        "http://deb.invalid/debian/",
        "http://sec.invalid/",
        "http://ubuntu.invalid/ubuntu/",
    )


def test_a_system_without_apt_has_no_archives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(origins, "_DEBIAN_TEMPLATE", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("apt-get") is None

    assert Origins().archives == ()
