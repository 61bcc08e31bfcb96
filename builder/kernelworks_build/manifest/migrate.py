"""The content of a `build.toml` of any edition, as one of edition 5: comments, order and line ends kept."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from kernelworks.errors import UsageError
from kernelworks_build.manifest.diagnostics import Diagnostic
from kernelworks_build.manifest.grammar import EDITION
from kernelworks_build.manifest.read import judge, refusal

__all__ = ["Migration", "migrate"]

_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Migration:
    """A manifest before and after.

    Attributes:
        edition: That of `old`.
        diagnostics: What was lost or assumed on the way.
    """

    old: bytes
    new: bytes
    edition: int
    diagnostics: tuple[Diagnostic, ...]

    def diff(self, file: str) -> str:
        """What changed, as a unified diff of `file`; empty where nothing did."""
        old, new = (text.decode("utf-8-sig").splitlines(keepends=True) for text in (self.old, self.new))
        lines = (line.rstrip("\r\n") for line in difflib.unified_diff(old, new, file, file))
        return "".join(f"{line}\n" for line in lines)


def migrate(data: bytes, file: str, license_id: str | None = None) -> Migration:
    """`data`, the content of a `build.toml`, in edition 5; a file of that edition stays as it is.

    Args:
        data: Content of a manifest of any edition.
        file: Its name in diagnostics.
        license_id: The licence, where the file names none.

    Raises:
        ManifestError: It is faulty in its own edition.
        UsageError: It names no licence, and `license_id` is None.
    """
    found = judge(data, file, license_id=license_id)
    if found.upgraded is None or found.manifest is None:
        raise refusal(found.diagnostics)
    if any(one.code == "no-license" for one in found.diagnostics):
        raise UsageError(
            f"edition {EDITION} needs a licence, and `{file}` names none",
            hint="name it: `kernel-build migrate --license apache-2.0`, or another identifier of the Hub",
        )
    new = _as_file(found.upgraded.document.content, data)
    told = tuple(one for one in found.upgraded.diagnostics if one.code != "old-edition")
    return Migration(data, new, found.upgraded.edition, told)


def _as_file(content: str, like: bytes) -> bytes:
    """`content` with the byte order mark and the line ends of `like`."""
    windows = b"\r\n" in like and b"\n" not in like.replace(b"\r\n", b"")
    text = content.replace("\n", "\r\n") if windows else content
    return _MARK * like.startswith(_MARK) + text.encode()
