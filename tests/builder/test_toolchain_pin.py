"""Pinning: the newest package that fits, out of apt's lists and of an index."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain import pin
from kernelworks_build.toolchain.origins import Origins

PACKAGES = """\
Package: tool
Version: 1.9-1
Filename: pool/t/tool_1.9-1_amd64.deb
Size: 10
SHA256: {a}
Description: a tool
 Version: of nothing

Package: tool
Version: 1.10-1
Filename: pool/t/tool_1.10-1_amd64.deb
Size: 11
SHA256: {b}

Package: other
Version: 3
Filename: pool/o/other_3_amd64.deb
Size: 12
SHA256: {a}
""".format(a="a" * 64, b="b" * 64)


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An apt whose lists of `bookworm-security` and of another release are files, and who can get `experimental`."""
    lists, later = tmp_path / "list", tmp_path / "later"
    lists.write_text(PACKAGES)
    later.write_text(PACKAGES.replace("1.10-1", "9.9-1"))
    for name, script in {
        "apt-get": f"""
            case "$*" in
            *update) cat $(echo "$*" | sed 's/.*Dir::Etc::sourcelist=\\([^ ]*\\) .*/\\1/') >{tmp_path}/asked ;;
            *Dir::State::lists*) [ ! -e {tmp_path}/asked ] || echo rc-buggy experimental {later} ;;
            *) echo bookworm-security old {lists}; echo trixie stable {later}; echo bookworm old /not/fetched ;;
            esac""",
        "apt-helper": 'shift; exec cat "$1"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("kernelworks_build.toolchain.apt._CAT", str(tmp_path / "apt-helper"))
    return tmp_path


@pytest.mark.usefixtures("apt")
def test_a_deb_is_the_newest_of_its_release_by_debians_order() -> None:
    (tool,) = pin.debs("bookworm", ["tool"], Origins.of())

    assert (tool.version, tool.size, tool.sha256) == ("1.10-1", 11, "b" * 64)
    assert (tool.file, tool.path) == ("tool_1.10-1_amd64.deb", "pool/t/tool_1.10-1_amd64.deb")


@pytest.mark.usefixtures("apt")
def test_packages_that_apt_does_not_know_are_named_together() -> None:
    with pytest.raises(ToolchainError, match="`absent`, `gone` of Debian `bookworm`") as caught:
        pin.debs("bookworm", ["tool", "gone", "absent"], Origins.of())
    assert "apt-get update" in str(caught.value.hint)


def test_a_release_that_apt_has_no_list_of_is_fetched_into_a_state_of_its_own(apt: Path) -> None:
    (tool,) = pin.debs("experimental", ["tool"], Origins.of(archives=["http://archive.example.org/debian"]))

    assert tool.version == "9.9-1"
    asked = (apt / "asked").read_text()
    assert asked.startswith("deb [arch=amd64")
    assert asked.endswith("] http://archive.example.org/debian experimental main\n")


@pytest.mark.network
def test_the_lists_of_another_release_come_from_the_archives_that_apt_uses() -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("there is no apt here")

    (firmware,) = pin.debs("trixie", ["intel-microcode"], Origins(), "non-free-firmware")  # a short list

    assert firmware.path.startswith("pool/non-free-firmware/")


def index(folder: Path, *files: str) -> Origins:
    (folder / "some-kit").mkdir()
    page = ""
    for file in files:
        name, _, attributes = file.partition(" ")
        (folder / "some-kit" / name).write_bytes(b"12345")
        digest = "" if "unhashed" in attributes else f"#sha256={'a' * 64}"
        page += f'<a href="{name}{digest}" {attributes}>x</a>'
    (folder / "some-kit/index.html").write_text(page)
    return Origins.of(indexes=[(folder / "none").as_uri(), folder.as_uri()])


def test_a_wheel_is_the_newest_stable_one_that_fits_version_and_platform(tmp_path: Path) -> None:
    origins = index(
        tmp_path,
        "some_kit-1.9-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
        "some_kit-1.10-py3-none-manylinux_2_28_x86_64.whl",
        "some_kit-1.11-py3-none-manylinux_2_28_aarch64.whl",
        "some_kit-1.12-cp311-cp311-manylinux_2_28_x86_64.whl",
        "some_kit-1.13rc1-py3-none-any.whl",
        "some_kit-1.14-py3-none-any.whl data-yanked",
        "some_kit-1.15-py3-none-any.whl unhashed",
        "some_kit-1.16.tar.gz",
        "some_kit-2.0-py3-none-any.whl",
    )

    (found,) = pin.wheels({"some-kit": "==1.*"}, origins)

    assert found.file == "some_kit-1.10-py3-none-manylinux_2_28_x86_64.whl"
    assert (found.name, found.version, found.size, found.sha256) == ("some-kit", "1.10", 5, "a" * 64)


def test_a_source_distribution_is_the_newest_stable_one_that_is_a_tar_file(tmp_path: Path) -> None:
    origins = index(
        tmp_path,
        "some_kit-1.9.tar.gz",
        "some_kit-1.10.tar.gz",
        "some_kit-1.11.zip",
        "some_kit-1.12rc1.tar.gz",
        "some_kit-1.13-py3-none-any.whl",
        "some_kit-2.0.tar.gz",
        "unversioned.tar.gz",
    )

    (found,) = pin.sdists({"some-kit": "==1.*"}, origins)

    assert (found.kind, found.file) == ("sdist", "some_kit-1.10.tar.gz")
    assert (found.name, found.version, found.size, found.sha256) == ("some-kit", "1.10", 5, "a" * 64)
    with pytest.raises(ToolchainError, match=r"no index has a sdist of `some-kit` ==3\.\*.*\(no sdist that fits\)"):
        pin.sdists({"some-kit": "==3.*"}, origins)


def test_a_wheel_that_no_index_has_is_an_error_with_every_place(tmp_path: Path) -> None:
    origins = index(tmp_path, "some_kit-1.0-py3-none-any.whl")

    with pytest.raises(ToolchainError, match=r"\(No such file or directory\).*\(no wheel that fits\)"):
        pin.wheels({"some-kit": "==3.*"}, origins)
