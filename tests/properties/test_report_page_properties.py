"""No text of an agent, a repository or a model becomes markup in a report, and none is lost."""

from datetime import timedelta
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import THEN, a_goal, a_run, an_action, an_attempt
from scaffold.core.model import Evidence, Fact, InboxItem, PlanningTurn, Usage
from scaffold.core.printable_text import printable
from scaffold.core.proof.contract import Doubt
from scaffold.core.states import Completed, Failed
from scaffold.pages.components import element, to_html
from scaffold.pages.page import RunContent, report_page
from scaffold.views.lookalikes import mark_lookalikes
from scaffold.views.run_history import run_costs
from support.html_page import Page
from support.property_examples import up_to
from support.report_views import a_history, a_view

ATTACKS = (
    "</style><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "<div data-mark=1></div></div></section>",
    "</title></text></svg><iframe src=//example.invalid>",
    "<!-- --> <![CDATA[ ]]> <?xml ?>",
    "&lt;b&gt; &#60;b&#62; &amp",
    "javascript:alert(1)",
    "\x1b[31mred\x1b[0m \x1b]8;;file:///etc/passwd\x07link\x1b]8;;\x07",
    "abc\u202egnp.exe \u2066x\u2069 \u200bhidden \ufeff",
    "a\0b\x07c\rd\x0ce",
    "lone \ud800 surrogate",
    "${x} {{x}} %s {0} `x`",
)
texts = st.sampled_from(ATTACKS) | st.text(max_size=20) | st.sampled_from(ATTACKS).map(lambda text: text * 40)
TAGS = frozenset(
    (
        *("html", "head", "meta", "title", "style", "body", "header", "nav", "main", "section", "footer", "p", "br"),
        *("h1", "h2", "h3", "ul", "li", "dl", "dt", "dd", "div", "span", "strong", "a", "code", "pre", "time"),
        *("table", "thead", "tbody", "tr", "th", "td", "details", "summary", "figure", "figcaption"),
        *("svg", "g", "rect", "line", "path", "text"),
    )
)
ATTRIBUTES = frozenset(
    (
        *("class", "id", "href", "title", "lang", "charset", "http-equiv", "content", "name", "datetime", "aria-label"),
        *("aria-hidden", "role", "tabindex", "open", "scope", "viewbox", "width", "height", "x", "y", "x1", "x2", "y1"),
        *("y2", "rx", "d", "transform", "text-anchor"),
    )
)


@st.composite
def pages(draw) -> tuple[str, list[str]]:
    """Return a report with the drawn texts in every field that can have one, and those shown whole."""
    goal = a_goal(draw(texts), desired=(draw(texts), "never"), description=draw(texts), state=Failed(draw(texts)))
    need, gives = draw(texts), draw(texts)
    described = {"description": draw(texts), "role": draw(texts)}
    parent = an_action(draw(texts), goal=goal, id="parent", kind="compound", effects=("never",))
    done = an_action("done", goal=goal, id="done", effects=(need,), state=Completed(), result=draw(texts), **described)
    failed = an_action(
        draw(texts), goal=goal, id="failed", parent_id="parent", preconditions=(need,), effects=(gives,),
        state=Failed(draw(texts)), **described,
    )  # fmt: skip
    error = {"error": draw(texts), "model": draw(texts)}
    attempts = [
        an_attempt(done, outcome="landed", status="ended", **error),
        an_attempt(failed, outcome="contract_failed", status="ended", **error),
        an_attempt(failed, 2, outcome="conflict", status="ended", **error),
    ]
    command, detail = draw(texts), draw(texts)
    shown = {"exit_code": 0, "commit": draw(texts), "at": THEN, "attempt_id": attempts[0].id}
    evidence = tuple(
        Evidence(kind=kind, command=command, detail=detail, **shown) for kind in ("contract", "gate", "review", "human")
    )
    doubts = (Doubt("not_executed", draw(texts)),)
    fact = Fact(
        goal_id=goal.id, assertion=need, state="holds", commit=draw(texts), paths=(), evidence=evidence, doubts=doubts
    )
    item = InboxItem(id=draw(texts), run_id=goal.run_id, kind="question", text=draw(texts), detail={}, created_at=THEN)
    turn = PlanningTurn(
        id="turn", run_id=goal.run_id, goal_id=goal.id, action_id="failed", event="replan", outcome="failed",
        error=draw(texts), usage=Usage(), started_at=THEN, ended_at=THEN + timedelta(seconds=9),
    )  # fmt: skip
    run = a_run(request=draw(texts), state=Failed(draw(texts)), base_branch=draw(texts), session_branch=draw(texts))
    view = a_view((parent, done, failed), goals=(goal,), attempts=attempts, facts=(fact,), inbox=(item,), run=run)
    history = a_history(view, turns=(turn,), warnings=(draw(texts),))
    root = Path("/" + draw(texts).replace("\0", "").strip("/"))
    content = RunContent(view=view, history=history, costs=run_costs(view, (turn,)))
    page = report_page(content, root=root, clean=str)
    # What a human is asked shows letters that look like others.
    return page, [command, mark_lookalikes(item.text), doubts[0].text, need, goal.name]


@given(pages())
@settings(max_examples=up_to(150), deadline=None)
def test_texts_stay_texts(made):
    """SC-19: only elements and attributes of ours, no script, no address outside the page, nothing unprintable."""
    source, whole = made
    page = Page(source)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert {name for _, attributes in page.tags for name in attributes} <= ATTRIBUTES
    assert page.declarations == ["doctype html"]
    anchors = {f"#{name}" for name in page.values("id")}
    assert set(page.values("href")) <= anchors
    assert len(page.values("id")) == len(anchors)
    assert printable(source) == source
    shown = " ".join(page.text.split())
    for text in whole:
        assert " ".join(printable(text).split()) in shown


@given(texts, texts)
@settings(max_examples=up_to(300), deadline=None)
def test_an_element_is_read_back_as_it_was_made(text, value):
    page = Page(to_html(element("p", text, title=value), str))
    assert page.tags == [("p", {"title": printable(value)})]
    assert page.text.strip("\n") == printable(text).strip("\n")


@given(texts)
def test_secrets_are_removed_before_anything_is_escaped(text):
    """SC-19: also from attributes."""
    page = Page(to_html(element("p", text, title=text), lambda _: "[redacted]"))
    assert (page.text.strip(), page.values("title")) == ("[redacted]", ["[redacted]"])
