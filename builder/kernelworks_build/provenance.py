"""What a wheel says of its own making: enough to make it again, and nothing that differs between two equal makings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelworks.model.digest import canonical_json
from kernelworks_build.action import Action

__all__ = ["provenance"]


def provenance(
    *,
    builder: str,
    source: str,
    action: Action | None,
    translation: Action | None,
    headers: Mapping[str, str],
    locks: Mapping[str, str],
    executor: str,
    hermetic: bool,
) -> bytes:
    """The canonical JSON of one making.

    Args:
        builder: Name and version of the program.
        source: Digest of the declared files.
        action: The command that compiled it; its mounts name every input by digest. None where nothing was compiled.
        translation: The command that made the sources that it compiled of those files; None where they are these.
        headers: Object of each unit that was tried with slim headers -> `slim`, or `full` where these did not do.
        locks: Lock name -> SHA-256 of the lock.
        executor: Which sandbox ran it.
        hermetic: Whether that sandbox isolates from the host.
    """
    document: dict[str, Any] = {
        "schema": 1,
        "builder": builder,
        "source": source,
        "action": _described(action) if action else None,
        **({"translation": _described(translation)} if translation else {}),
        "locks": dict(locks),
        "executor": executor,
        "hermetic": hermetic,
        **({"headers": dict(headers)} if headers else {}),
    }
    return canonical_json(document)


def _described(action: Action) -> dict[str, Any]:
    return {
        "digest": action.digest(),
        "argv": list(action.argv),
        "environment": dict(action.env),
        "inputs": {mount.target: mount.tree.digest for mount in action.mounts},
        "outputs": list(action.outputs),
    }
