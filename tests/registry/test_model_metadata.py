from __future__ import annotations

import json

from kernelworks.model.digest import FileEntry
from kernelworks.model.metadata import Metadata
from kernelworks.model.variant import KernelDependency


def test_metadata_names_the_kernels_that_are_loaded_and_the_digest_of_every_file() -> None:
    metadata = Metadata(
        id="_demo_cpu_1a2b3c4d",
        name="demo",
        version=1,
        license="Apache-2.0",
        backend="cpu",
        archs=(),
        python_depends=("einops",),
        files=(FileEntry("__init__.py", 1, "ff" * 32),),
        builder_version="0",
        kernel_depends=(KernelDependency("org/base", 2), KernelDependency("org/other", revision="main")),
    )
    document = json.loads(metadata.to_bytes())
    assert document["kernel-depends"] == [
        {"repo-id": "org/base", "version": 2},
        {"repo-id": "org/other", "revision": "main"},
    ]
    assert document["digest"]["files"] == {"__init__.py": "/" * 42 + "8="}
