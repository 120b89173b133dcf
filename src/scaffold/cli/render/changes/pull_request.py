"""The text of a pull request: the request, the landed commits, and their evidence; weak facts first."""

import re
from collections.abc import Iterator

from scaffold.cli.render.goals_tasks_agents import evidence_source
from scaffold.core.landing.branch_move import TakenCommit
from scaffold.core.model import Fact
from scaffold.core.printable_text import count_of, printable
from scaffold.core.proof.contract import STRENGTHS, Strength, reasons_of
from scaffold.landing.taking.github_pull_request import PullRequest
from scaffold.landing.taking.land import TakenWork
from scaffold.landing.taking.remake import request_line, work_title
from scaffold.policy.secret.redaction import Redactor
from scaffold.views.run_view import RunView

MARKS: dict[Strength, str] = {each: "⚠️ weak" if each == "weak" else each for each in STRENGTHS}
MAX_BODY_CHARS = 60_000
"""GitHub takes 65,536 characters."""
MAX_TITLE_CHARS = 256
"""GitHub takes no longer ones."""
MAX_REQUEST_CHARS = 10_000
MAX_EVIDENCE = 6


def pull_request_of(view: RunView, work: TakenWork, redactor: Redactor) -> PullRequest:
    """Return the pull request of what is taken, without secrets."""
    body = redactor.clean("\n".join(_body_lines(view, work)))
    if len(body) > MAX_BODY_CHARS:
        # Whole lines: half a code span is no code.
        whole = body[:MAX_BODY_CHARS].rpartition("\n")[0]
        body = f"{whole}\n\n(shortened; `scaffold review {view.run.id}` shows the rest)"
    title = work_title(view.run, view.goals, work.commits, work.only)
    return PullRequest(title=redactor.clean(printable(title))[:MAX_TITLE_CHARS], body=body)


def _body_lines(view: RunView, work: TakenWork) -> Iterator[str]:
    keys = {each.action for each in work.commits}
    ids = {action.id: action for action in view.actions if action.key in keys}
    effects = {(action.goal_id, effect) for action in ids.values() for effect in action.effects}
    facts = [fact for own in view.facts.values() for fact in own if (fact.goal_id, fact.assertion) in effects]
    weak = [fact for fact in facts if fact.state == "holds" and fact.strength == "weak"]
    yield _code_block(request_line(view.run, view.goals) if view.run.settings.planning.plan_path else view.run.request)
    if weak:
        yield f"\n## {count_of(len(weak), 'fact')} to look at\n"
        for fact in weak:
            yield f"- {_code_span(fact.assertion)}: {'; '.join(map(_code_span, reasons_of(fact.doubts)))}"
    yield "\n## Commits\n"
    for each in work.commits:
        yield f"- {_code_span(each.subject)}"
        yield from _fact_lines(view, each, facts)
    if work.doubt:
        yield f"\nNot proven: {work.doubt}."
    yield f"\nRun `{view.run.id}` of Scaffold; base `{work.old[:12]}`."


def _fact_lines(view: RunView, commit: TakenCommit, facts: list[Fact]) -> Iterator[str]:
    action = next((each for each in view.actions if each.key == commit.action), None)
    for fact in facts if action else ():
        if action and fact.goal_id == action.goal_id and fact.assertion in action.effects:
            state = MARKS[fact.strength] if fact.state == "holds" else fact.state
            yield f"  - {_code_span(fact.assertion)} ({state})"
            for each in fact.evidence[:MAX_EVIDENCE]:
                shown = f"{_code_span(each.command)} exited with {each.exit_code}" if each.exit_code is not None else ""
                yield f"    - {shown or _code_span(evidence_source(each))}"
            if len(fact.evidence) > MAX_EVIDENCE:
                yield f"    - and {len(fact.evidence) - MAX_EVIDENCE} more"


def _code_block(text: str) -> str:
    # No mention, keyword or tag of an agent's text has an effect in a block of code.
    lines = [printable(line) for line in text.strip().splitlines()]
    shown = "\n".join(lines)
    left_out = len(shown) - MAX_REQUEST_CHARS
    if left_out > 0:
        shown = f"{shown[:MAX_REQUEST_CHARS]}... ({left_out:,} more characters)"
    # The fence is longer than any in the text.
    fence = "`" * max(3, 1 + max((len(each) for each in re.findall("`+", shown)), default=0))
    return f"{fence}text\n{shown}\n{fence}"


def _code_span(text: str | None) -> str:
    # Likewise within a line of Markdown.
    return f"`{printable(' '.join((text or '').replace('`', chr(39)).split()))}`"
