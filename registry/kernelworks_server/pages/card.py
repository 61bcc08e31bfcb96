"""A card's Markdown as HTML that cannot harm: no HTML of the author's, no images, no scripts, nothing unseen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

__all__ = ["card_html", "visible"]

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_UNSEEN = re.compile("[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]")
"""Controls, and what reorders or hides text: a reader must see what a compiler or a shell would."""
_DEMOTED = 2  # levels: the page has its own first and second headings
_LOWEST = 6
_SCHEMES = {"http", "https", "mailto"}
_LONGEST, _LINKS = 4 << 10, 100  # characters and links of a paragraph: to read more takes quadratic time


def visible(text: str) -> str:
    """`text` with every character that reorders, hides or controls written out, as `[U+202E]`."""
    return _UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


@lru_cache(maxsize=128)
def card_html(text: str, base: str) -> Markup:
    """The Markdown `text` as safe HTML; its front matter is left out.

    Args:
        text: As the author wrote it.
        base: What relative links are relative to; ends with a slash.
    """
    text = _FRONT_MATTER.sub("", text.replace("\r\n", "\n").removeprefix("\ufeff"))
    return Markup(_markdown().render(visible(text), {"base": base}))  # noqa: S704  # with `html` off, all is escaped


@lru_cache(maxsize=1)
def _markdown() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    markdown.core.ruler.before("inline", "plain", lambda state: _leave_plain(state.tokens))
    markdown.core.ruler.push("fit_in", lambda state: _fit_in(state.tokens))
    markdown.add_render_rule("link_open", _link)
    markdown.add_render_rule("image", _image)
    return markdown


def _leave_plain(tokens: Sequence[Token]) -> None:
    """What takes too long to be read is shown as it is written."""
    for token in tokens:
        if token.type == "inline" and (len(token.content) > _LONGEST or token.content.count("[") > _LINKS):
            token.type = "text"


def _fit_in(tokens: Sequence[Token]) -> None:
    """Headings stand below the page's own; columns are aligned by classes, because pages allow no inline styles."""
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(_LOWEST, int(token.tag[1:]) + _DEMOTED)}"
        elif align := token.attrs.pop("style", None):
            token.attrs["class"] = str(align).removeprefix("text-align:")


def _link(self: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    token = tokens[at]
    token.attrs = {"href": _address(str(token.attrGet("href") or ""), env["base"]), "rel": "nofollow noopener"}
    return str(self.renderToken(tokens, at, options, env))


def _image(self: RendererHTML, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """An image as a link: to load it would tell somebody else who reads this page."""
    token = tokens[at]
    address = Markup.escape(_address(str(token.attrGet("src") or ""), env["base"]))
    label = Markup.escape(self.renderInlineAsText(token.children or [], options, env) or "without a description")
    return f'<a class="image" href="{address}" rel="nofollow noopener">image: {label}</a>'


def _address(target: str, base: str) -> str:
    """`target`, made absolute below `base` where it is relative; `#` where it is nothing that a card may lead to."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return "#"
    if parts.scheme:
        return target if parts.scheme.lower() in _SCHEMES else "#"
    if target.startswith("#"):
        return target
    if target.startswith(("/", "\\")):
        return "#"  # addresses of another registry
    return base + quote(target, safe="/%#?=&~")
