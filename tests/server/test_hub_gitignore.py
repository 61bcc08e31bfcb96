"""`.gitignore` at upload: what clients leave out, and patterns that would stop a careless server."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelworks_server.errors import TooLarge
from kernelworks_server.hub.gitignore import ignored_by

if TYPE_CHECKING:
    from conftest import Server  # type: ignore[import-not-found]

PATHS = ["a.o", "keep.o", "d/b.o", "d/keep.o", "build/x", "src/build/x", "doc/a.txt", "doc/e/a.txt", "#x", "été"]
LINES = ["", "*.o", "!keep.o", "build/", "/build", "doc/*.txt", "doc/**", "**/x", "# x", "\\#x", "d", "é*", "!d/", "!x"]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(lines=st.lists(st.sampled_from(LINES), max_size=6))
def test_files_are_left_out_as_git_does(tmp_path: Path, lines: list[str]) -> None:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    if not (tmp_path / ".git").exists():
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("\n".join(lines))
    no_others = ("-c", f"core.excludesFile={os.devnull}")  # than those of this folder: people have some of their own
    command = ["git", "-C", str(tmp_path), *no_others, "check-ignore", "--no-index", "-z", "--stdin"]
    asked = b"".join(path.encode() + b"\0" for path in PATHS)
    expected = subprocess.run(command, input=asked, capture_output=True, check=False).stdout.decode().split("\0")[:-1]
    assert [path for path in PATHS if ignored_by("\n".join(lines))(path)] == expected


@pytest.mark.parametrize("line", ["!", "[z-a]", "[", "a\\", "\\", "//"])
def test_a_line_that_is_no_pattern_does_nothing(line: str) -> None:
    ignored = ignored_by(f"{line}\n*.o\n")
    assert [ignored(path) for path in ("a.o", "plain")] == [True, False]


@pytest.mark.parametrize("stars", [3, 20])
def test_patterns_that_backtrack_are_matched_like_any(stars: int) -> None:
    assert not ignored_by("*a" * stars + "*b")("a" * 250 + "c")  # by backtracking, 20 stars outlive the machine


@pytest.mark.parametrize(
    "text", ["x" * 70_000, "x\n" * 2_001, "*?" * 30_000, "\n".join(f"**/a{n}*b*/**/c?[a-z]*" for n in range(1_500))]
)
def test_what_would_take_too_much_is_refused(text: str) -> None:
    with pytest.raises(TooLarge):
        ignored_by(text)


@pytest.mark.server
def test_stock_clients_leave_out_what_the_gitignore_names(server: Server, run: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name, content in {".gitignore": "*.tmp\n!keep.tmp\n/cache/\n", "a.tmp": "1", "keep.tmp": "2"}.items():
        source.mkdir(exist_ok=True)
        (source / name).write_text(content)
    (source / "cache").mkdir()
    (source / "cache" / "large").write_bytes(b"\0" * (2 << 20))
    program = """
        api.create_repo("ann/relu", repo_type="kernel")
        api.upload_folder(repo_id="ann/relu", repo_type="kernel", folder_path=arg[0])
        print(json.dumps(sorted(api.list_repo_files("ann/relu", repo_type="kernel"))))
    """
    found = run(server, tmp_path / "home", program, str(source), token=server.user("ann"))
    assert found == [".gitignore", "keep.tmp"]
