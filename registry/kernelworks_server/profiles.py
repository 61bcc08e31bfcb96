"""Profiles: what torch, backend and devices a variant is for, apart from its platform and Python.

A registry holds many variants and few profiles. So what fits is decided by the loader's own rules over all profiles,
and which kernels have such a one is a question to the database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, bindparam, select

from kernelworks.model.decode import parse_json
from kernelworks.model.digest import canonical_json, hash_bytes
from kernelworks.model.variant import BackendFacts, FrameworkFacts, Variant
from kernelworks_server.database.batches import batches
from kernelworks_server.database.engine import upsert
from kernelworks_server.database.tables import offers, profiles

__all__ = ["Profile", "Profiles"]


@dataclass(frozen=True)
class Profile:
    """The framework and the backend of a variant."""

    framework: FrameworkFacts
    backend: BackendFacts

    @classmethod
    def of(cls, variant: Variant) -> Profile:
        """The profile of `variant`."""
        return cls(variant.framework, variant.backend)

    def to_bytes(self) -> bytes:
        """The profile as it is stored; equal ones have equal bytes."""
        return canonical_json({"framework": self.framework.to_json(), "backend": self.backend.to_json()})

    @classmethod
    def from_text(cls, text: str) -> Profile:
        """The profile that `to_bytes` wrote."""
        root = parse_json(text.encode(), "the profile")
        return cls(FrameworkFacts.from_json(root.get("framework")), BackendFacts.from_json(root.get("backend")))


class Profiles:
    """All profiles of one registry by their numbers; what a number means never changes, and is kept."""

    def __init__(self) -> None:
        self._known: dict[int, Profile] = {}

    def numbers(self, connection: Connection, wanted: Iterable[Profile]) -> dict[Profile, int]:
        """The number of each of `wanted`; in a transaction that writes, for some may be new."""
        by_sha256 = {hash_bytes(profile.to_bytes()): profile for profile in wanted}
        sha256s = sorted(by_sha256)  # writers that take rows in one order do not wait for each other in a circle
        rows = [{"sha256": sha256, "facts": by_sha256[sha256].to_bytes().decode()} for sha256 in sha256s]
        upsert(connection, profiles, rows)
        found: dict[Profile, int] = {}
        for some in batches(sha256s):
            query = select(profiles.c.id, profiles.c.sha256).where(profiles.c.sha256.in_(some))
            found |= {by_sha256[row.sha256]: row.id for row in connection.execute(query)}
        return found

    def offered(self, connection: Connection, fits: Callable[[Profile], bool]) -> ColumnElement[bool]:
        """What is true of the rows of `offers` whose profile `fits` says yes to."""
        numbers = list(connection.scalars(select(profiles.c.id)))
        known = self.known(connection, numbers)
        fitting = [number for number in numbers if fits(known[number])]
        return offers.c.profile.in_(bindparam("fitting", fitting, expanding=True, literal_execute=True))  # any number

    def known(self, connection: Connection, numbers: Iterable[int]) -> dict[int, Profile]:
        """The profiles with these numbers, and maybe others."""
        missing = sorted({number for number in numbers if number not in self._known})
        for some in batches(missing):
            query = select(profiles.c.id, profiles.c.facts).where(profiles.c.id.in_(some))
            self._known |= {row.id: Profile.from_text(row.facts) for row in connection.execute(query)}
        return self._known
