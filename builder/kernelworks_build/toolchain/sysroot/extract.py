"""Maintainer's tool that wrote `symbols/`: reads old libraries once, keeps what the policy allows.

`python -m kernelworks_build.toolchain.sysroot.extract ROOT`, where ROOT is the unpacked `libc6`, `libstdc++6`
and `libgcc-s1` of a distribution whose glibc is no older than the policy's and older than 2.34, which merged
libpthread and others into libc. The lists are those of Debian 11: glibc 2.31-13+deb11u11, gcc 10.2.1-6.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from elftools.elf.elffile import ELFFile

from kernelworks_build.audit.policy import Policy, VersionNumber
from kernelworks_build.errors import ToolchainError
from kernelworks_build.toolchain.sysroot.symbols import LIBRARIES, Symbol, dump_symbols

__all__ = ["capped", "exported", "main"]

_KINDS = {"STT_FUNC": "func", "STT_LOOS": "func", "STT_OBJECT": "object", "STT_TLS": "tls"}  # LOOS: an ifunc
_BINDINGS = {"STB_GLOBAL": "global", "STB_WEAK": "weak", "STB_LOOS": "global"}  # LOOS: unique
_HIDDEN = 0x8000


def exported(library: Path) -> Iterator[Symbol]:
    """Every versioned symbol that `library` defines, in the order of its `.dynsym`."""
    with library.open("rb") as stream:
        elf = ELFFile(stream)
        nodes = {
            definition["vd_ndx"]: next(iter(names)).name
            for definition, names in elf.get_section_by_name(".gnu.version_d").iter_versions()
        }
        versions = elf.get_section_by_name(".gnu.version")
        for number, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
            index = versions.get_symbol(number)["ndx"]
            if symbol["st_shndx"] in {"SHN_UNDEF", "SHN_ABS"} or not isinstance(index, int):
                continue  # imported; the name of a version node; local or of the base version
            kind = _KINDS[symbol["st_info"]["type"]]
            yield Symbol(
                name=symbol.name,
                version=nodes[index & ~_HIDDEN],
                default=not index & _HIDDEN,
                kind=kind,
                binding=_BINDINGS[symbol["st_info"]["bind"]],
                size=1 if kind == "func" else symbol["st_size"],
            )


def capped(symbols: Iterable[Symbol], caps: Mapping[str, VersionNumber]) -> Iterator[Symbol]:
    """The symbols that the policy allows; the newest left of a name stands in for a default that is not."""
    by_name = attrgetter("name")
    for _, group in groupby(sorted(symbols, key=by_name), by_name):
        versions = list(group)
        linkable = any(one.default for one in versions)
        allowed = sorted((one for one in versions if _allowed(one.version, caps)), key=_age)
        yield from (replace(one, default=False) for one in allowed[:-1])
        yield from (replace(one, default=linkable) for one in allowed[-1:])


def _allowed(version: str, caps: Mapping[str, VersionNumber]) -> bool:
    family, _, number = version.partition("_")
    return number != "PRIVATE" and (not _numeric(number) or _number(number) <= caps[family])


def _age(symbol: Symbol) -> tuple[int, ...]:
    number = symbol.version.partition("_")[2]
    return _number(number) if _numeric(number) else ()


def _numeric(number: str) -> bool:
    return number.replace(".", "").isdigit()


def _number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def main(root: Path, target: Path) -> None:
    """Write the list of every library of `LIBRARIES` that lies anywhere below `root` into `target`."""
    found = {path.name: path for path in root.rglob("*.so.*") if path.name in LIBRARIES and path.exists()}
    if missing := sorted(set(LIBRARIES) - set(found)):
        raise ToolchainError(f"`{root}` lacks {', '.join(f'`{name}`' for name in missing)}", missing=missing)
    for soname, path in found.items():
        (target / f"{soname}.txt").write_text(
            dump_symbols(capped(exported(path), Policy.load().caps)), encoding="utf-8"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).with_name("symbols"))
