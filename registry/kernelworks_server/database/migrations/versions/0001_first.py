"""The first schema: people, repositories, commits, and the blobs that they refer to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("name_key", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("fullname", sa.Text(), nullable=False),
        sa.Column("trusted", sa.Boolean(), nullable=False),
        sa.Column("operator", sa.Boolean(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("name_key", name="uq_accounts_name_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "blobs",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("touched", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_blobs"),
    )
    op.create_index("ix_blobs_touched", "blobs", ["touched"], unique=False)
    op.create_table(
        "trees",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_trees"),
    )
    op.create_table(
        "memberships",
        sa.Column("org", _NUMBER, nullable=False),
        sa.Column("member", _NUMBER, nullable=False),
        sa.Column("role", sa.String(length=10), nullable=False),
        sa.ForeignKeyConstraint(["member"], ["accounts.id"], name="fk_memberships_member", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["org"], ["accounts.id"], name="fk_memberships_org", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("org", "member", name="pk_memberships"),
    )
    op.create_index("ix_memberships_member", "memberships", ["member"], unique=False)
    op.create_table(
        "repos",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("owner", _NUMBER, nullable=False),
        sa.Column("repo_id", sa.String(length=200), nullable=False),
        sa.Column("repo_key", sa.String(length=200), nullable=False),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("updated", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["owner"], ["accounts.id"], name="fk_repos_owner", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_repos"),
        sa.UniqueConstraint("kind", "repo_key", name="uq_repos_kind_repo_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_repos_owner", "repos", ["owner"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", _NUMBER, nullable=False),
        sa.Column("account", _NUMBER, nullable=False),
        sa.Column("label", sa.String(length=100), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("scope", sa.String(length=10), nullable=False),
        sa.Column("bound_to", _NUMBER, nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=True),
        sa.Column("revoked", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["account"], ["accounts.id"], name="fk_tokens_account", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["bound_to"], ["accounts.id"], name="fk_tokens_bound_to", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("account", "label", name="uq_tokens_account_label"),
        sa.UniqueConstraint("sha256", name="uq_tokens_sha256"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "commits",
        sa.Column("repo", _NUMBER, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("parent", sa.String(length=40), nullable=True),
        sa.Column("tree", sa.String(length=64), nullable=False),
        sa.Column("author", sa.String(length=100), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["repo"], ["repos.id"], name="fk_commits_repo", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["tree"], ["trees.sha256"], name="fk_commits_tree"),
        sa.PrimaryKeyConstraint("repo", "id", name="pk_commits"),
    )
    op.create_table(
        "holdings",
        sa.Column("repo", _NUMBER, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("committed", sa.Boolean(), nullable=False),
        sa.Column("touched", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["repo"], ["repos.id"], name="fk_holdings_repo", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["sha256"], ["blobs.sha256"], name="fk_holdings_sha256"),
        sa.PrimaryKeyConstraint("repo", "sha256", name="pk_holdings"),
    )
    op.create_index("ix_holdings_sha256", "holdings", ["sha256"], unique=False)
    op.create_table(
        "refs",
        sa.Column("repo", _NUMBER, nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("name", sa.String(length=250), nullable=False),
        sa.Column("commit", sa.String(length=40), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["repo"], ["repos.id"], name="fk_refs_repo", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("repo", "name", name="pk_refs"),
    )
    op.create_table(
        "xorbs",
        sa.Column("repo", _NUMBER, nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["repo"], ["repos.id"], name="fk_xorbs_repo", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["sha256"], ["blobs.sha256"], name="fk_xorbs_sha256"),
        sa.PrimaryKeyConstraint("repo", "hash", name="pk_xorbs"),
    )
    op.create_index("ix_xorbs_sha256", "xorbs", ["sha256"], unique=False)


def downgrade() -> None:
    for table in (
        "xorbs",
        "refs",
        "holdings",
        "commits",
        "tokens",
        "repos",
        "memberships",
        "trees",
        "blobs",
        "accounts",
    ):
        op.drop_table(table)
