"""`get_kernel` and its family: arguments are checked, then the stages are called in order."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelworks import host as this_host
from kernelworks import settings
from kernelworks.arguments import agent_text, check_arguments, check_backend, check_consent, check_registry
from kernelworks.compat import Verdict
from kernelworks.dependencies import Step, check_circle, load_all, taking
from kernelworks.host import HostEnv
from kernelworks.kernel import module_name
from kernelworks.lookup import look_up
from kernelworks.model.variant import KernelDependency
from kernelworks.offers import Request, local_offer
from kernelworks.resolve import chosen
from kernelworks.selection import select, weigh_offer
from kernelworks.sources import Source, offers_from, source_of

__all__ = [
    "Explanation",
    "explain",
    "get_kernel",
    "get_kernel_variants",
    "get_local_kernel",
    "has_kernel",
    "install_kernel",
    "load_from",
]

_modules: dict[tuple[Any, ...], ModuleType] = {}
"""What `get_kernel` gave, by all that its answer depends on: a process keeps the answer it got first."""


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
    user_agent: str | Mapping[str, str] | None = None,
    trust_remote_code: bool = False,
    registry: str | os.PathLike[str] | None = None,
) -> ModuleType:
    """The module of the kernel, verified, imported once per process.

    Args:
        repo_id: `org/name`. An entry of `LOCAL_KERNELS` for it takes the place of everything else.
        version: Version of the kernel's API; without it and `revision`, the newest with a variant that fits. Where
            `KERNELWORKS_LOCK` names a lock file, that has to name its commit, of this or of any version.
        revision: A commit (40 or 64 hex digits) or a ref, instead of `version`.
        backend: `cpu`, `cuda`, ...; without it, the one that torch is built for.
        user_agent: What a server is told of the caller: `name/version`, or such pairs.
        trust_remote_code: Consent to run code of a publisher whom neither the policy nor the registry calls trusted. A
            folder asks for none: whoever names the folder trusts it.
        registry: A folder or URL; without it, those in `KERNELWORKS_REGISTRY`, else `HF_ENDPOINT`, else the Hub.

    Raises:
        UsageError: An argument cannot be right.
        LockError: `KERNELWORKS_LOCK` is set, and what is asked for is not locked.
        TransportError, RepositoryError: The registry cannot be read, or lacks what is asked for.
        ResolveError: No variant fits; it says why for each.
        VerifyError: Bytes are not those that were published; nothing was imported.
        TrustError: Nobody has consented to run this publisher's code, or the policy forbids it; nothing was fetched.
        LoadError: The kernel's own code failed.
    """
    check_arguments(repo_id, version, revision, backend, trust_remote_code)
    check_registry(registry)
    key = (repo_id, version, revision, backend, registry, settings.sources())
    if key not in _modules:
        request = Request(repo_id, version, revision, trust_remote_code, agent_text(user_agent))
        _modules[key] = load_from(request, source_of(repo_id, registry), backend)
    return _modules[key]


def load_from(request: Request, source: Source, backend: str | None) -> ModuleType:
    """As `get_kernel`, of arguments that are checked, each time anew."""
    selection = select(request.repo_id, offers_from(request, source), this_host.detect(), backend)
    return selection.load(partial(_dependency, request, source, backend))


def install_kernel(
    repo_id: str,
    *,
    version: int | None = None,
    revision: str | None = None,
    backend: str | None = None,
    local_files_only: bool = False,
    user_agent: str | Mapping[str, str] | None = None,
    trust_remote_code: bool = False,
    registry: str | os.PathLike[str] | None = None,
) -> Path:
    """The folder with the verified files of the variant that `get_kernel` would load; nothing is imported.

    The kernels that it depends on are fetched too. The arguments are those of `get_kernel`; with `local_files_only`, no
    server is asked.

    Raises:
        As `get_kernel`.
    """
    check_arguments(repo_id, version, revision, backend, trust_remote_code)
    request = Request(repo_id, version, revision, trust_remote_code, agent_text(user_agent), local_files_only)
    return _install(request, source_of(repo_id, registry), backend)


def has_kernel(
    repo_id: str,
    *,
    version: int | None = None,
    revision: str | None = None,
    backend: str | None = None,
    trust_remote_code: bool = False,
    registry: str | os.PathLike[str] | None = None,
) -> bool:
    """Whether `get_kernel` with these arguments finds a variant that fits; nothing is imported.

    That takes no consent: `trust_remote_code` is there so that it can be asked with the arguments of the load.

    Raises:
        UsageError, TransportError, RepositoryError: As `get_kernel`; a missing repository is an error.
    """
    check_consent(trust_remote_code)
    return explain(repo_id, version=version, revision=revision, backend=backend, registry=registry).chosen is not None


def get_kernel_variants(
    repo_id: str,
    *,
    version: int | None = None,
    revision: str | None = None,
    backend: str | None = None,
    registry: str | os.PathLike[str] | None = None,
) -> list[Verdict]:
    """The verdict on every variant: those that fit, the best first, then the others, the nearest miss first.

    Raises:
        UsageError, TransportError, RepositoryError: As `get_kernel`.
    """
    return list(explain(repo_id, version=version, revision=revision, backend=backend, registry=registry).verdicts)


def explain(
    repo_id: str,
    *,
    version: int | None = None,
    revision: str | None = None,
    backend: str | None = None,
    registry: str | os.PathLike[str] | None = None,
) -> Explanation:
    """Which variant `get_kernel` with these arguments takes, and every reason against the others.

    Without a version: of the version that `get_kernel` takes, or of the newest where nothing fits. Of kernels
    without an index, what only their binaries tell is not known before they are fetched.

    Raises:
        UsageError, TransportError, RepositoryError: As `get_kernel`.
    """
    check_arguments(repo_id, version, revision, backend)
    host = this_host.detect()
    misses = []
    for offer in offers_from(Request(repo_id, version, revision), source_of(repo_id, registry)):
        verdicts = weigh_offer(offer, host, backend, look_up)
        choice = chosen(verdicts)
        name = choice.name if choice else None
        explanation = Explanation(repo_id, offer.origin.version, offer.origin.commit, host, verdicts, name)
        if choice:
            return explanation
        misses.append(explanation)
    return misses[0]


def get_local_kernel(
    path: str | os.PathLike[str],
    *,
    backend: str | None = None,
    trust_remote_code: bool = False,
    user_agent: str | Mapping[str, str] | None = None,
) -> ModuleType:
    """The module of the kernel in the folder `path`, checked as one from a registry.

    Args:
        path: The `dist` folder of a build, a repository or `build` folder, or one variant folder.
        backend: As for `get_kernel`.
        trust_remote_code: As for `get_kernel`, of the kernels that it depends on.
        user_agent: As for `get_kernel`.

    Raises:
        As `get_kernel`.
    """
    check_backend(backend)
    check_consent(trust_remote_code)
    subject = os.fspath(path)
    request = Request(subject, consent=trust_remote_code, agent=agent_text(user_agent))
    selection = select(subject, [local_offer(subject, Path(path))], this_host.detect(), backend)
    return selection.load(partial(_dependency, request, source_of(subject), backend))


def _dependency(request: Request, source: Source, backend: str | None, need: KernelDependency) -> ModuleType:
    return load_from(*_needed(request, source, need), backend)


def _install(request: Request, source: Source, backend: str | None) -> Path:
    """The folder of the kernel, when all that it needs is here too."""
    selection = select(request.repo_id, offers_from(request, source), this_host.detect(), backend)
    folder, step = selection.folder(), Step(module_name(selection.variant), request.repo_id)
    check_circle(step.module, step.subject)
    with taking(step):
        needs = selection.variant.kernel_depends
        load_all(step.subject, needs, lambda need: _install(*_needed(request, source, need), backend))
    return folder


def _needed(request: Request, source: Source, need: KernelDependency) -> tuple[Request, Source]:
    """How a kernel is asked for that another needs: from the registry or lock, and by the consent, of that one."""
    check_arguments(need.repo_id, need.version, need.revision, None)
    asked = replace(request, repo_id=need.repo_id, version=need.version, revision=need.revision)
    return asked, source.of(need.repo_id)
