"""What publishing has made of a registry."""

from __future__ import annotations

from dataclasses import dataclass

from kernelworks.model.index import Index

__all__ = ["Published"]


@dataclass(frozen=True)
class Published:
    """What a registry has now.

    Attributes:
        commit: Id of the new revision: of a folder the SHA-256 of its index, of a server what it says.
        before: Commit that the version pointed to before, or None.
        version: The version whose ref points to it now.
        variants: Names of all variants of the revision.
        left_behind: Variants of the revision before, made from other sources; it stays readable by its commit.
        changed: False where the registry had exactly this revision already, every byte of it.
        not_hermetic: Names of the variants that were built without isolation from the host.
    """

    commit: str
    before: str | None
    version: int
    variants: tuple[str, ...]
    left_behind: tuple[str, ...]
    changed: bool
    not_hermetic: tuple[str, ...]

    @classmethod
    def of(
        cls, index: Index, commit: str, before: str | None, *, left_behind: tuple[str, ...], changed: bool
    ) -> Published:
        """`index`, published as `commit`."""
        return cls(
            commit=commit,
            before=before,
            version=index.version,
            variants=tuple(variant.name for variant in index.variants),
            left_behind=left_behind,
            changed=changed,
            not_hermetic=tuple(variant.name for variant in index.variants if not variant.hermetic),
        )
