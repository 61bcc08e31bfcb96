"""Pinning: the newest packages that fit what a toolchain asks for, as apt and the indexes have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath

from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain import apt
from kernelworks_build.toolchain.lock import Artifact
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.remote import Remote, RemoteError, shown
from kernelworks_build.toolchain.simple_index import IndexFile, files_of

__all__ = ["debs", "sdists", "wheel", "wheels"]

_Fitting = Callable[[str], Version | None]
"""The version that a file of this name is of, where it is one to choose from."""


def debs(release: str, packages: Iterable[str], origins: Origins, component: str = "main") -> list[Artifact]:
    """The newest version of each package in apt's verified lists of a component of the Debian `release`.

    Raises:
        ToolchainError: apt has no list of that release and gets none, or a package is in none.
    """
    found: dict[str, Mapping[str, str]] = {}
    wanted = set(packages)
    for stanza in apt.stanzas(release, component, origins.archives):
        name = stanza["Package"]
        if name in wanted and (name not in found or apt.newer(stanza["Version"], found[name]["Version"])):
            found[name] = stanza
    if missing := sorted(wanted - set(found)):
        raise ToolchainError(
            f"apt knows no package {', '.join(f'`{name}`' for name in missing)} of Debian `{release}`",
            hint=f"add a source of `{release}` (amd64, {component}) to apt and run `apt-get update`",
            packages=missing,
        )
    return sorted(map(_deb, found.values()))


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

    def fitting(name: str) -> Version | None:
        try:
            version = parse_wheel_filename(name)[1]
        except InvalidWheelFilename:
            return None
        return version if (fits or _runs_anywhere)(name) else None

    return _published(project, specifier, origins, "wheel", fitting)


def sdists(specifiers: Mapping[str, str], origins: Origins) -> list[Artifact]:
    """The newest stable source distribution of each project.

    Raises:
        ToolchainError: No index has one.
    """
    return sorted(
        _published(project, specifier, origins, "sdist", _sdist_version) for project, specifier in specifiers.items()
    )


def _sdist_version(name: str) -> Version | None:
    try:
        return parse_sdist_filename(name)[1] if name.endswith(".tar.gz") else None
    except InvalidSdistFilename:
        return None


def _published(project: str, specifier: str, origins: Origins, kind: str, fitting: _Fitting) -> Artifact:
    looked = []
    with Remote(origins.python.certificate, origins.python.proxy) as remote:
        for index in origins.python.indexes:
            try:
                listed = files_of(remote, index, project)
                chosen = _newest(listed, SpecifierSet(specifier), fitting)
                if chosen:
                    return _artifact(project, kind, *chosen, remote)
                looked.append((shown(index), f"no {kind} that fits"))
            except RemoteError as error:  # noqa: PERF203  # the next index may have one
                looked.append((shown(index), str(error)))
    where = ", ".join(f"`{place}` ({reason})" for place, reason in looked)
    raise ToolchainError(f"no index has a {kind} of `{project}` {specifier} for x86_64 Linux: {where}", project=project)


def _newest(
    listed: Iterable[IndexFile], specifier: SpecifierSet, fitting: _Fitting
) -> tuple[Version, IndexFile] | None:
    found = []
    for file in listed:
        version = fitting(file.name)
        if version and file.sha256 and not file.yanked and not version.is_prerelease and version in specifier:
            found.append((version, file))
    return max(found, key=lambda item: (item[0], item[1].name), default=None)


def _runs_anywhere(name: str) -> bool:
    tags = parse_wheel_filename(name)[3]
    return any(
        ((tag.interpreter == "py3" and tag.abi == "none") or tag.abi == "abi3")
        and (tag.platform == "any" or (tag.platform.startswith("manylinux") and tag.platform.endswith("_x86_64")))
        for tag in tags
    )


def _artifact(project: str, kind: str, version: Version, file: IndexFile, remote: Remote) -> Artifact:
    size = file.size
    if size is None:
        with remote.open(file.url, start=0, stop=1) as body:
            size = body.total
    if size is None or file.sha256 is None:
        raise RemoteError(f"it does not tell the size of `{file.name}`", lasting=True)
    return Artifact(project, str(version), kind, file.name, size, file.sha256)
