from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks import get_kernel, get_kernel_dep, get_loaded_kernels, get_local_kernel
from kernelworks.backends.spec import HostBackend
from kernelworks.errors import LoadError, RepositoryError, UsageError
from kernelworks.model.variant import KernelDependency, Variant

Pack = Callable[..., tuple[Variant, bytes]]

BASE = {"__init__.py": b"def three():\n    return 3\n"}
USER = {
    "__init__.py": (
        b"from kernelworks import get_kernel_dep\n"
        b"base = get_kernel_dep('org/base')\n"
        b"def six():\n    return 2 * base.three()\n"
        b"def late():\n    from . import later\n    return later.base\n"
    ),
    "later.py": b"from kernelworks import get_kernel_dep\nbase = get_kernel_dep('org/base')\n",
}
NEEDS_BASE = {"kernel_depends": (KernelDependency("org/base", 1),), "id": "_user_cpu_1a2b3c4d"}


METADATA = {
    "id": "_user_cpu_1a2b3c4d",
    "name": "user",
    "version": 1,
    "license": "Apache-2.0",
    "python-depends": [],
    "kernel-depends": [{"repo-id": "org/base", "version": 1}],
    "backend": {"type": "cpu"},
    "digest": {
        "algorithm": "sha256",
        "files": {"__init__.py": base64.b64encode(hashlib.sha256(USER["__init__.py"]).digest()).decode()},
    },
}


def names(repo_id: str) -> list[str]:
    return [name for name in sys.modules if name.startswith(f"kernelworks.loaded._{repo_id.partition('/')[2]}_")]


def test_a_kernel_is_given_what_it_depends_on(registry: Any, pack: Pack) -> None:
    registry.publish("org/base", 1, pack(BASE))
    registry.publish("org/user", 1, pack(USER, **NEEDS_BASE))
    user = get_kernel("org/user", version=1)
    base = get_kernel("org/base", version=1)
    assert user.six() == 6
    assert user.base is base
    assert [kernel.module for kernel in get_loaded_kernels()] == [base, user]
    assert get_loaded_kernels()[-1].dependencies == {"org/base": base}


def test_a_module_that_is_imported_later_is_given_it_too(registry: Any, pack: Pack) -> None:
    registry.publish("org/base", 1, pack(BASE))
    registry.publish("org/user", 1, pack(USER, **NEEDS_BASE))
    user = get_kernel("org/user", version=1)
    shutil.rmtree(registry.root)
    assert user.late() is user.base


def test_a_dependency_is_pinned_by_version_or_by_commit(registry: Any, pack: Pack) -> None:
    old = registry.publish("org/base", 1, pack(BASE))
    registry.publish("org/base", 2, pack({"__init__.py": b"def three():\n    return 30\n"}))
    pinned = {"kernel_depends": (KernelDependency("org/base", revision=old.commit),)}
    registry.publish("org/user", 1, pack(USER, **{**NEEDS_BASE, **pinned}))
    assert get_kernel("org/user", version=1).six() == 6


def test_a_dependency_is_of_the_backend_that_was_asked_for(
    registry: Any, pack: Pack, this_process: Callable[..., Any]
) -> None:
    this_process(backends=(HostBackend("cuda", (13, 0), ("9.0",)), HostBackend("cpu")))
    registry.publish("org/base", 1, pack(BASE))
    registry.publish("org/user", 1, pack(USER, **NEEDS_BASE))
    assert get_kernel("org/user", version=1, backend="cpu").six() == 6


def test_a_local_kernel_takes_its_dependencies_from_the_registry(registry: Any, pack: Pack) -> None:
    registry.publish("org/base", 1, pack(BASE))
    published = registry.publish("org/user", 1, pack(USER, **NEEDS_BASE))
    assert get_local_kernel(published.folder).six() == 6


def test_what_a_dependency_lacks_is_told_with_who_needs_it_and_nothing_is_imported(registry: Any, pack: Pack) -> None:
    registry.publish("org/user", 1, pack(USER, **NEEDS_BASE))
    with pytest.raises(RepositoryError, match=r"^`org/user` needs kernel `org/base`: .* has no repository `org/base`"):
        get_kernel("org/user", version=1)
    assert names("org/user") == []


def test_a_dependency_with_a_bad_name_is_refused(registry: Any, pack: Pack) -> None:
    depends = {"kernel_depends": (KernelDependency("../../etc", 1),)}
    registry.publish("org/user", 1, pack(USER, **depends))
    with pytest.raises(UsageError, match=r"`org/user` needs kernel `../../etc`: `../../etc` is not a repository id"):
        get_kernel("org/user", version=1)


def test_a_circle_of_dependencies_is_told_with_its_way(registry: Any, pack: Pack) -> None:
    for one, other in (("aa", "bb"), ("bb", "cc"), ("cc", "aa")):
        facts = {"kernel_depends": (KernelDependency(f"org/{other}", 1),), "id": f"_{one}_cpu_1a2b3c4d"}
        registry.publish(f"org/{one}", 1, pack({"__init__.py": b""}, **facts))
    with pytest.raises(LoadError) as caught:
        get_kernel("org/aa", version=1)
    assert caught.value.message == (
        "a kernel loads itself while it is being imported: `org/aa` -> `org/bb` -> `org/cc` -> `org/aa`"
    )
    assert caught.value.context["circle"] == ["org/aa", "org/bb", "org/cc", "org/aa"]
    assert [names(f"org/{name}") for name in ("aa", "bb", "cc")] == [[], [], []]


def test_a_kernel_that_gets_another_in_a_circle_by_its_own_code_is_told_so(registry: Any, pack: Pack) -> None:
    for one, other in (("aa", "bb"), ("bb", "aa")):
        code = f"import kernelworks\nkernelworks.get_kernel('org/{other}', version=1)\n"
        registry.publish(f"org/{one}", 1, pack({"__init__.py": code.encode()}, id=f"_{one}_cpu_1a2b3c4d"))
    with pytest.raises(LoadError, match="`org/aa` -> `org/bb` -> `org/aa`"):
        get_kernel("org/aa", version=1)
    assert get_loaded_kernels() == ()


def test_what_is_not_declared_is_not_given(registry: Any, pack: Pack) -> None:
    registry.publish("org/base", 1, pack(BASE))
    registry.publish("org/user", 1, pack(USER, id="_user_cpu_1a2b3c4d"))
    with pytest.raises(
        LoadError, match=r"`org/user` asks for kernel `org/base`, which it does not declare \(it declares none\)"
    ):
        get_kernel("org/user", version=1)


def test_a_dependency_is_given_to_kernels_only() -> None:
    with pytest.raises(LoadError, match="no kernel is being imported") as caught:
        get_kernel_dep("org/base")
    assert "other code calls `get_kernel`" in str(caught.value)


def test_a_failed_kernel_gives_its_dependencies_to_nobody(registry: Any, pack: Pack) -> None:
    registry.publish("org/base", 1, pack(BASE))
    registry.publish("org/user", 1, pack({"__init__.py": b"raise SystemExit(1)"}, **NEEDS_BASE))
    with pytest.raises(LoadError, match="SystemExit"):
        get_kernel("org/user", version=1)
    with pytest.raises(LoadError, match="no kernel is being imported"):
        get_kernel_dep("org/base")


def test_a_kernel_of_another_builder_declares_its_dependencies_in_its_metadata(
    registry: Any, pack: Pack, tmp_path: Path
) -> None:
    registry.publish("org/base", 1, pack(BASE))
    folder = tmp_path / "build/torch-cpu"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_bytes(USER["__init__.py"])
    (folder / "metadata.json").write_text(json.dumps(METADATA))
    assert get_local_kernel(tmp_path).six() == 6
