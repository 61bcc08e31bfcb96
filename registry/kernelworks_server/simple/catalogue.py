"""Which kernels an index lists for who asks, and which wheels of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from sqlalchemy import select

from kernelworks.compat import rank_of
from kernelworks.model.index import Index
from kernelworks_server.database.tables import offers, repos, shelf
from kernelworks_server.documents import Documents
from kernelworks_server.errors import NotFound
from kernelworks_server.listing import listed, repo_of
from kernelworks_server.profiles import Profile
from kernelworks_server.records import Entry, Repo
from kernelworks_server.releases import Release, releases
from kernelworks_server.rights import Actor
from kernelworks_server.services import Services
from kernelworks_server.simple.flavour import Flavour
from kernelworks_server.simple.metadata import CoreMetadata, Metadata

__all__ = ["Catalogue", "Wheel"]


@dataclass(frozen=True)
class Wheel:
    """One file of a project.

    Attributes:
        repo: The repository that it is in.
        commit: The commit that it is in.
        entry: The stored file.
        version: The version of the package, normalised.
        metadata: What its core metadata says.
        yanked: Why its commit is yanked, or None where it is not.
    """

    repo: Repo
    commit: str
    entry: Entry
    version: str
    metadata: CoreMetadata
    yanked: str | None

    @property
    def file(self) -> str:
        return self.entry.path.rpartition("/")[2]


class Catalogue:
    """The projects of one registry."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._repositories = services.repositories
        self._documents = Documents(services)
        self._metadata = Metadata(services.blobs)

    def projects(self, actor: Actor, flavour: Flavour, owner: str | None) -> list[str]:
        """The names of all projects with a wheel for this flavour, of all owners or of one.

        As the shelf knows them: whether a wheel is a sound archive is seen when its project is asked for.

        Raises:
            NotFound: There is no such owner.
        """
        if owner is not None:
            self._services.people.account(owner)
        named = defaultdict(list)
        kernels = listed(actor, "kernel", author=owner).with_only_columns(repos.c.id, repos.c.repo_id)
        with self._services.database.read() as connection:
            for number, repo_id in connection.execute(kernels).all():
                named[canonicalize_name(repo_id.partition("/")[2])].append(number)
        offering = self._offering(flavour)
        return sorted(name for name, found in named.items() if len(found) == 1 and (found[0], name) in offering)

    def _offering(self, flavour: Flavour) -> set[tuple[int, str]]:
        """Every (number of a repository, project) with a wheel for this flavour in some version."""
        with self._services.database.read() as connection:
            fitting = self._services.shelf.profiles.offered(connection, flavour.takes)
            query = (
                select(shelf.c.repo, offers.c.project)
                .join(offers, offers.c.shelf == shelf.c.id)
                .where(fitting, offers.c.project.is_not(None), shelf.c.version.is_not(None))
            )
            return {(repo, project) for repo, project in connection.execute(query.distinct()).all()}

    def project(self, actor: Actor, name: str, owner: str | None) -> Repo:
        """The kernel that is this project.

        Raises:
            NotFound: There is none that `actor` may know of, or several.
        """
        part = max(name.split("-"), key=len)  # other spellings of the name have it too
        found = [repo for repo in self._kernels(actor, owner, part) if canonicalize_name(repo.name) == name]
        if not found:
            raise NotFound(f"no kernel{f' of `{owner[:100]}`' if owner else ''} is called `{name[:100]}`")
        if len(found) > 1:
            raise NotFound(
                f"several kernels are called `{name}`: {', '.join(f'`{repo.repo_id}`' for repo in found)}",
                hint=f"the index of one owner has only theirs: add `@{found[0].owner}/` to the index URL",
            )
        return found[0]

    def _kernels(self, actor: Actor, owner: str | None, text: str = "") -> list[Repo]:
        with self._services.database.read() as connection:
            return [repo_of(row) for row in connection.execute(listed(actor, "kernel", text=text, author=owner))]

    def wheels(self, repo: Repo, flavour: Flavour) -> list[Wheel]:
        """The wheels of this kernel for `flavour`, the newest version first; every file name once."""
        found: dict[str, Wheel] = {}
        yanks = self._repositories.yanks(repo)
        for release in releases(self._repositories.refs(repo)):
            for wheel in self._best(repo, release, flavour, yanks.get(release.commit)):
                found.setdefault(wheel.file, wheel)
        return list(found.values())

    def _best(self, repo: Repo, release: Release, flavour: Flavour, yanked: str | None) -> Iterable[Wheel]:
        """Of this version, for each platform and Python the wheel that the loader would take."""
        index = self._documents.index(repo, release.commit)
        variants = index.variants if isinstance(index, Index) else ()
        fitting = [variant for variant in variants if flavour.takes(Profile.of(variant))]
        best: dict[object, Wheel] = {}
        for variant in sorted(fitting, key=rank_of):
            entry = next(iter(self._repositories.paths_info(repo, release.commit, [variant.wheel.path])), None)
            if entry is None or entry.sha256 != variant.wheel.sha256:
                continue
            try:
                name, version, _, tags = parse_wheel_filename(entry.path.rpartition("/")[2])
            except InvalidWheelFilename:
                continue
            if name != canonicalize_name(repo.name) or tags in best:
                continue
            if metadata := self._metadata.of(entry.sha256, entry.size):
                best[tags] = Wheel(repo, release.commit, entry, str(version), metadata, yanked)
        return best.values()

    def wheel_metadata(self, entry: Entry) -> bytes | None:
        """The core metadata of the wheel that this file is, or None where it is no sound wheel."""
        return self._metadata.read(entry.sha256, entry.size)
