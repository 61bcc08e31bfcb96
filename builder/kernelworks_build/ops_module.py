"""The text of `_ops.py`, by which a kernel's Python reaches what was compiled for it."""

from __future__ import annotations

from kernelworks_build.claims import Claims

__all__ = ["ops_module"]

_TORCH = '''"""The op namespace of this build."""

import torch
{import_library}
ops = torch.ops.{id}


def add_op_namespace_prefix(op_name: str) -> str:
    """The full name of the op `op_name`, as `torch.library` wants it."""
    return f"{id}::{{op_name}}"
'''
_IMPORT = {
    "none": "",
    "abi3": """
from . import {id}  # noqa: F401  # importing it registers the ops
""",
    "exact": """
from . import {id} as module  # noqa: F401  # importing it registers the ops; its functions are those of the binding
""",
}
"""How torch's ops come into the process, by kind of Python ABI."""
_TVM_FFI = '''"""The functions of this build."""

from pathlib import Path

import tvm_ffi

ops = tvm_ffi.load_module(Path(__file__).with_name("{id}.so"))
'''


def ops_module(claims: Claims) -> str:
    """The text for the variant that `claims` describe."""
    if claims.framework.kind == "tvm-ffi":
        return _TVM_FFI.format(id=claims.id)
    return _TORCH.format(id=claims.id, import_library=_IMPORT[claims.python_abi.kind].format(id=claims.id))
