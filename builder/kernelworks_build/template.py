"""Copies a starter kernel and gives it its name."""

from __future__ import annotations

import difflib
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic_core import PydanticCustomError

from kernelworks.errors import UsageError
from kernelworks.transport.repo_id import check_repo_id
from kernelworks_build import resources
from kernelworks_build.manifest.grammar import kernel_name

__all__ = ["create", "templates"]

_DEFAULT_ORG = "my-org"


def templates() -> list[str]:
    """Names of the templates that travel with the program."""
    return sorted(path.parent.name for path in resources.TEMPLATES.glob("*/build.toml"))


def create(name: str, template: str, folder: Path | None = None) -> Path:
    """The folder in which the kernel `name` (or `org/name`) was created from `template`; it must be new or empty.

    It appears whole or not at all.

    Raises:
        UsageError: Not a kernel name, no such template, or something is there already.
    """
    repo_id = name if "/" in name else f"{_DEFAULT_ORG}/{name}"
    kernel = repo_id.partition("/")[2]
    if "/" not in kernel:
        _check_name(kernel)
    check_repo_id(repo_id)
    if template not in templates():
        near = difflib.get_close_matches(template, templates(), 1)
        raise UsageError(
            f"there is no template `{template}` (there are: {', '.join(templates())})",
            hint=f"did you mean `{near[0]}`?" if near else None,
            template=template,
        )
    target = folder or Path(kernel)
    if reason := _unfit(target):
        raise UsageError(f"`{target}` {reason}", hint="choose another `--dir`", folder=target)
    tokens = {
        "__KERNEL_NAME__": kernel,
        "__KERNEL_PYTHON_NAME__": kernel.replace("-", "_"),
        "__REPO_ID__": repo_id,
    }
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{kernel}-", dir=parent) as temporary:
        fresh = Path(temporary) / kernel
        _copy(resources.TEMPLATES / template, fresh, tokens)
        fresh.rename(target)  # takes the place of an empty folder
    return target


def _check_name(kernel: str) -> None:
    try:
        kernel_name(kernel)
    except PydanticCustomError as error:  # the manifest's own rule and words
        raise UsageError(str(error), hint=(error.context or {}).get("hint"), name=kernel) from error


def _unfit(target: Path) -> str | None:
    """Why nothing can be created at `target`, or None."""
    if target.is_symlink():
        return "is a symbolic link"
    if not target.exists():
        return None
    if not target.is_dir():
        return "exists and is not a folder"
    if any(target.iterdir()):
        return "exists and is not empty"
    return "is the current folder, which cannot be replaced" if target.samefile(Path()) else None


def _copy(root: Path, target: Path, tokens: dict[str, str]) -> None:
    for source in sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        copy = target / _replace(source.relative_to(root).as_posix(), tokens)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_replace(source.read_text(encoding="utf-8"), tokens), encoding="utf-8")


def _replace(text: str, tokens: dict[str, str]) -> str:
    for token, value in tokens.items():
        text = text.replace(token, value)
    return text
