from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from scaffold.core.conversation import (
    NO_IMAGE,
    AssistantMessage,
    Image,
    KeptTurn,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UserMessage,
    without_images,
)
from scaffold.core.errors import ModelError, PlanInvalid, ScaffoldError
from scaffold.core.events import ActionStatusChanged, Event, NoticeRaised, StoredEvent
from scaffold.core.ids import ActionKey, Assertion, Commit, GoalId, RunId
from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.model import Fact, Rest, Usage
from scaffold.core.plan import ActionSpec, Finding, GoalSpec, Plan
from scaffold.core.ports import Budget, Clock, Model
from scaffold.core.proof.contract import (
    BLOCKING_CHECK_VERDICTS,
    ChangeReview,
    Check,
    CheckResult,
    Contract,
    Doubt,
    ExitCode,
    OutputContains,
    Review,
    Verification,
)
from scaffold.core.proof.gates import Gate, GateResult

COMMIT = Commit("c" * 40)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_contract_without_checks_is_empty():
    contracts = (
        (Contract(), True),
        (Contract(intent="words alone check nothing"), True),
        (Contract(commands=(Check(command="true"),)), False),
        (Contract(must_exist=("a",)), False),
        (Contract(must_not_exist=("a",)), False),
        (Contract(must_not_change=("a",)), False),
    )
    assert [(contract, contract.empty) for contract, _ in contracts] == list(contracts)


def test_a_check_expects_exit_code_zero_by_default():
    assert Check(command="true").expect == ExitCode(0)


def test_expectations_keep_their_class_through_json():
    for expectation in (ExitCode(3), OutputContains("ok")):
        check = Check(command="run", expect=expectation)
        assert msgspec.json.decode(msgspec.json.encode(check), type=Check) == check


def test_a_verification_passes_as_long_as_nothing_blocks():
    fine = [CheckResult(name=verdict, verdict=verdict) for verdict in ("pass", "warn")]
    assert Verification(commit=COMMIT, results=tuple(fine)).passed
    for verdict in sorted(BLOCKING_CHECK_VERDICTS):
        bad = CheckResult(name="bad", verdict=verdict)
        verification = Verification(commit=COMMIT, results=(*fine, bad))
        assert not verification.passed
        assert verification.failures == (bad,)


def test_work_settles_the_tests_about_which_its_gates_have_decided():
    """BX-1: in any gate; a gate without such tests settles none."""
    unit, web = [Gate(kind="test", command=command) for command in ("pytest", "npm test")]
    gates = (
        GateResult(gate=unit, verdict="pass", base_tests={"test_a": "moved", "test_b": "removed"}),
        GateResult(gate=web, verdict="pass"),
    )
    assert Verification(commit=COMMIT, results=(), gates=gates).settled_tests == {"test_a", "test_b"}


def test_a_reply_returns_its_text_without_thinking_and_its_calls_in_order():
    calls = (ToolCall("1", "read_file", {}), ToolCall("2", "shell", {}))
    message = AssistantMessage((Thinking("hm"), Text("first"), calls[0], Text("second"), calls[1]))
    assert message.text == "first\nsecond"
    assert message.tool_calls == calls


def test_usage_adds_up_and_an_unknown_price_stays_unknown():
    one = Usage(input_tokens=10, cached_input_tokens=4, output_tokens=2, cost_usd=0.5, requests=1)
    both = one + Usage(input_tokens=1, output_tokens=1, cost_usd=0.25, requests=1)
    assert both == Usage(input_tokens=11, cached_input_tokens=4, output_tokens=3, cost_usd=0.75, requests=2)
    assert both.tokens == 14
    assert (one + Usage(cost_usd=None)).cost_usd is None
    assert (Usage(cost_usd=None) + one).cost_usd is None


def test_a_plan_lists_the_actions_of_all_goals_in_order():
    first, second, third = (ActionSpec(key=ActionKey(key)) for key in "abc")
    goals = (GoalSpec(name="one", actions=(first, second)), GoalSpec(name="two", actions=(third,)))
    assert Plan(goals=goals).actions == (first, second, third)


def test_errors_name_the_problem_and_the_fix():
    finding = Finding(code="cycle", severity="error", message="round", fix="cut")
    error = PlanInvalid("no", "mend it", (finding,))
    assert isinstance(error, ScaffoldError)
    assert (str(error), error.what, error.fix, error.findings) == ("no", "no", "mend it", (finding,))


def test_a_model_error_says_whether_a_retry_may_help():
    assert ModelError("overloaded", "wait", transient=True).transient
    assert not ModelError("no such model", "choose another").transient


def test_an_event_keeps_its_class_through_json():
    events: tuple[Event, ...] = (ActionStatusChanged(ActionKey("a"), "failed", "why"), NoticeRaised("info", "text"))
    for event in events:
        recorded = StoredEvent(1, datetime(2024, 1, 1, tzinfo=UTC), event)
        assert msgspec.json.decode(msgspec.json.encode(recorded), type=StoredEvent) == recorded


def test_ports_are_protocols_that_need_no_inheritance():
    assert [port for port in (Budget, Clock, Model) if Protocol not in port.__bases__] == []


def test_a_review_of_a_change_holds_for_that_change_and_the_doubts_it_was_told_of():
    """AL-22, AL-23."""
    rows = (
        ({}, True),
        ({"base": Commit("e" * 40)}, False),
        ({"change": "another"}, False),
        ({"doubts": (Doubt("tests_removed", "a"), Doubt("tests_removed", "b"))}, True),
        ({"doubts": (Doubt("tests_removed", "a"), Doubt("no_contract", "b"))}, False),
        ({"lost": ("test_x",)}, True),
        ({"lost": ("test_x", "test_y")}, False),
    )
    review = ChangeReview(
        review=Review(verdict="approve", summary="Fine."),
        model="cassette:x",
        base=COMMIT,
        change="one",
        doubts=("tests_removed",),
        lost=("test_x",),
    )
    for given, holds in rows:
        about = {"base": COMMIT, "change": "one", "doubts": ()} | given
        assert review.holds_for(about.pop("base"), about.pop("change"), about.pop("doubts"), **about) is holds, given


def test_reviewed_is_above_weak_and_below_proven():
    """BX-1: of a verification and of the facts that it proves."""
    rows = (
        ((), False, "proven"),
        ((), True, "proven"),
        ((Doubt("no_contract", "x"),), False, "weak"),
        ((Doubt("no_contract", "x"),), True, "reviewed"),
    )
    known = {"goal_id": GoalId("g"), "assertion": Assertion("a"), "state": "holds", "commit": COMMIT, "paths": ()}
    for doubts, reviewed, strength in rows:
        shown = {"doubts": doubts, "reviewed": reviewed}
        assert Verification(commit=COMMIT, results=(), **shown).strength == strength
        assert Fact(**known, evidence=(), **shown).strength == strength


def test_a_rest_is_over_at_its_end_and_if_the_clock_was_set_back():
    """SC-16: a clock that goes back must not make a goal wait for longer."""
    rest = Rest(NOON, NOON + timedelta(seconds=5))
    assert rest.includes(NOON)
    assert rest.includes(NOON + timedelta(seconds=4.9))
    assert not rest.includes(NOON + timedelta(seconds=5))
    assert not rest.includes(NOON - timedelta(seconds=1))


def test_a_branch_move_takes_work_or_changes_the_session_branch():
    takes = {"ff": True, "squash": True, "pr": True, "revert": False, "rebase": False}
    made = {"id": "m", "run_id": RunId("r"), "branch": "main", "head": COMMIT, "old": None, "new": COMMIT}
    moves = {purpose: BranchMove(**made, purpose=purpose, created_at=NOON) for purpose in takes}
    assert {purpose: move.takes_work for purpose, move in moves.items()} == takes


def test_a_message_without_its_images_says_that_there_were_some() -> None:
    """RA-10."""
    plain, reply = UserMessage((Text("look"),)), AssistantMessage((Text("yes"),))
    assert without_images(plain) is plain
    assert without_images(reply) is reply
    shown = UserMessage((Text("look"), Image("image/png", b"1")))
    assert without_images(shown) == UserMessage((Text("look"), Text(NO_IMAGE)))


def test_a_kept_turn_knows_its_running_calls_and_how_far_it_has_come() -> None:
    """SC-20: two turns at one place have done the same."""
    calls = tuple(ToolCall(name, "shell", {}) for name in "abc")
    turn = KeptTurn(
        messages=(AssistantMessage(calls),),
        results=(ToolResult("a", "shell", "1"),),
        begun={"a": "", "b": ""},
        requests=2,
        answered=0,
    )
    assert turn.running == calls[1:2]
    assert turn.place == (2, frozenset("a"), frozenset("ab"))
    begins = KeptTurn(messages=(), requests=0, answered=0)
    assert (begins.running, begins.place) == ((), (0, frozenset(), frozenset()))
