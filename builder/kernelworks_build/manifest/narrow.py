"""What of a manifest some of its backends need: everything that belongs to the others is left out."""

from __future__ import annotations

from collections.abc import Collection

from kernelworks.model.variant_name import known_backends
from kernelworks_build.manifest import changes
from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.positions import DocumentPath

__all__ = ["narrow"]

_BACKENDS: DocumentPath = ("general", "backends")


def narrow(document: Document, backends: Collection[str]) -> Document:
    """`document`, of edition 5, for those of its backends alone that are in `backends`."""
    left_out = set(known_backends()) - set(backends)
    for name in document.table("kernel"):
        if document.text("kernel", name, "backend") in left_out:
            document = changes.remove_table(document, ("kernel", name))
    for table in (("general",), ("torch", "stable-abi")):
        for backend in sorted(left_out & document.table(*table).keys()):
            path = (*table, backend)
            given = path in document.layout.statements
            document = changes.remove(document, path) if given else changes.remove_table(document, path)
    for path, backend in reversed(document.texts(*_BACKENDS)):
        if backend in left_out:
            document = changes.remove(document, path)
    return document
