"""A final contract may only add to its draft."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scaffold.core.proof.contract import Check, Contract, ExitCode, OutputContains
from scaffold.verify.contract.strictness import GLOB_FIELDS, find_weakenings, strengthen

CHECKS = st.builds(
    Check,
    command=st.sampled_from(["a", "b", "c"]),
    expect=st.sampled_from([ExitCode(0), ExitCode(1), OutputContains("x")]),
    required=st.booleans(),
    timeout_s=st.sampled_from([None, 10.0, 60.0, 90.0]),
)
GLOB_LISTS = st.lists(st.sampled_from(["x", "y", "z"]), unique=True).map(tuple)
CONTRACTS = st.builds(
    Contract,
    intent=st.just("it works"),
    commands=st.lists(CHECKS, max_size=4, unique_by=lambda check: (check.command, check.expect)).map(tuple),
    must_exist=GLOB_LISTS,
    must_not_exist=GLOB_LISTS,
    must_not_change=GLOB_LISTS,
)


@given(CONTRACTS, CONTRACTS)
def test_a_draft_with_additions_is_never_weaker(draft, answer):
    """AL-7: whatever the answer, the sealed contract asks at least what the draft asked, and asks it first."""
    final = strengthen(draft, answer)
    assert find_weakenings(draft, final) == ()
    assert [check.command for check in final.commands[: len(draft.commands)]] == [
        check.command for check in draft.commands
    ]


@given(CONTRACTS, CONTRACTS)
def test_no_answered_check_is_lost(draft, answer):
    final = strengthen(draft, answer)
    assert {(check.command, check.expect) for check in final.commands} >= {
        (check.command, check.expect) for check in answer.commands
    }
    assert all(set(getattr(final, kind)) >= set(getattr(answer, kind)) for kind in GLOB_FIELDS)


@given(CONTRACTS, st.data())
def test_every_removal_or_relaxation_is_detected(draft, data):
    """AL-7: a command removed or changed, another expectation, required made optional, more time, a glob removed."""
    looser = data.draw(st.sampled_from(list(_looser(draft)) or [None]))
    if looser is not None:
        assert find_weakenings(draft, looser)
    assert find_weakenings(draft, draft) == ()


def _looser(draft):
    for at, check in enumerate(draft.commands):
        others = (draft.commands[:at], draft.commands[at + 1 :])
        for changed in (
            (),
            (replace(check, command="other"),),
            (replace(check, expect=ExitCode(7)),),
            (replace(check, timeout_s=1000.0),),
            *([(replace(check, required=False),)] if check.required else []),
        ):
            yield replace(draft, commands=(*others[0], *changed, *others[1]))
    for kind in GLOB_FIELDS:
        for glob in getattr(draft, kind):
            yield replace(draft, **{kind: tuple(each for each in getattr(draft, kind) if each != glob)})
