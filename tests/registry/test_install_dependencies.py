"""`install_kernel` brings along what a kernel needs, so that a load without the network finds all of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from kernelworks import get_kernel, get_loaded_kernels, has_kernel, install_kernel
from kernelworks.errors import LoadError, RepositoryError, UsageError
from kernelworks.model.variant import KernelDependency, Variant

Pack = Callable[..., tuple[Variant, bytes]]

BASE = {"__init__.py": b"def three():\n    return 3\n"}
USER = {"__init__.py": b"from kernelworks import get_kernel_dep\nbase = get_kernel_dep('org/base')\n"}


def needs(*repo_ids: str, own: str) -> dict[str, Any]:
    return {"kernel_depends": tuple(KernelDependency(one, 1) for one in repo_ids), "id": f"_{own}_cpu_1a2b3c4d"}


def test_what_a_kernel_needs_is_fetched_and_nothing_is_imported(registry: Any, pack: Pack) -> None:
    registry.publish("org/base", 1, pack(BASE))
    commit = registry.publish("org/user", 1, pack(USER, **needs("org/base", own="user"))).commit
    folder = install_kernel("org/user", version=1)
    assert get_loaded_kernels() == ()
    base = next(other for other in folder.parent.iterdir() if other != folder)
    for wheels in registry.root.rglob("wheels"):
        shutil.rmtree(wheels)
    assert get_kernel("org/user", revision=commit).base.three() == 3
    assert [kernel.folder for kernel in get_loaded_kernels()] == [base, folder]


def test_a_need_that_cannot_be_met_is_an_error_that_names_who_has_it(registry: Any, pack: Pack) -> None:
    registry.publish("org/user", 1, pack(USER, **needs("org/base", own="user")))
    with pytest.raises(RepositoryError, match=r"`org/user` needs kernel `org/base`: .*no repository"):
        install_kernel("org/user", version=1)


def test_a_circle_is_told_instead_of_followed(registry: Any, pack: Pack) -> None:
    registry.publish("org/base", 1, pack(BASE, **needs("org/user", own="base")))
    registry.publish("org/user", 1, pack(USER, **needs("org/base", own="user")))
    with pytest.raises(LoadError, match="`org/user` -> `org/base` -> `org/user`"):
        install_kernel("org/user", version=1)


def test_whether_there_is_a_kernel_can_be_asked_with_the_arguments_of_the_load(registry: Any, pack: Pack) -> None:
    registry.publish("org/base", 1, pack(BASE))
    assert has_kernel("org/base", version=1, trust_remote_code=True)
    with pytest.raises(UsageError, match="trust_remote_code must be True or False"):
        has_kernel("org/base", version=1, trust_remote_code="yes")  # type: ignore[arg-type]
