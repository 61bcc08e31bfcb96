"""What a source file of a kernel is, by its suffix, whatever backend it is for; those of devices are in the matrix."""

from __future__ import annotations

__all__ = ["HEADER_SUFFIXES", "HOST_SUFFIXES"]

HOST_SUFFIXES = frozenset({".c", ".cc", ".cpp", ".cxx"})
HEADER_SUFFIXES = frozenset({".cuh", ".def", ".h", ".hh", ".hpp", ".hxx", ".inc", ".inl"})
