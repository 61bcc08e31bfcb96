"""`kernel-build publish`: a built revision into a registry."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from kernelworks import settings
from kernelworks.errors import UsageError
from kernelworks_build.cli.console import JsonOption, note, print_json
from kernelworks_build.cli.project import folder_of_manifest, open_dist
from kernelworks_build.manifest import MANIFEST, source_files
from kernelworks_build.publish import Published, publish
from kernelworks_build.source import uncommitted


def command(
    dist: Annotated[
        Path,
        typer.Argument(
            help="What `build` made: the project, or its --out.", metavar="PROJECT", callback=folder_of_manifest
        ),
    ] = Path(),
    *,
    to: Annotated[
        str | None, typer.Option("--to", help="org/name; without it, `repo-id` of the manifest.", metavar="ORG/NAME")
    ] = None,
    registry: Annotated[
        str | None, typer.Option("--registry", help="Without it, KERNELWORKS_REGISTRY.", metavar="URL|FOLDER")
    ] = None,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Although sources differ from their commit.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Publish what was built. Every byte is checked first, and the registry changes whole or not at all."""
    if not dist.is_dir():
        state = "is not a folder" if dist.exists() else "does not exist"
        raise UsageError(f"`{dist}` {state}", hint="name the project, or the `--out` of `kernel-build build`")
    target = registry or settings.registry()
    if target is None:
        raise UsageError(
            "no registry is named", hint="pass `--registry URL` or `--registry FOLDER`, or set KERNELWORKS_REGISTRY"
        )
    named: str | None = None
    changed: tuple[str, ...] = ()
    if (dist / MANIFEST).is_file():
        project = dist
        manifest, dist = open_dist(project)
        changed = uncommitted(project, source_files(manifest, project))
        named = manifest.general.hub.repo_id
    repo_id = to or named
    if repo_id is None:
        raise UsageError("no repository is named", hint="pass `--to ORG/NAME`, or set `repo-id` in `[general.hub]`")
    if named not in (None, repo_id):
        note(f"warning: {MANIFEST} names the repository `{named}`, and this goes to `{repo_id}`")
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # huggingface_hub draws them into files too
    done = publish(dist, target, repo_id, allow_dirty=allow_dirty, uncommitted=changed)
    if as_json:
        print_json({"repo": repo_id, **vars(done)})
    else:
        _say(repo_id, done)


def _say(repo_id: str, done: Published) -> None:
    if not done.changed:
        state = "is there already"
    elif done.before is None:
        state = "published"
    elif done.before == done.commit:
        state = "repaired"
    else:
        state = f"moved from {done.before[:12]}"
    note(f"{repo_id} v{done.version} {state}: {', '.join(done.variants)} (commit {done.commit[:12]})")
    if done.left_behind:
        note(f"made from other sources, and so only in the revision before: {', '.join(done.left_behind)}")
    if done.not_hermetic:
        note(f"warning: built without a sandbox, and recorded so: {', '.join(done.not_hermetic)}")
