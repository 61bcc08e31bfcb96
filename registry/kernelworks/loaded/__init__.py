"""The namespace of loaded kernels: `kernelworks.loaded.<id>_<digest>`; importing it lets Python find them."""

from __future__ import annotations

from kernelworks.load import install

install()
