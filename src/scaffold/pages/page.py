"""A page about a run: the sections in reading order, for the report and the browser; the report's head and style."""

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.printable_text import count_of
from scaffold.core.proof.contract import STRENGTHS
from scaffold.core.states import Failed, status_of
from scaffold.pages.attention import failures_section, inbox_section, next_section, setbacks_section
from scaffold.pages.components import (
    Element,
    LongTexts,
    Node,
    References,
    Stylesheet,
    badge,
    commit,
    element,
    moment,
    section,
    to_html,
    tone_of,
)
from scaffold.pages.evidence_section import compliance_section, evidence_section
from scaffold.pages.plan_graph import PlanGraph
from scaffold.pages.review_section import PageReview, review_section
from scaffold.pages.run_tables import action_table, attempt_table, cost_section
from scaffold.pages.timeline import timeline
from scaffold.policy.secret.redaction import Redactor
from scaffold.views.run_history import RunCosts, RunHistory, read_history, run_costs
from scaffold.views.run_view import RunView
from scaffold.views.state_labels import goal_reason
from scaffold.views.store_reader import StoreAccess
from scaffold.views.text_format import clip, format_cost, format_duration

TITLE_CELLS = 160
REASON_CELLS = 400


class RunContent(Struct, frozen=True, kw_only=True):
    """What a page shows of a run, without secrets."""

    view: RunView
    history: RunHistory
    costs: RunCosts


def read_content(reader: StoreAccess, view: RunView, redactor: Redactor) -> RunContent:
    """Return a run's content for a page: `view` with its history and costs, each text without its secrets."""
    history = read_history(reader, view)
    content = RunContent(
        view=view,
        history=history,
        costs=run_costs(view, history.turns, reader.store.bookings.for_run(view.run.id), history),
    )
    # Before rendering: the page cuts long texts, and half a secret would not be recognised. A secret such as
    # `completed` is also a status: such a word of ours stays, and only the page redacts it.
    words = frozenset(_own_words(msgspec.json.schema(RunContent, schema_hook=lambda _: {"type": "string"})))
    built = msgspec.to_builtins(content, builtin_types=(datetime,), enc_hook=str)
    return msgspec.convert(redactor.clean_all(built, kept=words), RunContent, dec_hook=lambda kind, value: kind(value))


def _own_words(schema: Any) -> Iterator[str]:
    """Yield the words that a JSON schema fixes: names of fields, and values of closed sets."""
    match schema:
        case dict():
            yield from schema.get("properties", ())
            yield from (word for word in (*schema.get("enum", ()), schema.get("const")) if isinstance(word, str))
            for each in schema.values():
                yield from _own_words(each)
        case list():
            for each in schema:
                yield from _own_words(each)


def report_page(
    content: RunContent, review: PageReview | None = None, *, root: Path, clean: Callable[[str], str]
) -> str:
    """Return the report of a run as one HTML page, which loads nothing and runs nothing.

    `root` is the repository's checkout; `clean` removes secrets from a text.
    """
    view = content.view
    command = element("code", f"scaffold open {view.run.id}")
    header, contents, main = run_elements(content, root, inbox=inbox_section(view), review=review)
    body = element(
        "body",
        element("a", "To the evidence", href="#evidence", class_="skip"),
        header,
        contents,
        element("main", *main),
        element("footer", as_of(view), element("p", command, " writes this page anew and opens it.")),
    )
    page = element("html", _page_head(f"{clip(view.run.request, 60)}: {view.status}"), body, lang="en")
    return to_html(page, clean)


def as_of(view: RunView) -> Element:
    """Return when the run was read."""
    zone = view.summary.at.astimezone().strftime("%z")
    return element("p", "As of ", moment(view.summary.at), f"; all times are local, UTC{zone}. ")


def run_elements(
    content: RunContent, root: Path, *, inbox: Node, review: PageReview | None = None, first: Sequence[Node] = ()
) -> tuple[Element, Element, Sequence[Node]]:
    """Return a page's header, the list of its sections, and these: `first`, then `inbox`, then the run's own."""
    view, history = content.view, content.history
    refs, texts = References(view.run.id, view.actions), LongTexts()
    lanes = timeline(view, history, refs)
    attempts = attempt_table(view, history) if view.attempts else None
    sections = [
        *first,
        inbox,
        failures_section(view, history, refs, texts),
        next_section(view, root),
        evidence_section(view, refs, texts),
        review_section(review) if review is not None else None,
        compliance_section(view),
        _plan_section(view, refs, texts),
        section("timeline", "Timeline", lanes, attempts) if lanes is not None else None,
        setbacks_section(view, history, refs, texts),
        cost_section(content.costs),
    ]
    present = [each for each in sections if isinstance(each, Element)]
    entries = []
    for each in present:
        heading = each.children[0]
        title = heading.children if isinstance(heading, Element) else ()
        entries.append(element("li", element("a", *title, href=f"#{dict(each.attributes)['id']}")))
    tiles = [
        element("div", element("dt", name), element("dd", element("strong", value), element("span", more)))
        for name, value, more in _key_figures(view)
    ]
    contents = element("nav", element("ul", *entries), aria_label="Sections")
    return _run_header(view, texts), contents, [element("dl", *tiles, class_="tiles"), *present]


def _page_head(title: str) -> Element:
    css = (files(__package__) / "report.css").read_text("utf-8")
    # Nothing is loaded and no script runs, whatever a text of an agent might turn into in some browser.
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Stylesheet(css)),
    )


def _run_header(view: RunView, texts: LongTexts) -> Element:
    run, settings = view.run, view.run.settings
    is_cut = len(run.request.strip().splitlines()) > 1 or clip(run.request, TITLE_CELLS).endswith("…")
    whole = texts.folded(run.request, "The whole request", f"scaffold status {run.id} --json") if is_cut else None
    source = run.base_branch or "a detached HEAD"
    # Why it failed has a section of its own.
    reason = None if isinstance(run.state, Failed) else view.summary.reason
    about: list[Node] = [
        "Run ", element("code", run.id), f", tier {settings.tier.name}, started ", moment(run.created_at),
        ", from ", element("code", source), " at ", commit(run.base_sha),
        ", lands on ", element("code", run.session_branch),
    ]  # fmt: skip
    return element(
        "header",
        element("p", "Scaffold report ", badge(view.status), class_="kicker"),
        element("h1", clip(run.request, TITLE_CELLS)),
        whole,
        element("p", clip(reason, REASON_CELLS), class_="reason") if reason else None,
        element("p", *about, class_="about"),
        class_=tone_of(view.status),
    )


def _key_figures(view: RunView) -> Iterator[tuple[str, str, str]]:
    run, spent = view.run, view.summary.spent
    held = sum(goal.held for goal in view.summary.goals)
    desired = sum(goal.desired for goal in view.summary.goals)
    yield "Assertions shown", f"{held} of {desired}", f"in {count_of(len(view.goals), 'goal')}"
    holding = [fact for goal in view.goals for fact in view.facts_of(goal) if fact.state == "holds"]
    counts = {strength: sum(fact.strength == strength for fact in holding) for strength in STRENGTHS}
    strengths = [f"{number} {strength}" for strength, number in counts.items() if number]
    yield "Facts", f"{len(holding)}", ", ".join(strengths) or "none yet"
    work = [action for action in view.actions if action.kind == "primitive"]
    done = sum(status_of(action.state) == "completed" for action in work)
    tries = sum(map(len, view.attempts.values()))
    yield "Actions done", f"{done} of {len(work)}", f"in {count_of(tries, 'attempt')}"
    until = view.summary.at if view.summary.is_live else view.last_change
    yield "Time", format_duration(until - run.created_at), f"{count_of(run.settings.tier.agents, 'agent')} at once"
    budget = view.summary.budget.in_words or "no budget set"
    yield "Cost", format_cost(spent.cost_usd), f"{spent.tokens:,} tokens; {budget}"


def _plan_section(view: RunView, refs: References, texts: LongTexts) -> Node:
    if not view.actions:
        return None
    blocks = []
    for goal in view.goals:
        held, reason = view.holding(goal), goal_reason(goal, view.summary.at)
        score = f"{sum(name in held for name in goal.desired)} of {count_of(len(goal.desired), 'assertion')} hold"
        title = element("h3", goal.name, " ", badge(status_of(goal.state)))
        about = element("p", f"{score}{f': {clip(reason, 300)}' if reason else ''}", class_="note")
        blocks.append(element("div", title, about, PlanGraph(view, goal, refs).draw()))
    note = "A line leads from an action to one that needs its facts; it is broken where these do not hold."
    table = action_table(view, refs, texts)
    return section("plan", "Plan", element("div", *blocks, class_="goals"), element("h3", "Actions"), table, note=note)
