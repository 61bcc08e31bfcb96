"""What the registry remembers, as SQLAlchemy Core tables that SQLite and PostgreSQL hold alike."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

__all__ = [
    "accounts",
    "blobs",
    "commits",
    "downloads",
    "events",
    "former_names",
    "holdings",
    "memberships",
    "metadata",
    "needs",
    "notices",
    "offers",
    "profiles",
    "refs",
    "repos",
    "sessions",
    "shelf",
    "tokens",
    "trees",
    "xorbs",
    "yanks",
]

_NAME = 100
_REF = 250
_SHA1 = 40
_SHA256 = 64
_WORD = 10
_ACTION = 40

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
# Times are microseconds since the epoch, UTC: both databases compare and index them alike.


def _id() -> Column[int]:
    return Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True)


def _time(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


def _owned_by(table: str, name: str, *, index: bool = False) -> Column[int]:
    target = ForeignKey(f"{table}.id", ondelete="CASCADE")
    return Column(name, BigInteger().with_variant(Integer, "sqlite"), target, nullable=False, index=index)


accounts = Table(
    "accounts",
    metadata,
    _id(),
    Column("name", String(_NAME), nullable=False),
    Column("name_key", String(_NAME), nullable=False, unique=True),  # lower case: names differ in more than case
    Column("kind", String(_WORD), nullable=False),
    Column("fullname", Text, nullable=False),
    Column("trusted", Boolean, nullable=False),
    Column("operator", Boolean, nullable=False),
    _time("created"),
    sqlite_autoincrement=True,
)

memberships = Table(
    "memberships",
    metadata,
    Column("org", ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True),
    Column("member", ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True, index=True),
    Column("role", String(_WORD), nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    _id(),
    _owned_by("accounts", "account"),
    Column("label", String(_NAME), nullable=False),
    Column("sha256", String(_SHA256), nullable=False, unique=True),
    Column("scope", String(_WORD), nullable=False),
    Column("bound_to", ForeignKey("accounts.id", ondelete="CASCADE")),
    _time("created"),
    _time("expires", nullable=True),
    _time("revoked", nullable=True),
    UniqueConstraint("account", "label"),
    sqlite_autoincrement=True,
)

repos = Table(
    "repos",
    metadata,
    _id(),
    Column("kind", String(_WORD), nullable=False),
    _owned_by("accounts", "owner", index=True),
    Column("repo_id", String(2 * _NAME), nullable=False),
    Column("repo_key", String(2 * _NAME), nullable=False),  # lower case, as `accounts.name_key`
    Column("private", Boolean, nullable=False),
    _time("created"),
    _time("updated"),
    UniqueConstraint("kind", "repo_key"),
    sqlite_autoincrement=True,  # a number never comes back: old signatures and commits stay dead
)

trees = Table(
    "trees",
    metadata,
    Column("sha256", String(_SHA256), primary_key=True),
    Column("data", LargeBinary, nullable=False),  # `kernelworks_server.trees`; shared, and reached from commits only
)

commits = Table(
    "commits",
    metadata,
    _owned_by("repos", "repo"),
    Column("id", String(_SHA1), nullable=False),
    Column("parent", String(_SHA1)),
    Column("tree", ForeignKey("trees.sha256"), nullable=False),
    Column("author", String(_NAME), nullable=False),
    Column("message", Text, nullable=False),
    Column("description", Text, nullable=False),
    _time("created"),
    PrimaryKeyConstraint("repo", "id"),
)

refs = Table(  # branches and tags share one space of names: no revision means two things
    "refs",
    metadata,
    _owned_by("repos", "repo"),
    Column("kind", String(_WORD), nullable=False),
    Column("name", String(_REF), nullable=False),
    Column("commit", String(_SHA1), nullable=False),
    Column("message", Text, nullable=False),
    PrimaryKeyConstraint("repo", "name"),
)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", String(_SHA256), primary_key=True),
    Column("size", BigInteger, nullable=False),
    _time("touched"),
    Index("ix_blobs_touched", "touched"),
)

holdings = Table(  # the files of a repository: committed, or uploaded and waiting for their commit
    "holdings",
    metadata,
    _owned_by("repos", "repo"),
    Column("sha256", ForeignKey("blobs.sha256"), nullable=False, index=True),
    Column("committed", Boolean, nullable=False),
    _time("touched"),
    PrimaryKeyConstraint("repo", "sha256"),
)

xorbs = Table(  # what Xet clients sent, under the hash that they know it by: they refer to it much later
    "xorbs",
    metadata,
    _owned_by("repos", "repo"),
    Column("hash", String(_SHA256), nullable=False),
    Column("sha256", ForeignKey("blobs.sha256"), nullable=False, index=True),
    PrimaryKeyConstraint("repo", "hash"),
)

yanks = Table(  # of a commit: the next one on its branch is a new start
    "yanks",
    metadata,
    _owned_by("repos", "repo"),
    Column("commit", String(_SHA1), nullable=False),
    Column("reason", Text, nullable=False),
    _time("created"),
    PrimaryKeyConstraint("repo", "commit"),
)

notices = Table(  # a deprecation of the whole repository
    "notices",
    metadata,
    _owned_by("repos", "repo"),
    Column("message", Text, nullable=False),
    Column("successor", String(2 * _NAME)),
    _time("created"),
    PrimaryKeyConstraint("repo"),
)

former_names = Table(  # after a rename; a new repository of the name takes it over
    "former_names",
    metadata,
    Column("kind", String(_WORD), nullable=False),
    Column("repo_key", String(2 * _NAME), nullable=False),  # lower case, as `repos.repo_key`
    _owned_by("repos", "repo", index=True),
    _time("created"),
    PrimaryKeyConstraint("kind", "repo_key"),
)

profiles = Table(  # the framework and backend of variants, each combination once; `kernelworks_server.profiles`
    "profiles",
    metadata,
    _id(),
    Column("sha256", String(_SHA256), nullable=False, unique=True),
    Column("facts", Text, nullable=False),
    sqlite_autoincrement=True,  # programs remember what a number means
)

shelf = Table(  # what versions and `main` hold: derived from their indexes, by `kernelworks_server.shelf`
    "shelf",
    metadata,
    _id(),
    Column("repo", BigInteger().with_variant(Integer, "sqlite"), nullable=False),
    Column("branch", String(_REF), nullable=False),
    Column("version", Integer),
    Column("commit", String(_SHA1), nullable=False),
    Column("variants", Integer, nullable=False),
    Column("newest", Boolean, nullable=False),
    ForeignKeyConstraint(["repo", "branch"], ["refs.repo", "refs.name"], ondelete="CASCADE"),
    UniqueConstraint("repo", "branch"),
    Index("ix_shelf_newest", "repo", unique=True, sqlite_where=text("newest"), postgresql_where=text("newest")),
    sqlite_autoincrement=True,
)

offers = Table(  # `project`: what a wheel of this profile installs, as the simple index calls it
    "offers",
    metadata,
    _owned_by("shelf", "shelf"),
    Column("profile", ForeignKey("profiles.id"), nullable=False),
    Column("project", String(2 * _NAME)),
    PrimaryKeyConstraint("shelf", "profile"),
    Index("ix_offers_profile_shelf", "profile", "shelf"),
)

needs = Table(  # the kernels that a variant loads, by the id that its index names: they may be gone, or elsewhere
    "needs",
    metadata,
    _owned_by("shelf", "shelf"),
    Column("repo_key", String(2 * _NAME), nullable=False, index=True),  # lower case, as `repos.repo_key`
    PrimaryKeyConstraint("shelf", "repo_key"),
)

downloads = Table(  # `day`: days since the epoch, UTC
    "downloads",
    metadata,
    _owned_by("repos", "repo"),
    Column("day", Integer, nullable=False),
    Column("variant", String(2 * _NAME), nullable=False),
    Column("count", BigInteger, nullable=False),
    PrimaryKeyConstraint("repo", "day", "variant"),
)

sessions = Table(  # browsers that are signed in: the SHA-256 of what they show, and the token that they showed first
    "sessions",
    metadata,
    Column("sha256", String(_SHA256), primary_key=True),
    _owned_by("tokens", "token", index=True),
    _time("expires"),
)

events = Table(  # it refers to nothing: what it tells of may be gone
    "events",
    metadata,
    _id(),
    Column("actor", String(_NAME)),
    Column("action", String(_ACTION), nullable=False),
    Column("subject", String(2 * _NAME), nullable=False),
    Column("subject_key", String(2 * _NAME), nullable=False, index=True),  # lower case, as `accounts.name_key`
    Column("commit", String(_SHA1)),
    Column("details", Text, nullable=False),
    _time("time"),
    sqlite_autoincrement=True,
)
