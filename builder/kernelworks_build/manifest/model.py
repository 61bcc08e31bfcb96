"""The manifest, edition 5: what `build.toml` says, as frozen pydantic models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from kernelworks.model.python_packages import PythonPackage
from kernelworks.model.variant_name import Version2
from kernelworks_build.manifest.backends import (
    AnyComponent,
    Bounds,
    Component,
    CudaGeneral,
    KernelDependency,
    NeuronGeneral,
    TpuGeneral,
    XpuGeneral,
)
from kernelworks_build.manifest.dependencies import python_dependencies
from kernelworks_build.manifest.grammar import (
    EDITION,
    Backend,
    Backends,
    ComponentName,
    CudaCapability,
    Edition,
    Extension,
    Flag,
    Folders,
    GfxArch,
    GitUrl,
    KernelName,
    Natural,
    OneOf,
    RepoId,
    Sources,
    Text,
    VersionText,
)
from kernelworks_build.manifest.table import Table, kebab

__all__ = ["FRAMEWORKS", "SEARCHED", "Framework", "General", "Hub", "Manifest", "Torch", "TorchNoarch", "TvmFfi"]

SEARCHED = ("csrc", ".")
"""Folders that headers are searched in after those of `include`, where a source is listed below them."""


GeneralPackage = Annotated[str, OneOf("Python package", python_dependencies("general"))]


class Hub(Table):
    """`[general.hub]`: where the kernel is published."""

    repo_id: RepoId | None = Field(default=None, description="Repository, `org/name`.")
    branch: Text | None = Field(default=None, description="Branch to publish to instead of `v<version>`.")


class General(Table):
    """`[general]`: what the kernel is."""

    name: KernelName = Field(
        description="Name of the kernel; dashes become underscores in Python.", examples=["silu-and-mul"]
    )
    version: Natural = Field(description="Major version of the kernel's API.", examples=[1])
    edition: Edition = Field(description="Edition of the manifest format.", examples=[EDITION])
    license: Text = Field(description="Licence identifier, as on the Hub.", examples=["Apache-2.0"])
    backends: Backends = Field(description="Backends that the kernel is built for.", examples=[["cpu", "cuda"]])
    upstream: GitUrl | None = Field(default=None, description="Repository that the code comes from.")
    source: GitUrl | None = Field(default=None, description="Repository that holds this manifest.")
    python_depends: tuple[GeneralPackage, ...] = Field(
        default=(), description="Python packages that every variant imports."
    )
    kernel_depends: tuple[KernelDependency, ...] = Field(default=(), description="Kernels that every variant loads.")
    hub: Hub = Field(default=Hub(), description="Where the kernel is published.")
    cuda: CudaGeneral = Field(default=CudaGeneral(), description="What holds for CUDA only.")
    neuron: NeuronGeneral = Field(default=NeuronGeneral(), description="What holds for Neuron only.")
    tpu: TpuGeneral = Field(default=TpuGeneral(), description="What holds for TPU only.")
    xpu: XpuGeneral = Field(default=XpuGeneral(), description="What holds for XPU only.")


class Framework(Table):
    """The part that all framework tables share."""

    python_root: ClassVar[str]
    """The folder that holds the Python package."""
    compiled: ClassVar[bool]
    """Whether components are compiled."""

    pyext: tuple[Extension, ...] = Field(
        default=(),
        description="Extensions of the files in the Python package to ship; `py` and `pyi` always are.",
    )

    @property
    def extensions(self) -> frozenset[str]:
        """Extensions of the files that are shipped, without dots."""
        return frozenset({"py", "pyi", *self.pyext})


class _Binding(Framework):
    compiled = True

    src: Sources = Field(
        description="Sources and headers of the binding, relative to the project.",
        examples=[["torch-ext/torch_binding.cpp"]],
    )
    include: Folders = Field(default=(), description="Folders that headers are searched in.")
    cxx_flags: tuple[Flag, ...] = Field(default=(), description="Flags of the host compiler.")


def _stable_abi_form(value: Any) -> str:
    return "<table>" if isinstance(value, dict) else "<version>"


StableAbi = Annotated[
    Annotated[VersionText, Tag("<version>")] | Annotated[dict[Backend, VersionText], Tag("<table>")],
    Discriminator(_stable_abi_form),
]


class Torch(_Binding, Bounds):
    """`[torch]`: a library of torch operators, compiled ahead of time."""

    python_root = "torch-ext"

    stable_abi: StableAbi | None = Field(
        default=None, description="Torch stable ABI to target: one version, or one per backend."
    )


class TvmFfi(_Binding):
    """`[tvm-ffi]`: a library of TVM FFI functions, compiled ahead of time."""

    python_root = "tvm-ffi-ext"


class TorchNoarch(Framework):
    """`[torch-noarch]`: Python only, nothing is compiled ahead of time."""

    python_root = "torch-ext"
    compiled = False

    cuda_capabilities: tuple[CudaCapability, ...] = Field(
        default=(), description="Compute capabilities it is meant for."
    )
    rocm_archs: tuple[GfxArch, ...] = Field(default=(), description="ROCm architectures it is meant for.")

    @model_validator(mode="before")
    @classmethod
    def _take_underscores(cls, table: Any) -> Any:
        """The public reader spells the two arch keys with underscores; a rule warns of them."""
        spellings = {name: kebab(name) for name in ("cuda_capabilities", "rocm_archs")}
        if not isinstance(table, dict) or not spellings.keys() & table.keys():
            return table
        return {
            spellings.get(key, key) if spellings.get(key) not in table else key: value for key, value in table.items()
        }

    def archs(self, backend: str) -> tuple[str, ...]:
        """The device archs that it is meant for on `backend`."""
        return {"cuda": self.cuda_capabilities, "rocm": self.rocm_archs}.get(backend, ())


FRAMEWORKS: dict[str, type[Framework]] = {"torch": Torch, "tvm-ffi": TvmFfi, "torch-noarch": TorchNoarch}
"""Framework tables by key; a manifest has exactly one."""


class KernelworksTool(Table):
    """`[tool.kernelworks]`: what only this builder knows."""

    python: tuple[VersionText, ...] = Field(
        default=(),
        description="CPython versions, one variant for each: for modules that need more of Python than its stable ABI,"
        " such as those of pybind11.",
        examples=[["3.11"]],
    )
    slim_headers: bool = Field(
        default=True,
        description="Whether sources that include `torch/all.h` or its like are tried with a small part of it first.",
    )


class Tool(Table):
    """`[tool]`: tables of tools."""

    kernelworks: KernelworksTool = Field(default=KernelworksTool(), description="What only this builder knows.")


class Manifest(Table):
    """`build.toml`, edition 5."""

    model_config = ConfigDict(
        title="build.toml, edition 5",
        json_schema_extra={"oneOf": [{"required": [key]} for key in FRAMEWORKS]},
    )

    general: General = Field(description="What the kernel is.")
    torch: Torch | None = Field(default=None, description="A library of torch operators, compiled ahead of time.")
    tvm_ffi: TvmFfi | None = Field(default=None, description="A library of TVM FFI functions, compiled ahead of time.")
    torch_noarch: TorchNoarch | None = Field(default=None, description="Python only.")
    kernel: dict[ComponentName, AnyComponent] = Field(default={}, description="Components by name.")
    tool: Tool = Field(default=Tool(), description="Tables of tools.")

    def model_post_init(self, _context: Any, /) -> None:
        for name, component in self.kernel.items():
            component._name = name  # noqa: SLF001  # its key is known only here

    @property
    def name(self) -> str:
        """`silu-and-mul`."""
        return self.general.name

    @property
    def python_name(self) -> str:
        """Import name: `silu_and_mul`."""
        return self.general.name.replace("-", "_")

    @property
    def backends(self) -> tuple[str, ...]:
        """The declared backends, each once, in the order of the file."""
        return self.general.backends

    @property
    def framework(self) -> Framework:
        """The one framework table."""
        return next(table for table in (self.torch, self.tvm_ffi, self.torch_noarch) if table)

    @property
    def package_folder(self) -> str:
        """The Python package, relative to the project: `torch-ext/silu_and_mul`."""
        return f"{self.framework.python_root}/{self.python_name}"

    @property
    def components(self) -> tuple[Component, ...]:
        """All components in the order of the file."""
        return tuple(self.kernel.values())

    def components_of(self, backend: str) -> tuple[Component, ...]:
        """The components of one backend in the order of the file."""
        return tuple(component for component in self.components if component.backend == backend)

    def stable_abi(self, backend: str) -> Version2 | None:
        """(major, minor) of the torch stable ABI that `backend` targets; None: the full ABI of one torch."""
        found = self.torch.stable_abi if self.torch else None
        version = found.get(backend) if isinstance(found, dict) else found
        return version.minor if version else None

    def exact_pythons(self) -> tuple[Version2, ...]:
        """(major, minor) of each CPython that has variants of its own; empty: its stable ABI serves all."""
        return tuple(version.minor for version in self.tool.kernelworks.python)

    def toolkit_bounds(self, backend: str) -> tuple[Version2 | None, Version2 | None]:
        """Oldest and newest toolkit (major, minor) of `backend`, inclusive; None: no bound."""
        return _pair(self._general_of(backend))

    def torch_bounds(self) -> tuple[Version2 | None, Version2 | None]:
        """Oldest and newest torch (major, minor), inclusive; None: no bound."""
        return _pair(self.torch)

    def python_depends(self, backend: str) -> tuple[PythonPackage, ...]:
        """The Python packages that the variants of `backend` import."""
        return tuple(
            python_dependencies(scope)[name]
            for scope, table in (("general", self.general), (backend, self._general_of(backend)))
            for name in getattr(table, "python_depends", ())
        )

    def kernel_depends(self, backend: str) -> tuple[KernelDependency, ...]:
        """The kernels that the variants of `backend` load."""
        return (*self.general.kernel_depends, *getattr(self._general_of(backend), "kernel_depends", ()))

    def declared_sources(self) -> tuple[str, ...]:
        """Every path in a `src` list, each once, sorted."""
        listed: Iterable[Any] = (self.framework, *self.components)
        return tuple(sorted({path for table in listed for path in getattr(table, "src", ())}))

    def include_folders(self, table: Torch | TvmFfi | Component) -> tuple[str, ...]:
        """Where the sources of `table` find headers of the kernel: in its `include`, then in `SEARCHED`."""
        listed = {folder.as_posix() for path in self.declared_sources() for folder in PurePosixPath(path).parents}
        return (*table.include, *(folder for folder in SEARCHED if folder in listed))

    def _general_of(self, backend: str) -> Table | None:
        found = getattr(self.general, backend, None)
        return found if isinstance(found, Table) else None


def _pair(table: Table | None) -> tuple[Version2 | None, Version2 | None]:
    if not isinstance(table, Bounds):
        return None, None
    return (
        table.minver.minor if table.minver else None,
        table.maxver.minor if table.maxver else None,
    )
