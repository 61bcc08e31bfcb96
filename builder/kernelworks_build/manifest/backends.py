"""What each backend adds to the format: its sub-table of `[general]` and its form of `[kernel.<name>]`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PrivateAttr, Tag, model_validator
from pydantic.json_schema import SkipJsonSchema

from kernelworks_build.manifest.dependencies import python_dependencies
from kernelworks_build.manifest.grammar import (
    CudaCapability,
    CxxDependency,
    Flag,
    Folders,
    GfxArch,
    Natural,
    OneOf,
    RepoId,
    Sources,
    Text,
    Version,
    VersionText,
    refuse,
)
from kernelworks_build.manifest.table import Table

__all__ = [
    "COMPONENTS",
    "AnyComponent",
    "Bounds",
    "Component",
    "CpuComponent",
    "CudaComponent",
    "CudaGeneral",
    "KernelDependency",
    "MetalComponent",
    "NeuronGeneral",
    "RocmComponent",
    "TpuGeneral",
    "UndecidedComponent",
    "XpuComponent",
    "XpuGeneral",
    "component_form",
]


CudaPackage = Annotated[str, OneOf("Python package for CUDA", python_dependencies("cuda"))]
NeuronPackage = Annotated[str, OneOf("Python package for Neuron", python_dependencies("neuron"))]
TpuPackage = Annotated[str, OneOf("Python package for TPU", python_dependencies("tpu"))]
XpuPackage = Annotated[str, OneOf("Python package for XPU", python_dependencies("xpu"))]


class KernelDependency(Table):
    """Another kernel that this one loads."""

    repo_id: RepoId = Field(description="Repository, `org/name`.", examples=["org/name"])
    version: Natural | None = Field(default=None, description="Major version; either this or `revision`.")
    revision: Text | None = Field(default=None, description="Branch, tag or commit; either this or `version`.")

    @model_validator(mode="after")
    def _one_pin(self) -> KernelDependency:
        if (self.version is None) == (self.revision is None):
            raise refuse(f"`{self.repo_id}` needs exactly one of `version` and `revision`")
        return self


class Bounds(Table):
    """An inclusive range of versions, compared by major and minor."""

    minver: VersionText | None = Field(default=None, description="Oldest version, inclusive.")
    maxver: VersionText | None = Field(default=None, description="Newest version, inclusive.")


class CudaGeneral(Bounds):
    """`[general.cuda]`: bounds of the toolkit, and what only the CUDA variants need."""

    kernel_depends: tuple[KernelDependency, ...] = Field(default=(), description="Kernels that the CUDA variants load.")
    python_depends: tuple[CudaPackage, ...] = Field(
        default=(), description="Python packages that the CUDA variants import."
    )


class NeuronGeneral(Table):
    """`[general.neuron]`: what only the Neuron variants need."""

    kernel_depends: tuple[KernelDependency, ...] = Field(
        default=(), description="Kernels that the Neuron variants load."
    )
    python_depends: tuple[NeuronPackage, ...] = Field(
        default=(), description="Python packages that the Neuron variants import."
    )


class TpuGeneral(Table):
    """`[general.tpu]`: what only the TPU variants need."""

    python_depends: tuple[TpuPackage, ...] = Field(
        default=(), description="Python packages that the TPU variants import."
    )


class XpuGeneral(Table):
    """`[general.xpu]`: what only the XPU variants need."""

    kernel_depends: tuple[KernelDependency, ...] = Field(default=(), description="Kernels that the XPU variants load.")
    python_depends: tuple[XpuPackage, ...] = Field(
        default=(), description="Python packages that the XPU variants import."
    )


class Component(Table):
    """`[kernel.<name>]`: sources that are compiled together for one backend.

    `capabilities`, `device_flags` and `toolkit_minver` are the same for every backend, whatever its keys
    are called.
    """

    backend: str = Field(description="What it is compiled for.", examples=["cuda"])
    depends: tuple[CxxDependency, ...] = Field(
        description="C++ libraries that it is compiled against; may be empty.", examples=[["torch"]]
    )
    src: Sources = Field(
        description="Sources and headers, relative to the project, no patterns.",
        examples=[["csrc/kernel.cu"]],
    )
    include: Folders = Field(default=(), description="Folders that headers are searched in.")
    cxx_flags: tuple[Flag, ...] = Field(default=(), description="Flags of the host compiler.")
    _name: str = PrivateAttr("")

    @property
    def name(self) -> str:
        """The key of its table: `relu_cuda` of `[kernel.relu_cuda]`."""
        return self._name

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The device architectures asked for (`9.0a`, `gfx942`); empty: all that the toolkit supports."""
        return ()

    @property
    def device_flags(self) -> tuple[str, ...]:
        """Flags of the device compiler."""
        return ()

    @property
    def toolkit_minver(self) -> Version | None:
        """The oldest toolkit that it is compiled with; older ones leave it out."""
        return None


class CpuComponent(Component):
    """A component for the CPU."""

    backend: Literal["cpu"] = Field(description="What it is compiled for.", examples=["cpu"])


class _CudaKeys(Table):
    cuda_capabilities: tuple[CudaCapability, ...] = Field(
        default=(), description="Compute capabilities, such as `9.0a`."
    )
    cuda_flags: tuple[Flag, ...] = Field(default=(), description="Flags of nvcc.")
    cuda_minver: VersionText | None = Field(default=None, description="Oldest toolkit; older ones leave it out.")


class CudaComponent(_CudaKeys, Component):
    """A component for NVIDIA GPUs."""

    backend: Literal["cuda"] = Field(description="What it is compiled for.", examples=["cuda"])

    @property
    def capabilities(self) -> tuple[str, ...]:
        return self.cuda_capabilities

    @property
    def device_flags(self) -> tuple[str, ...]:
        return self.cuda_flags

    @property
    def toolkit_minver(self) -> Version | None:
        return self.cuda_minver


class MetalComponent(Component):
    """A component for Apple GPUs."""

    backend: Literal["metal"] = Field(description="What it is compiled for.", examples=["metal"])


class _RocmKeys(Table):
    rocm_archs: tuple[GfxArch, ...] = Field(default=(), description="Architectures, such as `gfx942`.")
    hip_flags: tuple[Flag, ...] = Field(default=(), description="Flags of hipcc.")


class RocmComponent(_RocmKeys, Component):
    """A component for AMD GPUs."""

    backend: Literal["rocm"] = Field(description="What it is compiled for.", examples=["rocm"])

    @property
    def capabilities(self) -> tuple[str, ...]:
        return self.rocm_archs

    @property
    def device_flags(self) -> tuple[str, ...]:
        return self.hip_flags


class _XpuKeys(Table):
    sycl_flags: tuple[Flag, ...] = Field(default=(), description="Flags of the SYCL compiler.")


class XpuComponent(_XpuKeys, Component):
    """A component for Intel GPUs."""

    backend: Literal["xpu"] = Field(description="What it is compiled for.", examples=["xpu"])

    @property
    def device_flags(self) -> tuple[str, ...]:
        return self.sycl_flags


COMPONENTS: dict[str, type[Component]] = {
    "cpu": CpuComponent,
    "cuda": CudaComponent,
    "metal": MetalComponent,
    "rocm": RocmComponent,
    "xpu": XpuComponent,
}
"""The form of a component by backend; a backend that is not here has only noarch kernels."""


class UndecidedComponent(_CudaKeys, _RocmKeys, _XpuKeys, Component):
    """A component without a valid backend: takes the keys of all, so that its other faults are found too."""

    backend: Annotated[str, OneOf("backend of a component", COMPONENTS), Field(examples=["cuda"])]


def component_form(table: Any) -> str:
    """Which form a component is read as: its backend's, in angle brackets, which no bare key of TOML has."""
    backend = table.get("backend") if isinstance(table, dict) else None
    return f"<{backend}>" if isinstance(backend, str) and backend in COMPONENTS else "<undecided>"


AnyComponent = Annotated[
    Annotated[CpuComponent, Tag("<cpu>")]
    | Annotated[CudaComponent, Tag("<cuda>")]
    | Annotated[MetalComponent, Tag("<metal>")]
    | Annotated[RocmComponent, Tag("<rocm>")]
    | Annotated[XpuComponent, Tag("<xpu>")]
    | Annotated[SkipJsonSchema[UndecidedComponent], Tag("<undecided>")],
    Discriminator(component_form),
]
