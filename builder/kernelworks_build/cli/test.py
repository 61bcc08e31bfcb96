"""`kernel-build test`: the kernel's own tests against what was built."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

import typer

from kernelworks import host as this_host
from kernelworks.errors import HostError, KernelworksError, LoadError, UsageError
from kernelworks.lookup import look_up
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.resolve import chosen, no_fit, ways_out, weigh
from kernelworks_build.cli.console import JsonOption, note, print_json
from kernelworks_build.cli.passing import passing_on
from kernelworks_build.cli.project import ProjectArgument, VariantOption, open_dist
from kernelworks_build.errors import PlanError, TestError

_COUNTS = ("tests", "failures", "errors", "skipped")
_OUTCOMES = {
    1: "the kernel's tests failed",
    2: "the kernel's tests were interrupted",
    4: "pytest cannot run the kernel's tests",
}
"""Exit codes of pytest, in words."""

_NO_TESTS = 5
"""Its exit code where it found none."""

_PROBE = """
import json, pathlib, sys, traceback
from kernelworks import get_kernel
from kernelworks.errors import KernelworksError

try:
    get_kernel(sys.argv[1])
except KernelworksError as error:
    if cause := error.__cause__:
        traceback.print_exception(type(cause), cause, cause.__traceback__)
    pathlib.Path(sys.argv[2]).write_text(json.dumps(error.to_json()), encoding="utf-8")
"""

Form = passing_on("PYTEST_ARGUMENT")


def command(
    context: typer.Context,
    project: ProjectArgument = Path(),
    *,
    variant: VariantOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the kernel's own tests against what was built.

    They lie in PROJECT/tests; `get_kernel` gives them the variant in PROJECT/dist that fits this process, and so does
    `import` of the package's name. What follows `--` is passed on to pytest.
    """
    project = project.absolute()
    manifest, dist = open_dist(project)
    repo_id = manifest.general.hub.repo_id
    if repo_id is None:
        raise UsageError("build.toml names no repository to load by", hint="set `repo-id` in `[general.hub]`")
    _require_tests(project)
    index = Index.from_bytes((dist / INDEX_NAME).read_bytes(), f"`{dist / INDEX_NAME}`")
    offered = _matching(index, variant or ("*",))
    verdicts = weigh(offered.variants, this_host.detect(), check=look_up)
    fitting = chosen(verdicts)
    name = fitting.name if fitting else None
    asked = [] if fitting else [way for way in ways_out(verdicts) if way.in_call]  # by the tests themselves
    if not fitting and not asked:
        error = no_fit(repo_id, [(f"as built in {dist}", verdicts)])
        error.hint = "; or ".join(
            [*map(str, ways_out(verdicts)), "build a variant that fits, or run this where one does"]
        )
        raise error
    note(f"testing {repo_id} as built in {dist}: {name or 'no variant fits this process by itself'}")
    for way in asked:
        note(str(way))
    with _offering(repo_id, dist, offered, {manifest.python_name: name} if name else {}) as environment:
        if fitting:
            _require_loads(repo_id, environment)
        code, counts = _run(project, environment, context.obj, quiet=as_json)
    if code == _NO_TESTS:
        raise UsageError(f"pytest finds no test in `{project / 'tests'}`", hint=_no_tests_hint(context.obj))
    if as_json:
        print_json({"repo": repo_id, "variant": name, "pytest": code, **counts})
        raise typer.Exit(TestError.exit_code if code else 0)
    if code:
        outcome = _OUTCOMES.get(code, "pytest ended unexpectedly")
        raise TestError(f"{outcome} (pytest's exit code is {code})", pytest=code, variant=name)


def _require_tests(project: Path) -> None:
    """Return where there are tests, and pytest to run them.

    Raises:
        HostError: This interpreter has no pytest.
        UsageError: There is no folder of tests.
    """
    if importlib.util.find_spec("pytest") is None:
        raise HostError("the kernel's tests need pytest", hint=f"run `{sys.executable} -m pip install pytest`")
    if not (project / "tests").is_dir():
        raise UsageError(f"there is no folder `{project / 'tests'}`", hint="write the kernel's tests there, for pytest")


def _matching(index: Index, patterns: Sequence[str]) -> Index:
    """`index` with the variants whose name matches one of `patterns`."""
    kept = tuple(item for item in index.variants if any(fnmatchcase(item.name, one) for one in patterns))
    if not kept:
        raise PlanError(
            f"no variant that was built matches {', '.join(f'`{pattern}`' for pattern in patterns)}",
            hint=f"built are {', '.join(f'`{item.name}`' for item in index.variants)}",
            patterns=list(patterns),
        )
    return replace(index, variants=kept)


@contextmanager
def _offering(repo_id: str, dist: Path, offered: Index, packages: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """The environment in which `get_kernel` takes `repo_id` from `dist`, of the variants of `offered`.

    `import` gives each of `packages` as the variant that it is mapped to: tests of kernels do either.
    """
    with TemporaryDirectory(prefix="kernelworks-") as temporary:
        view = Path(temporary)
        (view / INDEX_NAME).write_bytes(offered.to_bytes())
        (view / "build").symlink_to(dist / "build")
        (view / "packages").mkdir()
        for package, variant in packages.items():
            (view / "packages" / package).symlink_to(dist / "build" / variant)
        ours = {"LOCAL_KERNELS": f"{repo_id}={view}", "PYTHONPATH": str(view / "packages")}
        yield os.environ | {
            key: os.pathsep.join(filter(None, [value, os.environ.get(key)])) for key, value in ours.items()
        }


def _require_loads(repo_id: str, environment: Mapping[str, str]) -> None:
    """Load the kernel in a process of its own: one error says more than one for every test.

    Raises:
        KernelworksError: As the loader raised it.
    """
    with TemporaryDirectory(prefix="kernelworks-") as temporary:
        told = Path(temporary, "error.json")
        command = [sys.executable, "-c", _PROBE, repo_id, str(told)]
        done = subprocess.run(command, env=environment, stdout=sys.stderr, check=False)
        if told.exists():
            found = json.loads(told.read_bytes())
            kinds = {kind.code: kind for kind in KernelworksError.__subclasses__()}
            kind = kinds.get(found["code"], LoadError)
            raise kind(found["message"], hint=found["hint"], **found["context"])
    if done.returncode:
        raise LoadError(f"Python ended while it loaded `{repo_id}` (exit code {done.returncode})", repo_id=repo_id)


def _run(
    project: Path, environment: Mapping[str, str], arguments: Sequence[str], *, quiet: bool
) -> tuple[int, Mapping[str, int]]:
    """The exit code of pytest, and its counts where it came so far; its words go to stderr if `quiet`."""
    with TemporaryDirectory(prefix="kernelworks-") as temporary:
        report = Path(temporary, "report.xml")
        done = subprocess.run(
            [sys.executable, "-m", "pytest", f"--junit-xml={report}", str(project / "tests"), *arguments],
            cwd=project,
            env=environment,
            stdout=sys.stderr if quiet else None,
            check=False,
        )
        return done.returncode, _counts(report) if report.is_file() else {}


def _no_tests_hint(arguments: Sequence[str]) -> str:
    return (
        f"perhaps `{shlex.join(arguments)}` leaves none"
        if arguments
        else "pytest takes `test_*.py` with `def test_*()`"
    )


def _counts(report: Path) -> Mapping[str, int]:
    suites = ET.parse(report).getroot().iter("testsuite")  # noqa: S314  # pytest wrote it just now
    totals = [[int(suite.get(key, 0)) for key in _COUNTS] for suite in suites]
    return dict(zip(_COUNTS, map(sum, zip(*totals, strict=True)), strict=True))
