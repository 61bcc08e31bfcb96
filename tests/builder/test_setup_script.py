"""`scripts/setup.sh` with programs in place of the system's: what it runs, and that a half-made venv is repaired."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup.sh"
TEMPLATE = "/usr/share/python-apt/templates/Debian.info"


def program(path: Path, script: str) -> None:
    """A program that logs how it was called and then runs `script`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "{path.name} $*" >> "$LOG"\n{script}\n')
    path.chmod(0o755)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder of the project, with a venv that has no pip."""
    folder = tmp_path / "project"
    program(folder / ".venv" / "bin" / "python", "exit 1")
    (folder / "pyproject.toml").touch()
    programs = tmp_path / "bin"
    for name, script in {"bwrap": "", "id": "echo 0", "apt-get": "[ $1 != indextargets ] || echo $SITES"}.items():
        program(programs / name, script)
    program(tmp_path / "good" / "python", "")
    program(programs / "python3", f"cp {tmp_path / 'good' / 'python'} .venv/bin/python")
    return folder


def calls(work: Path, sites: str, **env: str) -> list[str]:
    """What the script ran, where apt has these sites."""
    log = work.parent / "log"
    log.unlink(missing_ok=True)
    script = work.parent / "setup.sh"
    script.write_text(SCRIPT.read_text().replace(TEMPLATE, str(work.parent / "template")))
    path = f"{work.parent / 'bin'}:{Path(shutil.which('sh') or '/bin/sh').parent}:/usr/bin:/bin"
    subprocess.run(
        ["sh", str(script)],
        cwd=work,
        env={"PATH": path, "LOG": str(log), "SITES": sites, **env},
        check=True,
        capture_output=True,
    )
    return log.read_text().splitlines()


def test_a_venv_without_pip_is_repaired_and_a_whole_one_is_left_alone(work: Path) -> None:
    assert "python3 -m venv .venv" in calls(work, "Debian http://deb.invalid/debian")
    assert calls(work, "Debian http://deb.invalid/debian")[1:] == ["python -m pip --version"]


def test_where_apt_knows_no_debian_archive_the_package_that_names_one_is_installed(work: Path) -> None:
    wanted = "apt-get -o Acquire::Retries=3 install -y python-apt-common"
    assert wanted in calls(work, "Ubuntu http://ubuntu.invalid/ubuntu")
    assert wanted not in calls(work, "Debian http://deb.invalid/debian")
    assert wanted not in calls(work, "Ubuntu http://ubuntu.invalid/ubuntu", KERNELWORKS_DEB_MIRROR="file:///x")
    (work.parent / "template").touch()
    assert wanted not in calls(work, "Ubuntu http://ubuntu.invalid/ubuntu")
