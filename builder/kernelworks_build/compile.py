"""PlannedVariant -> compile.json and the Action that compiles it. Pure: paths are those inside the sandbox."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from kernelworks.model.digest import canonical_json, hash_bytes
from kernelworks.model.variant import DeviceArchs
from kernelworks.model.variant_name import Version2
from kernelworks_build.action import Action, Limits, Mount, Tree
from kernelworks_build.errors import PlanError
from kernelworks_build.manifest import Component, Manifest
from kernelworks_build.matrix import BackendRow
from kernelworks_build.plan import PlannedVariant
from kernelworks_build.toolchain.sysroot import CXX, LINK_FLAGS, ROOT, SYSTEM_LIBRARIES

__all__ = ["CompileSpec", "build_id", "compile_spec", "make_action"]

_HOST_SUFFIXES = {".c", ".cc", ".cpp", ".cxx"}
_HEADER_SUFFIXES = {".cuh", ".def", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl"}

_HOST_FLAGS = ("-O3", "-fPIC", "-fno-gnu-unique", "-ffunction-sections", "-fdata-sections")
_INCLUDES = (
    "/opt/kernelworks/include",
    "/opt/torch/include",
    "/opt/torch/include/torch/csrc/api/include",
    "/opt/python/include/python3.11",
)
_ENV = {
    "HOME": "/tmp",  # noqa: S108  # inside the sandbox, where it is a private file system
    "LC_ALL": "C",
    "NINJA_STATUS": "[%f/%t] ",
    "PATH": "/opt/tools/bin:/usr/bin",
    "SOURCE_DATE_EPOCH": "315532800",
    "TMPDIR": "/tmp",  # noqa: S108
    "TZ": "UTC",
}
# `jobs` is written by whoever runs the action: how many units run at once decides no byte of the result.
_SCRIPT = (
    "cmake -S /opt/kernelworks -B . -G Ninja -DCOMPILE_JSON=/spec/compile.json > configure.log || "
    '{ cat configure.log; exit 1; }; exec ninja -k 0 -j "$(cat jobs)"'
)
_MOUNTS = {"host": "/usr", "sysroot": ROOT, "python": "/opt/python", "tools": "/opt/tools"}


@dataclass(frozen=True)
class CompileSpec:
    """What compile.json says of one variant.

    Attributes:
        output: File name of the shared library.
        document: The content of compile.json.
    """

    output: str
    document: Mapping[str, Any]

    def to_bytes(self) -> bytes:
        return canonical_json(self.document)


def build_id(package: str, backend: str, variant: str, source_digest: str) -> str:
    """Module name and op namespace of one build: equal for equal sources, different for every variant."""
    return f"_{package}_{backend}_{hash_bytes(f'{source_digest} {variant}'.encode())[:8]}"


def compile_spec(manifest: Manifest, planned: PlannedVariant, row: BackendRow, ident: str) -> CompileSpec:
    """The compile and link lines of `planned`, for the op namespace `ident`.

    Raises:
        PlanError: A source that nobody would compile, or no `[torch]` table.
    """
    if manifest.torch is None:
        raise PlanError("only kernels with a `[torch]` table are compiled", variant=planned.name)
    output = f"{ident}.abi3.so"
    defines = _defines(planned, row, ident)
    units = [
        _host_unit(source, "binding", planned, defines, manifest.torch.include, manifest.torch.cxx_flags, row)
        for source in _host_sources(manifest.torch.src)
    ]
    for component in (item for item in manifest.components_of(row.name) if item.name in planned.components):
        units += [
            _host_unit(source, component.name, planned, defines, component.include, component.cxx_flags, row)
            for source in _host_sources(component.src, row.device_suffixes)
        ]
        units += [
            _device_unit(source, component, planned, defines, row)
            for source in component.src
            if PurePosixPath(source).suffix in row.device_suffixes
        ]
    link = [CXX, "-shared", "-o", output, *(unit["object"] for unit in units), *_link_flags(row)]
    return CompileSpec(output, {"schema": 1, "id": ident, "units": units, "link": {"output": output, "command": link}})


def make_action(planned: PlannedVariant, row: BackendRow, spec: CompileSpec, trees: Mapping[str, Tree]) -> Action:
    """The Action that compiles `planned`.

    Args:
        planned: The variant.
        row: How its backend is compiled.
        spec: Its compile and link lines.
        trees: The planned trees by name, and `source` (the project's files), `spec` (compile.json) and
            `builder` (CMakeLists.txt and headers).
    """
    targets = _MOUNTS | {planned.torch.lock: "/opt/torch"}
    if row.mount:
        targets |= {name: row.mount for name in planned.trees if name not in targets}
    targets |= {"source": "/src", "spec": "/spec", "builder": "/opt/kernelworks"}
    return Action(
        argv=("/bin/sh", "-c", _SCRIPT),
        env=tuple(sorted(_ENV.items())),
        mounts=tuple(Mount(target, trees[name]) for name, target in sorted(targets.items(), key=lambda item: item[1])),
        outputs=(spec.output,),
        limits=Limits(memory_bytes=16 << 30, wall_seconds=4 * 3600),
    )


def _host_sources(sources: Iterable[str], device_suffixes: Collection[str] = ()) -> list[str]:
    """Those of `sources` that the host compiler compiles; the rest are headers and what goes to the device compiler.

    Raises:
        PlanError: A source that nobody would compile.
    """
    kinds = {source: PurePosixPath(source).suffix for source in sources}
    known = {*_HOST_SUFFIXES, *_HEADER_SUFFIXES, *device_suffixes}
    lost = [source for source, suffix in kinds.items() if suffix not in known]
    if lost:
        raise PlanError(
            f"nothing compiles {', '.join(f'`{source}`' for source in lost)} here",
            hint=f"this place takes {', '.join(sorted(known))}; device code goes into a component of its backend",
            sources=lost,
        )
    return [source for source, suffix in kinds.items() if suffix in _HOST_SUFFIXES]


def _defines(planned: PlannedVariant, row: BackendRow, ident: str) -> list[str]:
    major, minor = planned.framework.version or (0, 0)
    names = [
        *row.defines,
        f"TORCH_EXTENSION_NAME={ident}",
        f"Py_LIMITED_API={_hex_version(planned.python_abi.version, 24, 16)}",
    ]
    if planned.framework.kind == "torch-stable-abi":
        names.append(f"TORCH_TARGET_VERSION={_hex_version((major, minor), 56, 48)}")
    return [f"-D{name}" for name in names]


def _hex_version(version: Version2 | None, *shifts: int) -> str:
    width = shifts[0] // 4 + 2
    value = sum(part << shift for part, shift in zip(version or (), shifts, strict=True))
    return f"0x{value:0{width}x}"


def _host_unit(
    source: str,
    component: str,
    planned: PlannedVariant,
    defines: list[str],
    include: Iterable[str] | None,
    flags: Iterable[str] | None,
    row: BackendRow,
) -> dict[str, Any]:
    command = [
        CXX,
        f"-std=c++{planned.torch.std}",
        *_HOST_FLAGS,
        *defines,
        *_include_flags(include, row),
        *_author_flags(flags),
    ]
    return _unit("host", source, component, command)


def _device_unit(
    source: str, component: Component, planned: PlannedVariant, defines: list[str], row: BackendRow
) -> dict[str, Any]:
    if row.device_compiler is None:
        raise PlanError(f"backend `{row.name}` has no device compiler for `{source}`", source=source)
    keep = f"keep/{component.name}/{source}"
    command = [
        row.device_compiler,
        f"-std=c++{planned.torch.std}",
        *row.device_flags,
        *_arch_flags(planned.archs[component.name], row),
        *(template.format(keep=keep) for template in row.unit_flags),
        *defines,
        *_include_flags(component.include, row),
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


def _include_flags(include: Iterable[str] | None, row: BackendRow) -> list[str]:
    own = [f"-I/src/{folder}" if folder != "." else "-I/src" for folder in include or ()]
    system = chain.from_iterable(("-isystem", folder) for folder in (*_INCLUDES, *row.include_dirs))
    return [*own, "-I/src", *system]


def _author_flags(flags: Iterable[str] | None) -> list[str]:
    """The author's flags without the C++ standard, which belongs to the torch release."""
    return [flag for flag in flags or () if not flag.startswith(("-std=", "--std="))]


def _arch_flags(archs: DeviceArchs, row: BackendRow) -> list[str]:
    return [
        row.arch_flags[kind].format(arch=arch, digits=arch.replace(".", ""))
        for kind, chosen in (("sass", archs.sass), ("ptx", archs.ptx))
        for arch in chosen
    ]


def _link_flags(row: BackendRow) -> list[str]:
    torch = ["torch", "torch_cpu", "c10", *row.torch_libraries]
    return [
        *LINK_FLAGS,
        "-L/opt/torch/lib",
        *(f"-L{folder}" for folder in row.library_dirs),
        "-Wl,--no-as-needed",
        *(f"-l{name}" for name in torch),
        "-Wl,--as-needed",
        *(f"-l{name}" for name in row.libraries),
        *SYSTEM_LIBRARIES,
    ]
