"""Makes a tree in nix's sandbox as a build does, with a cache that holds all that the tree is made of.

    tree.py WORK OUT

WORK is JSON: the name of the lock, the folder of a project's locks or null, paths of artifacts by their name in a
cache, and of trees by digest. OUT is where the tree goes.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from kernelworks_build.progress import SILENT
from kernelworks_build.sandbox.bwrap import Bwrap
from kernelworks_build.toolchain.fetch import Fetcher
from kernelworks_build.toolchain.lock import LockSet
from kernelworks_build.toolchain.materialise import materialise
from kernelworks_build.toolchain.origins import Origins
from kernelworks_build.toolchain.store import TreeStore

_KINDS = ("artifacts", "trees")


def main(work: str, out: str) -> None:
    given = json.loads(work)
    cache = Path("cache").absolute()
    for kind in _KINDS:
        (cache / kind).mkdir(parents=True)
        for name, path in given[kind].items():
            (cache / kind / name).symlink_to(path)
    made = materialise(
        [given["name"]],
        locks=LockSet.load(Path(given["locks"]) if given["locks"] else None),
        store=TreeStore(cache / "trees"),
        fetcher=Fetcher(cache, Origins.of(), SILENT),
        executor=Bwrap(),
        progress=SILENT,
    )
    shutil.copytree(made[given["name"]].path, out, symlinks=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
