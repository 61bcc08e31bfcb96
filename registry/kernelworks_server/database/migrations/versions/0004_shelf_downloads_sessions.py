"""What versions offer, as rows to search; how often variants are downloaded; who is signed in on pages.

The shelf is derived from the indexes in the object store, which no migration reads: `Shelf.fill` writes it afterwards.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "profiles",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_profiles"),
        sa.UniqueConstraint("sha256", name="uq_profiles_sha256"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "shelf",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("repo", _NUMBER, nullable=False),
        sa.Column("branch", sa.String(length=250), nullable=False),
        sa.Column("version", sa.Integer(), nullable=True),
        sa.Column("commit", sa.String(length=40), nullable=False),
        sa.Column("variants", sa.Integer(), nullable=False),
        sa.Column("newest", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["repo", "branch"], ["refs.repo", "refs.name"], name="fk_shelf_repo_branch", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_shelf"),
        sa.UniqueConstraint("repo", "branch", name="uq_shelf_repo_branch"),
        sqlite_autoincrement=True,
    )
    newest = sa.text("newest")
    op.create_index("ix_shelf_newest", "shelf", ["repo"], unique=True, sqlite_where=newest, postgresql_where=newest)
    op.create_table(
        "offers",
        sa.Column("shelf", _NUMBER, nullable=False),
        sa.Column("profile", _NUMBER, nullable=False),
        sa.Column("project", sa.String(length=200), nullable=True),
        sa.ForeignKeyConstraint(["profile"], ["profiles.id"], name="fk_offers_profile"),
        sa.ForeignKeyConstraint(["shelf"], ["shelf.id"], name="fk_offers_shelf", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("shelf", "profile", name="pk_offers"),
    )
    op.create_index("ix_offers_profile_shelf", "offers", ["profile", "shelf"], unique=False)
    op.create_table(
        "needs",
        sa.Column("shelf", _NUMBER, nullable=False),
        sa.Column("repo_key", sa.String(length=200), nullable=False),
        sa.ForeignKeyConstraint(["shelf"], ["shelf.id"], name="fk_needs_shelf", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("shelf", "repo_key", name="pk_needs"),
    )
    op.create_index("ix_needs_repo_key", "needs", ["repo_key"], unique=False)
    op.create_table(
        "downloads",
        sa.Column("repo", _NUMBER, nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("variant", sa.String(length=200), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["repo"], ["repos.id"], name="fk_downloads_repo", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("repo", "day", "variant", name="pk_downloads"),
    )
    op.create_table(
        "sessions",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("token", _NUMBER, nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["token"], ["tokens.id"], name="fk_sessions_token", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("sha256", name="pk_sessions"),
    )
    op.create_index("ix_sessions_token", "sessions", ["token"], unique=False)


def downgrade() -> None:
    for table in ("sessions", "downloads", "needs", "offers", "shelf", "profiles"):
        op.drop_table(table)
