"""The index, `kernel.json` at the root of a revision: every variant with its facts, wheel and files.

One request answers "what is there". Unknown fields are ignored; a newer major schema is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernelworks.model.decode import parse_json
from kernelworks.model.digest import canonical_json
from kernelworks.model.variant import Variant

__all__ = ["INDEX_NAME", "KERNEL_NAME_PATTERN", "SCHEMA", "Index", "Source"]

INDEX_NAME = "kernel.json"
SCHEMA = 1
KERNEL_NAME_PATTERN = "[a-z][-a-z0-9]*[a-z0-9]"


@dataclass(frozen=True)
class Source:
    """Where the sources came from: digest of the files, and the git commit (40 or 64 hex) if there is one."""

    digest: str
    commit: str | None = None
    dirty: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"digest": self.digest, "commit": self.commit, "dirty": self.dirty}


@dataclass(frozen=True)
class Index:
    """All variants of one revision of a kernel.

    Attributes:
        name: Kernel name (`silu-and-mul`).
        version: Major version of the kernel's API; branch `v<version>`.
        license: Licence id.
        source: Where the sources came from.
        builder: Name and version of the program that built it.
        variants: Sorted by name; names are unique.
    """

    name: str
    version: int
    license: str
    source: Source
    builder: str
    variants: tuple[Variant, ...]

    def to_bytes(self) -> bytes:
        """The canonical JSON of the index: equal indexes give equal bytes."""
        return canonical_json(
            {
                "schema": SCHEMA,
                "name": self.name,
                "version": self.version,
                "license": self.license,
                "source": self.source.to_json(),
                "builder": self.builder,
                "variants": [variant.to_json() for variant in sorted(self.variants, key=lambda item: item.name)],
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, origin: str) -> Index:
        """The index in `data`; `origin` names the document in messages.

        Raises:
            RepositoryError: Not an index, with the key path of the first fault.
        """
        root = parse_json(data, origin)
        schema = root.get("schema")
        if schema.natural() != SCHEMA:
            raise schema.fault(f"is {schema.value}, and this version reads schema {SCHEMA}; upgrade kernelworks")
        source = root.get("source")
        commit = source.opt("commit")
        index = cls(
            name=root.get("name").text(pattern=KERNEL_NAME_PATTERN),
            version=root.get("version").natural(),
            license=root.get("license").text(),
            source=Source(
                source.get("digest").sha256(),
                commit.text(pattern="[0-9a-f]{40}|[0-9a-f]{64}") if commit else None,
                source.get("dirty").flag(),
            ),
            builder=root.get("builder").text(),
            variants=tuple(sorted(root.get("variants").items(Variant.from_json), key=lambda item: item.name)),
        )
        names = [variant.name for variant in index.variants]
        if len(set(names)) != len(names):
            raise root.get("variants").fault("names a variant twice")
        return index
