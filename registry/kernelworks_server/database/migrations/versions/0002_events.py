"""Events: who changed what, and when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("actor", sa.String(length=100)),
        sa.Column("action", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("subject_key", sa.String(length=200), nullable=False),
        sa.Column("commit", sa.String(length=40)),
        sa.Column("details", sa.Text(), nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_subject_key", "events", ["subject_key"], unique=False)


def downgrade() -> None:
    op.drop_table("events")
