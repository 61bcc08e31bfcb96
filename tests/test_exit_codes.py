"""The table of exit codes in the documentation against the classes that have them."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import kernelworks
import kernelworks_build
import kernelworks_server
from kernelworks.errors import KernelworksError

TABLE = Path(__file__).parents[1] / "docs" / "exit-codes.md"


def families(root: type[KernelworksError] = KernelworksError) -> Iterator[type[KernelworksError]]:
    if "code" in vars(root):  # a class without one refines the family that it is in
        yield root
    for child in root.__subclasses__():
        yield from families(child)


def test_every_family_has_one_code_and_stands_in_the_table() -> None:
    for package in (kernelworks, kernelworks_build, kernelworks_server):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if module.name.endswith(".errors"):
                importlib.import_module(module.name)
    rows = re.findall(r"^\| (\d+) \| `([a-z-]+)` \|", TABLE.read_text(), re.MULTILINE)
    own = [(str(family.exit_code), family.code) for family in families()]
    assert sorted(rows, key=lambda row: int(row[0])) == sorted(own, key=lambda row: int(row[0]))
    assert len({code for code, _ in own}) == len(own)
