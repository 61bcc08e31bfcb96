"""PlannedVariant -> compile.json and the Action that compiles it. Pure: paths are those inside the sandbox."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from kernelworks.model.digest import canonical_json, hash_bytes
from kernelworks.model.variant import DeviceArchs
from kernelworks.model.variant_name import Version2, format_version, version_digits
from kernelworks_build.action import Action, Limits, Mount, Tree
from kernelworks_build.claims import ID_MACRO
from kernelworks_build.errors import PlanError
from kernelworks_build.manifest import Component, Manifest
from kernelworks_build.manifest.model import Torch, TvmFfi
from kernelworks_build.matrix import BackendRow, Framework
from kernelworks_build.planned import PlannedVariant
from kernelworks_build.suffixes import HOST_SUFFIXES
from kernelworks_build.toolchain.sysroot import CXX, LINK_FLAGS, SYSTEM_LIBRARIES

__all__ = ["DIGEST_CHARACTERS", "CompileSpec", "build_id", "compile_spec", "make_action"]

DIGEST_CHARACTERS = 8
"""How many there are at the end of `build_id`, of the digest of what is built."""

_HOST_FLAGS = ("-O3", "-fPIC", "-fno-gnu-unique", "-ffunction-sections", "-fdata-sections")
_ENV = {
    "HOME": "/tmp",  # noqa: S108  # inside the sandbox, where it is a private file system
    "LC_ALL": "C",
    "NINJA_STATUS": "[%f/%t] ",
    "PATH": "/opt/tools/bin:/usr/bin",
    "SOURCE_DATE_EPOCH": "315532800",
    "TMPDIR": "/tmp",  # noqa: S108
    "TZ": "UTC",
}
# `jobs` may be written by whoever runs the action: how many units run at once decides no byte of the result.
_SCRIPT = (
    "cmake -S /opt/kernelworks -B . -G Ninja -DCOMPILE_JSON=/spec/compile.json > configure.log || "
    '{ cat configure.log; exit 1; }; exec ninja -k 0 -j "$(cat jobs 2>/dev/null || nproc)"'
)


@dataclass(frozen=True)
class CompileSpec:
    """What compile.json says of one variant.

    Attributes:
        output: File name of the shared library.
        document: The content of compile.json.
        unit_memory: Peak bytes of one translation unit.
    """

    output: str
    document: Mapping[str, Any]
    unit_memory: int

    def to_bytes(self) -> bytes:
        return canonical_json(self.document)


def build_id(package: str, backend: str, variant: str, source_digest: str) -> str:
    """Module name and op namespace of one build: equal for equal sources, different for every variant."""
    return f"_{package}_{backend}_{hash_bytes(f'{source_digest} {variant}'.encode())[:DIGEST_CHARACTERS]}"


def compile_spec(manifest: Manifest, planned: PlannedVariant, row: BackendRow, ident: str) -> CompileSpec:
    """The compile and link lines of `planned`, for the op namespace `ident`.

    Raises:
        PlanError: A framework without a binding.
    """
    binding = manifest.torch or manifest.tvm_ffi
    if binding is None or planned.against is None:
        raise PlanError("kernels of this framework are not compiled", variant=planned.name)
    output = f"{ident}{_module_tag(planned)}.so"
    defines = _defines(planned, row, ident)

    def read_with(table: Torch | TvmFfi | Component, part: str) -> list[str]:
        return [*defines, *_include_flags(manifest.include_folders(table), part, planned, row)]

    flags = read_with(binding, "binding")
    units = [_host_unit(source, "binding", planned, flags, binding) for source in _host_sources(binding.src)]
    for component in (item for item in manifest.components_of(row.name) if item.name in planned.components):
        flags = read_with(component, component.name)
        units += [
            _host_unit(source, component.name, planned, flags, component) for source in _host_sources(component.src)
        ]
        units += [
            _device_unit(source, component, planned, flags, row)
            for source in component.src
            if PurePosixPath(source).suffix in row.device_suffixes
        ]
    link = [
        CXX,
        "-shared",
        "-o",
        output,
        *(unit["object"] for unit in units),
        *_link_flags(planned, planned.against, row),
    ]
    document = {"schema": 1, "id": ident, "units": units, "link": {"output": output, "command": link}}
    return CompileSpec(output, document, row.memory_against(planned.framework.kind))


def make_action(planned: PlannedVariant, spec: CompileSpec, trees: Mapping[str, Tree]) -> Action:
    """The Action that compiles `planned`.

    Args:
        planned: The variant.
        spec: Its compile and link lines.
        trees: The planned trees by name, and `source` (the project's files), `spec` (compile.json) and
            `builder` (CMakeLists.txt and headers).
    """
    targets = {**planned.trees, "source": "/src", "spec": "/spec", "builder": "/opt/kernelworks"}
    return Action(
        argv=("/bin/sh", "-c", _SCRIPT),
        env=tuple(sorted(_ENV.items())),
        mounts=tuple(Mount(target, trees[name]) for name, target in sorted(targets.items(), key=lambda item: item[1])),
        outputs=(spec.output,),
        limits=Limits(memory_bytes=16 << 30, wall_seconds=4 * 3600),
    )


def _host_sources(sources: Iterable[str]) -> list[str]:
    """Those of `sources` that the host compiler compiles; the rest are headers and what goes to the device compiler."""
    return [source for source in sources if PurePosixPath(source).suffix in HOST_SUFFIXES]


def _defines(planned: PlannedVariant, row: BackendRow, ident: str) -> list[str]:
    major, minor = planned.framework.version or (0, 0)
    toolkit = planned.backend.version or (0, 0)
    names = [
        *(define.format(major=toolkit[0], minor=toolkit[1]) for define in row.defines),
        f"{ID_MACRO}={ident}",
    ]
    if planned.python_abi.kind == "abi3":
        names.append(f"Py_LIMITED_API={_hex_version(planned.python_abi.version, 24, 16)}")
    if planned.framework.kind == "torch-stable-abi":
        names.append(f"TORCH_TARGET_VERSION={_hex_version((major, minor), 56, 48)}")
    return [f"-D{name}" for name in names]


def _hex_version(version: Version2 | None, *shifts: int) -> str:
    width = shifts[0] // 4 + 2
    value = sum(part << shift for part, shift in zip(version or (), shifts, strict=True))
    return f"0x{value:0{width}x}"


def _host_unit(
    source: str, part: str, planned: PlannedVariant, flags: list[str], table: Torch | TvmFfi | Component
) -> dict[str, Any]:
    command = [CXX, *_standard(planned), *_HOST_FLAGS, *flags, *_author_flags(table.cxx_flags)]
    return _unit("host", source, part, command)


def _device_unit(
    source: str, component: Component, planned: PlannedVariant, flags: list[str], row: BackendRow
) -> dict[str, Any]:
    if row.device_compiler is None:
        raise PlanError(f"backend `{row.name}` has no device compiler for `{source}`", source=source)
    keep = f"keep/{component.name}/{source}"
    name = hash_bytes(keep.encode())[:16]
    command = [
        row.device_compiler,
        *_standard(planned),
        *row.device_flags,
        *_arch_flags(planned.archs[component.name], row),
        *(template.format(keep=keep, unit=f"kernelworks_unit_{name}") for template in row.unit_flags),
        *flags,
        *_author_flags(component.device_flags),
    ]
    return _unit("device", source, component.name, command, keep)


def _unit(kind: str, source: str, component: str, command: list[str], *folders: str) -> dict[str, Any]:
    target = f"{kind}/{component}/{source}.o"
    return {
        "kind": kind,
        "source": f"/src/{source}",
        "object": target,
        "depfile": f"{target}.d",
        "folders": [str(PurePosixPath(target).parent), *folders],
        "command": [*command, "-c", f"/src/{source}", "-o", target, "-MD", "-MF", f"{target}.d"],
    }


def _standard(planned: PlannedVariant) -> list[str]:
    """The C++ standard: that of the framework's headers."""
    return [f"-std=c++{planned.headers.std}"] if planned.headers else []


def _module_tag(planned: PlannedVariant) -> str:
    """What stands between the name and the suffix of the library (PEP 3149)."""
    abi, platform = planned.python_abi, planned.platform
    if abi.kind == "exact" and abi.version:
        return f".cpython-{version_digits(abi.version)}-{platform.cpu}-{platform.os}-gnu"
    return ".abi3" if abi.kind == "abi3" else ""


def _include_flags(include: Iterable[str], part: str, planned: PlannedVariant, row: BackendRow) -> list[str]:
    system_folders = [
        *planned.includes.get(part, ()),
        "/opt/kernelworks/include",
        *(planned.against.include if planned.against else ()),
        *([f"/opt/python/include/python{format_version(planned.python)}"] if planned.python else ()),
        *row.include_dirs,
    ]
    own = [f"-I/src/{folder}" if folder != "." else "-I/src" for folder in include]
    system = chain.from_iterable(("-isystem", folder) for folder in system_folders)
    return [*own, *system]


def _author_flags(flags: Iterable[str]) -> list[str]:
    """The author's flags without the C++ standard, which belongs to the torch release."""
    return [flag for flag in flags if not flag.startswith(("-std=", "--std="))]


def _arch_flags(archs: DeviceArchs, row: BackendRow) -> list[str]:
    return [
        row.arch_flags[kind].format(arch=arch, digits=arch.replace(".", ""))
        for kind, chosen in (("sass", archs.sass), ("ptx", archs.ptx))
        for arch in chosen
    ]


def _link_flags(planned: PlannedVariant, against: Framework, row: BackendRow) -> list[str]:
    framework = [*against.libraries, *row.framework_libraries.get(against.name, ())]
    if planned.python_abi.kind == "exact":
        framework.append("torch_python")  # converts tensors from and to Python's, and keeps to no stable ABI either
    return [
        *LINK_FLAGS,
        f"-L{against.mount}/lib",
        *(f"-L{folder}" for folder in row.library_dirs),
        "-Wl,--no-as-needed",
        *(f"-l{name}" for name in framework),
        "-Wl,--as-needed",
        *(f"-l{name}" for name in row.libraries),
        *SYSTEM_LIBRARIES,
    ]
