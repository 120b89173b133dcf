"""Audits: which verdicts count, and what follows them."""

from inline_snapshot import snapshot

from scaffold.core.proof.contract import CheckResult, Citation, Verification
from scaffold.core.proof.specification_audit import Audit, AuditedRequirement, AuditRound, Requirement, RequirementId
from scaffold.plan.compliance.requirements import gap_tasks
from scaffold.plan.compliance.rounds import (
    MAX_ROUNDS,
    REQUIREMENTS_PER_AUDIT,
    CloseGaps,
    ComplianceView,
    Complied,
    GaveUp,
    StartAudit,
    audit_goal,
    is_reserved,
    next_round,
    rounds_without_gain,
)
from scaffold.plan.compliance.verdicts import AUDIT, audit_in, judge_audit

R1, R2 = RequirementId("R1"), RequirementId("R2")
HERE, NOWHERE = Citation(file="a.py", line=1), Citation(file="b.py", line=9)


def problem(citation):
    return None if citation == HERE else f"`{citation.file}:{citation.line}` is not there"


def said(name, verdict, *citations, note=""):
    return AuditedRequirement(id=name, verdict=verdict, citations=citations, note=note)


def judged(*answers, asked=(R1,)):
    return judge_audit(Audit(requirements=answers, summary=" s "), asked, problem)


def test_a_requirement_is_met_only_by_lines_that_can_be_looked_up():
    """AL-30: a lie counts as unclear, whatever else is true."""
    rows = (
        ([said(R1, "met", HERE)], "met", None),
        ([said(R1, "met", HERE), said(R1, "met", HERE)], "met", None),
        ([said(R1, "met")], "unclear", "no line is cited"),
        ([said(R1, "met", HERE, NOWHERE)], "unclear", "`b.py:9` is not there"),
        ([said(R1, "met", HERE), said(R1, "unmet")], "unclear", "contradicts itself"),
        ([said(R1, "unmet", NOWHERE, note=" gone ")], "unmet", None),
        ([said(R1, "unclear")], "unclear", None),
        ([], "unclear", "no verdict on it"),
    )
    for answers, verdict, complaint in rows:
        found = judged(*answers)
        (only,) = found.audit.requirements
        assert (only.id, only.verdict) == (R1, verdict), answers
        assert NOWHERE not in only.citations, answers
        assert [complaint in each for each in found.complaints] == ([True] if complaint else []), answers


def test_verdicts_are_in_the_order_in_which_they_were_asked_and_others_are_refused():
    """AL-30: each requirement has exactly one."""
    found = judged(said(RequirementId("R9"), "met", HERE), said(R2, "unmet", note="x"), asked=(R1, R2))
    assert [each.id for each in found.audit.requirements] == [R1, R2]
    assert found.audit.summary == "s"
    assert found.complaints == snapshot(("R1: the audit has no verdict on it", "R9: you were not asked about it"))


REQUIREMENTS = tuple(Requirement(id=each, text=f"text of {each}", line=7) for each in (R1, R2))


def audit(number, *met, commit="c" * 40):
    verdicts = tuple(said(each, "met" if each in met else "unmet", HERE, note="why") for each in (R1, R2))
    return AuditRound(number=number, commit=commit, verdicts=verdicts)


def view(*audits, has_tasks=False, tip="c" * 40):
    return ComplianceView(requirements=REQUIREMENTS, audits=audits, has_tasks=has_tasks, tip=tip)


def test_what_follows_an_audit():
    """AL-30: gaps become tasks, tasks are audited, and an audit counts for its own commit alone."""
    rows = (
        (view(), StartAudit(1)),
        (view(audit(1, R1, R2)), Complied()),
        (view(audit(1, R1, R2), tip="d" * 40), StartAudit(2)),
        (view(audit(1, R1)), CloseGaps(1, (R2,))),
        (view(audit(1)), CloseGaps(1, (R1, R2))),
        (view(audit(1, R1), has_tasks=True), StartAudit(2)),
        (view(audit(1, R1), audit(2, R1)), CloseGaps(2, (R2,))),
        (view(audit(1, R1), audit(2, R2)), CloseGaps(2, (R1,))),
    )
    assert [(seen, next_round(seen)) for seen, _ in rows] == list(rows)


def test_the_rounds_end_when_nothing_is_gained_or_there_were_too_many():
    """AL-30: the reason names what is left."""
    audits = (
        (audit(1), audit(2)),
        (audit(1, R1), audit(2, R2), audit(3, R1)),
        (audit(1, R1), audit(2, R1, R2), audit(MAX_ROUNDS, R1)),
    )
    ended = [next_round(view(*each)) for each in audits]
    assert [type(each) for each in ended] == [GaveUp] * 3
    assert [each.reason for each in ended] == snapshot(
        [
            "0 of 2 requirements are met by the last audit, and 2 rounds in a row gained nothing: R1 unmet, R2 unmet",
            "1 of 2 requirements are met by the last audit, and 2 rounds in a row gained nothing: R2 unmet",
            "1 of 2 requirements are met by the last audit after 10 rounds, which is the limit: R2 unmet",
        ]
    )


def test_an_audit_without_a_verdict_leaves_a_gap():
    """AL-30: what nobody judged is not met."""
    empty = AuditRound(number=1, commit="c" * 40, verdicts=())
    assert next_round(view(empty)) == CloseGaps(1, (R1, R2))
    ended = next_round(view(empty, AuditRound(number=2, commit="c" * 40, verdicts=())))
    assert "R1 unclear, R2 unclear" in ended.reason


def test_gain_is_measured_against_the_best_audit():
    """AL-30: what was lost and regained is no gain."""
    assert rounds_without_gain(()) == 0
    assert rounds_without_gain((audit(1, R1, R2), audit(2), audit(3, R1))) == 2
    assert rounds_without_gain((audit(1), audit(2, R1))) == 0


def test_the_requirements_of_an_audit_are_divided_among_auditors():
    """AL-30: by their number and their length; each has an assertion of its own."""
    few = audit_goal(1, REQUIREMENTS)
    assert [action.key for action in few.actions] == ["audit-1"]
    assert few.actions[0].acceptance == ("R1: text of R1", "R2: text of R2")
    assert (few.actions[0].title, few.goal_state) == ("Audit 1: R1 to R2", ("audited:audit-1",))
    assert audit_goal(3, REQUIREMENTS[:1]).actions[0].title == "Audit 3: R1"
    many = [Requirement(id=RequirementId(f"R{number}"), text="x", line=1) for number in range(45)]
    assert [len(each.acceptance) for each in audit_goal(2, many).actions] == [REQUIREMENTS_PER_AUDIT] * 2 + [5]
    assert audit_goal(2, many).actions[1].key == "audit-2.2"
    long = [Requirement(id=RequirementId(f"R{number}"), text="x" * 1_000, line=1) for number in range(15)]
    assert [len(each.acceptance) for each in audit_goal(2, long).actions] == [11, 4]


def test_a_gap_is_a_task_with_what_the_audit_says_of_it():
    """AL-30: in the words of the specification, and with the lines that were cited."""
    (task,) = gap_tasks(audit(2, R1), REQUIREMENTS, [R2])
    assert (task.key, task.title, task.acceptance) == ("gaps-2/R2", "text of R2", ("text of R2",))
    assert task.description.splitlines() == snapshot(
        [
            "Line 7 of the specification requires (R2):",
            "> text of R2",
            "",
            "An audit of cccccccc found it unmet: why",
            "- a.py:1",
            "",
            (
                "Find out what is missing and add it, with tests that show it. The audit may be wrong: "
                "if the requirement is met already, change nothing, and say where it is met."
            ),
        ]
    )
    long = Requirement(id=R1, text="y" * 300, line=1)
    (task,) = gap_tasks(AuditRound(number=1, commit=None, verdicts=()), [long], [R1])
    assert len(task.title) == 100
    assert "found it unclear" in task.description


def test_the_names_of_rounds_are_kept_for_them():
    """AL-30: a plan that takes them is refused."""
    assert [is_reserved(name) for name in ("audit-1", "gaps-2/R1", "audit", "x")] == [True, True, False, False]


def test_an_audit_is_read_from_the_verification_that_holds_it():
    """AL-30: it is stored there and nowhere else."""
    audit_result = CheckResult(name=AUDIT, verdict="pass", detail='{"requirements": [], "summary": "s"}')
    assert audit_in(Verification(commit="c" * 40, results=(audit_result,))) == Audit(requirements=(), summary="s")
    assert audit_in(Verification(commit="c" * 40, results=())) is None
    assert audit_in(None) is None
