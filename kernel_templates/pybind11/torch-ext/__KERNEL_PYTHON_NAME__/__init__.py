"""Keeps a language model from repeating itself: `NgramBlocker`, in constant time a token."""

from __future__ import annotations

from ._ops import module

__all__ = ["NgramBlocker"]

NgramBlocker = module.NgramBlocker
