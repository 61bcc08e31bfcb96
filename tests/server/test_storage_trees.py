"""Folders as values, against git itself and against a plain dictionary."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from kernelworks.model.digest import hash_bytes
from kernelworks_server import trees
from kernelworks_server.errors import Conflict, TooLarge

NAMES = st.sampled_from(["a", "b", "a.txt", "a-", "é", "z z"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


class Stored:
    """The trees that were sealed, as the database would hold them."""

    def __init__(self) -> None:
        self.data = {hash_bytes(trees.EMPTY): trees.EMPTY}
        self.root = hash_bytes(trees.EMPTY)
        self.loaded = 0

    def load(self, sha256: str) -> trees.Tree:
        self.loaded += 1
        return trees.decode(self.data[sha256])

    def edit(self, change: Callable[[trees.Workspace], None], limit: int = 100) -> None:
        workspace = trees.Workspace(self.root, self.load, limit)
        change(workspace)
        self.root, encodings = workspace.seal()
        self.data |= encodings

    def fill(self, files: Mapping[str, trees.File], limit: int = 100) -> None:
        def put_all(workspace: trees.Workspace) -> None:
            for path, content in files.items():
                workspace.put(path, content)

        self.edit(put_all, limit)

    def put(self, **contents: bytes) -> None:
        self.fill({path: file(data) for path, data in contents.items()})

    def files(self) -> dict[str, trees.File]:
        walked = trees.walk(self.load(self.root), self.load)
        return {"/".join(path): node for path, node in walked if isinstance(node, trees.File)}


def file(data: bytes) -> trees.File:
    return trees.File(len(data), trees.blob_oid(data), hash_bytes(data), lfs=False)


def test_files_and_folders_have_the_ids_that_git_gives_them(tmp_path: Path) -> None:
    contents = {"build/torch-cpu/m.py": b"1\n", "build.txt": b"", "build-x": b"2", "README.md": b"# r\n", "é/ü": b"\0"}
    store = Stored()
    store.put(**contents)
    for path, data in contents.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*arguments: str) -> str:
        command = ["git", "-c", "core.quotePath=false", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    git("add", "--all")
    listed = git("ls-tree", "-r", "-t", git("write-tree").strip()).splitlines()
    expected = {line.partition("\t")[2]: line.partition("\t")[0].split()[2] for line in listed}
    assert {"/".join(path): node.oid for path, node in trees.walk(store.load(store.root), store.load)} == expected


def test_the_pointer_to_a_large_file_has_the_id_of_its_text() -> None:
    text = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12\n"
    assert trees.pointer_oid("0" * 64, 12) == trees.blob_oid(text)


@hypothesis.settings(deadline=None, database=None)
@hypothesis.given(st.lists(st.tuples(st.sampled_from(["put", "file", "folder"]), PATHS), max_size=25))
def test_edits_do_what_they_do_to_a_dictionary_and_leave_no_trace_of_their_order(edits: list[tuple[str, str]]) -> None:
    store = Stored()
    expected: dict[str, trees.File] = {}
    for number, (action, path) in enumerate(edits):
        content = file(str(number).encode())
        parents = {path.rsplit("/", count)[0] for count in range(1, path.count("/") + 1)}
        inside = {other for other in expected if other.startswith(f"{path}/")}

        def apply(
            workspace: trees.Workspace, action: str = action, path: str = path, content: trees.File = content
        ) -> None:
            if action == "put":
                workspace.put(path, content)
            else:
                workspace.remove(path, folder=action == "folder")

        if action == "put" and (parents & expected.keys() or inside):
            with pytest.raises(Conflict):
                store.edit(apply)
        else:
            store.edit(apply)
            if action == "put":
                expected[path] = content
            for gone in inside if action == "folder" else {path} if action == "file" else ():
                expected.pop(gone, None)
        assert store.files() == expected
    rebuilt = Stored()
    rebuilt.fill(dict(sorted(expected.items())))
    assert rebuilt.root == store.root


@hypothesis.settings(deadline=None, database=None)
@hypothesis.given(st.sets(PATHS, max_size=15), PATHS)
def test_a_walk_from_behind_a_path_is_the_rest_of_the_whole_walk(paths: set[str], after: str) -> None:
    store = Stored()
    store.put(**{path: b"" for path in paths if not any(other.startswith(f"{path}/") for other in paths)})
    root = store.load(store.root)
    whole = [path for path, _ in trees.walk(root, store.load)]
    assert whole == sorted(whole)
    start = tuple(after.split("/"))
    assert [path for path, _ in trees.walk(root, store.load, after=start)] == [path for path in whole if path > start]


def test_folders_before_the_start_of_a_walk_are_not_loaded() -> None:
    store = Stored()
    store.put(**{"a/x": b"", "b/x": b"", "c/x": b""})
    root = store.load(store.root)
    store.loaded = 0
    assert [path for path, _ in trees.walk(root, store.load, after=("b", "x"))] == [("c",), ("c", "x")]
    assert store.loaded == 2


def test_an_edit_keeps_the_folders_that_it_does_not_touch() -> None:
    store = Stored()
    store.put(**{"a/x": b"1", "b/x": b"1"})
    known = set(store.data)
    store.put(**{"b/x": b"2"})
    assert len(set(store.data) - known) == 2  # `b` and the root


@pytest.mark.parametrize(("one", "other"), [("a/README", "a/Readme"), ("Build/x", "build/y"), ("é", "e\u0301")])
def test_names_that_differ_only_in_case_or_form_are_refused_with_both(one: str, other: str) -> None:
    store = Stored()
    store.put(**{one: b""})
    with pytest.raises(Conflict) as caught:
        store.put(**{other: b""})
    assert len(caught.value.context["paths"]) == 2


def test_a_folder_with_too_many_entries_is_refused() -> None:
    with pytest.raises(TooLarge):
        Stored().fill({f"a/{number}": file(b"") for number in range(4)}, limit=3)
