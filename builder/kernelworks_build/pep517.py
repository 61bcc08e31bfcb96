"""The build backend of PEP 517: `pip install ./my-kernel` builds the variant that fits this Python and torch.

A kernel's `pyproject.toml` names this module as `build-backend`. Config settings: `variant` (a shell pattern of variant
names), `sandbox`.
"""

from __future__ import annotations

import gzip
import io
import shutil
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from kernelworks import host
from kernelworks.errors import KernelworksError, UsageError
from kernelworks.resolve import chosen, no_fit, weigh
from kernelworks.settings import cache_root, shared_caches
from kernelworks_build.build import build
from kernelworks_build.cli.console import live_progress, print_error
from kernelworks_build.cli.project import DIST, LOCKS, open_plan
from kernelworks_build.job import Project, Workplace
from kernelworks_build.manifest import read_manifest, source_files
from kernelworks_build.planned import PlannedVariant
from kernelworks_build.promise import promised
from kernelworks_build.sandbox import executor
from kernelworks_build.usage import in_use

__all__ = ["build_editable", "build_sdist", "build_wheel"]

Settings = Mapping[str, Any] | None
P = ParamSpec("P")
T = TypeVar("T")

_BESIDE = ("pyproject.toml", "README.md", "LICENSE")
"""What travels with the declared files where it is there."""


def _spoken(hook: Callable[P, T]) -> Callable[P, T]:
    """`hook`, whose errors are words on stderr instead of a traceback."""

    @wraps(hook)
    def speaking(*arguments: P.args, **keywords: P.kwargs) -> T:
        try:
            return hook(*arguments, **keywords)
        except KernelworksError as error:
            print_error(error, as_json=False)
            sys.exit(error.exit_code)

    return speaking


@_spoken
def build_wheel(
    wheel_directory: str,
    config_settings: Settings = None,
    metadata_directory: str | None = None,  # noqa: ARG001  # the signature is PEP 517's
) -> str:
    """Name of the wheel, in `wheel_directory`, of the variant of the project here that fits this process."""
    settings = config_settings or {}
    folder = Path.cwd()
    manifest, plan, locks = open_plan(folder, _listed(settings.get("variant")), None)
    planned = plan.variants[0] if len(plan.variants) == 1 else _fitting(manifest.general.name, plan.variants)
    with live_progress() as progress, in_use(cache_root()):
        runner = executor(settings.get("sandbox", "bwrap"), locks)
        workplace = Workplace(cache_root(), locks, runner, progress, folder / DIST / "logs", shared=shared_caches())
        built = build(Project.read(folder, manifest, workplace.store), planned, workplace)
    wheel = built.folder / built.variant.wheel.path
    return Path(shutil.copyfile(wheel, Path(wheel_directory, wheel.name))).name


@_spoken
def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:  # noqa: ARG001
    """Name of the archive, in `sdist_directory`, of the declared files here; equal files give equal bytes."""
    folder = Path.cwd()
    manifest = read_manifest(folder)
    name = f"{manifest.python_name}-{manifest.general.version}"
    own = [path.relative_to(folder).as_posix() for path in (folder / LOCKS).glob("*") if path.is_file()]
    beside = [path for path in (*_BESIDE, *own) if (folder / path).is_file()]
    members = {path: (folder / path).read_bytes() for path in (*source_files(manifest, folder), *beside)}
    members["PKG-INFO"] = (
        f"Metadata-Version: 2.4\nName: {manifest.general.name}\nVersion: {manifest.general.version}\n".encode()
    )
    archive = f"{name}.tar.gz"
    with (
        Path(sdist_directory, archive).open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(members):
            info = tarfile.TarInfo(f"{name}/{path}")
            info.size = len(members[path])
            tar.addfile(info, io.BytesIO(members[path]))
    return archive


@_spoken
def build_editable(
    wheel_directory: str,  # noqa: ARG001  # the signature is PEP 660's
    config_settings: Settings = None,  # noqa: ARG001
    metadata_directory: str | None = None,  # noqa: ARG001
) -> str:
    """Nothing: a kernel is what was compiled.

    Raises:
        UsageError: Always, and says what to do instead.
    """
    raise UsageError(
        "a kernel cannot be installed in editable mode: what is imported is what was compiled",
        hint="install it without `--editable`; an unchanged file is not compiled again",
    )


def _listed(patterns: str | Sequence[str] | None) -> list[str] | None:
    return [patterns] if isinstance(patterns, str) else list(patterns) if patterns else None


def _fitting(kernel: str, planned: Sequence[PlannedVariant]) -> PlannedVariant:
    """The one of `planned` that the loader would choose in this process.

    Raises:
        UsageError: There is no torch here to choose by.
        ResolveError: None fits.
    """
    process = host.detect()
    if process.torch is None:
        raise UsageError(
            f"there is no torch in this environment, so nothing says which of {len(planned)} variants is wanted",
            hint="install torch and pass `--no-build-isolation` to pip, or name one: `-C variant=...` "
            f"({', '.join(item.name for item in planned)})",
            variants=[item.name for item in planned],
        )
    verdicts = weigh(map(promised, planned), process)
    best = chosen(verdicts)
    if best is None:
        raise no_fit(kernel, [("as planned", verdicts)])
    return next(item for item in planned if item.name == best.name)
