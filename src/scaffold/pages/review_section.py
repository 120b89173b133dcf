"""The review of a change as HTML: its parts by intent, comments on its lines, and forms where a server takes them."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.printable_text import count_of
from scaffold.git.patch import PatchLine
from scaffold.pages.components import Element, Node, badge, element, scrolling, section
from scaffold.views.changes.change_text import NOT_RUN, comment_is_at, group_title, hunk_head
from scaffold.views.changes.comment_standing import CommentStanding
from scaffold.views.changes.intents import IntentGroup, ReviewedHunk
from scaffold.views.changes.reviewed_change import ReviewedChange
from scaffold.views.lookalikes import mark_lookalikes

MAX_HUNK_LINES = 400
MAX_LINES = 5_000
KINDS = {"+": "added", "-": "deleted", " ": "same"}
NOTE = (
    "Each part is under the line of a contract that it serves, as far as evidence shows; those that serve none come "
    f"first. {NOT_RUN} marks lines that can run and that no check executed."
)


class ReviewForms(Struct, frozen=True, kw_only=True):
    """Where the forms of a page are sent to. Each has the hidden `fields`, which include the token against forgery."""

    comment_url: str
    """Takes the fields `path`, `first`, `last`, `before` (`on` or absent) and `text`."""
    fields: Mapping[str, str]


class PageReview(Struct, frozen=True, kw_only=True):
    """What a page shows of a review; `forms` None makes it read-only."""

    change: ReviewedChange
    comments: tuple[CommentStanding, ...] = ()
    rest: str
    """The command that shows all of the change."""
    forms: ReviewForms | None = None


def review_section(review: PageReview) -> Element:
    """Return the section. Parts have the anchors `part-1`, ...; their lines `part-1-12`, or `part-1-before-12`."""
    writer = _ReviewWriter(review)
    groups = [writer.group(each) for each in review.change.groups]
    others = [each for each in review.comments if each.comment.id not in writer.told]
    rest = [element("h3", "Comments on other lines"), *(_comment_node(each, quoted=True) for each in others)]
    return section("review", "Review", *groups, *(rest if others else ()), note=NOTE)


class _ReviewWriter:
    """Numbers the parts, and keeps count of what is shown."""

    def __init__(self, review: PageReview) -> None:
        self._review = review
        self._left = MAX_LINES
        self._parts = 0
        self.told = set[str]()
        """The comments that were shown at their lines, by id."""

    def group(self, group: IntentGroup) -> Element:
        """Return the parts that serve one line; what tools write is folded."""
        is_folded = group.line.kind == "generated"
        parts = [self._part_node(hunk) for hunk in group.hunks]
        title = element("summary", element("strong", group_title(group)))
        return element("details", title, *parts, class_="intent", open=None if is_folded else "")

    def _part_node(self, hunk: ReviewedHunk) -> Element:
        self._parts += 1
        anchor = f"part-{self._parts}"
        shown = min(len(hunk.lines), MAX_HUNK_LINES, self._left)
        self._left -= shown
        rows = [row for line in hunk.lines[:shown] for row in self._line_rows(hunk, line, anchor)]
        more = count_of(len(hunk.lines) - shown, "more line")
        omitted = element("p", f"{more}: ", element("code", self._review.rest), class_="note")
        return element(
            "div",
            element("p", hunk_head(hunk), class_="part"),
            scrolling(element("table", element("tbody", *rows)), hunk_head(hunk)) if rows else None,
            omitted if shown < len(hunk.lines) else None,
            self._comment_form(hunk) if hunk.lines else None,
            id=anchor,
        )

    def _line_rows(self, hunk: ReviewedHunk, line: PatchLine, anchor: str) -> Iterator[Element]:
        number = line.new or line.old
        missed = line.sign == "+" and bool(hunk.executed) and number in hunk.can_run - hunk.executed
        before = "before-" if line.sign == "-" else ""
        cells = (
            element("td", f"{number}", class_="number"),
            element("td", NOT_RUN if missed else "", class_="mark"),
            element("td", element("code", line.sign + mark_lookalikes(line.text)), class_="text"),
        )
        yield element("tr", *cells, id=f"{anchor}-{before}{number}", class_=KINDS[line.sign])
        for each in self._review.comments:
            if each.comment.id not in self.told and comment_is_at(each, hunk, line):
                self.told.add(each.comment.id)
                yield element("tr", element("td", _comment_node(each, quoted=False), colspan="3"))

    def _comment_form(self, hunk: ReviewedHunk) -> Element | None:
        forms = self._review.forms
        if forms is None:
            return None
        last = max((line.new for line in hunk.lines), default=0)
        before = last == 0
        at = f"{last or max(line.old for line in hunk.lines)}"
        hidden = {**forms.fields, "path": hunk.file.former if before else hunk.file.path}
        checked = "" if before else None
        lines = [
            _with_label(name, element("input", name=key, type="number", min="1", value=at, required=""))
            for name, key in (("From line ", "first"), ("to line ", "last"))
        ]
        return element(
            "details",
            element("summary", "Comment"),
            element(
                "form",
                *(element("input", type="hidden", name=name, value=value) for name, value in hidden.items()),
                *lines,
                _with_label("before the change ", element("input", type="checkbox", name="before", checked=checked)),
                _with_label("What is to be changed ", element("textarea", name="text", required="", rows="3")),
                element("button", "Add comment", type="submit"),
                method="post",
                action=forms.comment_url,
            ),
            class_="comment-form",
        )


def _with_label(name: str, field: Element) -> Element:
    return element("label", name, field)


def _comment_node(standing: CommentStanding, *, quoted: bool) -> Element:
    comment = standing.comment
    head: Sequence[Node] = (
        badge("pending" if not comment.sent_as else "done"),
        f" Comment {comment.number} by {comment.author} on ",
        element("code", comment.place),
        f", attempt {standing.attempt}: {standing.state}",
    )
    return element(
        "div",
        element("p", *head),
        element("pre", comment.quoted) if quoted else None,
        element("pre", comment.text),
        element("p", f"Its agent says: {standing.said}", class_="note") if standing.said else None,
        class_="comment",
        id=f"comment-{comment.id}",
    )
