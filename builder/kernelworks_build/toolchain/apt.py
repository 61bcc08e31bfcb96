"""apt's verified lists of packages: those of this system, or of a Debian release that its sources leave out."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelworks_build.errors import ToolchainError

__all__ = ["newer", "stanzas"]

_CAT = "/usr/lib/apt/apt-helper"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SUITES = ("", "-updates", "-security")


def stanzas(release: str, component: str, archives: Iterable[str]) -> Iterator[Mapping[str, str]]:
    """What is said of every amd64 package in a component of the Debian `release`: its fields by name.

    A release that the system's apt has no list of is fetched from `archives` into a state that goes with this call.

    Raises:
        ToolchainError: There is no apt here.
    """
    with TemporaryDirectory(prefix="kernelworks-") as folder:
        paths = _lists(release, component)
        if not paths:
            paths = _lists(release, component, *_fetched(release, component, archives, folder))
        for path in paths:
            for text in _run(_CAT, "cat-file", path).split("\n\n"):
                lines = (line.partition(": ") for line in text.splitlines() if not line.startswith(" "))
                if stanza := {key: value for key, _, value in lines}:
                    yield stanza


def newer(version: str, other: str) -> bool:
    """Whether `version` is newer than `other` by Debian's order."""
    return subprocess.run(("dpkg", "--compare-versions", version, "gt", other), check=False).returncode == 0


def _lists(release: str, component: str, *options: str) -> list[str]:
    command = ("apt-get", *options, "indextargets", "--format", "$(CODENAME) $(SUITE) $(FILENAME)")
    filters = ("Created-By: Packages", "Architecture: amd64", f"Component: {component}")
    rows = (line.split(" ", 2) for line in _run(*command, *filters).splitlines())
    suites = {f"{release}{suffix}" for suffix in _SUITES}
    return [path for *names, path in rows if not suites.isdisjoint(names) and Path(path).is_file()]


def _fetched(release: str, component: str, archives: Iterable[str], folder: str) -> tuple[str, ...]:
    """Options by which apt uses a state in `folder`, with the lists of `release` that it could get."""
    sources, lists = Path(folder, "sources.list"), Path(folder, "lists")
    (lists / "partial").mkdir(parents=True)
    trust = f" signed-by={_KEYRING}" if Path(_KEYRING).exists() else ""
    sources.write_text(
        "".join(f"deb [arch=amd64{trust}] {archive} {release} {component}\n" for archive in archives), encoding="utf-8"
    )
    settings = {
        "APT::Sandbox::User": "root",  # else its downloader may not enter the folder
        "Acquire::Languages": "none",
        "Dir::Cache": folder,
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": lists,
    }
    options = tuple(f"-o{key}={value}" for key, value in settings.items())
    # An archive that has no such release is an error to apt, whatever the others have.
    subprocess.run(("apt-get", *options, "-qq", "update"), check=False, capture_output=True)
    return options


def _run(*argv: str) -> str:
    try:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolchainError(
            f"`{argv[0]}` gives no answer: {error}", hint="debs are pinned on a Debian or Ubuntu system"
        ) from error
