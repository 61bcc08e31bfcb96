"""Results of actions: found again, never wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelworks_build.cache import ActionCache


def fill(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "a.so").write_bytes(b"code")


def test_an_entry_is_found_again_with_its_bytes(tmp_path: Path) -> None:
    cache = ActionCache(tmp_path)
    assert cache.get("k") is None
    made = cache.put("k", fill)
    assert cache.get("k") == made
    assert (made / "sub" / "a.so").read_bytes() == b"code"


@pytest.mark.parametrize("damage", ["flip", "remove", "add", "entry"])
def test_a_damaged_entry_is_a_miss_and_goes(tmp_path: Path, damage: str) -> None:
    cache = ActionCache(tmp_path)
    made = cache.put("k", fill)
    match damage:
        case "flip":
            (made / "sub" / "a.so").write_bytes(b"c0de")
        case "remove":
            (made / "sub" / "a.so").unlink()
        case "add":
            (made / "extra").write_bytes(b"")
        case "entry":
            (made / "entry.json").write_bytes(b"[{]")
    assert cache.get("k") is None
    assert not made.exists()


def test_a_fill_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        fill(folder)
        raise RuntimeError

    cache = ActionCache(tmp_path / "cache")
    with pytest.raises(RuntimeError):
        cache.put("k", fail)
    assert list(cache.root.iterdir()) == []


def test_the_loser_of_a_race_keeps_the_winners_entry(tmp_path: Path) -> None:
    cache = ActionCache(tmp_path)

    def slow(folder: Path) -> None:
        cache.put("k", fill)  # somebody else is faster
        (folder / "other").write_bytes(b"")

    made = cache.put("k", slow)
    assert sorted(path.name for path in made.iterdir()) == ["entry.json", "sub"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k"]
