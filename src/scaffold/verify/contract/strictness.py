"""Compare a final contract with its draft: it may add checks, but not remove or relax any."""

from collections.abc import Iterator

from msgspec import structs

from scaffold.core.proof.contract import Check, Contract, ExitCode, Expectation
from scaffold.verify.contract.check_runs import DEFAULT_TIMEOUT_S

GLOB_FIELDS = ("must_exist", "must_not_exist", "must_not_change")


def find_weakenings(draft: Contract, final: Contract) -> tuple[str, ...]:
    """Return a sentence for each way in which `final` demands less than `draft`."""
    weaker = [*_relaxed_commands(draft, final)]
    for kind in GLOB_FIELDS:
        remaining = set(getattr(final, kind))
        weaker += [f"{kind}: `{glob}` was removed" for glob in getattr(draft, kind) if glob not in remaining]
    return tuple(weaker)


def strengthen(draft: Contract, answer: Contract) -> Contract:
    """Return the draft with everything that `answer` adds; the draft's own checks stay first and so run first.

    An optional check of the draft becomes required if `answer` requires it.
    """
    required = {_comparison_key(check) for check in answer.commands if check.required}
    kept = tuple(
        structs.replace(check, required=check.required or _comparison_key(check) in required)
        for check in draft.commands
    )
    known = {_comparison_key(check) for check in kept}
    # Reversed twice: of two equal checks the first one counts, and the order stays.
    added = {
        _comparison_key(check): check for check in reversed(answer.commands) if _comparison_key(check) not in known
    }
    return structs.replace(
        draft,
        commands=(*kept, *reversed(added.values())),
        must_exist=_join_unique(draft.must_exist, answer.must_exist),
        must_not_exist=_join_unique(draft.must_not_exist, answer.must_not_exist),
        must_not_change=_join_unique(draft.must_not_change, answer.must_not_change),
    )


def _relaxed_commands(draft: Contract, final: Contract) -> Iterator[str]:
    by_key: dict[tuple[str, Expectation], list[Check]] = {}
    for check in final.commands:
        by_key.setdefault(_comparison_key(check), []).append(check)
    expected = {check.command: check.expect for check in final.commands}
    for check in draft.commands:
        same = by_key.get(_comparison_key(check), [])
        if not same and check.command in expected:
            now = _describe_expectation(expected[check.command])
            yield f"`{check.command}` expected {_describe_expectation(check.expect)} and now expects {now}"
        elif not same:
            yield f"`{check.command}` was removed"
        elif check.required and not any(each.required for each in same):
            yield f"`{check.command}` was required and is now optional"
        # Without a timeout the default counts, so a longer one relaxes the check.
        elif min(map(_timeout_s, same)) > _timeout_s(check):
            yield f"`{check.command}` had a timeout of {_timeout_s(check):g} s and now has a longer one"


def _comparison_key(check: Check) -> tuple[str, Expectation]:
    return check.command, check.expect


def _join_unique(first: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *more)))


def _timeout_s(check: Check) -> float:
    return DEFAULT_TIMEOUT_S if check.timeout_s is None else check.timeout_s


def _describe_expectation(expect: Expectation) -> str:
    return f"exit code {expect.code}" if isinstance(expect, ExitCode) else f"`{expect.text}` in its output"
