"""What the HTTP layers are given: the parts of one running registry."""

from __future__ import annotations

from dataclasses import dataclass

from kernelworks_server.blobs import Blobs, open_store
from kernelworks_server.config import Config
from kernelworks_server.database.engine import Database
from kernelworks_server.downloads import Downloads
from kernelworks_server.people import People
from kernelworks_server.repositories import Repositories
from kernelworks_server.sessions import Sessions
from kernelworks_server.shelf import Shelf
from kernelworks_server.signing import Signer

__all__ = ["Services", "open_services"]


@dataclass(frozen=True)
class Services:
    """The parts of one running registry; all of them are synchronous and safe to call from many threads."""

    config: Config
    database: Database
    blobs: Blobs
    shelf: Shelf
    repositories: Repositories
    downloads: Downloads
    people: People
    sessions: Sessions
    signer: Signer

    def close(self) -> None:
        """Write down what was counted and let go of the database; acknowledged work is on disk already."""
        self.downloads.flush()
        self.database.close()


def open_services(config: Config) -> Services:
    """The registry that `config` describes, its database brought to the present schema."""
    database = Database(config.database)
    database.migrate()
    blobs = Blobs(open_store(config.store), database)
    shelf = Shelf(database, blobs)
    return Services(
        config=config,
        database=database,
        blobs=blobs,
        shelf=shelf,
        repositories=Repositories(database, blobs, config.limits, shelf),
        downloads=Downloads(database),
        people=People(database),
        sessions=Sessions(database),
        signer=Signer(config.secret),
    )
