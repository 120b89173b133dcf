"""Attempts: one open per action, one worker each, and no writes of superseded processes."""

from contextlib import suppress
from itertools import product
from typing import get_args

import pytest
from msgspec.structs import replace

from builders import HEAD, OWNER, RIVAL, THEN, an_action, an_attempt, claim, events_of, store_run
from integration.store.builders import race
from scaffold.core.errors import IllegalTransition, StaleFence
from scaffold.core.events import AttemptEnded, AttemptPhaseChanged, AttemptQueued
from scaffold.core.model import CriticScore, Usage
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.core.proof.gates import Gate, GateResult
from scaffold.core.states import COUNTED_FAILURES, PHASES, WORKER_PHASES, AttemptOutcome
from scaffold.plan.slot_shares import SlotUse
from scaffold.store.database import Store
from scaffold.store.driver.location import StoreLocation
from scaffold.store.run.attempts import AgentAnswer
from support.fake_clock import FakeClock

ACTION = an_action("api")
FIRST = an_attempt(ACTION)
VERIFICATION = Verification(commit=HEAD, results=(CheckResult(name="pytest", verdict="fail", exit_code=1),))
SCORE = CriticScore(total=7, correctness=3, readability=2, edge_cases=2, threshold=8)
USED = Usage(input_tokens=10, cached_input_tokens=4, output_tokens=3, cost_usd=0.5, requests=1)

LATE_WRITES = [
    lambda store, fence: store.attempts.advance(FIRST.id, fence=fence, phase="executing"),
    lambda store, fence: store.attempts.account(FIRST.id, fence=fence, usage=USED),
    lambda store, fence: store.attempts.end(FIRST.id, outcome="landed", fence=fence),
    lambda store, fence: store.attempts.claim(FIRST.id, fence=fence, worker=RIVAL, worktree="/other", log_file="/l"),
]


@pytest.fixture
def store(store: Store) -> Store:
    store_run(store, ACTION, an_action("web", position=1))
    return store


def _end(store: Store, attempt_id: str = FIRST.id, outcome: AttemptOutcome = "lost") -> None:
    with store.transaction():
        store.attempts.end(attempt_id, outcome=outcome)


def test_an_attempt_reads_back_with_every_field(store: Store) -> None:
    attempt = replace(
        FIRST,
        status="ended",
        phase="recorded",
        outcome="landed",
        executor="claude",
        model="cassette:x",
        worker=OWNER,
        worktree="/tree",
        head_sha=HEAD,
        briefing="mind the gap",
        verification=VERIFICATION,
        score=SCORE,
        result="done",
        usage=USED,
        log_file="/log",
        error="none to speak of",
        started_at=THEN,
        ended_at=THEN,
    )
    with store.transaction():
        store.attempts.open(attempt)
    assert store.attempts.get(attempt.id) == attempt
    assert store.attempts.get("nobody") is None


def test_an_action_has_one_open_attempt_at_a_time(store: Store) -> None:
    """BX-8: exactly-once dispatch."""
    claim(store, FIRST)
    events = events_of(store)
    with store.transaction(), pytest.raises(IllegalTransition):
        store.attempts.open(an_attempt(ACTION, 2))
    assert store.attempts.for_action(ACTION.id) == (store.attempts.get(FIRST.id),)
    assert events_of(store) == events
    _end(store)
    with store.transaction():
        store.attempts.open(an_attempt(ACTION, 2))
    assert [attempt.status for attempt in store.attempts.for_action(ACTION.id)] == ["ended", "queued"]


def test_a_shared_worktree_has_one_open_attempt_at_a_time(store: Store) -> None:
    """DR-10: a second one would reset the files of the first."""
    first, second = (
        replace(an_attempt(action), workspace="story") for action in (ACTION, an_action("web", position=1))
    )
    with store.transaction():
        store.attempts.open(first)
    assert store.attempts.is_in_use("story")
    with store.transaction(), pytest.raises(IllegalTransition):
        store.attempts.open(second)
    with store.transaction():
        store.attempts.end(first.id, outcome="lost")
        store.attempts.open(second)
    assert [each.status for each in store.attempts.for_workspace("story")] == ["ended", "queued"]
    assert not store.attempts.is_in_use("")


def test_one_of_many_concurrent_dispatches_of_an_action_wins(store: Store, place: StoreLocation) -> None:
    """BX-8: also from several connections."""

    def dispatch(mine: Store, number: int) -> bool:
        mine.attempts.open(an_attempt(ACTION, number))
        return True

    assert race(place, IllegalTransition, dispatch).count(None) == 3
    assert len(store.attempts.open_of_run("run-1")) == 1


def test_one_of_many_concurrent_claims_of_an_attempt_wins(store: Store, place: StoreLocation) -> None:
    """BX-8: a queued attempt has one worker."""
    with store.transaction():
        store.attempts.open(FIRST)

    def work(mine: Store, number: int) -> str:
        mine.attempts.claim(FIRST.id, fence=1, worker=OWNER, worktree=f"/tree-{number}", log_file="/log")
        return f"/tree-{number}"

    (winner,) = filter(None, race(place, StaleFence, work))
    assert store.attempts.get(FIRST.id).worktree == winner


def test_numbers_continue_from_the_highest(store: Store) -> None:
    assert store.attempts.next_number(ACTION.id) == 1
    with store.transaction():
        store.attempts.open(FIRST)
    assert events_of(store) == [AttemptQueued("api", 1, FIRST.base_sha)]
    with store.transaction():
        store.attempts.end(FIRST.id, outcome="lost")
        store.attempts.open(an_attempt(ACTION, 5))
    assert store.attempts.next_number(ACTION.id) == 6


def test_attempts_come_in_the_order_they_were_opened(store: Store) -> None:
    web = an_attempt(an_action("web"), queued_at=THEN.replace(year=2029))
    with store.transaction():
        store.attempts.open(FIRST)
        store.attempts.open(web)
        store.attempts.end(FIRST.id, outcome="lost")
        store.attempts.open(an_attempt(ACTION, 2))
    assert [attempt.id for attempt in store.attempts.for_run("run-1")] == [FIRST.id, web.id, "run-1/api#2"]
    assert [attempt.id for attempt in store.attempts.open_of_run("run-1")] == [web.id, "run-1/api#2"]


def test_a_claim_records_worker_tree_and_log(store: Store, clock: FakeClock) -> None:
    with store.transaction():
        store.attempts.open(FIRST)
    clock.advance(5)
    with store.transaction():
        store.attempts.claim(FIRST.id, fence=1, worker=OWNER, worktree="/tree", log_file="/log")
    assert store.attempts.get(FIRST.id) == replace(
        FIRST, status="claimed", worker=OWNER, worktree="/tree", log_file="/log", started_at=clock.now()
    )


def test_advancing_sets_new_values_and_keeps_the_rest(store: Store) -> None:
    """Staying in a phase records no event."""
    claim(store, FIRST)
    claimed = store.attempts.get(FIRST.id)
    with store.transaction():
        store.attempts.advance(FIRST.id, fence=1, phase="verifying", head_sha=HEAD, verification=VERIFICATION)
        store.attempts.advance(FIRST.id, fence=1, phase="candidate", answer=AgentAnswer("more", 1))
        store.attempts.advance(FIRST.id, fence=1, phase="candidate", answer=AgentAnswer("done", 2))
    assert store.attempts.get(FIRST.id) == replace(
        claimed, phase="candidate", head_sha=HEAD, verification=VERIFICATION, result="done", iteration=2
    )
    assert events_of(store)[1:] == [
        AttemptPhaseChanged("api", 1, "verifying"),
        AttemptPhaseChanged("api", 1, "candidate"),
    ]


def test_phases_move_forward_and_back_only_to_executing(store: Store) -> None:
    after = {}
    for number, (was, to) in enumerate(product(PHASES, PHASES), start=1):
        attempt = an_attempt(ACTION, number)
        claim(store, attempt, phase=was)
        with suppress(IllegalTransition), store.transaction():
            store.attempts.advance(attempt.id, fence=1, phase=to)
        after[was, to] = store.attempts.get(attempt.id).phase
        _end(store, attempt.id)
    before_submission = {"workspace", "executing", "verifying", "critiquing"}
    assert after == {
        (was, to): to
        if PHASES.index(to) >= PHASES.index(was) or (to == "executing" and was in before_submission)
        else was
        for was, to in product(PHASES, PHASES)
    }


def test_an_attempt_counts_as_running_until_its_candidate_is_submitted(store: Store) -> None:
    """The slots of a goal are counted by this."""
    assert store.attempts.slots(FIRST.run_id) == {}
    used = {ACTION.goal_id: SlotUse(working=1, held=1, taken=1)}
    found = {}
    for number, phase in enumerate(PHASES, start=1):
        claim(store, attempt := an_attempt(ACTION, number), phase=phase)
        found[phase] = store.attempts.slots(FIRST.run_id)
        _end(store, attempt.id)
    handed_in = {phase: {ACTION.goal_id: SlotUse(candidates=phase in {"candidate", "landing"})} for phase in PHASES}
    assert found == handed_in | dict.fromkeys(WORKER_PHASES, used)
    assert store.attempts.slots(FIRST.run_id) == {}


def test_usage_adds_up_and_one_without_a_price_makes_the_cost_unknown_permanently(store: Store) -> None:
    claim(store, FIRST)
    total = Usage()
    for usage in (USED, USED, Usage(cost_usd=None, requests=1), USED):
        with store.transaction():
            store.attempts.account(FIRST.id, fence=1, usage=usage)
        total += usage
        assert store.attempts.get(FIRST.id).usage == total
    assert total.cost_usd is None


def test_an_end_records_outcome_and_time(store: Store, clock: FakeClock) -> None:
    claim(store, FIRST)
    claimed = store.attempts.get(FIRST.id)
    clock.advance(60)
    with store.transaction():
        store.attempts.end(FIRST.id, outcome="gate_failed", error="red", head_sha=HEAD, fence=1)
    assert store.attempts.get(FIRST.id) == replace(
        claimed, status="ended", outcome="gate_failed", error="red", head_sha=HEAD, ended_at=clock.now()
    )
    assert events_of(store)[-1] == AttemptEnded("api", 1, "gate_failed", "red")


def test_only_an_attempts_own_failure_counts_against_its_action(store: Store) -> None:
    """SC-4, SC-20: crashes, conflicts and cancellations do not."""
    outcomes = get_args(AttemptOutcome)
    actions = [an_action(f"of-{outcome}") for outcome in outcomes]
    with store.transaction():
        store.actions.add(actions)
        for action, outcome in zip(actions, outcomes, strict=True):
            store.attempts.open(an_attempt(action))
            store.attempts.end(f"{action.id}#1", outcome=outcome)
    failures = {outcome: store.actions.failures(f"run-1/of-{outcome}") for outcome in outcomes}
    assert failures == {outcome: 1 if outcome in COUNTED_FAILURES else 0 for outcome in outcomes}
    assert store.actions.failures("run-1/web") == 0


def test_failures_add_up_until_a_retry_resets_them(store: Store) -> None:
    for number in (1, 2):
        with store.transaction():
            store.attempts.open(an_attempt(ACTION, number))
        _end(store, f"{ACTION.id}#{number}", "timeout")
    assert store.actions.failures(ACTION.id) == 2
    assert store.actions.failures_of_run(ACTION.run_id) == {ACTION.id: 2}
    with store.transaction():
        store.actions.reset_failures(ACTION.id)
    assert store.actions.failures(ACTION.id) == 0


def test_an_older_fence_writes_nothing(store: Store) -> None:
    """BX-8: fences on every write."""
    claim(store, replace(FIRST, fence=2))
    _expect_refusals(store, LATE_WRITES)


def _expect_refusals(store: Store, writes: list) -> None:
    before, events = store.attempts.get(FIRST.id), events_of(store)
    for write in writes:
        with pytest.raises(StaleFence), store.transaction():
            write(store, 1)
    assert store.attempts.get(FIRST.id) == before
    assert events_of(store) == events


def test_after_the_end_no_write_is_accepted(store: Store) -> None:
    """BX-8: a worker that was given up cannot come back."""
    claim(store, FIRST)
    _end(store)
    _expect_refusals(store, LATE_WRITES)


def test_an_attempt_advances_only_once_claimed_and_is_claimed_once(store: Store) -> None:
    advance, account, _, claim_again = LATE_WRITES
    with store.transaction():
        store.attempts.open(FIRST)
    _expect_refusals(store, [advance, account])
    with store.transaction():
        store.attempts.claim(FIRST.id, fence=1, worker=OWNER, worktree="/tree", log_file="/log")
    _expect_refusals(store, [claim_again])


def test_candidates_land_in_order_of_submission(store: Store) -> None:
    """An end keeps a candidate that it does not name."""

    def waiting() -> list[str]:
        return [attempt.id for attempt in store.attempts.waiting_to_land("run-1")]

    web = an_attempt(an_action("web"))
    claim(store, FIRST, phase="executing")
    claim(store, web, phase="candidate")
    assert waiting() == [web.id]
    for phase in ("candidate", "landing"):
        with store.transaction():
            store.attempts.advance(FIRST.id, fence=1, phase=phase, head_sha=HEAD)
            store.attempts.advance(web.id, fence=1, phase=phase)
        assert waiting() == [web.id, FIRST.id]
    _end(store, web.id, "landed")
    assert waiting() == [FIRST.id]
    _end(store, outcome="conflict")
    assert store.attempts.get(FIRST.id).head_sha == HEAD


def test_only_landed_work_settles_tests(store: Store) -> None:
    """BX-1: the last verification of each attempt counts."""
    web = an_attempt(an_action("web"))
    for attempt, last in ((FIRST, {"test_moved": "moved"}), (web, {})):
        claim(store, attempt, phase="candidate")
        for fates in ({"test_other": "removed"}, last):
            gate = GateResult(gate=Gate(kind="test", command="pytest"), verdict="pass", base_tests=fates)
            shown = Verification(commit=HEAD, results=(), gates=(gate,))
            with store.transaction():
                store.attempts.advance(attempt.id, fence=1, phase="candidate", verification=shown)
    assert store.baselines.settled_tests("run-1") == frozenset()
    for attempt in (FIRST, web):
        _end(store, attempt.id, "landed")
    assert store.baselines.settled_tests("run-1") == {"test_moved"}
