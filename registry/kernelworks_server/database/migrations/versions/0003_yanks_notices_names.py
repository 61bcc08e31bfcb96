"""Yanked commits, deprecated repositories, and the names that repositories had before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _repo(table: str) -> tuple[sa.Column[int], sa.ForeignKeyConstraint]:
    key = sa.ForeignKeyConstraint(["repo"], ["repos.id"], name=f"fk_{table}_repo", ondelete="CASCADE")
    return sa.Column("repo", _NUMBER, nullable=False), key


def upgrade() -> None:
    op.create_table(
        "yanks",
        *_repo("yanks"),
        sa.Column("commit", sa.String(length=40), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("repo", "commit", name="pk_yanks"),
    )
    op.create_table(
        "notices",
        *_repo("notices"),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("successor", sa.String(length=200)),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("repo", name="pk_notices"),
    )
    op.create_table(
        "former_names",
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("repo_key", sa.String(length=200), nullable=False),
        *_repo("former_names"),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "repo_key", name="pk_former_names"),
    )
    op.create_index("ix_former_names_repo", "former_names", ["repo"], unique=False)


def downgrade() -> None:
    for table in ("former_names", "notices", "yanks"):
        op.drop_table(table)
