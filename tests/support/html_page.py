"""Read an HTML page as a browser would: its elements, their attributes, its texts; wrong nesting is an error."""

from html.parser import HTMLParser

VOID = frozenset({"br", "hr", "input", "link", "meta"})


class Page(HTMLParser):
    """A parsed page."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        """Every element with its attributes, in order."""
        self.texts: list[str] = []
        self.declarations: list[str] = []
        """Everything in `<!...>`: the document type, and comments."""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute of {tag} occurs twice: {names}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data):
        self.texts.append(data)

    def handle_decl(self, decl):
        self.declarations.append(decl)

    def handle_comment(self, data):
        self.declarations.append(data)

    def unknown_decl(self, data):
        self.declarations.append(data)

    def handle_pi(self, data):
        self.declarations.append(data)

    @property
    def text(self) -> str:
        """Everything that can be read, in order."""
        return "".join(self.texts)

    def values(self, attribute: str) -> list[str]:
        """Return the values of an attribute, wherever it occurs."""
        return [found[attribute] for _, found in self.tags if attribute in found]

    def elements(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of each element of a kind."""
        return [found for name, found in self.tags if name == tag]

    @property
    def sections(self) -> list[str]:
        """Return the names of the page's sections, in order."""
        return [found["id"] for found in self.elements("section")]
