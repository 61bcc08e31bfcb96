"""The page of one kernel: everything that is known of a revision, and of the repository around it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from kernelworks.model.index import Index
from kernelworks_server.documents import CARD
from kernelworks_server.indexes import Unreadable
from kernelworks_server.pages.card import card_html
from kernelworks_server.pages.matrix import matrix
from kernelworks_server.pages.plot import DAYS, HEIGHT, plot
from kernelworks_server.pages.relations import dependants, dependencies
from kernelworks_server.pages.signatures import signatures
from kernelworks_server.pages.versions import tell
from kernelworks_server.pages.visit import Visit
from kernelworks_server.releases import releases

__all__ = ["kernel_page", "usual"]

_FILES = 200


def usual(visit: Visit) -> dict[str, Any]:
    """What every page about one repository tells."""
    return {
        "repo": visit.repo,
        "revision": visit.revision,
        "index": visit.index if isinstance(visit.index, Index) else None,
        "trusted": visit.services.people.account(visit.repo.owner).trusted,
        "notice": visit.services.repositories.notice(visit.repo),
        "yanked": visit.services.repositories.yanks(visit.repo).get(visit.commit),
    }


def kernel_page(visit: Visit) -> Response:
    """The page of the repository and revision that `visit` asks for."""
    repositories, repo, index = visit.services.repositories, visit.repo, visit.index
    variants = index.variants if isinstance(index, Index) else ()
    files, more = repositories.tree(repo, visit.commit, "", recursive=True, after=None, limit=_FILES)
    versions = releases(visit.refs)
    card = visit.documents.card(repo, visit.commit)
    newest = visit.services.shelf.newest(repo)
    return visit.show(
        "kernel.html",
        **usual(visit),
        commit=repositories.commit_info(repo, visit.commit),
        matrix=matrix(variants) if isinstance(index, Index) else None,
        fault=index.reason if isinstance(index, Unreadable) else None,
        number=next((release.number for release in versions if release.branch == visit.revision), None),
        newest=next((release.number for release in versions if release.branch == newest), None),
        told=tell(repositories, visit.documents, repo, versions, repositories.yanks(repo)),
        versions=len(versions),
        signatures=signatures(repositories, repo, visit.commit, variants),
        dependencies=dependencies(visit.services, visit.actor, variants),
        dependants=dependants(visit.services, visit.actor, repo),
        plot=plot(visit.services.downloads.by_day(repo.id, DAYS)),
        plot_height=HEIGHT,
        downloaded=visit.services.downloads.by_variant(repo.id),
        card=card and card_html(card[0], f"/{repo.kind}s/{repo.repo_id}/resolve/{visit.commit}/"),
        card_is_whole=card is None or card[1],
        card_name=CARD,
        files=[file for file in files if file.kind == "file"],
        more_files=more is not None,
        refs=visit.refs,
        here=visit.address,
    )
