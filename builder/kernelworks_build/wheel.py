"""Wheels whose bytes depend on their content alone (binary distribution format 1.0): written, and read to be audited.

Members are stored, not deflated: what deflate makes of equal input differs between implementations of zlib, device
code is compressed already, and a stored wheel is hashed and unpacked faster.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernelworks.errors import RepositoryError
from kernelworks.model.decode import parse_json
from kernelworks.model.metadata import METADATA_NAME
from kernelworks.model.variant import FrameworkFacts, PythonAbi
from kernelworks.model.variant_name import format_version, version_digits
from kernelworks.zip_errors import BROKEN_ZIP
from kernelworks_build.claims import Claims
from kernelworks_build.errors import PackError

__all__ = ["WheelName", "read_records", "unpack_wheel", "write_wheel"]

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date that a zip file can hold
_UNREADABLE: tuple[type[Exception], ...] = (OSError, csv.Error, *BROKEN_ZIP)
_ANY_PYTHON = PythonAbi("none", None)
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
        local = claims.name.replace(f"-{claims.platform.cpu}-{claims.platform.os}", "")
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
    python_abi: PythonAbi = _ANY_PYTHON,
    requires: Iterable[str] = (),
) -> None:
    """Write the wheel `path`.

    Args:
        path: Where it goes; the caller names it `name.file`.
        name: Its name, version and tag.
        metadata: Core metadata fields besides name and version: `License`, `Summary`, ...
        framework: Decides the requirement on torch.
        package: Folder whose files become the import package `name.distribution`.
        records: Path below `<dist-info>/kernelworks/` -> content.
        python_abi: Decides the requirement on Python.
        requires: Names of further packages that it imports.
    """
    members = {
        f"{name.distribution}/{file.relative_to(package).as_posix()}": file.read_bytes()
        for file in package.rglob("*")
        if file.is_file()
    }
    members |= {f"{name.dist_info}/kernelworks/{key}": content for key, content in records.items()}
    members[f"{name.dist_info}/METADATA"] = _metadata(name, metadata, python_abi, [*_torch(framework), *requires])
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

    Nothing is written before every member has its place, and the size and SHA-256 that RECORD lists.

    Raises:
        PackError: No such file, not a zip file, not a wheel that this program wrote, or damaged.
    """
    claims = _proved(path)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(target, [name for name in archive.namelist() if name.startswith(f"{claims.package}/")])
    return claims, target / claims.package


def read_records(path: Path) -> tuple[Claims, dict[str, bytes]]:
    """The claims of the wheel at `path`, and what it records: `write_wheel`'s `records` and the package's metadata.

    Raises:
        PackError: As `unpack_wheel`.
    """
    claims = _proved(path)
    with zipfile.ZipFile(path) as archive:
        found = {name.partition("/kernelworks/"): name for name in archive.namelist()}
        records = {
            key: archive.read(name) for (folder, _, key), name in found.items() if key and folder.endswith(".dist-info")
        }
        metadata = f"{claims.package}/{METADATA_NAME}"
        if metadata in archive.namelist():
            records[METADATA_NAME] = archive.read(metadata)
        return claims, records


def _proved(path: Path) -> Claims:
    """The claims of the wheel at `path`, of which every member was read."""
    if not path.is_file():
        state = "is not a file" if path.exists() else "does not exist"
        raise PackError(f"`{path}` {state}", hint="name a wheel, such as those in `dist/wheels`", wheel=path)
    dist_info = "-".join(path.name.split("-")[:2]) + ".dist-info"
    try:
        with zipfile.ZipFile(path) as archive:
            claims = _read_claims(archive, dist_info, path)
            faults = [*_place_faults(archive, {claims.package, dist_info}), *_record_faults(archive, dist_info)]
    except _UNREADABLE as error:
        raise PackError(f"`{path}` cannot be read as a wheel: {error}", wheel=path) from error
    if faults:
        raise PackError(
            f"`{path.name}` is not what was packed: {'; '.join(faults)}",
            hint="copy it again from where it was built or published",
            wheel=path,
            faults=faults,
        )
    return claims


def _read_claims(archive: zipfile.ZipFile, dist_info: str, path: Path) -> Claims:
    name = f"{dist_info}/kernelworks/claims.json"
    if name not in archive.namelist():
        raise PackError(
            f"`{path.name}` holds no claims of kernel-build: there is no `{name}`",
            hint="only its own wheels can be audited, under the name that it gave them",
            wheel=path,
        )
    try:
        return Claims.from_json(parse_json(archive.read(name), f"`{name}` of `{path.name}`"))
    except RepositoryError as error:
        raise PackError(error.message, hint="the wheel was changed: build it again", wheel=path) from error


def _place_faults(archive: zipfile.ZipFile, folders: Collection[str]) -> Iterator[str]:
    """Members that are not plainly below one of `folders`, or of which there are two."""
    for name, count in Counter(archive.namelist()).items():
        parts = PurePosixPath(name).parts
        if name != "/".join(parts) or ".." in parts or len(parts) == 1 or parts[0] not in folders:
            yield f"`{name}` is outside of the wheel's folders"
        if count > 1:
            yield f"`{name}` is there {count} times"


def _record_faults(archive: zipfile.ZipFile, dist_info: str) -> Iterator[str]:
    """Where the members are not what RECORD lists; none is read that has another size."""
    record = f"{dist_info}/RECORD"
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    if record not in sizes:
        yield f"`{record}` is missing"
        return
    listed = {name: rest for name, *rest in csv.reader(io.StringIO(archive.read(record).decode()))}
    for name in sorted(listed.keys() - sizes.keys()):
        yield f"`{name}` is listed in RECORD and not there"
    for name, size in sorted(sizes.items()):
        expected = listed.get(name)
        if expected is None:
            yield f"`{name}` is not listed in RECORD"
        elif name != record and expected[1:] != [str(size)]:
            yield f"`{name}`: expected {', '.join(expected[1:])} bytes, got {size}"
        elif name != record and expected[0] != (got := _hash(archive.read(name))):
            yield f"`{name}`: expected {expected[0]}, got {got}"


def _python_tags(abi: PythonAbi) -> str:
    if abi.version is None:
        return "py3-none"
    python = f"cp{version_digits(abi.version)}"
    return f"{python}-abi3" if abi.kind == "abi3" else f"{python}-{python}{'t' if abi.free_threaded else ''}"


def _torch(framework: FrameworkFacts) -> Iterator[str]:
    if framework.version is not None:
        exact = framework.kind == "torch"
        yield f"torch {'==' if exact else '>='} {format_version(framework.version)}{'.*' if exact else ''}"


def _metadata(name: WheelName, fields: Mapping[str, str], python_abi: PythonAbi, requires: Iterable[str]) -> bytes:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {name.distribution.replace('_', '-')}",
        f"Version: {name.version}",
        *(f"{key}: {value}" for key, value in sorted(fields.items())),
        *(f"Requires-Dist: {requirement}" for requirement in sorted(requires)),
    ]
    if python_abi.version is not None:
        lines.append(f"Requires-Python: >={format_version(python_abi.version)}")
    return "\n".join([*lines, ""]).encode()


def _wheel(name: WheelName) -> bytes:
    pure = "true" if name.tag.endswith("-none-any") else "false"
    return f"Wheel-Version: 1.0\nGenerator: kernel-build\nRoot-Is-Purelib: {pure}\nTag: {name.tag}\n".encode()


def _record(members: Mapping[str, bytes], own: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for member in sorted(members):
        writer.writerow((member, _hash(members[member]), len(members[member])))
    writer.writerow((own, "", ""))
    return text.getvalue().encode()


def _hash(content: bytes) -> str:
    return f"sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()}"
