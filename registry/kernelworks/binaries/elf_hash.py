"""Symbols by name in the hash tables of a shared object: what the dynamic linker does, at the cost of a few pages.

`DT_GNU_HASH` as glibc's loader reads it, else `DT_HASH` (gABI chapter 5). A chain is never followed further than the
file has room for symbols, so that one that leads back to itself ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate, repeat
from operator import mul
from struct import Struct
from typing import Any

__all__ = ["Unpack", "gnu_candidates", "sysv_candidates"]

Unpack = Callable[[Struct, int], tuple[Any, ...]]
"""(form, offset) -> the numbers there; raises where the file ends before."""

_GNU_HEADER = Struct("<IIII")
_SYSV_HEADER = Struct("<II")
_WORD = Struct("<I")
_BLOOM = Struct("<Q")
_MASK = 0xFFFFFFFF


def gnu_candidates(unpack: Unpack, table: int, name: bytes, limit: int) -> Iterator[int]:
    """Indexes of the symbols whose hash is that of `name`, from the `DT_GNU_HASH` table at the offset `table`.

    Args:
        unpack: Reads the file.
        table: Offset in bytes.
        name: Mangled name.
        limit: How many symbols there can be.
    """
    buckets, first, bloom_size, shift = unpack(_GNU_HEADER, table)
    if not buckets or not bloom_size:
        return
    key = _gnu_hash(name)
    bloom_at = table + _GNU_HEADER.size
    (bits,) = unpack(_BLOOM, bloom_at + _BLOOM.size * ((key >> 6) % bloom_size))
    if not bits >> (key & 63) & bits >> ((key >> shift) & 63) & 1:
        return  # certainly not there: the common answer, for one read
    buckets_at = bloom_at + _BLOOM.size * bloom_size
    chains_at = buckets_at + _WORD.size * buckets
    (index,) = unpack(_WORD, buckets_at + _WORD.size * (key % buckets))
    while first <= index < limit:
        (found,) = unpack(_WORD, chains_at + _WORD.size * (index - first))
        if found | 1 == key | 1:
            yield index
        if found & 1:  # the last one of its chain
            return
        index += 1


def sysv_candidates(unpack: Unpack, table: int, name: bytes, limit: int) -> Iterator[int]:
    """As `gnu_candidates`, from the `DT_HASH` table at the offset `table`."""
    buckets, count = unpack(_SYSV_HEADER, table)
    at = table + _SYSV_HEADER.size
    index = unpack(_WORD, at + _WORD.size * (_sysv_hash(name) % buckets))[0] if buckets else 0
    for _ in range(min(count, limit)):
        if not index:
            return
        yield index
        (index,) = unpack(_WORD, at + _WORD.size * (buckets + index))


def _gnu_hash(name: bytes) -> int:
    """The sum of 33**i times each byte, the last one first, in C loops: names are long, and there are many."""
    powers = _powers(len(name).bit_length())
    total: int = sum(map(mul, reversed(name), powers))
    return (total + 5381 * powers[len(name)]) & _MASK


@cache
def _powers(bits: int) -> tuple[int, ...]:
    """33**i modulo 2**32 for every i of so many bits."""
    return tuple(accumulate(repeat(33, (1 << bits) - 1), lambda power, factor: power * factor & _MASK, initial=1))


def _sysv_hash(name: bytes) -> int:
    key = 0
    for byte in name:
        key = (key << 4) + byte
        high = key & 0xF0000000
        key = (key ^ high >> 24) & ~high
    return key
