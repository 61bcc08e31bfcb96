"""Files that travel with the program: CMakeLists.txt, the headers for kernels, the templates, what nix evaluates.

In an installed distribution they lie in this package; in a checkout those that `_find` looks for lie at its root.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["CMAKE_LISTS", "INCLUDE", "NIX", "SLIM", "SLIM_RULES", "TEMPLATES", "TRANSLATE"]

_HERE = Path(__file__).resolve().parent
_CHECKOUT = _HERE.parents[2]


def _find(name: str) -> Path:
    packed = _HERE / name
    return packed if packed.exists() else _CHECKOUT / name


CMAKE_LISTS = _find("CMakeLists.txt")
TEMPLATES = _find("kernel_templates")
NIX = _find("nix")
INCLUDE = _HERE / "include"
SLIM = _HERE / "slim"
SLIM_RULES = _HERE / "slim.toml"
TRANSLATE = _HERE / "translate.py"
