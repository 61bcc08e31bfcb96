"""`kernelworks verify`."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from kernelworks import settings
from kernelworks.cli import Output
from kernelworks.cli.table import table, terminal_width
from kernelworks.model.decode import printable
from kernelworks.transport import connect, read_revision
from kernelworks.transport.directory_layout import listed_files
from kernelworks.transport.repo_id import version_ref
from kernelworks.verify import REPUBLISH, remote_faults, verify_error

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> Output:
    """Every file of a revision that differs from its index; the exit code is that of `VerifyError` if one does.

    The commit proves the index; the index proves the wheels and the files below `build/`.
    """
    transport = connect(arguments.registry or settings.registry())
    repo_id, version = arguments.repo_id, arguments.version
    if version is None:
        version = next(iter(transport.versions(repo_id)))
    commit, index = read_revision(transport, repo_id, version_ref(version), version)
    files = tuple(listed_files(index))
    faults = tuple(remote_faults(files, lambda entry: transport.open(repo_id, commit, entry)))
    document = {
        "repo_id": repo_id,
        "registry": transport.location,
        "version": version,
        "commit": commit,
        "files": len(files),
        "bytes": sum(entry.size for entry in files),
        "faults": [asdict(fault) for fault in faults],
    }
    title = f"{repo_id} in {transport.location}, version {version}, commit {commit}"
    if not faults:
        return Output(document, f"{title}\nall {document['files']} files, {document['bytes']} bytes, are as published")
    rows = [(printable(fault.file), fault.expected, fault.got) for fault in faults]
    text = f"{title}\n{table(('file', 'expected', 'got'), rows, terminal_width())}"
    return Output(document, text, verify_error(transport.locate(repo_id, commit, "."), faults, hint=REPUBLISH))
