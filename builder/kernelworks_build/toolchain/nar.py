"""The hash by which nix knows a folder that holds one program: SHA-256 of its archive in nix's own format."""

from __future__ import annotations

import struct

from kernelworks.model.digest import hash_bytes

__all__ = ["hash_of_program"]


def hash_of_program(path: str, program: bytes) -> str:
    """The hash of a folder that holds nothing but the executable `program`, at `path` in it."""
    node = _strings(b"(", b"type", b"regular", b"executable", b"", b"contents", program, b")")
    for name in reversed(path.split("/")):
        head = _strings(b"(", b"type", b"directory", b"entry", b"(", b"name", name.encode(), b"node")
        node = head + node + _strings(b")", b")")
    return hash_bytes(_strings(b"nix-archive-1") + node)


def _strings(*strings: bytes) -> bytes:
    """Each with its length before it, and zeros after it to a multiple of eight bytes."""
    return b"".join(struct.pack("<Q", len(text)) + text + bytes(-len(text) % 8) for text in strings)
