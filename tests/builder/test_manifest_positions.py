"""The scanner finds a place for everything that `tomllib` finds a value for, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelworks_build.manifest.document import Document
from kernelworks_build.manifest.positions import _SCALAR, DocumentPath
from kernelworks_build.toml import parse_toml

TRICKY = '''\
# comment with = and [ and "
title = "a # no comment" # comment
"quoted \\"key\\"" . 'x.y' = 1
a.b.c = """first "quoted"
[not.a.header]
"""""
a.b.d = \'\'\'it''s\'\'\'\'
when = 1979-05-27 07:32:00 # a blank inside
inline = { x = 1, y.z = [ { q = '}' }, [ ] ], "w" = {} }

[ d . e ]   # blanks in a header
list = [
  1, # one
  "two,]",

  [3],
]
[d]
late = true
[[fruit]]
name = "apple"
[fruit.shape]
round = true
[[fruit.variety]]
name = "red"
[[fruit.variety]]
name = 'green'
[[fruit]]
[[fruit.variety]]
name = "plantain"
'''


def _walk(value: Any, path: DocumentPath = ()) -> Iterator[tuple[DocumentPath, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key), item
        yield from _walk(item, (*path, key))


def _assert_places_are_right(text: str) -> None:
    lines = text.split("\n")
    values = dict(_walk(parse_toml(text)))
    positions = Document.parse(text).positions
    layout = positions.layout
    assert layout.keys.keys() == layout.values.keys() == values.keys()
    for path, statement in layout.statements.items():
        assert parse_toml(f"x = {text[statement.value : statement.end]}")["x"] == values[path]
        assert (layout.keys[path], layout.values[path]) == (statement.key, statement.value)
    for path, value in values.items():
        line, column = positions.key(path)
        if isinstance(path[-1], str):
            written = lines[line - 1][column - 1 :]
            if written[0] in "\"'":
                assert next(iter(parse_toml(f"{_SCALAR.match(written)[0]} = 0"))) == path[-1]  # type: ignore[index]
            else:
                assert written.startswith(path[-1])
        if not isinstance(value, dict | list):
            line, column = positions.value(path)
            rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
            assert parse_toml(f"x = {_SCALAR.match(rest)[0]}")["x"] == value  # type: ignore[index]


def test_every_form_of_toml_has_its_place() -> None:
    _assert_places_are_right(TRICKY)


TEXTS = st.text(alphabet="ab\"'\\\n#[]{},=. é", max_size=6)
DATA = st.dictionaries(
    TEXTS,
    st.recursive(
        TEXTS | st.integers(-9, 9) | st.booleans() | st.dates() | st.datetimes(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
        max_leaves=10,
    ),
    max_size=4,
)


@settings(max_examples=100, deadline=None)
@given(DATA, st.booleans())
def test_the_places_of_any_document_are_those_of_its_values(data: dict[str, Any], multiline: bool) -> None:
    _assert_places_are_right(tomli_w.dumps(data, multiline_strings=multiline))


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (("d",), (18, 2)),
        (("d", "e", "list", 1), (14, 3)),
        (("fruit", 1, "variety", 0, "name"), (30, 8)),
        (("inline", "y", "z", 0, "q"), (9, 33)),
        (("d", "e", "list", 7), (12, 1)),
        (("nowhere",), (1, 1)),
    ],
)
def test_a_path_has_line_and_column_of_its_value_or_of_the_nearest_ancestor(
    path: DocumentPath, place: tuple[int, int]
) -> None:
    assert Document.parse(TRICKY).positions.value(path) == place
