"""A server that is killed in the middle of its work has everything that it acknowledged."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernelworks_server.config import open_config
from kernelworks_server.rights import ANONYMOUS
from kernelworks_server.services import open_services

COMMIT_FOR_EVER = """
import itertools, pathlib, sys, threading
from kernelworks_server.config import open_config
from kernelworks_server.records import AddFile
from kernelworks_server.services import open_services

services = open_services(open_config(pathlib.Path(sys.argv[1])))
actor = services.people.actor(services.people.begin())
repo = services.repositories.create(actor, "kernel", "admin/relu", private=False)

def work(name):
    for number in itertools.count():
        data = f"{name} {number} ".encode() * 2_000
        sha256, size = services.repositories.receive(repo, [data], expected=None, limit=1 << 20)
        added = [AddFile(f"{name}/{number}", sha256, size, lfs=number % 2 == 0)]
        commit = services.repositories.commit(actor, repo, "main", added, message="m", description="", parent=None)
        sys.stdout.write(f"{name} {number} {commit}\\n")  # the acknowledgement
        sys.stdout.flush()

for name in "ab":
    threading.Thread(target=work, args=(name,)).start()
"""


@pytest.mark.parametrize("acknowledged", [1, 17, 40])
def test_every_acknowledged_commit_outlives_a_kill(tmp_path: Path, acknowledged: int) -> None:
    command = [sys.executable, "-c", COMMIT_FOR_EVER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(acknowledged)]
        process.send_signal(signal.SIGKILL)
        lines += [line for line in process.stdout if line.endswith("\n")]
    assert process.returncode == -signal.SIGKILL
    services = open_services(open_config(tmp_path))
    repo = services.repositories.get(ANONYMOUS, "kernel", "admin/relu")
    head = services.repositories.resolve_revision(repo, "main")
    history, _ = services.repositories.commits(repo, head, limit=1_000)
    for name, number, commit in map(str.split, lines):
        assert commit in {info.id for info in history}
        entry = services.repositories.entry(repo, head, f"{name}/{number}")
        assert b"".join(services.blobs.read(entry.sha256)) == f"{name} {number} ".encode() * 2_000
    services.close()
