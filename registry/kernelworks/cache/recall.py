"""What a process that has the name of a kernel's module and nothing else loads it from: how pickles come back.

A function, class or module of a kernel pickles as that name, which holds the digest of the kernel's files. Every load
leaves a record in the cache, `loaded/<name>.json`: origin, variant, folder, the names of its dependencies. Loading by
name asks no registry and needs no consent of its own: it was given when this user loaded the kernel, whose files
are those of the digest or are refused. What the policy has forbidden since then is not loaded.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelworks import settings
from kernelworks.cache.private import read_private, write_private
from kernelworks.errors import LoadError, RepositoryError
from kernelworks.kernel import LoadedKernel, Origin, Plan, module_name
from kernelworks.model.beside import BESIDE
from kernelworks.model.decode import Node, parse_json
from kernelworks.model.digest import canonical_json
from kernelworks.model.variant import TorchSymbols, Variant

__all__ = ["recalled", "recorded", "remember"]

_FOLDER = "loaded"
_NO_LOCK = "0" * 64


def remember(name: str, kernel: LoadedKernel) -> None:
    """Leave a record of `kernel`, whose module is `name`, where the cache can be written: its time is the last load."""
    record: dict[str, Any] = {
        "origin": asdict(kernel.origin),
        "folder": str(kernel.folder),
        "variant": _as_listed(kernel.variant).to_json(),
        "dependencies": {repo_id: module.__name__ for repo_id, module in kernel.dependencies.items()},
    }
    path, data = _path(settings.cache_root(), name), canonical_json(record)
    if read_private(path) == data:
        with suppress(OSError):
            os.utime(path)
    else:
        write_private(path, data)


def recalled(name: str) -> Plan:
    """How the kernel whose module is `name` is loaded from what is in the cache.

    Raises:
        LoadError: No layer of the cache has a record of it that this user has left.
        ResolveError: It does not fit this process.
        TrustError: The policy denies it by now.
    """
    for layer in settings.cache_layers():
        plan = _read(_path(layer, name))
        if plan is not None and module_name(plan.variant) == name:
            _check_policy(plan.origin)
            _check_fit(plan)
            return plan
    raise LoadError(
        f"`{name}` is a kernel that was never loaded with the cache `{settings.cache_root()}`",
        hint="load it here once, by the `get_kernel` call of the program that refers to it",
        module=name,
    )


def recorded(layer: Path) -> Iterator[tuple[Plan, float]]:
    """How each kernel that this user has loaded with the cache `layer` would be loaded again, and when it last was."""
    for path in sorted((layer / _FOLDER).glob("*.json")):
        if plan := _read(path):
            yield plan, path.stat().st_mtime


def _read(path: Path) -> Plan | None:
    """The record at `path`; None where there is none, or a damaged one."""
    data = read_private(path)
    try:
        return None if data is None else _plan(parse_json(data, f"`{path}`"))
    except RepositoryError:
        return None


def _path(layer: Path, name: str) -> Path:
    return layer / _FOLDER / f"{name.rpartition('.')[2]}.json"


def _as_listed(variant: Variant) -> Variant:
    """`variant` as an index could list it, though it may come without one; without what only the choice needs."""
    return replace(
        variant,
        wheel=replace(variant.wheel, path=variant.wheel.path or variant.name),
        package=variant.package.replace("-", "_"),
        lock=variant.lock or _NO_LOCK,
        torch_symbols=TorchSymbols(()),
    )


def _plan(record: Node) -> Plan:
    variant = Variant.from_json(record.get("variant"))
    origin = _origin(record.get("origin"))
    folder = Path(record.get("folder").text())
    names = record.get("dependencies")
    modules = {repo_id: names.get(repo_id).text() for repo_id in names.value}
    return Plan(variant, origin, partial(_folder, variant, origin, folder), partial(_imported, modules))


def _origin(node: Node) -> Origin:
    version = node.opt("version")
    commit, registry = (found.text() if (found := node.opt(key)) else None for key in ("commit", "registry"))
    return Origin(node.get("subject").text(), version.natural() if version else None, commit, registry)


def _folder(variant: Variant, origin: Origin, recorded: Path) -> Path:
    """The verified folder: the one that it was loaded from, else a copy in a layer of the cache."""
    from kernelworks.cache.markers import Markers  # noqa: PLC0415  # what follows is needed by no other load
    from kernelworks.store import Store  # noqa: PLC0415

    layers = settings.cache_layers()
    markers = Markers(layers)
    if not markers.faults(recorded, variant.files, BESIDE):
        return recorded
    found = Store(*layers).find(variant)
    if found is None:
        markers.check(recorded, variant.files, hint=f"load it again: {_call(origin, recorded)}", beside=BESIDE)
    return found or recorded


def _call(origin: Origin, folder: Path) -> str:
    """The call that loads a kernel from where it came from."""
    if origin.registry is None:
        return f'`get_local_kernel("{folder}")`'
    return f'`get_kernel("{origin.subject}", revision="{origin.commit}", registry="{origin.registry}")`'


def _imported(modules: Mapping[str, str]) -> dict[str, ModuleType]:
    return {repo_id: importlib.import_module(module) for repo_id, module in modules.items()}


def _check_policy(origin: Origin) -> None:
    from kernelworks.policy import read_policy  # noqa: PLC0415  # what follows is needed by no other load
    from kernelworks.trust import check_allowed  # noqa: PLC0415

    if origin.registry is not None:  # whoever names a folder trusts it
        check_allowed(read_policy(settings.policy(), origin.registry), origin.subject, is_pinned=True)


def _check_fit(plan: Plan) -> None:
    from kernelworks.host import detect  # noqa: PLC0415  # what follows is needed by no other load
    from kernelworks.resolve import chosen, no_fit, weigh  # noqa: PLC0415

    verdicts = weigh((plan.variant,), detect(), plan.variant.backend.kind)
    if chosen(verdicts) is None:
        raise no_fit(plan.origin.subject, [("as it was loaded first", verdicts)])
