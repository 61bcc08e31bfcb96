"""JSON Schema of `build.toml` for editors, made from the model; `python -m` this module writes it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from kernelworks_build.manifest.model import Manifest

__all__ = ["SCHEMA", "manifest_schema", "schema_text"]

SCHEMA = Path(__file__).with_name("build.schema.json")


def manifest_schema() -> dict[str, Any]:
    """The schema as a JSON value."""
    return Manifest.model_json_schema(schema_generator=_TomlSchema)


def schema_text() -> str:
    """The schema as it is committed."""
    return json.dumps({"$schema": _TomlSchema.schema_dialect, **manifest_schema()}, indent=2, ensure_ascii=False) + "\n"


class _TomlSchema(GenerateJsonSchema):
    """TOML has no null: an optional key is left out, and has no default to show but emptiness."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # keys are their own titles
        return False


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), encoding="utf-8")
