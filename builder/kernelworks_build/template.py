"""Copies a starter kernel and gives it its name."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from pydantic_core import PydanticCustomError

from kernelworks.errors import UsageError
from kernelworks_build import resources
from kernelworks_build.manifest.grammar import kernel_name

__all__ = ["create", "templates"]

_DEFAULT_ORG = "my-org"


def templates() -> list[str]:
    """Names of the templates that travel with the program."""
    return sorted(path.parent.name for path in resources.TEMPLATES.glob("*/build.toml"))


def create(name: str, template: str, folder: Path | None = None) -> Path:
    """The folder in which the kernel `name` (or `org/name`) was created from `template`; it must be new or empty.

    Raises:
        UsageError: Not a kernel name, no such template, or something is there already.
    """
    org, _, kernel = name.rpartition("/")
    try:
        kernel_name(kernel)
    except PydanticCustomError as error:  # the manifest's own rule and words
        raise UsageError(str(error), hint=(error.context or {}).get("hint"), name=kernel) from error
    if org and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", org):
        raise UsageError(f"`{org}` is not the name of an organisation", name=name)
    if template not in templates():
        near = difflib.get_close_matches(template, templates(), 1)
        raise UsageError(
            f"there is no template `{template}` (there are: {', '.join(templates())})",
            hint=f"did you mean `{near[0]}`?" if near else None,
            template=template,
        )
    target = folder or Path(kernel)
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"`{target}` exists and is not empty", hint="choose another `--dir`", folder=target)
    tokens = {
        "__KERNEL_NAME__": kernel,
        "__KERNEL_PYTHON_NAME__": kernel.replace("-", "_"),
        "__REPO_ID__": f"{org or _DEFAULT_ORG}/{kernel}",
    }
    root = resources.TEMPLATES / template
    for source in sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        copy = target / _replace(source.relative_to(root).as_posix(), tokens)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_replace(source.read_text(encoding="utf-8"), tokens), encoding="utf-8")
    return target


def _replace(text: str, tokens: dict[str, str]) -> str:
    for token, value in tokens.items():
        text = text.replace(token, value)
    return text
