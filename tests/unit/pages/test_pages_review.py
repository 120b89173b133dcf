"""The review of a change on a page."""

from datetime import UTC, datetime

from scaffold.core.change_approval import ReviewComment
from scaffold.git.patch import PatchFile, PatchHunk, PatchLine
from scaffold.pages.components import element, to_html
from scaffold.pages.review_section import PageReview, ReviewForms, review_section
from scaffold.views.changes.comment_standing import CommentStanding
from scaffold.views.changes.intents import ActionEvidence, ChangeEvidence, CheckEvidence, group_by_intent
from scaffold.views.changes.reviewed_change import ReviewedChange
from support.html_page import Page

EVIL = "<script>alert('x')</script>\u202e"


def change_of(path="a.py", text="x = 1", *, lines=1):
    added = tuple(PatchLine("+", text, 0, number) for number in range(1, lines + 1))
    file = PatchFile(
        path=path, former=path, status="A", mode="100644", former_mode="000000", added=lines, deleted=0, hunks=()
    )
    check = CheckEvidence(name="pytest -q", executed={path: frozenset({1})})
    known = ChangeEvidence(
        actions=(ActionEvidence(key="do", checks=(check,), observed=True),),
        touching={path: ("do",)},
        code={path: frozenset({1, 2})},
    )
    groups = group_by_intent([PatchFile(**{**as_fields(file), "hunks": (PatchHunk(added),)})], known)
    return ReviewedChange(base="b" * 40, head="c" * 40, fingerprint="f", groups=groups, files=())


def as_fields(file):
    return {name: getattr(file, name) for name in file.__struct_fields__}


def standing(text="why?", *, line=1, sent_as=""):
    comment = ReviewComment(
        id="c1",
        run_id="r",
        action_id="a",
        attempt_id="t",
        number=1,
        base_sha="b",
        commit_sha="c",
        fingerprint="f",
        path="a.py",
        first_line=1,
        last_line=1,
        quoted="x = 1",
        text=text,
        author="me",
        sent_as=sent_as,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return CommentStanding(comment=comment, action="do", attempt=1, line=line, path="a.py")


def page_of(review):
    return Page(to_html(element("html", element("body", review_section(review))), str))


def test_a_part_has_its_reason_its_lines_and_their_comments():
    """BX-25: a line that can run and that no check executed is marked; without a server there is no form."""
    page = page_of(PageReview(change=change_of(lines=2), comments=(standing(),), rest="scaffold review"))
    text = " ".join(page.texts)
    assert "do: pytest -q: 1 file, +2 -0" in text
    assert "executed 1 of its 2 lines that can run" in text
    assert text.index("x = 1") < text.index("Comment 1 by me on") < text.rindex("x = 1")
    assert text.count("!") == 2, "in the note, and at the line"
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert ids == ["review", "part-1", "part-1-1", "comment-c1", "part-1-2"]
    assert "form" not in {tag for tag, _ in page.tags}


def test_a_server_gets_comments_by_forms_without_scripts():
    """BX-25: each form has the hidden fields of the server, and the file and lines that it is about."""
    forms = ReviewForms(comment_url="/comments", fields={"csrf": "token-1", "change": "f"})
    page = page_of(PageReview(change=change_of(EVIL, EVIL), rest="scaffold review", forms=forms))
    (form,) = [attributes for tag, attributes in page.tags if tag == "form"]
    assert form == {"method": "post", "action": "/comments"}
    fields = {attributes["name"]: attributes.get("value") for tag, attributes in page.tags if tag == "input"}
    assert (fields["csrf"], fields["change"], fields["first"], fields["last"]) == ("token-1", "f", "1", "1")
    assert fields["path"].startswith("<script>")
    tags = {tag for tag, _ in page.tags}
    assert "script" not in tags
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on") or name == "style"]


def test_what_is_left_out_and_what_has_changed_is_said():
    """BX-25: an outdated comment keeps the lines that it quoted."""
    old = standing(line=None, sent_as="rejection")
    page = page_of(PageReview(change=change_of(lines=1_000), comments=(old,), rest="scaffold review do"))
    text = " ".join(page.texts)
    assert "600 more lines" in text
    assert "scaffold review do" in text
    assert "sent; outdated: its lines have changed since" in text
    assert text.index("Comments on other lines") < text.rindex("x = 1")
