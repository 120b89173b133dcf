"""Every fact with its evidence, doubtful ones first; and the requirements of a specification with their verdicts."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from scaffold.core.ids import AttemptId
from scaffold.core.model import Action, Attempt, Evidence, Fact, Goal
from scaffold.core.printable_text import count_of
from scaffold.core.proof.contract import STRENGTHS, reasons_of
from scaffold.core.proof.specification_audit import AuditedRequirement, Requirement
from scaffold.core.states import status_of
from scaffold.pages.components import (
    MAX_ROWS,
    Element,
    LongTexts,
    Node,
    References,
    TableRow,
    badge,
    commit,
    element,
    mark_of,
    moment,
    section,
    table,
)
from scaffold.views.action_notes import status_reason
from scaffold.views.compliance import CLAIM
from scaffold.views.run_view import RunView
from scaffold.views.state_labels import AGREEMENTS, NARRATIVE_EVIDENCE
from scaffold.views.text_format import clip

ORDER = ("refuted", "stale", *STRENGTHS)
"""In reading order: the most doubtful first."""
SETTLED = frozenset({"proven", "unchanged behaviour"})
"""What needs no look."""
KINDS: Mapping[str, str] = {
    "contract": "contract",
    "trivial": "no check",
    "change": "change",
    "gate": "gate",
    "review": "review",
    "human": "your decision",
    "merge": "merge",
    "step": "step",
    "audit": "audit",
}

TEXT_CELLS = 300


class ActionAttempt(Struct, frozen=True):
    """An action and one of its attempts."""

    action: Action
    attempt: Attempt


class SameEvidence(Struct, frozen=True):
    """Facts with the same evidence: the effects of one action."""

    goal: Goal
    facts: tuple[Fact, ...]

    @property
    def first(self) -> Fact:
        """Return one of the facts; they differ only in their assertion."""
        return self.facts[0]

    @property
    def standing(self) -> str:
        """Return the strength of facts that hold, else their state."""
        return self.first.strength if self.first.state == "holds" else self.first.state


WorkByAttempt = Mapping[AttemptId, ActionAttempt]


def evidence_section(view: RunView, refs: References, texts: LongTexts) -> Element:
    """Return the section of all facts."""
    groups = sorted(_evidence_groups(view), key=lambda group: ORDER.index(group.standing))
    work = {each.id: ActionAttempt(action, each) for action in view.actions for each in view.attempts_of(action)}
    cards = [_evidence_card(group, work, refs, texts) for group in groups[:MAX_ROWS]]
    more = f"and {len(groups) - MAX_ROWS:,} more: see `{refs.command('goals')}`" if len(groups) > MAX_ROWS else None
    nothing = None if groups else element("p", "Nothing has been shown yet.")
    intro = "What was shown to be true, with what showed it. What needs a second look comes first."
    missing = list(_missing_assertions(view, refs))
    return section("evidence", "Evidence", *missing, nothing, *cards, more and element("p", more), note=intro)


def _evidence_groups(view: RunView) -> Iterator[SameEvidence]:
    for goal in view.goals:
        together: dict[tuple[object, ...], list[Fact]] = {}
        for fact in view.facts_of(goal):
            same = (fact.state, fact.commit, fact.reviewed, fact.doubts, fact.evidence)
            together.setdefault(same, []).append(fact)
        yield from (SameEvidence(goal, tuple(facts)) for facts in together.values())


def _missing_assertions(view: RunView, refs: References) -> Iterator[Element]:
    entries = []
    for goal in view.goals:
        known = {fact.assertion for fact in view.facts[goal.id]}
        actions = view.actions_of(goal)
        by_id = {action.id: action for action in actions}
        for name in (name for name in goal.desired if name not in known):
            nodes: list[Node] = [element("code", name), f" for {goal.name}"]
            for action in (each for each in actions if name in each.effects):
                reason = clip(status_reason(action, by_id), 200)
                state = f", {status_of(action.state)}{f': {reason}' if reason else ''}"
                nodes += [" from ", refs.link(action), state]
            entries.append(element("li", *nodes))
    if entries:
        label = element("p", badge("missing"), f" {count_of(len(entries), 'assertion')} not shown:")
        yield element("div", label, element("ul", *entries[:MAX_ROWS]), class_="card bad")


def _evidence_card(group: SameEvidence, work: WorkByAttempt, refs: References, texts: LongTexts) -> Element:
    fact, standing = group.first, group.standing
    names: list[Node] = []
    for each in group.facts:
        names += [" ", element("code", each.assertion)]
    where: list[Node] = [" ", element("span", group.goal.name, class_="goal"), " ", commit(fact.commit)]
    shown_by = [work[each.attempt_id].action for each in fact.evidence if each.attempt_id and each.attempt_id in work]
    by = next((action for action in shown_by if fact.assertion in action.effects), None)
    source: list[Node] = ["By ", refs.link(by), f": {clip(by.description, 160)}"] if by else []
    return element(
        "details",
        element("summary", badge(standing), *names, *where),
        element("p", *source) if source else None,
        *_doubt_nodes(fact),
        element("ul", *_evidence_entries(fact, by, work, refs, texts), class_="evidence"),
        class_=f"card {'' if standing in SETTLED else 'open'}".strip(),
        open=None if standing in SETTLED else "",
    )


def _doubt_nodes(fact: Fact) -> Iterator[Element]:
    if not fact.doubts:
        return
    agreed = [each.detail.partition("\n")[0] for each in fact.evidence if each.kind in AGREEMENTS]
    why = "What no check could decide, and who agreed" if fact.reviewed else f"Why it is {fact.strength}"
    entries = [element("li", reason, class_="doubt") for reason in reasons_of(fact.doubts)]
    entries += [element("li", clip(each, 300), class_="agreed") for each in agreed] if fact.reviewed else []
    yield element("p", f"{why}:")
    yield element("ul", *entries)


def _evidence_entries(
    fact: Fact, by: Action | None, work: WorkByAttempt, refs: References, texts: LongTexts
) -> Iterator[Element]:
    command = refs.command("contract", by) if by else refs.command("goals")
    rules = [each for each in fact.evidence if _is_rule(each)]
    for each in fact.evidence:
        if not _is_rule(each):
            kind = element("span", KINDS[each.kind], class_="kind")
            yield element("li", kind, element("div", *_evidence_nodes(each, work, texts, command)))
    if rules:
        listed = [element("li", element("code", each.command or each.kind)) for each in rules]
        title = element("summary", mark_of("pass"), f" {count_of(len(rules), 'rule')} about files")
        rules_list = element("details", title, element("ul", *listed))
        yield element("li", element("span", "files", class_="kind"), rules_list)


def _is_rule(evidence: Evidence) -> bool:
    # A constraint on files is checked without a command.
    return evidence.exit_code is None and evidence.kind not in {*NARRATIVE_EVIDENCE, "gate"}


def _evidence_nodes(evidence: Evidence, work: WorkByAttempt, texts: LongTexts, command: str) -> Iterator[Node]:
    where = element("span", "at ", commit(evidence.commit), ", ", moment(evidence.at))
    if evidence.kind in NARRATIVE_EVIDENCE:
        yield from (where, texts.shown(evidence.detail, command))
        return
    ended = "" if evidence.exit_code is None else f"exit {evidence.exit_code}"
    # The first line says what was found; of a check, the others are the end of its output.
    found, _, output = evidence.detail.partition("\n")
    told = [each for each in dict.fromkeys((ended, found)) if each and each != f"exit code {evidence.exit_code}"]
    yield from (element("code", evidence.command or evidence.kind, class_="command"), f" {', '.join(told)} ", where)
    when = ""
    if evidence.kind == "gate":
        output, when = _gate_output(evidence, work), " before the landing"
    yield texts.folded(output, f"Output{when}: {count_of(output.strip().count(chr(10)) + 1, 'line')}", command)


def _gate_output(evidence: Evidence, work: WorkByAttempt) -> str:
    # What the gate printed at the landing is not stored.
    found = work.get(evidence.attempt_id) if evidence.attempt_id else None
    gates = found.attempt.verification.gates if found and found.attempt.verification else ()
    return next((gate.detail for gate in gates if gate.gate.command == evidence.command), "")


def compliance_section(view: RunView) -> Node:
    """Return the section; None for a run whose specification is not audited."""
    compliance = view.compliance
    if compliance is None:
        return None
    rows = (_requirement_row(each, compliance.verdict(each.id)) for each in compliance.requirements)
    listed = table(("Requirement", "Line", "Verdict", "Cited", "Note"), rows, label="Requirements")
    return section("requirements", "Requirements", listed, note=f"{compliance.summary}. {CLAIM}")


def _requirement_row(requirement: Requirement, said: AuditedRequirement | None) -> TableRow:
    places = [element("code", f"{each.file}:{each.line}") for each in (said.citations if said else ())]
    return TableRow(
        (
            f"{requirement.id}: {clip(requirement.text, TEXT_CELLS)}",
            f"{requirement.line}",
            badge(said.verdict if said else "pending"),
            element("div", *(node for each in places for node in (each, " "))),
            clip(said.note, TEXT_CELLS) if said else "",
        )
    )
