"""Pages of a document as people write them: `1-3,7`, `10-`, `-5`."""

import re

from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.plan.message_text import quoted

MAX_PAGE = 10_000_000
MAX_PARTS = 200
FIX = "Write pages as `1-3,7`; `10-` is from page 10 to the end."
_PART = re.compile(r"(?P<first>\d{1,9})?\s*(?P<to>-)?\s*(?P<last>\d{1,9})?")


class PageRange(Struct, frozen=True):
    """Pages from `first` to `last`, both included; `last` None for the end of the document."""

    first: int = 1
    last: int | None = None


class PageRanges(Struct, frozen=True):
    """Pages in ascending order, in ranges that do not touch each other."""

    parts: tuple[PageRange, ...] = (PageRange(),)

    @property
    def is_all(self) -> bool:
        """Whether these are all pages."""
        return self.parts == (PageRange(),)

    def after(self, page: int) -> "PageRanges":
        """Return those of the pages that come after this one."""
        rest = (each for each in self.parts if each.last is None or each.last > page)
        return PageRanges(tuple(PageRange(max(each.first, page + 1), each.last) for each in rest))

    def count(self, total: int) -> int:
        """Return how many of the pages a document with so many in total has."""
        return sum(max(min(each.last or total, total) - each.first + 1, 0) for each in self.parts)

    def __str__(self) -> str:
        ends = ((each.first, "" if each.last is None else each.last) for each in self.parts)
        return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ends)


ALL_PAGES = PageRanges()


def read_page_ranges(text: str) -> PageRanges:
    """Return the pages that a text names, all for an empty one; UsageError if it names none."""
    if not text.strip():
        return ALL_PAGES
    parts = text.split(",")
    if len(parts) > MAX_PARTS:
        raise UsageError(f"`pages` has {len(parts)} parts, at most {MAX_PARTS}", FIX)
    joined: list[PageRange] = []
    for part in sorted(map(_read_part, parts), key=lambda each: each.first):
        before = joined[-1] if joined else None
        # Ranges that touch become one.
        if before is None or (before.last is not None and part.first > before.last + 1):
            joined.append(part)
        elif before.last is not None:
            joined[-1] = PageRange(before.first, None if part.last is None else max(part.last, before.last))
    return PageRanges(tuple(joined))


def _read_part(text: str) -> PageRange:
    found = _PART.fullmatch(text.strip())
    if found is None or not (found["first"] or found["last"]) or (found["last"] and not found["to"]):
        raise UsageError(f"{quoted(text.strip())} names no pages", FIX)
    first = int(found["first"] or 1)
    last = int(found["last"]) if found["last"] else None if found["to"] else first
    if first < 1 or max(first, last or 1) > MAX_PAGE:
        raise UsageError(f"{quoted(text.strip())} names no pages: they are numbered from 1", FIX)
    if last is not None and last < first:
        raise UsageError(f"{quoted(text.strip())} ends before it begins", FIX)
    return PageRange(first, last)
