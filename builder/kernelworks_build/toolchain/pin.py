"""Pinning: the newest packages that fit what a toolchain asks for, as apt and the indexes have them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cmp_to_key
from pathlib import Path, PurePosixPath

from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.remote import Remote, RemoteError, shown
from kernelworks_build.toolchain.simple_index import IndexFile, files_of

__all__ = ["debs", "wheel", "wheels"]

_CAT = "/usr/lib/apt/apt-helper"
_SUITES = ("", "-updates", "-security")


def debs(release: str, packages: Iterable[str], component: str = "main") -> list[Artifact]:
    """The newest version of each package in apt's verified lists of a component of the Debian `release`.

    Raises:
        ToolchainError: apt has no list of that release, or a package is in none.
    """
    wanted = set(packages)
    found: dict[str, list[dict[str, str]]] = {name: [] for name in wanted}
    for stanza in _stanzas(release, component):
        if stanza["Package"] in wanted:
            found[stanza["Package"]].append(stanza)
    if missing := sorted(name for name, stanzas in found.items() if not stanzas):
        raise ToolchainError(
            f"apt knows no package {', '.join(f'`{name}`' for name in missing)} of Debian `{release}`",
            hint=f"add a source of `{release}` (amd64, {component}) to apt and run `apt-get update`",
            packages=missing,
        )
    return sorted(_deb(max(stanzas, key=cmp_to_key(_compare))) for stanzas in found.values())


def _stanzas(release: str, component: str) -> Iterator[dict[str, str]]:
    command = ("apt-get", "indextargets", "--format", "$(CODENAME) $(FILENAME)")
    filters = ("Created-By: Packages", "Architecture: amd64", f"Component: {component}")
    suites = {f"{release}{suffix}" for suffix in _SUITES}
    for line in _run(*command, *filters).splitlines():
        suite, _, path = line.partition(" ")
        if suite in suites and Path(path).is_file():
            for text in _run(_CAT, "cat-file", path).split("\n\n"):
                lines = (line.partition(": ") for line in text.splitlines() if not line.startswith(" "))
                if stanza := {key: value for key, _, value in lines}:
                    yield stanza


def _compare(left: Mapping[str, str], right: Mapping[str, str]) -> int:
    if left["Version"] == right["Version"]:
        return 0
    argv = ("dpkg", "--compare-versions", left["Version"], "gt", right["Version"])
    return 1 if subprocess.run(argv, check=False).returncode == 0 else -1


def _deb(stanza: Mapping[str, str]) -> Artifact:
    path = stanza["Filename"]
    return Artifact(
        name=stanza["Package"],
        version=stanza["Version"],
        kind="deb",
        file=PurePosixPath(path).name,
        size=int(stanza["Size"]),
        sha256=stanza["SHA256"],
        path=path,
    )


def _run(*argv: str) -> str:
    try:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolchainError(
            f"`{argv[0]}` gives no answer: {error}", hint="debs are pinned on a Debian or Ubuntu system"
        ) from error


def wheels(specifiers: Mapping[str, str], origins: Origins) -> list[Artifact]:
    """The newest stable wheel of each project that runs on an old x86_64 Linux and any Python.

    Raises:
        ToolchainError: No index has one that fits.
    """
    return sorted(wheel(project, specifier, origins) for project, specifier in specifiers.items())


def wheel(
    project: str,
    specifier: str,
    origins: Origins,
    fits: Callable[[str], bool] | None = None,
) -> Artifact:
    """The newest stable wheel of `project` whose version is in `specifier` and whose file name `fits`.

    Raises:
        ToolchainError: No index has one, with the place and the reason of each.
    """
    looked = []
    with Remote(origins.python.certificate, origins.python.proxy) as remote:
        for index in origins.python.indexes:
            try:
                listed = files_of(remote, index, project)
                chosen = _newest(listed, SpecifierSet(specifier), fits or _runs_anywhere)
                if chosen:
                    return _wheel(project, *chosen, remote)
                looked.append((shown(index), "no wheel that fits"))
            except RemoteError as error:  # noqa: PERF203  # the next index may have one
                looked.append((shown(index), str(error)))
    where = ", ".join(f"`{place}` ({reason})" for place, reason in looked)
    raise ToolchainError(f"no index has a wheel of `{project}` {specifier} for x86_64 Linux: {where}", project=project)


def _newest(
    listed: Iterable[IndexFile], specifier: SpecifierSet, fits: Callable[[str], bool]
) -> tuple[Version, IndexFile] | None:
    found = []
    for file in listed:
        try:
            version = parse_wheel_filename(file.name)[1]
        except InvalidWheelFilename:
            continue
        if file.sha256 and not file.yanked and not version.is_prerelease and version in specifier and fits(file.name):
            found.append((version, file))
    return max(found, key=lambda item: (item[0], item[1].name), default=None)


def _runs_anywhere(name: str) -> bool:
    tags = parse_wheel_filename(name)[3]
    return any(
        ((tag.interpreter == "py3" and tag.abi == "none") or tag.abi == "abi3")
        and (tag.platform == "any" or (tag.platform.startswith("manylinux") and tag.platform.endswith("_x86_64")))
        for tag in tags
    )


def _wheel(project: str, version: Version, file: IndexFile, remote: Remote) -> Artifact:
    size = file.size
    if size is None:
        with remote.open(file.url, start=0, stop=1) as body:
            size = body.total
    if size is None or file.sha256 is None:
        raise RemoteError(f"it does not tell the size of `{file.name}`", lasting=True)
    return Artifact(project, str(version), "wheel", file.name, size, file.sha256)
