"""Flavours: the torch builds that there is an index for, and which variants fit each of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelworks.backends import registered
from kernelworks.errors import UsageError
from kernelworks.model.variant_name import VariantName, Version2
from kernelworks_server.errors import NotFound
from kernelworks_server.profiles import Profile
from kernelworks_server.wishes import Wish, serves

__all__ = ["FLAVOUR_HINT", "Flavour"]

_FORM = re.compile(r"torch[0-9]{2,6}-[a-z]{2,16}[0-9]{0,6}", re.ASCII)
_SOMEWHERE = "-x86_64-linux"  # makes a flavour the name of a variant
FLAVOUR_HINT = "a flavour is torch and its backend, such as `torch213-cu130` or `torch213-cpu`"


@dataclass(frozen=True)
class Flavour:
    """A torch build: its (major, minor), its backend, and the (major, minor) of the toolkit, if the backend has one."""

    torch: Version2
    backend: str
    toolkit: Version2 | None

    @classmethod
    def parse(cls, text: str) -> Flavour:
        """The flavour that `text` spells as names of variants do.

        Raises:
            NotFound: It is none, or has a version or backend that nothing here fits.
        """
        if not _FORM.fullmatch(text):
            raise NotFound(f"there is no index `{text[:100]}`", hint=FLAVOUR_HINT)
        try:
            name = VariantName.parse(text + _SOMEWHERE)
        except UsageError as error:
            reason = error.message.replace(_SOMEWHERE, "")
            raise NotFound(f"there is no index `{text}`: {reason}", hint=error.hint or FLAVOUR_HINT) from error
        spec = registered().get(name.backend)
        if spec is None:
            known = ", ".join(sorted(registered()))
            raise NotFound(f"there is no index `{text}`: the loader's backends are {known}", hint=FLAVOUR_HINT)
        if name.framework_version is None or (name.backend_version is None) != (spec.toolkit is None):
            raise NotFound(f"there is no index `{text}`: it lacks the version of {spec.label}", hint=FLAVOUR_HINT)
        return cls(name.framework_version, name.backend, name.backend_version)

    def takes(self, profile: Profile) -> bool:
        """Whether a process with this torch can load such a variant, if its platform, Python and devices agree."""
        toolkit, needs = registered()[self.backend].toolkit, profile.backend.version
        return serves(profile, Wish(backend=self.backend, torch=self.torch)) and (
            toolkit is None or needs is None or self.toolkit is None or toolkit.accepts(needs, self.toolkit)
        )
