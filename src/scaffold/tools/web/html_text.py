"""The readable text of a web page: headings, paragraphs, lists and link targets.

`python -m scaffold.tools.web.html_text URL < HTML` prints the page as JSON. It runs in a separate process because the
standard library's parser can take minutes on malicious pages.
"""

import contextlib
import re
import sys
from html.parser import HTMLParser
from urllib.parse import urljoin

import msgspec
from msgspec import Struct

_SKIPPED_TAGS = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "select"})
_LINES = frozenset({"div", "tr", "dt", "dd"})
_BLOCKS = _LINES | {
    *("address", "article", "aside", "blockquote", "details", "dl", "fieldset", "figcaption", "figure", "footer"),
    *("form", "header", "hr", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "thead", "ul"),
}
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}


class Page(Struct, frozen=True):
    """A page's title (empty if it has none) and text."""

    title: str
    text: str


def read_page(html: str, url: str) -> Page:
    """Return the text of `html`, even if malformed; `url` is the base of relative links."""
    reader = _HtmlTextParser(url)
    with contextlib.suppress(AssertionError):  # raised for some malformed declarations; keep the text before them
        reader.feed(html)
        reader.close()
    lines = (line.rstrip() for line in "".join(reader.parts).split("\n"))
    # other text starts with at most one space; more than one means preformatted text, which keeps its indent
    straight = "\n".join(line[1:] if line[:1] == " " and line[1:2] != " " else line for line in lines)
    text = re.sub(r"\n{3,}", "\n\n", straight).strip("\n")
    return Page(" ".join("".join(reader.title).split()), text)


class _HtmlTextParser(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.parts: list[str] = []
        self._url = url
        self._unseen: list[str] = []
        self._in_title = False
        self._verbatim = 0
        self._links: list[tuple[str, int]] = []
        """For each open link: its target and the number of parts before it."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED_TAGS:
            self._unseen.append(tag)
        elif tag == "title":
            self._in_title = True
        elif tag in _HEADINGS:
            self.parts.append(f"\n\n{_HEADINGS[tag]} ")
        elif tag == "a":
            self._links.append((dict(attrs).get("href") or "", len(self.parts)))
        else:
            self._break_before(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close an element; a block begins a new line. Overrides `HTMLParser`."""
        if tag in self._unseen:
            # Up to the outermost open tag of this name: pages leave inner ones open.
            del self._unseen[self._unseen.index(tag) :]
        elif tag == "title":
            self._in_title = False
        elif tag == "a" and self._links:
            self._close_link(*self._links.pop())
        elif tag == "pre":
            self._verbatim = max(0, self._verbatim - 1)
            self.parts.append("\n")
        elif tag in _HEADINGS or tag in _BLOCKS:
            self.parts.append("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _SKIPPED_TAGS:
            self.handle_starttag(tag, attrs)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._unseen:
            self.parts.append(data if self._verbatim else re.sub(r"\s+", " ", data))

    def _break_before(self, tag: str) -> None:
        if tag == "br":
            self.parts.append("\n")
        elif tag == "li":
            self.parts.append("\n- ")
        elif tag in {"td", "th"}:
            self.parts.append(" | ")
        elif tag in _BLOCKS:
            self.parts.append("\n" if tag in _LINES else "\n\n")
        self._verbatim += tag == "pre"

    def _close_link(self, target: str, before: int) -> None:
        try:
            whole = urljoin(self._url, target)
        except ValueError:
            return
        label = "".join(self.parts[before:]).strip()
        if label and whole != label and not target.startswith("#") and whole.startswith(("http://", "https://")):
            self.parts.append(f" ({whole})")


if __name__ == "__main__":
    page = read_page(sys.stdin.buffer.read().decode(), sys.argv[1])
    sys.stdout.buffer.write(msgspec.json.encode(page))
