"""`get_kernel` and its family: arguments are checked, then the stages are called in order."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelworks import host as this_host
from kernelworks import settings
from kernelworks.backends import registered
from kernelworks.compat import Verdict
from kernelworks.errors import KernelworksError, UsageError
from kernelworks.host import HostEnv
from kernelworks.load import Origin, load_variant
from kernelworks.local import BESIDE, read_local
from kernelworks.model.decode import printable
from kernelworks.model.variant import Variant
from kernelworks.resolve import chosen, no_fit, weigh
from kernelworks.store import Store
from kernelworks.transport import Transport, connect, read_revision
from kernelworks.transport.repo_id import check_commit_or_ref, check_repo_id, version_ref
from kernelworks.trust import check_trust
from kernelworks.verify import check_folder

__all__ = ["Explanation", "explain", "get_kernel", "get_local_kernel", "has_kernel"]

_log = logging.getLogger("kernelworks")

_modules: dict[tuple[Any, ...], ModuleType] = {}
"""What `get_kernel` gave, by all that its answer depends on: a process keeps the answer it got first."""


@dataclass(frozen=True)
class _Offer:
    """The variants of one revision or folder, and how the verified folder of one of them is had."""

    origin: Origin
    variants: tuple[Variant, ...]
    prepare: Callable[[Variant], Path]

    def __str__(self) -> str:
        version = "local folder" if self.origin.version is None else f"version {self.origin.version}"
        return f"{version}, commit {self.origin.commit[:12]}" if self.origin.commit else version


@dataclass(frozen=True)
class Explanation:
    """Which variant this process gets, and why not the others.

    Attributes:
        subject: Repository id or folder.
        version: Of the revision that was looked at; None for a folder without an index.
        commit: Of the revision; None for a folder without an index.
        host: This process.
        verdicts: On every variant: those that fit, the best first, then the others, the nearest miss first.
        chosen: Name of the variant that is loaded, or None where none fits.
    """

    subject: str
    version: int | None
    commit: str | None
    host: HostEnv
    verdicts: tuple[Verdict, ...]
    chosen: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "version": self.version,
            "commit": self.commit,
            "chosen": self.chosen,
            "variants": [verdict.to_json() for verdict in self.verdicts],
            "host": self.host.to_json(),
        }


def get_kernel(
    repo_id: str,
    *,
    version: int | None = None,
    revision: str | None = None,
    backend: str | None = None,
    trust_remote_code: bool = False,
    registry: str | os.PathLike[str] | None = None,
) -> ModuleType:
    """The module of the kernel, verified, imported once per process.

    Args:
        repo_id: `org/name`. An entry of `LOCAL_KERNELS` for it takes the place of everything else.
        version: Version of the kernel's API; without it and `revision`, the newest with a variant that fits.
        revision: A commit (40 or 64 hex digits) or a ref, instead of `version`.
        backend: `cpu`, `cuda`, ...; without it, the one that torch is built for.
        trust_remote_code: Consent to run code of a publisher whom the registry does not call trusted. A folder
            asks for none: whoever names the folder trusts it.
        registry: A folder or URL; without it, `KERNELWORKS_REGISTRY`, else `HF_ENDPOINT`.

    Raises:
        UsageError: An argument cannot be right.
        TransportError, RepositoryError: The registry cannot be read, or lacks what is asked for.
        ResolveError: No variant fits; it says why for each.
        VerifyError: Bytes are not those that were published; nothing was imported.
        TrustError: Nobody has consented to run this publisher's code; nothing was fetched.
        LoadError: The kernel's own code failed.
    """
    _check_arguments(repo_id, version, revision, backend, trust_remote_code)
    source = _source(repo_id, registry)
    key = (repo_id, version, revision, backend, source)
    if key not in _modules:
        _modules[key] = _load(repo_id, _offers(repo_id, version, revision, source, trust_remote_code), backend)
    return _modules[key]


def has_kernel(
    repo_id: str,
    *,
    version: int | None = None,
    revision: str | None = None,
    backend: str | None = None,
    registry: str | os.PathLike[str] | None = None,
) -> bool:
    """Whether `get_kernel` with these arguments finds a variant that fits; nothing is fetched or imported.

    Raises:
        UsageError, TransportError, RepositoryError: As `get_kernel`; a missing repository is an error.
    """
    return explain(repo_id, version=version, revision=revision, backend=backend, registry=registry).chosen is not None


def explain(
    repo_id: str,
    *,
    version: int | None = None,
    revision: str | None = None,
    backend: str | None = None,
    registry: str | os.PathLike[str] | None = None,
) -> Explanation:
    """Which variant `get_kernel` with these arguments takes, and every reason against the others.

    Without a version: of the version that `get_kernel` takes, or of the newest where nothing fits.

    Raises:
        UsageError, TransportError, RepositoryError: As `get_kernel`.
    """
    _check_arguments(repo_id, version, revision, backend)
    host = this_host.detect()
    misses = []
    for offer in _offers(repo_id, version, revision, _source(repo_id, registry)):
        verdicts = weigh(offer.variants, host, backend)
        choice = chosen(verdicts)
        name = choice.name if choice else None
        explanation = Explanation(repo_id, offer.origin.version, offer.origin.commit, host, verdicts, name)
        if choice:
            return explanation
        misses.append(explanation)
    return misses[0]


def get_local_kernel(path: str | os.PathLike[str], *, backend: str | None = None) -> ModuleType:
    """The module of the kernel in the folder `path`, checked as one from a registry.

    Args:
        path: The `dist` folder of a build, a repository or `build` folder, or one variant folder.
        backend: As for `get_kernel`.

    Raises:
        As `get_kernel`.
    """
    _check_backend(backend)
    folder = Path(path)
    return _load(str(folder), iter([_local_offer(str(folder), folder)]), backend)


def _load(subject: str, offers: Iterator[_Offer], backend: str | None) -> ModuleType:
    host = this_host.detect()
    tried = []
    for offer in offers:
        verdicts = weigh(offer.variants, host, backend)
        if variant := chosen(verdicts):
            module = load_variant(variant, offer.origin, lambda: offer.prepare(variant))  # noqa: B023  # called at once
            _log.info("`%s`: loaded %s, variant `%s`", subject, offer, variant.name)
            return module
        tried.append((str(offer), verdicts))
    raise no_fit(subject, tried)


def _offers(
    repo_id: str, version: int | None, revision: str | None, source: Any, consent: bool = False
) -> Iterator[_Offer]:
    """What may be loaded, the preferred first, each read when it is asked for."""
    if isinstance(source, _Override):
        yield _override_offer(repo_id, source.folder)
        return
    transport = connect(source, settings.cache_root())
    if revision is not None:
        yield _offer(transport, repo_id, revision, None, consent)
    elif version is not None:
        yield _offer(transport, repo_id, version_ref(version), version, consent)
    else:
        for known, commit in transport.versions(repo_id).items():
            yield _offer(transport, repo_id, commit, known, consent)


def _offer(transport: Transport, repo_id: str, revision: str, version: int | None, consent: bool) -> _Offer:
    commit, index = read_revision(transport, repo_id, revision, version)
    store = Store(settings.cache_root())

    def prepare(variant: Variant) -> Path:
        if not consent:
            check_trust(transport, repo_id)
        origin = transport.locate(repo_id, commit, variant.wheel.path)
        return store.get(variant, lambda: transport.open(repo_id, commit, variant.wheel), origin)

    return _Offer(Origin(repo_id, index.version, commit), index.variants, prepare)


def _override_offer(repo_id: str, folder: Path) -> _Offer:
    try:
        return _local_offer(repo_id, folder)
    except KernelworksError as error:
        error.hint = "; ".join(filter(None, (error.hint, f"LOCAL_KERNELS names this folder for `{repo_id}`")))
        raise


def _local_offer(subject: str, folder: Path) -> _Offer:
    local = read_local(folder)

    def prepare(variant: Variant) -> Path:
        found = local.root / variant.name
        check_folder(found, variant.files, hint="build or download the folder again", beside=BESIDE)
        return found

    return _Offer(Origin(subject, local.version, local.commit), local.variants, prepare)


@dataclass(frozen=True)
class _Override:
    """An entry of `LOCAL_KERNELS`."""

    folder: Path


def _source(repo_id: str, registry: str | os.PathLike[str] | None) -> _Override | str | os.PathLike[str] | None:
    if registry is not None and not isinstance(registry, str | os.PathLike):
        raise UsageError(f"registry must be a path or a URL, not {_quoted(registry)}")
    override = settings.local_kernels().get(repo_id)
    return _Override(override) if override else registry or settings.registry()


def _check_arguments(
    repo_id: str,
    version: int | None,
    revision: str | None,
    backend: str | None,
    trust_remote_code: bool = False,
) -> None:
    check_repo_id(repo_id)
    if version is not None and (type(version) is not int or version < 0):
        raise UsageError(
            f"version must be an integer of zero or more, not {_quoted(version)}", hint="write `version=1`"
        )
    if revision is not None:
        check_commit_or_ref(revision)
        if version is not None:
            raise UsageError("`version` and `revision` are both given", hint="a version is a revision: give one")
    if type(trust_remote_code) is not bool:
        raise UsageError(f"trust_remote_code must be True or False, not {_quoted(trust_remote_code)}")
    _check_backend(backend)


def _check_backend(backend: str | None) -> None:
    if backend is None or (isinstance(backend, str) and backend in registered()):
        return
    near = difflib.get_close_matches(str(backend).lower(), registered(), 1)
    raise UsageError(
        f"backend `{printable(str(backend))}` is not known (known: {', '.join(sorted(registered()))})",
        hint=f"did you mean `{near[0]}`?" if near else None,
        backend=str(backend),
    )


def _quoted(value: object) -> str:
    return f"the text `{printable(value)}`" if isinstance(value, str) else f"`{value!r}`"
