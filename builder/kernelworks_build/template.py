"""Copies a starter kernel, or the part of it that some backends need, and gives it its name.

The files of a template hold words to replace, and sections for some backends: lines between `__WITH cuda rocm__` (kept
for any of these) or `__WITHOUT cpu__` (kept where it is not among them) and `__END__`, each in a comment of its own. A
file of which nothing is left is not copied, nor is a source that no backend compiles.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic_core import PydanticCustomError

from kernelworks.backends import registered
from kernelworks.errors import UsageError
from kernelworks.model.variant_name import known_backends
from kernelworks.transport.repo_id import check_repo_id
from kernelworks_build import resources
from kernelworks_build.manifest import MANIFEST
from kernelworks_build.manifest.diagnostics import propose
from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.grammar import kernel_name
from kernelworks_build.manifest.narrow import narrow
from kernelworks_build.scratch import filling

__all__ = ["create", "templates"]

_DEFAULT_ORG = "my-org"
_SECTION = re.compile(
    r"^[^\w\n]*__(WITH|WITHOUT) ([a-z ]+)__[^\w\n]*\n(.*?)^[^\w\n]*__END__[^\w\n]*\n", re.DOTALL | re.MULTILINE
)


def templates() -> list[str]:
    """Names of the templates that travel with the program."""
    return sorted(path.parent.name for path in resources.TEMPLATES.glob(f"*/{MANIFEST}"))


def create(name: str, template: str, folder: Path | None = None, backends: Sequence[str] = ()) -> Path:
    """The folder in which the kernel `name` (or `org/name`) was created from `template`; it must be new or empty.

    It appears whole or not at all.

    Args:
        name: Kernel name, or repository id.
        template: Name of the template.
        folder: Where; None: a folder of the kernel's name, here.
        backends: Those of the template that it is for; none: all of them.

    Raises:
        UsageError: Not a kernel name, no such template, no such backend in it, or something is there already.
    """
    repo_id = name if "/" in name else f"{_DEFAULT_ORG}/{name}"
    kernel = repo_id.partition("/")[2]
    if "/" not in kernel:
        _check_name(kernel)
    check_repo_id(repo_id)
    _check_template(template)
    chosen = _choose(template, backends)
    target = folder or Path(kernel)
    if reason := _unfit(target):
        raise UsageError(f"`{target}` {reason}", hint="choose another `--dir`", folder=target)
    tokens = {
        "__KERNEL_NAME__": kernel,
        "__KERNEL_PYTHON_NAME__": kernel.replace("-", "_"),
        "__REPO_ID__": repo_id,
        "__BACKENDS__": _listed([registered()[backend].label for backend in chosen]),
    }
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with filling(target), TemporaryDirectory(prefix=f".{kernel}-", dir=parent) as temporary:
        fresh = Path(temporary) / kernel
        _copy(template, fresh, tokens, chosen)
        fresh.rename(target)  # takes the place of an empty folder
    return target


def _check_name(kernel: str) -> None:
    try:
        kernel_name(kernel)
    except PydanticCustomError as error:  # the manifest's own rule and words
        raise UsageError(str(error), hint=(error.context or {}).get("hint"), name=kernel) from error


def _check_template(template: str) -> None:
    if template not in templates():
        hint = propose(template, templates())
        raise UsageError(f"there is no template `{template}`", hint=hint, template=template)


def _choose(template: str, backends: Sequence[str]) -> list[str]:
    """Those of `backends` (none: all) that are in `template`, in its order."""
    there = _backends(template)
    if foreign := [backend for backend in dict.fromkeys(backends) if backend not in there]:
        unknown = [backend for backend in foreign if backend not in known_backends()]
        raise UsageError(
            f"the template `{template}` is not written for {_listed([f'`{one}`' for one in foreign])}"
            f" (it is for: {', '.join(there)})",
            hint=propose(unknown[0], known_backends()) if unknown else _written_for(backends),
            template=template,
            backends=foreign,
        )
    return [backend for backend in there if not backends or backend in backends]


def _written_for(backends: Sequence[str]) -> str:
    """Which templates are for all of `backends`, in words."""
    named = _listed([f"`{backend}`" for backend in backends])
    if able := [one for one in templates() if set(backends) <= set(_backends(one))]:
        return f"templates for {named}: {', '.join(able)}"
    some = sorted({backend for one in templates() for backend in _backends(one)})
    return f"no template is for {named}; there are some for: {', '.join(some)}"


def _backends(template: str) -> list[str]:
    return [backend for _, backend in _manifest(template).texts("general", "backends")]


def _manifest(template: str) -> Document:
    return Document.parse((resources.TEMPLATES / template / MANIFEST).read_text(encoding="utf-8"))


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


def _copy(template: str, target: Path, tokens: dict[str, str], backends: Collection[str]) -> None:
    root, whole = resources.TEMPLATES / template, _manifest(template)
    part = narrow(whole, backends)
    left_out = _sources(whole) - _sources(part)
    for source in sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        name = source.relative_to(root).as_posix()
        old = part.content if name == MANIFEST else source.read_text(encoding="utf-8")
        new = _SECTION.sub(lambda found: found[3] if _applies(found, backends) else "", old)
        if name in left_out or (old and not new):
            continue
        copy = target / _replace(name, tokens)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(_replace(new, tokens), encoding="utf-8")


def _applies(section: re.Match[str], backends: Collection[str]) -> bool:
    return set(section[2].split()).isdisjoint(backends) == (section[1] == "WITHOUT")


def _sources(manifest: Document) -> set[str]:
    return {name for table in manifest.unit_tables() for _, name in manifest.texts(*table, "src")}


def _listed(words: Sequence[str]) -> str:
    """`CPU, CUDA and ROCm`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _replace(text: str, tokens: dict[str, str]) -> str:
    for token, value in tokens.items():
        text = text.replace(token, value)
    return text
