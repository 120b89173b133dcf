"""A final contract may only add to its draft: what was asked before the work is asked after it, as strictly."""

from collections.abc import Iterator

from msgspec import structs

from scaffold.core.contract import Check, Contract, ExitCode, Expectation
from scaffold.verify.contract import DEFAULT_TIMEOUT_S

GLOBS = ("must_exist", "must_not_exist", "must_not_change")


def weakened(draft: Contract, final: Contract) -> tuple[str, ...]:
    """Return in which ways `final` asks for less than `draft`, a sentence each; nothing where it only adds."""
    return (*_of_commands(draft, final), *_of_globs(draft, final))


def strengthened(draft: Contract, answer: Contract) -> Contract:
    """Return the draft with all that `answer` adds, the draft's own checks first: nothing runs before they have.

    An optional check of the draft that `answer` requires is required from then on.
    """
    required = {_essence(check) for check in answer.commands if check.required}
    kept = tuple(_tightened(check, required) for check in draft.commands)
    known = {_essence(check) for check in kept}
    added = {_essence(check): check for check in reversed(answer.commands) if _essence(check) not in known}
    return structs.replace(
        draft,
        commands=(*kept, *reversed(added.values())),
        must_exist=_joined(draft.must_exist, answer.must_exist),
        must_not_exist=_joined(draft.must_not_exist, answer.must_not_exist),
        must_not_change=_joined(draft.must_not_change, answer.must_not_change),
    )


def _of_commands(draft: Contract, final: Contract) -> Iterator[str]:
    held: dict[tuple[str, Expectation], list[Check]] = {}
    for check in final.commands:
        held.setdefault(_essence(check), []).append(check)
    expected = {check.command: check.expect for check in final.commands}
    for check in draft.commands:
        same = held.get(_essence(check), [])
        if not same and check.command in expected:
            now = _words(expected[check.command])
            yield f"`{check.command}` was to end with {_words(check.expect)}, and is now with {now}"
        elif not same:
            yield f"`{check.command}` is gone"
        elif check.required and not any(each.required for each in same):
            yield f"`{check.command}` was required, and is now optional"
        elif min(map(_patience_s, same)) > _patience_s(check):
            yield f"`{check.command}` had {_patience_s(check):g} s, and now has longer"


def _of_globs(draft: Contract, final: Contract) -> Iterator[str]:
    for kind in GLOBS:
        there = set(getattr(final, kind))
        yield from (f"{kind}: `{glob}` is gone" for glob in getattr(draft, kind) if glob not in there)


def _essence(check: Check) -> tuple[str, Expectation]:
    return check.command, check.expect


def _tightened(check: Check, required: set[tuple[str, Expectation]]) -> Check:
    return structs.replace(check, required=check.required or _essence(check) in required)


def _joined(held: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*held, *more)))


def _patience_s(check: Check) -> float:
    return DEFAULT_TIMEOUT_S if check.timeout_s is None else check.timeout_s


def _words(expect: Expectation) -> str:
    return f"exit {expect.code}" if isinstance(expect, ExitCode) else f"`{expect.text}` in its output"
