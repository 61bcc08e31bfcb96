"""Lists of projects and of files as clients read them: JSON (PEP 691, 700) for who asks for it, HTML (PEP 503) else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from starlette.responses import HTMLResponse, JSONResponse, Response

from kernelworks_server.simple.catalogue import Wheel

__all__ = ["FILES", "file_list", "project_list"]

FILES = "/simple/files"
_API = "1.1"
_JSON = "application/vnd.pypi.simple.v1+json"
_AS_JSON = {_JSON, "application/vnd.pypi.simple.latest+json"}
_AS_HTML = {
    *("application/vnd.pypi.simple.v1+html", "application/vnd.pypi.simple.latest+html"),
    *("text/html", "text/*", "*/*"),
}
_HEADERS = {"Vary": "Accept, Authorization", "Content-Security-Policy": "default-src 'none'"}
_PAGE = Markup(
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="pypi:repository-version" content="{api}">\n<title>{title}</title>\n</head>\n'
    "<body>\n<h1>{title}</h1>\n{links}</body>\n</html>\n"
)


def project_list(accept: str, title: str, projects: Sequence[str]) -> Response:
    """The answer that lists `projects`."""
    if _wants_json(accept):
        return _json({"projects": [{"name": name} for name in projects]})
    return _html(title, ({"href": f"{name}/", "text": name} for name in projects))


def file_list(accept: str, base: str, project: str, wheels: Sequence[Wheel]) -> Response:
    """The answer that lists the files of `project`, with their addresses below `base`."""
    if _wants_json(accept):
        return _json(
            {
                "name": project,
                "versions": list(dict.fromkeys(wheel.version for wheel in wheels)),
                "files": [_file_json(base, wheel) for wheel in wheels],
            }
        )
    return _html(project, (_anchor(base, wheel) for wheel in wheels))


def _wants_json(accept: str) -> bool:
    """Whether JSON is asked for, and HTML not more so; `*/*`, which browsers and curl send, asks for HTML."""
    weights = {"json": 0.0, "html": 0.0}
    for choice in accept.lower().split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        form = "json" if media in _AS_JSON else "html" if media in _AS_HTML else None
        if form:
            weights[form] = max(weights[form], _weight(parameters))
    return weights["json"] > 0 and weights["json"] >= weights["html"]


def _weight(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _json(content: dict[str, Any]) -> Response:
    return JSONResponse({"meta": {"api-version": _API}, **content}, media_type=_JSON, headers=_HEADERS)


def _file_json(base: str, wheel: Wheel) -> dict[str, Any]:
    told = {
        "filename": wheel.file,
        "url": _url(base, wheel),
        "hashes": {"sha256": wheel.entry.sha256},
        "size": wheel.entry.size,
        "core-metadata": {"sha256": wheel.metadata.sha256},
    }
    return told | _said(wheel, "")


def _html(title: str, anchors: Iterable[dict[str, str]]) -> Response:
    links = Markup("").join(_link(**anchor) for anchor in anchors)
    return HTMLResponse(_PAGE.format(api=_API, title=title, links=links), headers=_HEADERS)


def _anchor(base: str, wheel: Wheel) -> dict[str, str]:
    digest = f"sha256={wheel.metadata.sha256}"
    told = {
        "text": wheel.file,
        "href": f"{_url(base, wheel)}#sha256={wheel.entry.sha256}",
        "data-core-metadata": digest,
        "data-dist-info-metadata": digest,  # the name before PEP 714
    }
    return told | _said(wheel, "data-")


def _said(wheel: Wheel, prefix: str) -> dict[str, str]:
    """What there is to say of some wheels only; alike in both forms."""
    said = {"requires-python": wheel.metadata.requires_python, "yanked": wheel.yanked}
    return {f"{prefix}{name}": text for name, text in said.items() if text}


def _link(*, text: str, **attributes: str) -> Markup:
    told = Markup("").join(Markup(' {}="{}"').format(name, value) for name, value in attributes.items())
    return Markup("<a{}>{}</a><br>\n").format(told, text)


def _url(base: str, wheel: Wheel) -> str:
    return f"{base}{FILES}/{wheel.repo.repo_id}/{wheel.commit}/{quote(wheel.entry.path)}"
