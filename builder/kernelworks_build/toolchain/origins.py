"""Where packages come from: what pip and apt are configured to use on this machine; no host is named here."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from kernelworks import settings
from kernelworks_build.errors import ToolchainError

__all__ = ["Origins", "PythonOrigins", "address"]

_PIP_SETTING = re.compile(r"(global|download)\.([a-z-]+)=(.+)")
_PIP_SECTIONS = ("global", "download")  # the later one wins, as for `pip download`, and variables over both
_DEBIAN_TEMPLATE = Path("/usr/share/python-apt/templates/Debian.info")


@dataclass(frozen=True)
class PythonOrigins:
    """Where wheels come from.

    Attributes:
        indexes: Simple indexes, as URLs.
        links: Folders, or URLs of pages, that list wheels.
        certificate: Path of the CA bundle to trust, or None for the usual one.
        proxy: URL of the proxy on the way to all others, or None for those of the environment.
    """

    indexes: tuple[str, ...]
    links: tuple[str, ...] = ()
    certificate: str | None = None
    proxy: str | None = None


class Origins:
    """Where wheels and debs come from; pip and apt are asked on first use only, as they take their time.

    `Origins()` is what this machine is configured to use, `Origins.of` is what it is given.

    Attributes:
        mirrors: URLs of mirrors by SHA-256 (`KERNELWORKS_ARTIFACTS`), which are asked before all others.
    """

    def __init__(
        self,
        ask_pip: Callable[[], PythonOrigins] | None = None,
        ask_apt: Callable[[], tuple[str, ...]] | None = None,
        mirrors: Iterable[str] | None = None,
    ) -> None:
        self.mirrors = tuple(map(address, settings.artifacts() if mirrors is None else mirrors))
        self._ask_pip = ask_pip or _python_origins
        self._ask_apt = ask_apt or _archives

    @classmethod
    def of(
        cls,
        *,
        indexes: Iterable[str] = (),
        links: Iterable[str] = (),
        archives: Iterable[str] = (),
        mirrors: Iterable[str] = (),
        certificate: str | None = None,
        proxy: str | None = None,
    ) -> Origins:
        """Exactly these origins."""
        python = PythonOrigins(tuple(indexes), tuple(links), certificate, proxy)
        roots = tuple(archives)
        return cls(lambda: python, lambda: roots, mirrors)

    @cached_property
    def python(self) -> PythonOrigins:
        """Where wheels come from."""
        return self._ask_pip()

    @cached_property
    def archives(self) -> tuple[str, ...]:
        """Roots of Debian archives, as URLs."""
        return self._ask_apt()


def address(place: str) -> str:
    """The URL of `place`, a URL or a folder."""
    return place if "://" in place else Path(place).expanduser().absolute().as_uri()


def _python_origins() -> PythonOrigins:
    """`KERNELWORKS_PYPI_INDEX`, else what this interpreter's pip uses; its CA bundle and proxy in both cases."""
    options = _pip_options()
    found = partial(PythonOrigins, certificate=options.get("cert"), proxy=options.get("proxy"))
    if given := settings.package_indexes():
        return found(given)
    links = tuple(options.get("find-links", "").split())
    if options.get("no-index", "").lower() in {"1", "on", "true", "yes"}:
        return found((), links)
    first = options.get("index-url") or _default_index()
    return found((first, *options.get("extra-index-url", "").split()), links)


def _pip_options() -> dict[str, str]:
    """The options of pip by name, merged as pip does; those of its variables where this interpreter has no pip."""
    listing = _output(sys.executable, "-m", "pip", "config", "list") or ""
    found = [match.groups() for line in listing.splitlines() if (match := _PIP_SETTING.fullmatch(line))]
    found.sort(key=lambda setting: _PIP_SECTIONS.index(setting[0]))
    return {key: str(ast.literal_eval(value)) for _, key, value in found} | settings.pip_options()


def _default_index() -> str:
    constant = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    if url := _output(sys.executable, "-c", constant):
        return url.strip()
    raise ToolchainError(
        f"no package index is configured: the interpreter `{sys.executable}` has no pip to ask for its own",
        hint="install pip into it, or name a simple index in PIP_INDEX_URL or KERNELWORKS_PYPI_INDEX",
        interpreter=sys.executable,
    )


def _archives() -> tuple[str, ...]:
    """`KERNELWORKS_DEB_MIRROR`, else apt's archives: Debian's, or those of a template, before all others."""
    if given := settings.debian_archives():
        return given
    command = ("apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages")
    rows = [line.rpartition(" ")[::2] for line in (_output(*command) or "").splitlines()]
    debian = [root for origin, uri in rows if origin == "Debian" for root in _mirrors(uri)]
    others = [root for origin, uri in rows if origin != "Debian" for root in _mirrors(uri)]
    return tuple(dict.fromkeys([*(debian or _template_mirrors()), *others]))


def _mirrors(uri: str) -> list[str]:
    """The archives behind an apt URI: itself, or those of a mirror list file."""
    scheme, _, path = uri.partition(":")
    if scheme == "mirror+file":
        lines = Path(path.rstrip("/")).read_text(encoding="utf-8").splitlines()
        return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
    return [uri] if scheme in {"http", "https", "file"} else []


def _template_mirrors() -> list[str]:
    """On a system that is no Debian but knows of it: the archives that its own tools would propose."""
    try:
        text = _DEBIAN_TEMPLATE.read_text(encoding="utf-8")
    except OSError:
        return []
    return re.findall(r"(?m)^BaseURI:\s*(\S+)", text)


def _output(*argv: str) -> str | None:
    """What a command prints, or None where it is missing or fails."""
    try:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
