"""All executors, on a root folder made of a few programs of this machine: no toolchain is needed."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kernelworks
import kernelworks_build
from kernelworks.errors import UsageError
from kernelworks_build.action import Action, ActionResult, Executor, Limits, Mount, Tree
from kernelworks_build.errors import SandboxError
from kernelworks_build.sandbox import EXECUTORS, executor, layout
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.sandbox.none import Unisolated
from kernelworks_build.toolchain.tree import digest_of

pytestmark = pytest.mark.sandbox

MIB = 1 << 20
PROGRAMS = [
    "sh",
    "cat",
    "chmod",
    "env",
    "head",
    "hostname",
    "id",
    "ln",
    "ls",
    "mkdir",
    "mv",
    "rm",
    "sleep",
    "tail",
    "touch",
]
ROOMY = Limits(memory_bytes=512 * MIB, wall_seconds=60)
ORDINARY_USER = 65534


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    """A folder that every user of this machine can enter, with the trees `usr` and `src`, sealed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for program in PROGRAMS:
            _copy(Path(shutil.which(program) or program), folder / "usr/bin" / program)
        programs = (folder / "usr/bin").iterdir()
        listing = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
        for library in set(re.findall(r"(/\S+) \(0x", listing)):
            _copy(Path(library), folder / "usr" / library.removeprefix("/usr").lstrip("/"))
        (folder / "src").mkdir()
        (folder / "src/kernel.cpp").write_text("int main() {}\n")
        (folder / "src/kernel.cpp").chmod(0o444)
        (folder / "src").chmod(0o555)
        yield folder


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o555)


@pytest.fixture
def build_dir(ground: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=ground) as name:
        (Path(name) / "build").mkdir()
        yield Path(name) / "build"


@pytest.fixture(params=list(EXECUTORS))
def each(request: pytest.FixtureRequest) -> Executor:
    return usable(executor(request.param))


@pytest.fixture(params=[name for name, make in EXECUTORS.items() if make(None).hermetic])
def hermetic(request: pytest.FixtureRequest) -> Executor:
    return usable(executor(request.param))


@pytest.fixture
def bwrap() -> Executor:
    return usable(Bwrap())


def usable(candidate: Executor) -> Executor:
    try:
        candidate.check()
    except SandboxError as error:
        pytest.skip(str(error))
    return candidate


def tree(folder: Path) -> Tree:
    return Tree(digest_of(folder), folder)


def action(ground: Path, script: str, limits: Limits = ROOMY, outputs: tuple[str, ...] = ()) -> Action:
    return Action(
        argv=("sh", "-c", script),
        env=(("LC_ALL", "C"), ("PATH", "/usr/bin")),
        mounts=(Mount("/src", tree(ground / "src")), Mount("/usr", tree(ground / "usr"))),
        outputs=outputs,
        limits=limits,
    )


def run(by: Executor, job: Action, build_dir: Path) -> tuple[ActionResult, str]:
    result = by.run(job, build_dir, build_dir.with_name("log"))
    return result, result.log.read_text()


# What every executor gives.


def test_the_layout_is_the_same_whoever_runs_it(each: Executor, ground: Path, build_dir: Path) -> None:
    script = "pwd; id -u; id -g; ls /; ls /src; ls -d /bin/sh; cat /dev/null; umask; echo $$ >/tmp/a >/dev/shm/b"

    result, log = run(each, action(ground, script), build_dir)

    root = "bin build dev lib lib64 proc sbin src tmp usr"
    assert log.split() == f"/build 1000 1000 {root} kernel.cpp /bin/sh 0022".split()
    assert (result.exit_code, result.executor, result.hermetic) == (0, each.name, each.hermetic)


def test_the_environment_is_the_one_of_the_action_and_the_working_folder(
    each: Executor, ground: Path, build_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_HOST", "1")
    job = action(ground, "")
    listing = Action(("/usr/bin/env",), job.env, job.mounts, (), ROOMY)

    _, log = run(each, listing, build_dir)

    assert sorted(log.split()) == ["LC_ALL=C", "PATH=/usr/bin", "PWD=/build"]


def test_only_build_and_scratch_folders_can_be_written(each: Executor, ground: Path, build_dir: Path) -> None:
    script = """
    for path in /x /usr/x /usr/bin/sh /src/x /src/kernel.cpp /dev/x /opt /proc/x; do
        (echo bad > $path) 2>/dev/null && echo wrote $path
    done
    chmod u+w /src/kernel.cpp /usr/bin/sh 2>/dev/null && echo changed mode
    rm -f /src/kernel.cpp 2>/dev/null && echo removed
    echo good > result && mkdir -p a/b && mv result a/b
    """

    result, log = run(each, action(ground, script, outputs=("a/b/result",)), build_dir)

    assert (log, result.exit_code, result.missing_outputs) == ("", 0, ())
    assert (build_dir / "a/b/result").read_text() == "good\n"
    assert (build_dir / "a/b/result").stat().st_uid == os.geteuid()
    assert (ground / "src/kernel.cpp").read_text() == "int main() {}\n"
    assert stat.S_IMODE((ground / "src/kernel.cpp").stat().st_mode) == 0o444


def test_the_build_folder_keeps_what_was_in_it(each: Executor, ground: Path, build_dir: Path) -> None:
    (build_dir / "before").write_text("kept\n")

    result, log = run(each, action(ground, "cat before; echo more >> before"), build_dir)

    assert (result.exit_code, log) == (0, "kept\n")
    assert (build_dir / "before").read_text() == "kept\nmore\n"


@pytest.mark.parametrize(("script", "expected"), [("exit 7", 7), ("kill -TERM $$; sleep 9", -signal.SIGTERM)])
def test_a_failing_command_is_a_result(
    each: Executor, ground: Path, build_dir: Path, script: str, expected: int
) -> None:
    job = Action(
        ("sh", "-c", f"sh -c '{script}'; exit $?"),
        (("PATH", "/usr/bin"),),
        action(ground, "").mounts,
        (),
        ROOMY,
    )

    result, _ = run(each, job, build_dir)

    assert (result.exit_code, result.timed_out, result.out_of_memory) == (expected, False, False)


def test_a_command_that_is_not_in_the_sandbox_is_an_error(each: Executor, ground: Path, build_dir: Path) -> None:
    job = Action(("python3",), (("PATH", "/usr/bin"),), action(ground, "").mounts, (), ROOMY)

    with pytest.raises(SandboxError, match=r"cannot run `python3`: .*No such file"):
        run(each, job, build_dir)

    assert sorted(path.name for path in build_dir.parent.iterdir()) == ["build", "log"]


def test_an_output_is_missing_when_absent_and_when_a_link_leads_to_it(
    each: Executor, ground: Path, build_dir: Path
) -> None:
    script = "mkdir there; touch real there/y; ln -s real file; ln -s there folder; ln -s /etc/passwd out"
    outputs = ("real", "there/y", "absent", "file", "folder/y", "out")

    result, _ = run(each, action(ground, script, outputs=outputs), build_dir)

    assert result.missing_outputs == ("absent", "file", "folder/y", "out")


def test_the_wall_limit_ends_it(each: Executor, ground: Path, build_dir: Path) -> None:
    for seconds in (1, 10, 100):  # some need longer to begin
        job = action(ground, "echo begun > file; sleep 600", Limits(ROOMY.memory_bytes, wall_seconds=seconds))

        result, _ = run(each, job, build_dir)

        assert (result.exit_code, result.timed_out, result.out_of_memory) == (-signal.SIGKILL, True, False)
        if (build_dir / "file").exists():
            break
    assert (build_dir / "file").read_text() == "begun\n"


def test_the_memory_limit_ends_it(each: Executor, ground: Path, build_dir: Path) -> None:
    job = action(ground, f"{{ head -c {200 * MIB} /dev/zero; sleep 60; }} | tail", Limits(100 * MIB, 60))

    result, _ = run(each, job, build_dir)

    assert (result.exit_code, result.timed_out, result.out_of_memory) == (-signal.SIGKILL, False, True)


@pytest.mark.parametrize("ending", ["exit 0", "exit 7"])
def test_cpu_time_and_peak_memory_cover_every_process(
    each: Executor, ground: Path, build_dir: Path, ending: str
) -> None:
    loop = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"
    hog = f"head -c {60 * MIB} /dev/zero | tail | tail -c 1 >/dev/null"
    outlives_it = "sleep 77"  # and takes the sandbox longer to end
    script = f"{hog}; sh -c '{loop}'; {outlives_it} & times; {ending}"

    result, log = run(each, action(ground, script), build_dir)

    children = re.findall(r"(\d+)m([\d.]+)s", log.splitlines()[-1])
    known_to_the_shell = sum(int(minutes) * 60 + float(seconds) for minutes, seconds in children)
    assert known_to_the_shell > 0
    assert result.cpu_seconds >= known_to_the_shell
    assert 60 * MIB <= result.max_rss_bytes < 200 * MIB


def works(name: str) -> bool:
    try:
        executor(name).check()
    except SandboxError:
        return False
    return True


def test_all_executors_that_work_here_make_the_same_files(ground: Path, build_dir: Path) -> None:
    script = "mkdir d; cat /src/kernel.cpp > d/a; id -u > b; chmod 755 b; ln -s d/a c; env > e; pwd > f"

    made = {}
    for name in filter(works, EXECUTORS):
        folder = build_dir / name
        folder.mkdir()
        run(executor(name), action(ground, script), folder)
        made[name] = [
            (path.relative_to(folder), path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
            for path in sorted(folder.rglob("*"))
        ]

    if len(made) <= 1:
        pytest.skip(f"no other executor than {', '.join(made)} works here")
    first, *others = made.values()
    assert len(first) == 6
    assert all(other == first for other in others)


def test_kill_9_of_the_builder_leaves_no_process(each: Executor, ground: Path, build_dir: Path) -> None:
    builder = subprocess.Popen(
        elsewhere(ground, build_dir, "sleep 777 & sleep 777 & echo begun; wait", each.name),
        stderr=subprocess.PIPE,
        text=True,
    )
    with builder:
        assert builder.stderr is not None
        assert builder.stderr.readline() == "begun\n"
        sandboxed = descendants(builder.pid)
        builder.kill()

    assert len(sandboxed) >= 4
    deadline = time.monotonic() + 300
    while (alive := [pid for pid in sandboxed if is_alive(pid)]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive == []


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended may be there until the first process of this machine looks after it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


# What only those give that isolate.


def test_there_is_no_network(hermetic: Executor, ground: Path, build_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        _, log = run(hermetic, action(ground, "cat /proc/net/dev /proc/net/tcp"), build_dir)

    interfaces = re.findall(r"^\s*(\S+):\s", log.partition("sl ")[0], re.MULTILINE)
    assert interfaces == ["lo"]
    assert f":{port:04X}" not in log


def test_nothing_of_the_host_is_visible(hermetic: Executor, ground: Path, build_dir: Path) -> None:
    paths = f"/home /root /etc /nix /var /opt /sys /usr/lib/os-release {ground} {Path(__file__).parent}"

    _, log = run(hermetic, action(ground, f"ls -d {paths}; hostname; cat /proc/self/mountinfo"), build_dir)

    assert log.count("No such file or directory") == len(paths.split())
    assert "\nbuild\n" in log
    assert len(re.findall(r" /\S* /(?:src|usr|build) ", log)) == 3


def test_processes_see_only_their_own(bwrap: Executor, ground: Path, build_dir: Path) -> None:
    _, log = run(bwrap, action(ground, "echo $$; cd /proc; echo [0-9]*"), build_dir)

    assert log.split() == ["2", "1", "2"]


def test_no_privilege_is_held(hermetic: Executor, ground: Path, build_dir: Path) -> None:
    _, log = run(hermetic, action(ground, "cat /proc/self/status"), build_dir)

    assert set(re.findall(r"Cap(?:Prm|Eff|Amb):\s+(\w+)", log)) == {"0" * 16}
    assert re.search(r"NoNewPrivs:\s+1", log)


def test_scratch_folders_hold_no_more_than_the_memory_limit(hermetic: Executor, ground: Path, build_dir: Path) -> None:
    if isinstance(hermetic, Bwrap) and not hermetic._bubblewrap[1].sizes:
        pytest.skip("this bubblewrap has no --size")
    job = action(ground, f"head -c {160 * MIB} /dev/zero > /tmp/x", Limits(128 * MIB, 60))

    result, log = run(hermetic, job, build_dir)

    assert result.exit_code == 1
    assert "No space left" in log


# Where it runs: as another user, nested, and where the kernel refuses.

ELSEWHERE = """
import json, sys
from pathlib import Path
from kernelworks.errors import KernelworksError
from kernelworks_build.action import Action, Limits, Mount, Tree
from kernelworks_build.sandbox import executor
from kernelworks_build.toolchain.tree import digest_of
usr, folder, script, name = sys.argv[1:]
env, mounts = (("PATH", "/usr/bin"),), (Mount("/usr", Tree(digest_of(Path(usr)), Path(usr))),)
action = Action(("sh", "-c", script), env, mounts, (), Limits(100 << 20, 60))
try:
    executor(name).check()
    tell = lambda line: print(line, file=sys.stderr, flush=True)
    result = executor(name).run(action, Path(folder), Path(folder).with_name("log"), tell)
    print(json.dumps([result.exit_code, result.out_of_memory, result.log.read_text()]))
except KernelworksError as error:
    print(json.dumps(error.to_json()))
"""


def elsewhere(
    ground: Path,
    build_dir: Path,
    script: str,
    name: str = "bwrap",
    python: tuple[str, ...] = (sys.executable,),
) -> list[str]:
    return [*python, "-c", ELSEWHERE, str(ground / "usr"), str(build_dir), script, name]


def answer(command: list[str]) -> Any:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


NESTED = ["bwrap", "--unshare-user", "--unshare-pid", "--bind", "/", "/", "--dev-bind", "/dev", "/dev"]
SCRIPT = "id -u; touch x && ls; ls /home 2>/dev/null; exit 5"


@pytest.mark.usefixtures("bwrap")
def test_it_runs_inside_another_sandbox(ground: Path, build_dir: Path) -> None:
    outer = [*NESTED, "--proc", "/proc", "--"]
    reach = "cat /proc/2/environ 2>/dev/null || ls -d /proc/[0-9]*/root/home /proc/[0-9]*/cwd/home 2>/dev/null"
    script = f"{reach} && echo the outer builder can be reached; {SCRIPT}"

    assert answer([*outer, *elsewhere(ground, build_dir, script)]) == [5, False, "1000\nx\n"]
    hog = f"{{ head -c {200 * MIB} /dev/zero; sleep 60; }} | tail"
    assert answer([*outer, *elsewhere(ground, build_dir, hog)]) == [-signal.SIGKILL, True, ""]


@pytest.mark.usefixtures("bwrap")
@pytest.mark.parametrize("name", list(EXECUTORS))
def test_the_proc_of_an_outer_sandbox_is_refused(ground: Path, build_dir: Path, name: str) -> None:
    error = answer([*NESTED, "--", *elsewhere(ground, build_dir, SCRIPT, name)])

    assert error["message"].startswith("`/proc` is not that of this process's namespace")
    assert "--proc /proc" in error["hint"]


@pytest.mark.usefixtures("bwrap")
def test_it_runs_as_an_ordinary_user(ground: Path, build_dir: Path) -> None:
    python = python_of_an_ordinary_user()
    for path in (build_dir, build_dir.parent):
        os.chown(path, ORDINARY_USER, ORDINARY_USER)

    assert answer(elsewhere(ground, build_dir, SCRIPT, python=python)) == [5, False, "1000\nx\n"]
    assert (build_dir / "x").stat().st_uid == ORDINARY_USER


def test_none_tells_an_ordinary_user_what_is_missing(ground: Path, build_dir: Path) -> None:
    error = answer(elsewhere(ground, build_dir, SCRIPT, "none", python_of_an_ordinary_user()))

    assert error["code"] == "sandbox"
    assert "CAP_SYS_CHROOT" in error["context"]["missing"]
    assert error["hint"] == "run as root, or use `--sandbox bwrap`, which needs no privilege but user namespaces"


def python_of_an_ordinary_user() -> tuple[str, ...]:
    """Python with this checkout, for a user without privileges; the one that runs here may be only root's."""
    if os.geteuid() != 0:
        pytest.skip("not root: the other tests run as an ordinary user")
    ids = (f"--reuid={ORDINARY_USER}", f"--regid={ORDINARY_USER}", "--clear-groups")
    packages = (kernelworks, kernelworks_build)
    sources = os.pathsep.join(str(Path(package.__path__[0]).parent) for package in packages)
    probe = "import subprocess as s, sys, kernelworks_build.sandbox; s.run([sys.executable, '-V'], check=True)"
    for interpreter in (sys.executable, "/usr/bin/python3"):
        command = ("setpriv", *ids, "env", f"PYTHONPATH={sources}", interpreter)
        if subprocess.run([*command, "-c", probe], capture_output=True, check=False, cwd="/").returncode == 0:
            return command
    pytest.skip("an ordinary user cannot run Python with this checkout")


@pytest.mark.usefixtures("bwrap")
def test_refused_namespaces_are_an_error_that_names_the_setting(ground: Path, build_dir: Path) -> None:
    none_left = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    refusing = ["unshare", "--user", "--map-root-user", "sh", "-c", none_left, "sh"]
    if subprocess.run([*refusing, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("`unshare --user` may not set user.max_user_namespaces here")

    error = answer([*refusing, *elsewhere(ground, build_dir, SCRIPT)])

    assert error["code"] == "sandbox"
    assert error["message"].startswith("bubblewrap cannot make namespaces here: `bwrap: ")
    assert "sysctl -w user.max_user_namespaces=15000`" in error["hint"]
    assert "`--sandbox none`" in error["hint"]
    assert error["context"]["sysctls"] == ["user.max_user_namespaces"]


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("apt-get", "apt-get install bubblewrap"),
        ("pacman", "pacman -S bubblewrap"),
        ("", "the package `bubblewrap`"),
    ],
)
def test_a_missing_bubblewrap_is_an_error_with_the_command_of_this_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: str, command: str
) -> None:
    if manager:
        (tmp_path / manager).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SandboxError, match="bubblewrap is not installed") as caught:
        Bwrap().check()

    assert command in str(caught.value.hint)


# What `none` must not do to the files that it links.


def test_none_leaves_the_trees_as_they_were_and_nothing_beside_the_build(
    ground: Path, build_dir: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("of the host")
    script = f"mkdir -p /tmp/a; ln -s {tmp_path} /tmp/a/out; ln -s {precious} link; ln -s / /dev/shm/root"

    result, _ = run(usable(Unisolated()), action(ground, script), build_dir)

    assert result.exit_code == 0
    assert precious.read_text() == "of the host"
    assert precious.stat().st_uid == os.geteuid()
    assert sorted(path.name for path in build_dir.parent.iterdir()) == ["build", "log"]
    assert (ground / "usr/bin/sh").stat().st_nlink == 1


@pytest.mark.parametrize(("owner", "mode"), [(layout.UID, 0o444), (ORDINARY_USER, 0o666), (0, 0o664)])
def test_none_lets_no_action_write_a_tree_that_its_user_owns_or_may_write(
    ground: Path, build_dir: Path, owner: int, mode: int
) -> None:
    none = usable(Unisolated())
    source = build_dir.parent / "kernel"
    source.mkdir()
    (source / "kernel.cpp").write_text("of the host\n")
    os.chown(source / "kernel.cpp", owner, layout.GID)
    (source / "kernel.cpp").chmod(mode)
    before = (source / "kernel.cpp").stat()
    mounts = (Mount("/src", Tree("s", source)), Mount("/usr", Tree("u", ground / "usr")))
    script = "chmod u+w /src/kernel.cpp; echo of the action > /src/kernel.cpp"

    run(none, dataclasses.replace(action(ground, script), mounts=mounts), build_dir)

    after = (source / "kernel.cpp").stat()
    assert (source / "kernel.cpp").read_text() == "of the host\n"
    assert (after.st_uid, after.st_mode) == (before.st_uid, before.st_mode)


def test_none_copies_where_it_cannot_link(ground: Path) -> None:
    shared_memory = Path("/dev/shm")  # noqa: S108  # a tmpfs on every Linux
    if shared_memory.stat().st_dev == ground.stat().st_dev:
        pytest.skip("the trees are on that file system too")
    with tempfile.TemporaryDirectory(dir=shared_memory) as name:
        build_dir = Path(name) / "build"
        build_dir.mkdir()
        result, log = run(usable(Unisolated()), action(ground, "cat /src/kernel.cpp"), build_dir)

    assert (result.exit_code, log) == (0, "int main() {}\n")


def test_none_works_where_devices_may_not_be_made(ground: Path, build_dir: Path) -> None:
    usable(Unisolated())
    prefix = ["setpriv", "--bounding-set=-mknod", "--inh-caps=-mknod", "--"]

    script = "echo gone > /dev/null; cat /dev/zero; exit 4"

    assert answer([*prefix, *elsewhere(ground, build_dir, script, "none")])[0] == 4


# Names.


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        UsageError, match=r"`bwarp` is not a known sandbox \(known: bwrap, nix, none\); did you mean `bwrap`"
    ):
        executor("bwarp")
