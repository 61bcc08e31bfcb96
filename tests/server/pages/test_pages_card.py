"""Cards are what anybody wrote: the HTML that they become can do nothing but be read."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelworks_server.pages.card import card_html, visible

BASE = "/kernels/demo/relu/resolve/abc/"
HARMLESS = {"a", "p", "h3", "h4", "h5", "h6", "ul", "ol", "li", "em", "strong", "s", "code", "pre", "blockquote", "hr"}
HARMLESS |= {"br", "table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"href", "rel", "title", "class", "start"}


class Seen(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")


HTML = ("<script>", "</script>", "<img src=x onerror=alert(1)>", "<a href='x'>", "<!--", "&#106;avascript:")
LINKS = (
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:x)",
    "[a]: vbscript:x\n[a]",
    "<java\tscript:x>",
    "![a](data:text/html,x)",
)
MARKS = (
    '[a](x "onload=\\"")',
    "<https://e.example>",
    "# ",
    "`",
    "```\n",
    "|a|b|\n|-|:-:|\n",
    "~~",
    "](",
    "![",
    "\\",
    ">",
    "\n\n",
)
PIECES = st.sampled_from((*HTML, *LINKS, *MARKS, "\u202e", "\x00"))


@given(st.lists(PIECES | st.text(max_size=8), max_size=12).map("".join))
def test_no_card_becomes_more_than_plain_text_with_links(text: str) -> None:
    seen = Seen(card_html(text, BASE))
    assert seen.tags <= HARMLESS
    assert set(seen.attributes) <= ATTRIBUTES
    for address in seen.attributes.get("href", ()):
        assert address.startswith((BASE, "#")) or urlsplit(address).scheme.lower() in {"http", "https", "mailto"}


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("[docs](docs/use.md#top)", f'<a href="{BASE}docs/use.md#top" rel="nofollow noopener">docs</a>'),
        ("[up](/../etc)", '<a href="#"'),
        ("[up](//evil.example/x)", '<a href="#"'),
        ("![plot](plot.png)", f'<a class="image" href="{BASE}plot.png" rel="nofollow noopener">image: plot</a>'),
        ("![x](https://e.example/spy.gif)", '<a class="image" href="https://e.example/spy.gif"'),
        ("# Title", "<h3>Title</h3>"),
        ("|a|b|\n|-|-:|\n|1|2|", '<td class="right">2</td>'),
    ],
)
def test_what_authors_write_reads_as_they_meant_it(markdown: str, html: str) -> None:
    assert html in card_html(markdown, BASE)


def test_the_front_matter_is_not_shown() -> None:
    html = card_html("---\nlicense: apache-2.0\n---\n\n# Title\n\ntext\n\n---\n\nmore", BASE)
    assert "license" not in html
    assert html.startswith("<h3>Title</h3>")
    assert "more" in html


def test_characters_that_reorder_or_hide_text_are_written_out() -> None:
    assert visible("if admin\u202e\u2066 {\u200b") == "if admin[U+202E][U+2066] {[U+200B]"
    assert "[U+202E]" in card_html("```\na\u202eb\n```", BASE)
    assert visible("العربية, emoji 🎉\ttab\n") == "العربية, emoji 🎉\ttab\n"


@pytest.mark.parametrize("long", ["[" * 101, "word " * 1_000])
def test_a_paragraph_that_would_take_long_to_read_is_shown_as_it_is_written(long: str) -> None:
    html = card_html(f"{long}*as it is*\n\n*read*", "/")
    assert html.split() == f"<p> {long}*as it is*</p> <p><em>read</em></p>".split()
