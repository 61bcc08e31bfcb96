"""Writes wheels whose bytes depend on their content alone (binary distribution format 1.0).

Members are stored, not deflated: what deflate makes of equal input differs between implementations of zlib, device
code is compressed already, and a stored wheel is hashed and unpacked faster.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernelworks.model.decode import parse_json
from kernelworks.model.variant import FrameworkFacts, PythonAbi
from kernelworks.model.variant_name import format_version, version_digits
from kernelworks_build.claims import Claims
from kernelworks_build.errors import PackError

__all__ = ["WheelName", "unpack_wheel", "write_wheel"]

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date that a zip file can hold
_MODE = 0o100644
_MODE_BINARY = 0o100755


@dataclass(frozen=True)
class WheelName:
    """The parts of a wheel's file name.

    Attributes:
        distribution: Normalised name (`silu_and_mul`).
        version: With the variant as local version (`1+torch.stable.abi211.cu130`).
        tag: Python, ABI and platform tags (`cp39-abi3-manylinux_2_28_x86_64`).
    """

    distribution: str
    version: str
    tag: str

    @property
    def file(self) -> str:
        return f"{self.distribution}-{self.version}-{self.tag}.whl"

    @property
    def dist_info(self) -> str:
        return f"{self.distribution}-{self.version}.dist-info"

    @classmethod
    def of(cls, claims: Claims, version: int, platform_tag: str) -> WheelName:
        """The name of the wheel of one variant; the platform is in the tag, the rest of the variant in the version."""
        local = claims.name.removesuffix(f"-{claims.platform.cpu}-{claims.platform.os}")
        tag = f"{_python_tags(claims.python_abi)}-{platform_tag}"
        return cls(claims.package, f"{version}+{local.replace('-', '.')}", tag)


def write_wheel(
    path: Path,
    name: WheelName,
    *,
    metadata: Mapping[str, str],
    framework: FrameworkFacts,
    package: Path,
    records: Mapping[str, bytes],
) -> None:
    """Write the wheel `path`.

    Args:
        path: Where it goes; the caller names it `name.file`.
        name: Its name, version and tag.
        metadata: Core metadata fields besides name and version: `License`, `Summary`, ...
        framework: Decides the requirement on torch.
        package: Folder whose files become the import package `name.distribution`.
        records: Path below `<dist-info>/kernelworks/` -> content.
    """
    members = {
        f"{name.distribution}/{file.relative_to(package).as_posix()}": file.read_bytes()
        for file in package.rglob("*")
        if file.is_file()
    }
    members |= {f"{name.dist_info}/kernelworks/{key}": content for key, content in records.items()}
    members[f"{name.dist_info}/METADATA"] = _metadata(name, metadata, framework)
    members[f"{name.dist_info}/WHEEL"] = _wheel(name)
    record = f"{name.dist_info}/RECORD"
    ordered = {key: members[key] for key in sorted(members)} | {record: _record(members, record)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for member, content in ordered.items():
            info = zipfile.ZipInfo(member, _EPOCH)
            info.create_system = 3  # Unix, wherever it is written
            info.external_attr = (_MODE_BINARY if member.endswith(".so") else _MODE) << 16
            archive.writestr(info, content)


def unpack_wheel(path: Path, target: Path) -> tuple[Claims, Path]:
    """The claims of the wheel at `path`, and the folder below `target` into which its package was unpacked.

    Raises:
        PackError: Not a zip file, not a wheel that this program wrote, or a member that leaves its folder.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            claims_name = next(name for name in names if name.endswith(".dist-info/kernelworks/claims.json"))
            claims = Claims.from_json(parse_json(archive.read(claims_name), f"`{claims_name}` of `{path.name}`"))
            for name in names:
                if ".." in PurePosixPath(name).parts or name.startswith("/"):
                    raise PackError(f"`{path.name}` names `{name}`, which is outside of the wheel", wheel=path)
            archive.extractall(target, [name for name in names if name.startswith(f"{claims.package}/")])
    except (OSError, zipfile.BadZipFile) as error:
        raise PackError(f"`{path}` cannot be read as a wheel: {error}", wheel=path) from error
    except StopIteration:
        raise PackError(
            f"`{path.name}` holds no claims of kernel-build",
            hint="only its own wheels can be audited",
            wheel=path,
        ) from None
    return claims, target / claims.package


def _python_tags(abi: PythonAbi) -> str:
    if abi.version is None:
        return "py3-none"
    python = f"cp{version_digits(abi.version)}"
    return f"{python}-abi3" if abi.kind == "abi3" else f"{python}-{python}"


def _metadata(name: WheelName, fields: Mapping[str, str], framework: FrameworkFacts) -> bytes:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {name.distribution.replace('_', '-')}",
        f"Version: {name.version}",
    ]
    lines += [f"{key}: {value}" for key, value in sorted(fields.items())]
    if framework.version is not None:
        exact = framework.kind == "torch"
        version = format_version(framework.version)
        lines.append(f"Requires-Dist: torch {'==' if exact else '>='} {version}{'.*' if exact else ''}")
    return "\n".join([*lines, ""]).encode()


def _wheel(name: WheelName) -> bytes:
    return f"Wheel-Version: 1.0\nGenerator: kernel-build\nRoot-Is-Purelib: false\nTag: {name.tag}\n".encode()


def _record(members: Mapping[str, bytes], own: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for member in sorted(members):
        digest = base64.urlsafe_b64encode(hashlib.sha256(members[member]).digest()).rstrip(b"=").decode()
        writer.writerow((member, f"sha256={digest}", len(members[member])))
    writer.writerow((own, "", ""))
    return text.getvalue().encode()
