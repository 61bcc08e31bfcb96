"""`kernelworks verify`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kernelworks.cli import Output
from kernelworks.cli.table import table, terminal_width
from kernelworks.errors import KernelworksError, UsageError, together
from kernelworks.lockfile import Pin, find_lock, read_lock
from kernelworks.model.decode import printable
from kernelworks.model.index import Index
from kernelworks.sources import registries_of
from kernelworks.transport import Transport, connect, read_revision
from kernelworks.transport.directory_layout import listed_files
from kernelworks.transport.repo_id import version_ref
from kernelworks.transport.several import first_having
from kernelworks.verify import REPUBLISH, Fault, remote_faults, verify_error

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> Output:
    """Every file of a revision that differs from its index; the exit code is that of `VerifyError` if one does.

    The commit proves the index; the index proves the wheels and the files below `build/`. Of a lock file, every
    kernel in it, whose variants have to be those that were locked.
    """
    if (arguments.repo_id is None) == (arguments.lock is None) or (arguments.lock and arguments.version is not None):
        raise UsageError("one thing is verified at a time", hint="give `org/name`, with a version or not, or `--lock`")
    registries, repo_id = registries_of(arguments.registry), arguments.repo_id
    if arguments.lock is None:
        return first_having(repo_id, map(connect, registries), lambda one: _version(one, repo_id, arguments.version))
    lock = read_lock(find_lock(Path(arguments.lock).absolute()))
    outputs = [_locked(pin, registries) for pin in lock.pins]
    errors = [output.error for output in outputs if output.error]
    document = {"lockfile": lock.origin, "kernels": [output.document for output in outputs]}
    text = "\n\n".join([lock.origin, *(output.text for output in outputs if output.text)])
    return Output(document, text, together(errors) if errors else None)


def _version(transport: Transport, repo_id: str, version: int | None) -> Output:
    """As `_verified`, of the newest version where none is given."""
    if version is None:
        version = next(iter(transport.versions(repo_id)))
    return _verified(transport, repo_id, version_ref(version), version)


def _locked(pin: Pin, registries: Sequence[str | os.PathLike[str]]) -> Output:
    """As `_verified`; what cannot be verified is told as well, for there are others."""
    repo_id, commit = pin.need.repo_id, pin.commit
    locations = (pin.registry,) if pin.registry else registries
    transports = (connect(location, named_by_file=pin.registry is not None) for location in locations)
    try:
        return first_having(repo_id, transports, lambda one: _verified(one, repo_id, commit, locked=pin.variants))
    except KernelworksError as error:
        return Output({"repo_id": repo_id, "commit": commit, "error": error.to_json()}, "", error)


def _verified(
    transport: Transport,
    repo_id: str,
    revision: str,
    version: int | None = None,
    locked: Mapping[str, str] = MappingProxyType({}),
) -> Output:
    commit, index = read_revision(transport, repo_id, revision, version)
    files = tuple(listed_files(index))
    faults = (
        *_lock_faults(index, locked),
        *remote_faults(files, lambda entry: transport.open(repo_id, commit, entry)),
    )
    document: dict[str, Any] = {
        "repo_id": repo_id,
        "registry": transport.location,
        "version": index.version,
        "commit": commit,
        "files": len(files),
        "bytes": sum(entry.size for entry in files),
        "faults": [asdict(fault) for fault in faults],
    }
    title = f"{repo_id} in {transport.location}, version {index.version}, commit {commit}"
    if not faults:
        return Output(document, f"{title}\nall {document['files']} files, {document['bytes']} bytes, are as published")
    rows = [(printable(fault.file), fault.expected, fault.got) for fault in faults]
    text = f"{title}\n{table(('file', 'expected', 'got'), rows, terminal_width())}"
    return Output(document, text, verify_error(transport.locate(repo_id, commit, "."), faults, hint=REPUBLISH))


def _lock_faults(index: Index, locked: Mapping[str, str]) -> Iterator[Fault]:
    """How the variants of `index` are not those of `locked`, where that tells any."""
    there = {variant.name: variant.wheel.sha256 for variant in index.variants}
    for name in sorted(locked.keys() | there.keys() if locked else ()):
        expected, got = (f"sha256 {known[name]}" if name in known else "nothing" for known in (locked, there))
        if expected != got:
            yield Fault(name, f"{expected} (locked)", got)
