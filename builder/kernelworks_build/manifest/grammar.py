"""The scalar values of a manifest: names, versions, paths, capabilities, as pydantic types.

A value that breaks its grammar is refused with `what` and `hint` in the words of a kernel author.
"""

from __future__ import annotations

import keyword
import re
import sys
import unicodedata
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Strict
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from kernelworks.errors import UsageError
from kernelworks.model.variant_name import Version2, known_backends
from kernelworks.transport.repo_id import check_repo_id
from kernelworks_build.archs import arch_kinds
from kernelworks_build.manifest.dependencies import cxx_dependencies
from kernelworks_build.manifest.diagnostics import propose, show

__all__ = [
    "EDITION",
    "REFUSED",
    "Backend",
    "Backends",
    "Checked",
    "ComponentName",
    "CudaCapability",
    "CxxDependency",
    "Edition",
    "Extension",
    "Flag",
    "Folders",
    "GfxArch",
    "GitUrl",
    "KernelName",
    "Natural",
    "OneOf",
    "ProjectPath",
    "RepoId",
    "Sources",
    "Text",
    "Version",
    "VersionText",
    "kernel_name",
    "project_path",
    "refuse",
]

REFUSED = "refused"
"""Type of the pydantic errors that carry our own words."""

EDITION = 5
"""The edition of the format that the model is of."""

_MAX_NAME = 64
_MAX_PATH = 1024
_MAX_PART = 255


def refuse(what: str, hint: str | None = None) -> PydanticCustomError:
    """The error that a validator raises."""
    return PydanticCustomError(REFUSED, "{what}", {"what": what, "hint": hint})


class Checked:
    """Metadata of `Annotated[...]`: exactly this type, then `check`, which returns the value or refuses it.

    Args:
        check: The grammar.
        schema: What JSON Schema can say of it.
        written: The type in the manifest, where it is not the annotated one.
    """

    def __init__(self, check: Callable[[Any], Any], schema: Mapping[str, Any], *, written: type | None = None) -> None:
        self.check = check
        self.schema = schema
        self.written = written

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            self.check, handler.generate_schema(Annotated[self.written or source, Strict()])
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), **self.schema}


class OneOf(Checked):
    """Metadata of `Annotated[str, ...]`: a name of which all are known; `kind` says of what."""

    def __init__(self, kind: str, known: Collection[str]) -> None:
        def check(text: str) -> str:
            if text not in known:
                raise refuse(f"{show(text)} is not a known {kind}", propose(text, known))
            return text

        super().__init__(check, {"enum": sorted(known)} if known else {"not": {}})


@dataclass(frozen=True, order=True)
class Version:
    """A version as it was written (`13.0`); compares by its numbers without trailing zeros: equals `13`."""

    parts: tuple[int, ...]
    text: str = field(compare=False)

    def __str__(self) -> str:
        return self.text

    @property
    def minor(self) -> Version2:
        """(major, minor)."""
        major, minor, *_ = (*self.parts, 0, 0)
        return major, minor

    @classmethod
    def parse(cls, value: str) -> Version:
        """The version in `value`; anything but numbers and dots is refused."""
        text = value.strip()
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})*", text):
            raise refuse(f"{show(value)} is not a version", "write numbers and dots, such as `2.11`")
        parts = [int(part) for part in text.split(".")]
        while parts and not parts[-1]:
            parts.pop()
        return cls(tuple(parts), text)


def kernel_name(text: str) -> str:
    """`text` if it can be the name of a kernel and, with underscores, of a Python package."""
    python_name = text.replace("-", "_")
    strange = sorted(set(re.findall(r"[^-a-z0-9]", text)))
    rules = (
        (len(text) < 2, "it needs at least 2 characters"),  # noqa: PLR2004  # the rule itself
        (len(text) > _MAX_NAME, f"it has {len(text)} characters and may have {_MAX_NAME}"),
        (text[:1] and not re.match("[a-z]", text), "it must start with a lower-case letter"),
        (len(text) > 1 and text.endswith("-"), "it must not end with a dash"),
        (
            strange,
            f"it may hold lower-case letters, digits and dashes, not {', '.join(map(show, strange[:5]))}",
        ),
        (keyword.iskeyword(python_name), "it is a keyword of Python"),
        (python_name in sys.stdlib_module_names, "it is a module of Python's standard library"),
    )
    broken = [words for is_broken, words in rules if is_broken]
    if broken:
        raise refuse(f"{show(text)} cannot be the name of a kernel: {'; '.join(broken)}", _better_name(text))
    return text


def _better_name(text: str) -> str | None:
    parts = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(part for part in parts if not unicodedata.combining(part))
    cleaned = re.sub(r"[^a-z0-9]+", "-", letters).lstrip("-0123456789")[:_MAX_NAME].rstrip("-")
    if not cleaned or 2 * len(cleaned) < min(len(text), _MAX_NAME):  # what is left would be another name
        return "a name looks like `silu-and-mul`"
    python_name = cleaned.replace("-", "_")
    taken = len(cleaned) < 2 or keyword.iskeyword(python_name) or python_name in sys.stdlib_module_names  # noqa: PLR2004
    return f"try `{cleaned}-kernel`" if taken else f"try `{cleaned}`"


def _component_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", text):
        raise refuse(
            f"{show(text)} cannot be the name of a component",
            "it starts with a letter or `_`; letters, digits, `_` and dashes follow",
        )
    return text


def _edition(number: int) -> int:
    if number != EDITION:
        raise refuse(f"edition {number} is not edition {EDITION}")
    return number


def _natural(number: int) -> int:
    if number < 0:
        raise refuse(f"`{number}` is below zero", "a major version is 0 or more")
    return number


def _text(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise refuse(f"{show(text)} is not one line of text")
    return text


def _extension(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*", text):
        bare = text.lstrip("*.")
        raise refuse(f"{show(text)} is not a file extension", f"write `{bare}`" if bare else "one looks like `json`")
    return text


def _git_url(text: str) -> str:
    address = r"(https?|git|ssh|git\+(ssh|https?))://[^\s/]+/\S*|[\w.-]+@[\w.-]+:(?!//)\S+"
    if text.isprintable() and re.fullmatch(address, text):
        return text
    scheme, colon, _ = text.partition("://")
    what = f"{show(text)} is not the address of a git repository"
    raise refuse(
        f"{what}: the scheme `{scheme}` is not allowed" if colon else what,
        "use https, http, git, ssh, git+https, git+http, git+ssh, or user@host:path",
    )


def _repo_id(text: str) -> str:
    try:
        return check_repo_id(text)
    except UsageError as error:
        raise refuse(f"{show(text)} is not a repository id", error.hint) from error


def each_once(items: tuple[str, ...]) -> tuple[str, ...]:
    """`items` in their order without repetitions, which a rule warns of."""
    return tuple(dict.fromkeys(items))


def project_path(text: str) -> str:
    """The normal form of `text`, a relative path with `/` that stays inside the project."""
    if not text.strip() or not text.isprintable():
        raise refuse(f"{show(text)} is not a path")
    if len(text.encode()) > _MAX_PATH or any(len(part.encode()) > _MAX_PART for part in text.split("/")):
        raise refuse(f"{show(text)} is too long for a path")
    if "\\" in text:
        raise refuse(f"{show(text)} has a backslash", f"write {show(text.replace(chr(92), '/'))}")
    path = PurePosixPath(text)
    if path.is_absolute() or re.match("[A-Za-z]:", text):
        raise refuse(f"{show(text)} is an absolute path", "paths are relative to the folder of build.toml")
    if ".." in path.parts:
        raise refuse(f"{show(text)} may leave the project", "paths hold no `..`; move the file into the project")
    return path.as_posix()


def _flag(text: str) -> str:
    if not text or not text.isprintable():
        raise refuse(f"{show(text)} is not a compiler flag")
    return text


def _cuda_capability(text: str) -> str:
    kind = arch_kinds()["cuda-capabilities"]
    if not kind.parse(text):
        meant = re.fullmatch(r"(?:sm_|compute_)?([0-9]{1,2})\.?([0-9])([af]?)", text.lower())
        hint = f"did you mean `{meant[1]}.{meant[2]}{meant[3]}`?" if meant else kind.hint
        raise refuse(f"{show(text)} is not a {kind.what}", hint)
    return text


def _gfx_arch(text: str) -> str:
    kind = arch_kinds()["rocm-archs"]
    if not kind.parse(text):
        raise refuse(f"{show(text)} is not a {kind.what}", f"{kind.examples}; {kind.hint}")
    return text


KernelName = Annotated[str, Checked(kernel_name, {"pattern": "^[a-z][-a-z0-9]*[a-z0-9]$", "maxLength": _MAX_NAME})]
ComponentName = Annotated[str, Checked(_component_name, {"pattern": "^[A-Za-z_][A-Za-z0-9_-]*$"})]
Edition = Annotated[int, Checked(_edition, {"const": EDITION})]
Natural = Annotated[int, Checked(_natural, {"minimum": 0})]
Text = Annotated[str, Checked(_text, {"minLength": 1})]
VersionText = Annotated[Version, Checked(Version.parse, {"pattern": r"^\s*[0-9]{1,9}(\.[0-9]{1,9})*\s*$"}, written=str)]
Backend = Annotated[str, OneOf("backend", known_backends())]
Backends = Annotated[tuple[Backend, ...], Field(min_length=1), AfterValidator(each_once)]
CxxDependency = Annotated[str, OneOf("dependency", cxx_dependencies())]
Extension = Annotated[str, Checked(_extension, {"pattern": r"^\w+(\.\w+)*$"})]
GitUrl = Annotated[str, Checked(_git_url, {"minLength": 1})]
RepoId = Annotated[str, Checked(_repo_id, {"pattern": "^[^/]+/[^/]+$"})]
ProjectPath = Annotated[str, Checked(project_path, {"minLength": 1})]
Folders = Annotated[tuple[ProjectPath, ...], AfterValidator(each_once)]
Sources = Annotated[tuple[ProjectPath, ...], Field(min_length=1), AfterValidator(each_once)]
Flag = Annotated[str, Checked(_flag, {"minLength": 1})]
CudaCapability = Annotated[str, Checked(_cuda_capability, {"pattern": r"^[0-9]{1,2}\.[0-9][af]?(\+PTX)?$"})]
GfxArch = Annotated[str, Checked(_gfx_arch, {"pattern": "^gfx[0-9a-f]+(:sramecc[+-])?(:xnack[+-])?$"})]
