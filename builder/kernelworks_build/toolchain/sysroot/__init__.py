"""The manylinux_2_28 sysroot: where it lies in the sandbox and how to build against it.

It holds the host tree's headers, stubs of the old C and C++ libraries made from lists (`symbols/`), and a
small archive that bridges the two (`files/compat.c`): what is linked against it runs on old systems too.
"""

from __future__ import annotations

__all__ = ["CC", "CXX", "LINK_FLAGS", "ROOT", "SYSTEM_LIBRARIES"]

ROOT = "/opt/sysroot"
"""Where actions mount it; its compiler wrappers name this path."""

CC = f"{ROOT}/bin/gcc"
CXX = f"{ROOT}/bin/g++"
"""The host tree's gcc 12, told where the sysroot is: for host code, every link, and as nvcc's `-ccbin`."""

LINK_FLAGS = ("-Wl,--exclude-libs,ALL", "-Wl,--gc-sections", "-Wl,-s")
"""Of every shared library. Static members of libstdc++ stay inside: two copies in a process would clash."""

SYSTEM_LIBRARIES = ("-Wl,--no-as-needed", "-lpthread", "-ldl", "-Wl,--as-needed")
"""Last on every link line. Nothing refers to libpthread, yet before glibc 2.34 `std::thread` needs it."""
