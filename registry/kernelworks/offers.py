"""What may be loaded: the variants of a revision or folder, and how the verified folder of one of them is had.

Without a version, those come first that are newest and not yanked; if all are yanked, the newest of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from kernelworks import settings
from kernelworks.binaries.elf import ElfError
from kernelworks.cache.markers import Markers
from kernelworks.errors import KernelworksError
from kernelworks.host import HostEnv
from kernelworks.kernel import Origin
from kernelworks.lookup import Absent, look_into, look_up
from kernelworks.model.beside import BESIDE
from kernelworks.model.variant import Variant
from kernelworks.policy import Rules, read_policy
from kernelworks.store import Store
from kernelworks.transport import Transport, connect, parse_index
from kernelworks.transport.directory_layout import BUILD
from kernelworks.transport.repo_id import is_pinned, version_ref
from kernelworks.transport.revision import Revision
from kernelworks.transport.several import first_having
from kernelworks.trust import check_allowed, check_trust
from kernelworks.verify import REBUILD

if TYPE_CHECKING:  # imported where a revision is one
    from kernelworks.transport.foreign import ForeignRevision

__all__ = ["Offer", "Request", "local_offer", "override_offer", "published_offers"]

_EXTENSION = ".so"


@dataclass(frozen=True)
class Request:
    """What is asked of registries.

    Attributes:
        repo_id: `org/name`.
        version, revision: At most one of them; neither for the newest version.
        consent: To run code of a publisher whom nobody has called trusted.
        agent: What a server is told of who asks.
        offline: Whether no server may be asked.
        named_by_file: Whether a file alone names the registry, as for `connect`.
    """

    repo_id: str
    version: int | None = None
    revision: str | None = None
    consent: bool = False
    agent: str = ""
    offline: bool = False
    named_by_file: bool = False


def _as_it_is(variant: Variant) -> Variant:
    return variant


@dataclass(frozen=True)
class Offer:
    """The variants of one revision or folder.

    Attributes:
        origin: What it is.
        variants: Each with its facts, as far as they are known without asking for it alone.
        prepare: Returns the folder with the verified files of a complete variant.
        complete: Returns a variant with all its facts and files.
        look: What a variant lacks on this machine; may fetch it.
        warnings: What whoever loads it has to hear.
    """

    origin: Origin
    variants: tuple[Variant, ...]
    prepare: Callable[[Variant], Path]
    complete: Callable[[Variant], Variant] = _as_it_is
    look: Callable[[Variant, HostEnv], Absent] = look_up
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        version = "no version" if self.origin.version is None else f"version {self.origin.version}"
        if self.origin.commit:
            return f"{version}, commit {self.origin.commit[:12]}"
        return "local folder" if self.origin.version is None else version


def published_offers(request: Request, registries: Sequence[str | os.PathLike[str]]) -> Iterator[Offer]:
    """What the first of `registries` that has the repository offers, the preferred first, read when it is asked for.

    Raises:
        KernelworksError: It cannot be read, lacks what is asked for, or the policy forbids it.
    """
    caches, agent = settings.cache_layers(), request.agent
    transports = (
        connect(one, caches, agent=agent, offline=request.offline, named_by_file=request.named_by_file)
        for one in registries
    )
    yield from first_having(request.repo_id, transports, partial(_begun, request))


def local_offer(subject: str, folder: Path) -> Offer:
    """The variants in `folder`.

    Raises:
        RepositoryError: There are none, or their description is malformed.
    """
    from kernelworks.local import read_local  # noqa: PLC0415  # what is published is described otherwise

    local = read_local(folder)

    def prepare(variant: Variant) -> Path:
        found = local.root / variant.name
        markers = Markers(settings.cache_layers())
        markers.check(found, variant.files, hint=REBUILD, beside=BESIDE)
        return found

    look = partial(_look_inside, prepare) if local.commit is None else look_up
    origin = Origin(subject, local.version, local.commit)
    return Offer(origin, local.variants, prepare, local.complete, look)


def override_offer(repo_id: str, folder: Path) -> Offer:
    """The variants in the folder that LOCAL_KERNELS names for `repo_id`.

    Raises:
        KernelworksError: As `local_offer`, with the name of that variable.
    """
    try:
        return local_offer(repo_id, folder)
    except KernelworksError as error:
        error.hint = "; ".join(filter(None, (error.hint, f"LOCAL_KERNELS names this folder for `{repo_id}`")))
        raise


def _begun(request: Request, transport: Transport) -> Iterator[Offer]:
    """What `transport` offers; that it has the repository is known when this returns."""
    offers = _offers(request, transport, read_policy(settings.policy(), transport.location))
    return chain((next(offers),), offers)


def _offers(request: Request, transport: Transport, rules: Rules) -> Iterator[Offer]:
    repo_id, version, revision = request.repo_id, request.version, request.revision
    check_allowed(rules, repo_id, is_pinned=revision is not None and is_pinned(revision))
    if revision is not None:
        yield _Published(request, transport, rules, transport.read_index(repo_id, revision)).offer(None)
    elif version is not None:
        said = transport.read_index(repo_id, version_ref(version))
        yield _Published(request, transport, rules, said).offer(version)
    else:
        refs = transport.versions(repo_id)
        for number, ref in ({number: ref for number, ref in refs.items() if ref.yanked is None} or refs).items():
            said = replace(transport.read_index(repo_id, ref.commit), yanked=ref.yanked)
            yield _Published(request, transport, rules, said).offer(number)


@dataclass(frozen=True)
class _Published:
    """What a registry has said of a revision that was asked for."""

    request: Request
    transport: Transport
    rules: Rules
    said: Revision

    def offer(self, version: int | None) -> Offer:
        """The revision, which has to be of `version` where it has an index and one is given."""
        repo_id, commit = self.said.repo_id, self.said.commit
        check_allowed(self.rules, repo_id, is_pinned=True)  # under the name that it has now
        warnings = tuple(self._warnings())
        if self.said.tree is None:
            index = parse_index(repo_id, commit, self.said.index or b"", version)
            origin = Origin(self.request.repo_id, index.version, commit, self.transport.location)
            return Offer(origin, index.variants, self._unpacked, warnings=warnings)
        from kernelworks.transport.foreign import read_foreign  # noqa: PLC0415  # others have an index

        foreign = read_foreign(self.said.tree, repo_id, commit)
        fetched = partial(self._fetched, foreign)
        return Offer(
            Origin(self.request.repo_id, version, commit, self.transport.location),
            foreign.variants,
            fetched,
            foreign.complete,
            partial(_look_inside, fetched),
            warnings,
        )

    def _unpacked(self, variant: Variant) -> Path:
        self._check_consent()
        repo_id, commit, wheel = self.said.repo_id, self.said.commit, variant.wheel
        origin = self.transport.locate(repo_id, commit, wheel.path)
        return _store().get(variant, lambda: self.transport.open(repo_id, commit, wheel), origin)

    def _fetched(self, foreign: ForeignRevision, variant: Variant) -> Path:
        self._check_consent()
        origin = self.transport.locate(self.said.repo_id, self.said.commit, f"{BUILD}/{variant.name}")
        return _store().get_files(variant, partial(foreign.open, variant), origin)

    def _check_consent(self) -> None:
        if not self.request.consent:
            check_trust(self.transport, self.said.repo_id, self.said.commit, self.rules)

    def _warnings(self) -> Iterator[str]:
        said, asked = self.said, self.request.repo_id
        if said.repo_id != asked:
            yield f"`{asked}` is now `{said.repo_id}` in registry `{self.transport.location}`: use that name"
        if said.deprecated is not None:
            yield f"`{asked}` is deprecated: {said.deprecated or 'its publisher gives no reason'}"
        if said.yanked is not None:
            reason = said.yanked or "its publisher gives no reason"
            yield f"commit `{said.commit}` of `{asked}` was yanked: {reason}; use another version"


def _store() -> Store:
    return Store(*settings.cache_layers())


def _look_inside(prepare: Callable[[Variant], Path], variant: Variant, host: HostEnv) -> Absent:
    """What `variant` needs by its facts and by its shared objects, and is absent; it is fetched for that."""
    absent = look_up(variant, host)
    libraries = [entry.path for entry in variant.files if entry.path.endswith(_EXTENSION)]
    if absent != Absent() or not libraries:
        return absent
    folder = prepare(variant)
    try:
        return look_into([folder / path for path in libraries], host)
    except ElfError:  # whoever opens the file refuses it by its name
        return absent
