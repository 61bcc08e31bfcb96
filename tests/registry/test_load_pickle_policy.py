"""A pickle brings a kernel back only as long as the policy lets it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks import api, get_kernel, get_local_kernel, load
from kernelworks.errors import TrustError
from kernelworks.model.variant import Variant


@pytest.fixture
def deny_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def act() -> None:
        policy = tmp_path / "policy.json"
        policy.write_text(json.dumps({"registries": {"*": {"deny": ["org"]}}}))
        monkeypatch.setenv("KERNELWORKS_POLICY", str(policy))
        api._modules.clear()
        for name in list(load._kernels):
            load._forget(name)

    return act


def test_what_is_denied_since_it_was_loaded_does_not_come_back(
    registry: Any, pack: Callable[..., tuple[Variant, bytes]], deny_all: Callable[[], None]
) -> None:
    registry.publish("org/demo", 1, pack())
    data = pickle.dumps(get_kernel("org/demo", version=1).twice)
    deny_all()
    with pytest.raises(TrustError, match="denies `org/demo`"):
        pickle.loads(data)  # noqa: S301  # our own bytes


def test_a_kernel_from_a_folder_is_nobodys_publication(
    registry: Any, pack: Callable[..., tuple[Variant, bytes]], deny_all: Callable[[], None]
) -> None:
    published = registry.publish("org/demo", 1, pack())
    data = pickle.dumps(get_local_kernel(published.folder).twice)
    deny_all()
    assert pickle.loads(data)(2) == 4  # noqa: S301  # our own bytes
