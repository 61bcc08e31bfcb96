"""`kernel-build test`: the kernel's own tests against what was built."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree as ET

import typer

from kernelworks import host as this_host
from kernelworks.errors import HostError, UsageError
from kernelworks.model.index import INDEX_NAME, Index
from kernelworks.resolve import chosen, weigh
from kernelworks_build.cli.console import JsonOption, ProjectArgument, note, print_json
from kernelworks_build.cli.project import VariantOption, open_dist
from kernelworks_build.errors import PlanError, TestError

_COUNTS = ("tests", "failures", "errors", "skipped")
_OUTCOMES = {
    1: "the kernel's tests failed",
    2: "the kernel's tests were interrupted",
    4: "pytest cannot run the kernel's tests",
    5: "there are no tests",
}


def command(project: ProjectArgument = Path(), *, variant: VariantOption = None, as_json: JsonOption = False) -> None:
    """Run the tests in PROJECT/tests; `get_kernel` gives them the variant in PROJECT/dist that fits this process."""
    project = project.absolute()
    manifest, dist = open_dist(project)
    repo_id = manifest.general.hub.repo_id
    if repo_id is None:
        raise UsageError("build.toml names no repository to load by", hint="set `repo-id` in `[general.hub]`")
    if importlib.util.find_spec("pytest") is None:
        raise HostError("the kernel's tests need pytest", hint=f"run `{sys.executable} -m pip install pytest`")
    index = Index.from_bytes((dist / INDEX_NAME).read_bytes(), f"`{dist / INDEX_NAME}`")
    offered = _matching(index, variant or ("*",))
    fitting = chosen(weigh(offered.variants, this_host.detect()))
    name = fitting.name if fitting else None
    note(f"testing {repo_id} as built in {dist}: {name or 'no variant fits this process by itself'}")
    code, counts = _run(project, repo_id, dist, offered, quiet=as_json)
    if as_json:
        print_json({"repo": repo_id, "variant": name, "pytest": code, **counts})
        raise typer.Exit(TestError.exit_code if code else 0)
    if code:
        outcome = _OUTCOMES.get(code, "pytest ended unexpectedly")
        raise TestError(f"{outcome} (pytest's exit code is {code})", pytest=code, variant=name)


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


def _run(project: Path, repo_id: str, dist: Path, offered: Index, *, quiet: bool) -> tuple[int, Mapping[str, int]]:
    """The exit code of pytest, and its counts where it came so far; its words go to stderr if `quiet`."""
    with TemporaryDirectory(prefix="kernelworks-") as temporary:
        view = Path(temporary, "dist")
        view.mkdir()
        (view / INDEX_NAME).write_bytes(offered.to_bytes())
        (view / "build").symlink_to(dist / "build")
        report = Path(temporary, "report.xml")
        local = os.pathsep.join(filter(None, [f"{repo_id}={view}", os.environ.get("LOCAL_KERNELS")]))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", f"--junit-xml={report}", str(project / "tests")],
            cwd=project,
            env=os.environ | {"LOCAL_KERNELS": local},
            stdout=sys.stderr if quiet else None,
            check=False,
        )
        return done.returncode, _counts(report) if report.is_file() else {}


def _counts(report: Path) -> Mapping[str, int]:
    suites = ET.parse(report).getroot().iter("testsuite")  # noqa: S314  # pytest wrote it just now
    totals = [[int(suite.get(key, 0)) for key in _COUNTS] for suite in suites]
    return dict(zip(_COUNTS, map(sum, zip(*totals, strict=True)), strict=True))
