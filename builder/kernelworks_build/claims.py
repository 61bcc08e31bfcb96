"""What a build claims of one variant: written by the plan, proved by the audit, carried in the wheel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelworks.model.decode import Node
from kernelworks.model.variant import ID_PATTERN, BackendFacts, FrameworkFacts, Platform, PythonAbi

__all__ = ["ID_MACRO", "Claims"]

ID_MACRO = "TORCH_EXTENSION_NAME"
"""By what C++ sources call the `id` of the build that they become a part of."""

_NAME = "[a-z0-9][a-z0-9_-]{1,126}"
_PACKAGE = "[a-z][a-z0-9_]*"


@dataclass(frozen=True)
class Claims:
    """One variant as it was asked for.

    Attributes:
        name: Variant name, the folder below `build/`.
        id: Module name and op namespace: `_silu_and_mul_cuda_1a2b3c4d`.
        package: Import name of the kernel: `silu_and_mul`.
        framework: The torch ABI.
        backend: The device side; `archs` are those asked for.
        python_abi: The Python ABI.
        platform: CPU, system and libc floor.
        torch_releases: Every torch release (`2.14.1`) with which it must load; each has a symbol list.
    """

    name: str
    id: str
    package: str
    framework: FrameworkFacts
    backend: BackendFacts
    python_abi: PythonAbi
    platform: Platform
    torch_releases: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "id": self.id,
            "package": self.package,
            "framework": self.framework.to_json(),
            "backend": self.backend.to_json(),
            "python-abi": self.python_abi.to_json(),
            "platform": self.platform.to_json(),
            "torch-releases": list(self.torch_releases),
        }

    @classmethod
    def from_json(cls, node: Node) -> Claims:
        """The claims in `node`, which may come from anywhere: names that become paths are names.

        Raises:
            RepositoryError: Names the key that is wrong.
        """
        return cls(
            node.get("name").text(pattern=_NAME),
            node.get("id").text(pattern=ID_PATTERN),
            node.get("package").text(pattern=_PACKAGE),
            FrameworkFacts.from_json(node.get("framework")),
            BackendFacts.from_json(node.get("backend")),
            PythonAbi.from_json(node.get("python-abi")),
            Platform.from_json(node.get("platform")),
            node.get("torch-releases").items(Node.text),
        )
