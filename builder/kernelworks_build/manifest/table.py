"""The base of every table of a manifest: frozen, strict, with keys in kebab-case."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict

__all__ = ["Table", "kebab"]


def kebab(name: str) -> str:
    """`cxx_flags` as it is written in a manifest: `cxx-flags`."""
    return name.replace("_", "-")


class Table(BaseModel):
    """A table that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=kebab)

    @classmethod
    def key_examples(cls) -> dict[str, str | None]:
        """Every key with an example value in TOML, or None where the model gives none."""
        return {
            kebab(name): json.dumps(field.examples[0]) if field.examples else None
            for name, field in cls.model_fields.items()
        }

    @classmethod
    def below(cls, key: str) -> type[Table] | None:
        """The table that `key` holds, itself or as the elements of an array; None where it holds none."""
        fields = {kebab(name): field for name, field in cls.model_fields.items()}
        return next(_tables(fields[key].annotation), None) if key in fields else None


def _tables(annotation: Any) -> Iterator[type[Table]]:
    if isinstance(annotation, type) and issubclass(annotation, Table):
        yield annotation
    for argument in get_args(annotation):
        yield from _tables(argument)
