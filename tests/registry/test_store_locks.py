from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernelworks.cache import locks
from kernelworks.cache.locks import exclusive

HOLD = """
import os, signal, sys, time
from pathlib import Path
from kernelworks.cache.locks import exclusive
with exclusive(Path(sys.argv[1])):
    if sys.argv[2] == "fork" and os.fork() == 0:
        os.close(1)
        time.sleep(600)
    print(flush=True)
    time.sleep(600)
"""


def holder(lock: Path, how: str) -> subprocess.Popen[bytes]:
    """A process that holds `lock`."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, lock, how], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_of_many_processes_one_at_a_time_has_the_lock(tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("0")
    program = (
        "import sys\nfrom pathlib import Path\nfrom kernelworks.cache.locks import exclusive\n"
        f"count = Path({str(count)!r})\n"
        "for _ in range(50):\n"
        f"    with exclusive(Path({str(tmp_path / 'lock')!r})):\n"
        "        count.write_text(str(int(count.read_text()) + 1))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert count.read_text() == "200"


def test_the_lock_of_a_killed_owner_is_free(tmp_path: Path) -> None:
    with holder(tmp_path / "lock", "alone") as owner:
        owner.kill()
    with exclusive(tmp_path / "lock"):
        pass


def test_a_dead_owner_whose_fork_still_holds_the_lock_is_not_waited_for(tmp_path: Path) -> None:
    with holder(tmp_path / "lock", "fork") as owner:
        owner.kill()
        owner.wait()
        try:
            with (tmp_path / "lock").open() as other, pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the fork has it
            with exclusive(tmp_path / "lock"):
                pass
        finally:
            os.killpg(owner.pid, signal.SIGKILL)


def test_a_silent_owner_on_another_machine_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_SILENCE_SECONDS", 0.05)
    with (tmp_path / "lock").open("w") as other:
        other.write("elsewhere pid:[1] 1")
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        with exclusive(tmp_path / "lock"):
            pass


def test_an_owner_that_works_is_waited_for_longer_than_a_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_BEAT_SECONDS", 0.01)
    with exclusive(tmp_path / "lock"):
        before = (tmp_path / "lock").stat().st_mtime_ns
        while (tmp_path / "lock").stat().st_mtime_ns == before:  # it is touched
            pass


def test_a_link_that_somebody_has_put_there_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"), exclusive(tmp_path / "lock"):
        pytest.fail("locked")
    assert (tmp_path / "precious").read_text() == "data"


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_without_locks_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with exclusive(tmp_path / "lock"), exclusive(tmp_path / "lock"):
        pass
