"""Describe refused work to its agent: what failed, why, with names and files, and what it may do. Bounded.

Agents, planners and people read it, so it has none of the words of our code.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, assert_never

from msgspec import Struct

from scaffold.core.printable_text import count_of, truncate_text
from scaffold.core.proof.contract import CheckResult, SafetyRefusal, Verification
from scaffold.core.proof.gates import GateKind, GateResult, Regression
from scaffold.plan.story.criteria_review import FORM

FAILURE_CHARS = 4_000
"""The limit for one refusal."""
MIN_FAILURE_CHARS = 800
"""A shorter piece says nothing: show fewer refusals instead."""
FAILURES_CHARS = 12_000
"""The limit for all of them; the next attempt gets them in full, with two diffs."""
MAX_TESTS = 20
"""Failed tests named per gate, and as many that no longer run."""
HEAD_CHARS = 1_000
MAX_REMEDIES = 12
MAX_NAMED = 20
"""Refusals named of those that are not shown."""

NAMED_REMEDIES: Mapping[str, str] = {
    "sealed": "Restore these files as they were: no task may change them.",
    "protected files": "Restore these files as they were. Only the author of the plan can declare them.",
    "protected": "Restore these files as they were, or ask for them with `request_files` if the task needs that.",
    "checks": "Restore these files as they were, remove the new ones among them, and put new tests into new files. If "
    "the task needs one of them changed, ask for it with `request_files`.",
    "shadowing": "Give these new files other names.",
    "repositories": "Remove these files, or have the test that needs such a repository create it.",
    "submodules": "Restore the submodules as they were; change files in their folders without commits of your own.",
    "attributes": "Remove these attributes from the files that set them, or ask for those files with `request_files`.",
    "links": "Replace these links by regular files, or remove them.",
    "stability": "Make it pass every time: remove what depends on order, chance or time.",
    "change": "Make the change that the task asks for.",
    "criteria": f"Add what is missing, or steps that do. Then judge all criteria again, in lines such as `{FORM}`.",
    "commit": "Bring the checkout into a state that git can commit.",
}
"""What may be done about the results that are no commands, by their names."""
CONSTRAINTS: Mapping[str, str] = {
    "must_exist": "there must be a file",
    "must_not_exist": "there must be no file",
    "must_not_change": "these files must stay as they were:",
}
WHO_ALLOWS: Mapping[SafetyRefusal, str] = {
    "undeclared": "If they are to change, declare them in the `files` of the action.",
    "kept": "If they are to change, take them out of the contract's `must_not_change`.",
    "forbidden": "Make such a change yourself.",
}
"""What a human may do about a change of paths that is refused."""
CONSTRAINT_REMEDY = "Add, remove or restore the files so that this holds; it was fixed before the work began."
UNUSABLE_REMEDY = (
    "Find out why, and undo what the work does to the command, its runner or its tests. If it is not due to the work, "
    "say so."
)
COMMAND_PROBLEMS: Mapping[str, tuple[str, str]] = {
    "fail": ("failed", "Change the work until the check passes; the check itself stays as it is."),
    "vacuous": ("ran no tests", "Write or restore the tests that it is to run, and let them run: not skipped."),
    "timeout": ("took too long", "Find what does not end, or make the work faster."),
    "error": ("gave no result", UNUSABLE_REMEDY),
}
"""What happened to a command, and what may be done about it, by its verdict."""
GATES: Mapping[GateKind, str] = {
    "test": "The repository's tests",
    "build": "The build",
    "lint": "The linter",
    "typecheck": "The type checker",
    "hooks": "The repository's commit hooks",
}
REPAIR = "Change the work until this succeeds again."
HOOK_REMEDY = "Change the work until these hooks pass; what they can fix, they have fixed. Do not turn any off."
FINDING_REMEDY = "Change the code so that these findings are gone; do not silence them."
TEST_REMEDY = (
    "Change the work so that these tests pass as they are. If the task itself asks for another result, ask for the "
    "file with `request_files` and change what the test expects."
)
LOST_REMEDY = (
    "Restore the tests that are missing or skipped, and make them pass. If the task asks for another result, change "
    "what they expect in their place."
)
GIVE_UP = "If the task cannot be done within these limits, change nothing more and say so, with the reason."


class RefusalReason(Struct, frozen=True, kw_only=True):
    """One reason why work is refused."""

    what: str
    """What is wrong, in a sentence; its first line names the check."""
    items: tuple[str, ...] = ()
    """The tests, findings or files concerned."""
    left_out: int = 0
    """How many more there are."""
    output: str = ""
    """The end of what the command printed."""
    remedies: tuple[str, ...]
    """What the agent may do about it."""


def summarize_failures(verification: Verification) -> str:
    """Return the blocking failures and the remedies, at most FAILURES_CHARS characters."""
    return describe_refusals(refusals_of(verification))


def safety_refusal_text(verification: Verification) -> str:
    """Return what work may not land for whatever it shows: the paths in one line, then why, and who can allow them."""
    refused = [(each.safety_refusal, _check_refusal(each)) for each in verification.failures if each.safety_refusal]
    named = [item.removeprefix("- ") for _, each in refused for item in each.items or (each.what.rstrip("."),)]
    why = [f"{each.what.rstrip(':')}. " * bool(each.items) + WHO_ALLOWS[kind] for kind, each in refused]
    return "\n".join([", ".join(named), *why])


def refusals_of(verification: Verification) -> tuple[RefusalReason, ...]:
    """Return why the work is refused: its blocking checks, then its blocking gates."""
    return (*map(_check_refusal, verification.failures), *map(_gate_refusal, verification.broken_gates))


def refusals_by_others(facts: str, action: str, failures: Sequence[CheckResult]) -> tuple[RefusalReason, ...]:
    """Return why work is refused that breaks `facts`, which another action had shown by the checks that fail now."""
    remedy = f"Change the work so that the checks of `{action}` pass as well. They belong to other work and stay."
    return tuple(
        RefusalReason(
            what=f"It breaks what `{action}` had shown ({facts}). {each.what}",
            items=each.items,
            output=each.output,
            remedies=(remedy,),
        )
        for each in map(_check_refusal, failures)
    )


def describe_refusals(refusals: Sequence[RefusalReason]) -> str:
    """Return the refusals as paragraphs, then what the agent may do; at most FAILURES_CHARS characters."""
    known = dict.fromkeys(remedy for each in refusals for remedy in each.remedies)
    remedies = (*tuple(known)[:MAX_REMEDIES], GIVE_UP)
    advice = "\n".join(["What you may do:", *(f"- {remedy}" for remedy in remedies)])
    return f"{_refusal_paragraphs(refusals, FAILURES_CHARS - len(advice) - 2)}\n\n{advice}"


def describe_failed_checks(verification: Verification) -> str:
    """Return the failures without remedies, for an agent that may change nothing."""
    return _refusal_paragraphs(refusals_of(verification), FAILURES_CHARS)


def first_failure(reason: str) -> str:
    """Return a reason up to the first line that says what failed, as one line: one that ends in a colon does not."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    end = next((number for number, line in enumerate(lines, 1) if not line.endswith(":")), len(lines))
    return " ".join(lines[:end])


def _refusal_paragraphs(refusals: Sequence[RefusalReason], left: int) -> str:
    # Of too many refusals the last are named only: a shortened text of each would help with none.
    share = max(MIN_FAILURE_CHARS, min(FAILURE_CHARS, left // max(1, len(refusals))))
    # One piece is left for the names of the others.
    shown = refusals if share * len(refusals) <= left else refusals[: left // share - 1]
    paragraphs = [_refusal_paragraph(each, share - 2) for each in shown]
    if others := refusals[len(shown) :]:
        names = [truncate_text(each.what.partition("\n")[0], 2 * share // MAX_NAMED) for each in others[:MAX_NAMED]]
        paragraphs.append("\n".join([f"{count_of(len(others), 'more problem')}:", *(f"- {each}" for each in names)]))
    return "\n\n".join(paragraphs)


def _refusal_paragraph(refusal: RefusalReason, limit: int) -> str:
    # Names of tests and files help more than output, so they get most of the room.
    what = refusal.what if len(refusal.what) <= HEAD_CHARS else f"{refusal.what[:HEAD_CHARS]}…"
    lines, left = [what[:limit]], limit - len(what)
    for_items = left if not refusal.output else 2 * left // 3
    for index, item in enumerate(refusal.items):
        if len(item) + 40 > for_items:
            lines.append(f"- … and {len(refusal.items) - index + refusal.left_out} more")
            break
        lines.append(item)
        for_items -= len(item) + 1
        left -= len(item) + 1
    else:
        lines += [f"- … and {refusal.left_out} more"] if refusal.left_out else []
    output, room = refusal.output, left - 60
    if output and room > 0:
        cut = output if len(output) <= room else f"… {output[-room:]}"
        lines.append(f"The end of its output:\n{cut}")
    return "\n".join(lines)


def _check_refusal(result: CheckResult) -> RefusalReason:
    why, _, rest = result.detail.partition("\n")
    if result.exit_code is None and result.name in NAMED_REMEDIES:
        lines, remedies = rest.splitlines(), (NAMED_REMEDIES[result.name],)
        # A list has one file a line. In anything else, such as an output, the end says most.
        if all(line.startswith("- ") for line in lines):
            return RefusalReason(what=why, items=tuple(lines), remedies=remedies)
        # An error of git is not the output of a check.
        if result.verdict == "error":
            return RefusalReason(what=result.detail, remedies=remedies)
        return RefusalReason(what=why, output=rest.rstrip(), remedies=remedies)
    kind, _, glob = result.name.partition(": ")
    if glob and kind in CONSTRAINTS:
        found = f" ({why})" if why else ""
        return RefusalReason(what=f"Not so: {CONSTRAINTS[kind]} `{glob}`{found}.", remedies=(CONSTRAINT_REMEDY,))
    happened, remedy = COMMAND_PROBLEMS[result.verdict]
    what = f"The check `{result.name}` {happened}. {why}".rstrip()
    return RefusalReason(what=what, output=rest.rstrip(), remedies=(remedy,))


def _gate_refusal(gate: GateResult) -> RefusalReason:
    where = f" in {gate.gate.folder}" if gate.gate.folder else ""
    subject = f"{GATES[gate.gate.kind]} (`{gate.gate.command}`{where})"
    if gate.verdict != "new_failure":
        why, _, rest = gate.detail.partition("\n")
        happened, remedy = COMMAND_PROBLEMS[gate.verdict]
        return RefusalReason(what=f"{subject} {happened}. {why}".rstrip(), output=rest.rstrip(), remedies=(remedy,))
    if gate.gate.runner == "exit":
        what = f"{subject} succeeded before the work and fails now."
        return RefusalReason(what=what, output=gate.detail.rstrip(), remedies=(REPAIR,))
    told = gate.regressions
    if not told:
        kind: Literal["finding", "fails"] = "finding" if gate.gate.runner == "findings" else "fails"
        new = [name for name, verdict in gate.tests.items() if verdict == "new_failure"]
        told = tuple(Regression(name=name, kind=kind) for name in new[:MAX_TESTS])
    by_kind = {"finding": FINDING_REMEDY, "fails": TEST_REMEDY, "missing": LOST_REMEDY, "skipped": LOST_REMEDY}
    remedies = dict.fromkeys(by_kind[each.kind] for each in told)
    return RefusalReason(
        what=f"{subject}: {_regression_count(gate, told)}:",
        items=tuple(_regression_lines(told)),
        left_out=max(0, gate.counts.get("new_failure", 0) - len(told)),
        # A finding is all that its tool prints; of tests the output says more than their messages.
        output="" if any(each.message for each in told if each.kind == "finding") else gate.detail.rstrip(),
        remedies=(HOOK_REMEDY,) if gate.gate.runner == "hooks" else tuple(remedies),
    )


def _regression_count(gate: GateResult, told: Sequence[Regression]) -> str:
    number = max(gate.counts.get("new_failure", 0), len(told))
    if gate.gate.runner == "hooks":
        return f"{count_of(number, 'new failure')} in the files of the change"
    if any(each.kind == "finding" for each in told):
        return count_of(number, "new finding")
    return f"{count_of(number, 'test')} {'is' if number == 1 else 'are'} worse than before the work"


def _regression_lines(regressions: Sequence[Regression]) -> Iterator[str]:
    for each in regressions:
        said = each.message.replace("\n", "\n    ")
        match each.kind:
            case "finding" if each.file:
                at = f"{each.file}:{each.line}" if each.line else each.file
                yield f"- {at}: {said}" + (f"\n    {each.source}" if each.source else "")
            case "finding":
                yield f"- {each.name}"
            case "fails":
                yield f"- {_test_in_file(each)} fails" + (f": {said}" if said else "")
            case "missing":
                yield f"- {_test_in_file(each)} passed before the work and is no longer there{_as_it_was(said)}"
            case "skipped":
                yield f"- {_test_in_file(each)} passed before the work and is skipped now{_as_it_was(said)}"
            case _:
                assert_never(each.kind)


def _as_it_was(said: str) -> str:
    return f"; as it was, it fails on this code: {said}" if said else ""


def _test_in_file(regression: Regression) -> str:
    return f"{regression.name} (in {regression.file})" if regression.file else regression.name
