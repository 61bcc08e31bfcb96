"""How alembic reaches the database: over the connection that `Database.migrate` holds, in its transaction."""

from __future__ import annotations

from alembic import context

from kernelworks_server.database.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
