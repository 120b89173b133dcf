"""Turns of planners and supervisors: proposals are stored whole or not at all, whatever happens meanwhile."""

import asyncio

import pytest
from inline_snapshot import snapshot
from msgspec.structs import replace

from fakes import Cut, CutClock, ScriptedAgentModel, create_actions, proposed_action
from scaffold.core.errors import StaleFence
from scaffold.core.events import PlanExtended, PlanningTurnEnded
from scaffold.core.states import Running, Skipped
from scaffold.llm.cassette_model import CassetteFault
from scaffold.orchestrator.owner.run_lease import take_over_run
from scaffold.orchestrator.planning.apply_plan import apply_changes
from scaffold.orchestrator.planning.proposal_tools import supervisor_tools
from scaffold.orchestrator.planning.supervisor_agent import compound_plan_check
from scaffold.orchestrator.planning.turn import (
    MAX_ROUNDS,
    ModelFailed,
    PlanRejected,
    PlanWritten,
    TurnOverBudget,
    TurnRequest,
    TurnRules,
    close_lost_turns,
    run_proposal_turn,
)
from scaffold.plan.edit.draft import CreateActions
from scaffold.store.database import Store
from support.harness import act, goal

SHOP = goal("shop", act("build", kind="compound", effects=("store", "web")), wants=["store", "web"])
STORE = proposed_action("schema", gives=["store"])
WEB = proposed_action("pages", gives=["web"], needs=["store"])
WHOLE = create_actions("shop", STORE, WEB, parent="build")
PARTIAL = create_actions("shop", STORE, parent="build")


async def planned(harness, **settings):
    """Return a run with a ready compound, owned by this process."""
    return await harness.own(SHOP, planner=True, **settings)


def ask(harness, run, model, *, context=None, also=lambda store: None):
    """Have the compound broken down."""
    (shop,) = harness.store.goals.for_run(run.id)
    request = TurnRequest(event="decompose", prompt="Break it down.", goal=shop, action=harness.action(run, "build"))
    conditions = TurnRules(tools=supervisor_tools, faults=compound_plan_check("shop", "build", ()), extra_changes=also)
    return run_proposal_turn(context or harness.context, run, model, request, conditions)


def turns(harness, run):
    return [(turn.outcome, turn.error) for turn in harness.store.turns.for_run(run.id)]


def keys(harness, run):
    return [action.key for action in harness.store.actions.for_run(run.id)]


def expect_untouched(harness, run):
    """Check that nothing of a proposal was stored."""
    assert keys(harness, run) == ["build"]
    assert not any(isinstance(each.event, PlanExtended) for each in harness.store.events.since(run.id, 0))


async def test_a_proposal_is_stored_when_the_agent_says_it_is_done(harness):
    """SC-5, SC-14: a turn has a fresh context; its proposals and its end are one transaction."""
    run = await planned(harness)
    model = ScriptedAgentModel(WHOLE, "two children", usd=0.5)
    ending = await ask(harness, run, model)
    assert isinstance(ending, PlanWritten)
    assert (ending.text, len(ending.changes)) == ("two children", 1)
    assert keys(harness, run) == ["build", "schema", "pages"]
    (turn,) = harness.store.turns.for_run(run.id)
    assert (turn.outcome, turn.usage.requests, turn.usage.cost_usd) == ("done", 2, 1.0)
    events = [each.event for each in harness.store.events.since(run.id, 0)]
    assert events[-2:] == [
        PlanExtended("shop", "build", ("schema", "pages")),
        PlanningTurnEnded("decompose", "shop", "build", "done", None),
    ]
    callers = [(each.caller.role, each.caller.action, each.caller.event, each.caller.turn) for each in model.asked]
    assert callers == [("supervisor", "build", "decompose", 1), ("supervisor", "build", "decompose", 2)]
    lines = harness.context.journal("shop", "supervisor").path.read_text().splitlines()
    assert all('"role":"supervisor"' in line and '"goal":"shop"' in line for line in lines)


async def test_errors_go_back_into_the_same_conversation(harness):
    """OR-5: an unsound answer is corrected, never applied."""
    run = await planned(harness)
    model = ScriptedAgentModel(PARTIAL, "done", create_actions("shop", WEB, parent="build"), "now it is")
    assert isinstance(await ask(harness, run, model), PlanWritten)
    assert "[uncovered]" in model.input_text(3)
    assert model.input_text(3).count("`web`") == 1, "what follows from it is not told beside it"
    assert model.asked[2].messages[0] == model.asked[0].messages[0], "it is one conversation"
    assert keys(harness, run) == ["build", "schema", "pages"]


@pytest.mark.parametrize("nonsense", [["I cannot", "no", "still not"], [PARTIAL, "done", "done", "done"]])
async def test_an_agent_that_never_becomes_sound_gets_a_limited_number_of_rounds(harness, nonsense):
    """OR-5: afterwards nothing is stored, except the reason."""
    run = await planned(harness)
    model = ScriptedAgentModel(*nonsense)
    ending = await ask(harness, run, model)
    assert isinstance(ending, PlanRejected)
    assert ending.findings
    assert len([each for each in nonsense if isinstance(each, str)]) == MAX_ROUNDS
    assert len(model.asked) == len(nonsense)
    ((outcome, error),) = turns(harness, run)
    assert outcome == "refused"
    assert ending.findings[0].message in error
    expect_untouched(harness, run)


async def test_an_agent_in_a_loop_is_stopped(harness):
    """SC-14: the same call with the same answer three times ends the turn."""
    run = await planned(harness)
    ending = await ask(harness, run, ScriptedAgentModel(*[("goap_get_goal", {"goal": "shop"})] * 9))
    assert isinstance(ending, PlanRejected)
    assert ending.why == snapshot(
        "the agent was stopped in a loop: `goap_get_goal` gave the same answer to the same call 3 times"
    )
    assert turns(harness, run) == [("refused", ending.why)]
    expect_untouched(harness, run)


async def test_a_sound_proposal_is_stored_even_if_its_agent_keeps_repeating_it(harness):
    """SC-14, SC-5: it has nothing to add; an unsound one is not stored."""
    run = await planned(harness)
    ending = await ask(harness, run, ScriptedAgentModel(*[PARTIAL] * 9))
    assert isinstance(ending, PlanRejected)
    assert [fault.code for fault in ending.findings] == ["uncovered"]
    expect_untouched(harness, run)
    ending = await ask(harness, run, ScriptedAgentModel(*[WHOLE] * 9))
    assert isinstance(ending, PlanWritten)
    assert keys(harness, run) == ["build", "schema", "pages"]
    assert [outcome for outcome, _ in turns(harness, run)] == ["refused", "done"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "again", "error"),
    [
        ([PARTIAL], False, "has no reply for this request"),
        ([CassetteFault(kind="hang")], True, "timed out after 0 s"),
        ([WHOLE, CassetteFault(kind="drop")], True, "connection to the model was lost"),
        (
            [create_actions("shop", proposed_action(f"p{at}", gives=[f"e{at}"])) for at in range(21)],
            True,
            "20 requests without a final answer",
        ),
    ],
)
async def test_without_a_usable_reply_only_the_reason_is_stored(harness, said, again, error):
    """SC-14: a broken answer, a silent one and an endless one leave the plan as it was."""
    hangs = said == [CassetteFault(kind="hang")]
    run = await planned(harness, attempt_timeout_s=0.2 if hangs else 60.0)
    ending = await ask(harness, run, ScriptedAgentModel(*said))
    assert isinstance(ending, ModelFailed)
    assert ending.retryable is again
    assert error in ending.error
    assert turns(harness, run) == [("failed", ending.error)]
    expect_untouched(harness, run)


async def test_a_timeout_of_something_inside_is_not_the_timeout_of_the_turn(harness):
    """SC-14: a disk or a socket that does not answer is an error of its own, and the next turn ends this one."""
    run = await planned(harness)

    def meanwhile(at):
        raise TimeoutError(110, "the disk did not answer")

    with pytest.raises(TimeoutError, match="110"):
        await ask(harness, run, ScriptedAgentModel(WHOLE, meanwhile=meanwhile))
    assert turns(harness, run) == [(None, None)]
    assert isinstance(await ask(harness, run, ScriptedAgentModel(WHOLE, "done")), PlanWritten)
    assert [outcome for outcome, _ in turns(harness, run)] == ["lost", "done"]


async def test_a_turn_that_exceeds_the_budget_ends_with_a_budget_error(harness):
    run = await planned(harness, budget_usd=1.0)
    ending = await ask(harness, run, ScriptedAgentModel(PARTIAL, "done", "never", usd=0.6))
    assert isinstance(ending, TurnOverBudget)
    assert turns(harness, run) == [("budget", ending.error)]
    assert harness.store.accounts.totals(run.id).spent.usd == pytest.approx(1.2)
    expect_untouched(harness, run)


async def test_the_stored_turn_contains_no_secret(harness):
    harness.context.environ["SHOP_API_KEY"] = "correct-horse-battery-staple"
    run = await planned(harness)
    fault = ScriptedAgentModel(create_actions("shop", STORE, parent="correct-horse-battery-staple"), "a", "b", "c")
    await ask(harness, run, fault)
    assert "correct-horse" not in harness.context.journal("shop", "supervisor").path.read_text()
    assert "correct-horse" not in str(turns(harness, run))
    assert "[redacted:SHOP_API_KEY]" in fault.input_text(2)


def rewrite(harness, run, *actions):
    """Add actions as another process would."""
    with harness.store.transaction():
        apply_changes(harness.store, run, (CreateActions("shop", actions),), now=harness.clock.now())


async def test_conflicts_with_a_changed_plan_are_reported_and_the_rest_is_proposed_again(harness):
    """OR-5: what no longer applies is refused, and overwrites nothing."""
    run = await planned(harness)

    def meanwhile(at):
        if at == 2:
            rewrite(harness, run, act("schema", effects=("store",), files=("another",)))

    again = create_actions("shop", proposed_action("schema2", gives=["store"]), WEB, parent="build")
    model = ScriptedAgentModel(WHOLE, "done", again, "done", meanwhile=meanwhile)
    assert isinstance(await ask(harness, run, model), PlanWritten)
    assert "[outrun]" in model.input_text(3)
    assert keys(harness, run) == ["build", "schema", "schema2", "pages"]
    assert turns(harness, run) == [("done", None)]


async def test_a_compound_that_ended_meanwhile_gets_no_children(harness):
    run = await planned(harness)

    def meanwhile(at):
        if at == 2:
            harness.move(harness.action(run, "build"), Skipped("not needed"))

    model = ScriptedAgentModel(
        WHOLE, "done", create_actions("shop", STORE, WEB), "then without it", meanwhile=meanwhile
    )
    assert isinstance(await ask(harness, run, model), PlanWritten)
    assert "its parent `build` is skipped" in model.input_text(3)
    assert {harness.action(run, key).parent_id for key in ("schema", "pages")} == {None}


async def test_a_superseded_orchestrator_stores_nothing(harness):
    """SC-16: it finds its fence stale, and stops."""
    run = await planned(harness)

    def meanwhile(at):
        if at == 2:
            harness.orphan(run)
            take_over_run(harness.context, run.id)

    with pytest.raises(StaleFence):
        await ask(harness, run, ScriptedAgentModel(WHOLE, "done", meanwhile=meanwhile))
    expect_untouched(harness, run)


async def test_only_the_later_of_two_supervisors_stores_its_turn(harness):
    """SC-16: the turn of the other was ended, so it stores nothing; nothing is there twice."""
    run = await planned(harness)
    asked, answer = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedAgentModel):
        async def reply(self, request, on_delta=None):
            asked.set()
            await answer.wait()
            return await super().reply(request)

    async with asyncio.TaskGroup() as both:
        earlier = both.create_task(expect_stale(ask(harness, run, Slow(WHOLE, "done"))))
        await asked.wait()
        assert isinstance(await ask(harness, run, ScriptedAgentModel(WHOLE, "done")), PlanWritten)
        answer.set()
        await earlier
    assert keys(harness, run) == ["build", "schema", "pages"]
    assert [outcome for outcome, _ in turns(harness, run)] == ["lost", "done"]


async def expect_stale(turn):
    """Check that the turn finds its fence stale."""
    with pytest.raises(StaleFence):
        await turn


async def test_a_cancelled_turn_is_lost_and_leaves_nothing(harness):
    run = await planned(harness)
    asked = asyncio.Event()
    model = ScriptedAgentModel(WHOLE, CassetteFault(kind="hang"), meanwhile=lambda at: asked.set() if at == 2 else None)
    turn = asyncio.create_task(ask(harness, run, model))
    await asked.wait()
    turn.cancel()
    await asyncio.wait([turn])
    assert turn.cancelled()
    assert turns(harness, run) == snapshot([("lost", "the turn was cancelled")])
    expect_untouched(harness, run)


@pytest.mark.slow
async def test_an_interrupted_turn_is_stored_completely_or_not_at_all(harness):
    """SC-16: interrupted at every reading of a clock; the next turn ends what was left open."""
    looks, cut = 0, True
    while cut:
        run = await planned(harness)
        clock = CutClock(looks)
        store = Store.open(harness.repo / ".git" / "scaffold" / "state.db", clock=clock)
        try:
            await ask(
                harness,
                run,
                ScriptedAgentModel(WHOLE, "done"),
                context=replace(harness.context, store=store, clock=clock),
            )
        except Cut:
            pass
        finally:
            store.close()
        cut = clock.cut
        expect_all_or_nothing(harness, run)
        close_lost_turns(harness.store, run, harness.store.goals.for_run(run.id)[0].id)
        assert harness.store.turns.open_of_run(run.id) == ()
        if keys(harness, run) == ["build"]:
            assert isinstance(await ask(harness, run, ScriptedAgentModel(WHOLE, "done")), PlanWritten)
        assert keys(harness, run) == ["build", "schema", "pages"]
        looks += 1
    assert looks > 10, "it has been cut in many places"


def expect_all_or_nothing(harness, run):
    """Check that the proposal is stored exactly if its turn is done."""
    done = [outcome for outcome, _ in turns(harness, run)] == ["done"]
    assert keys(harness, run) == (["build", "schema", "pages"] if done else ["build"])
    grown = [each.event for each in harness.store.events.since(run.id, 0) if isinstance(each.event, PlanExtended)]
    assert len(grown) == done


async def test_extra_records_of_a_proposal_are_stored_with_it_or_not_at_all(harness):
    """OR-5: one transaction, or none."""
    run = await planned(harness)

    def breaks(store):
        store.actions.move(harness.action(run, "build").id, Running())
        raise Cut

    with pytest.raises(Cut):
        await ask(harness, run, ScriptedAgentModel(WHOLE, "done"), also=breaks)
    expect_untouched(harness, run)
    assert harness.statuses(run) == {"build": "pending"}
    also = ScriptedAgentModel(WHOLE, "done")
    await ask(harness, run, also, also=lambda store: store.actions.move(harness.action(run, "build").id, Running()))
    assert harness.statuses(run)["build"] == "running"
    assert turns(harness, run) == snapshot([("lost", "the process that asked has exited"), ("done", None)])
