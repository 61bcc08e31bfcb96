"""Folders of builders whose digests are no SHA-256: they are checked all the same."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernelworks import get_loaded_kernels, get_local_kernel
from kernelworks.errors import VerifyError
from kernelworks.model.digest import hash_bytes

NAME = "torch-cpu"


@pytest.fixture
def folder(tmp_path: Path, sources: dict[str, bytes], this_process: Callable[..., Any]) -> Path:
    """A variant whose `metadata.json` holds SHA-512."""
    this_process()
    made = tmp_path / "kernel" / "build" / NAME
    for path, data in sources.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_bytes(data)
    digests = {path: base64.b64encode(hashlib.sha512(data).digest()).decode() for path, data in sources.items()}
    document = {
        "id": "_demo_cpu_abc1234",
        "name": "demo",
        "version": 1,
        "python-depends": [],
        "backend": {"type": "cpu"},
        "digest": {"algorithm": "sha512", "files": digests},
    }
    (made / "metadata.json").write_text(json.dumps(document))
    return made


def test_a_folder_with_other_digests_is_loaded_and_known_by_its_sha256(folder: Path, sources: dict[str, bytes]) -> None:
    assert get_local_kernel(folder.parents[1]).twice(4) == 8
    (kernel,) = get_loaded_kernels()
    assert {entry.path: entry.sha256 for entry in kernel.variant.files} == {
        path: hash_bytes(data) for path, data in sources.items()
    }


def test_every_file_that_differs_or_lacks_is_named_at_once(folder: Path) -> None:
    (folder / "layers.py").write_text("evil = True\n")
    (folder / "data/table.txt").unlink()
    with pytest.raises(VerifyError) as caught:
        get_local_kernel(folder.parents[1])
    faults = {fault["file"]: fault["got"] for fault in caught.value.context["faults"]}
    assert faults == {
        "data/table.txt": "nothing that can be read",
        "layers.py": f"sha512 {hashlib.sha512(b'evil = True' + bytes([10])).hexdigest()}",
    }


def test_a_file_that_is_not_listed_is_refused(folder: Path) -> None:
    (folder / "more.py").touch()
    with pytest.raises(VerifyError, match=r"`more\.py`: expected nothing"):
        get_local_kernel(folder.parents[1])
