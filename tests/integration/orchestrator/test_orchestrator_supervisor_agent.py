"""A supervisor's agent: the questions it gets, how short they are, and the effect of its answers."""

import json

import pytest
from inline_snapshot import snapshot

from fakes import ScriptedAgentModel, create_actions, proposed_action
from scaffold.core.errors import UsageError
from scaffold.core.ids import Commit
from scaffold.core.learning import Learning, Triple
from scaffold.core.states import Completed, Landing, Running, Verifying
from scaffold.orchestrator.planning.supervisor_agent import SupervisorAgent
from scaffold.orchestrator.planning.turn import ModelFailed, PlanRejected, PlanWritten
from scaffold.orchestrator.supervisor.goal_view import read_goal_view
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.run.learning.told_learnings import with_notes_for_planning
from support.harness import act, goal

COMMIT = Commit("c" * 40)
MOST_TOKENS = 4_000


def shop(*actions, wants=("store", "web")):
    return goal("shop", *actions, wants=list(wants))


BUILD = act("build", kind="compound", effects=("store", "web"))
WHOLE = create_actions(
    "shop", proposed_action("schema", gives=["store"]), proposed_action("pages", gives=["web"]), parent="build"
)


async def planned(harness, *goals, **settings):
    return await harness.own(*goals, **{"planner": True, "attempts": 1} | settings)


def decompose(harness, run, model, key="build"):
    return SupervisorAgent(harness.context, run, model.opened).decompose(
        harness.goal(run, "shop").id, harness.action(run, key).id
    )


def replan(harness, run, model, *, under=None, unmet=("store",), why="`schema` failed permanently"):
    compound = None if under is None else harness.action(run, under).id
    return SupervisorAgent(harness.context, run, model.opened).replan(
        harness.goal(run, "shop").id, compound, unmet, why
    )


async def fail(harness, run, key, error):
    """Let the only attempt of an action fail."""
    attempt = await harness.queue(run, key)
    end_attempt(harness.store, run, attempt.id, AttemptEnd("executor_failed", error))


def land(harness, run, key, result):
    """Complete an action, with all its effects as facts."""
    action = harness.action(run, key)
    with harness.store.transaction():
        harness.store.actions.move_each((action,), Running(), Verifying(), Landing(), Completed())
        harness.store.facts.record_all(action.goal_id, action.effects, commit=COMMIT, paths=(), evidence=())


async def test_a_ready_compound_is_broken_down_into_children_that_cover_its_effects(harness):
    """SC-5, SC-7, SC-8: the prompt names the effects to cover, and asks for verification actions."""
    run = await planned(harness, shop(BUILD))
    model = ScriptedAgentModel(WHOLE, "two children")
    assert isinstance(await decompose(harness, run, model), PlanWritten)
    assert harness.action(run, "pages").parent_id == harness.action(run, "build").id
    asked = model.input_text(1)
    assert ("store, web" in asked, "code_review" in asked) == (True, True)
    assert "code_review" in model.asked[0].system


async def test_a_compound_without_enough_children_is_not_broken_down(harness):
    """SC-5: children that do not provide all its effects are refused, and so are none at all."""
    run = await planned(harness, shop(BUILD))
    model = ScriptedAgentModel(
        "nothing to do",
        create_actions("shop", proposed_action("schema", gives=["store"]), parent="build"),
        "one",
        "that is it",
    )
    ending = await decompose(harness, run, model)
    assert isinstance(ending, PlanRejected)
    assert "[no-children]" in model.input_text(2)
    assert "[uncovered]" in model.input_text(4)
    assert harness.statuses(run) == {"build": "pending"}


async def test_an_unneeded_compound_is_dropped(harness):
    run = await planned(harness, shop(BUILD, act("other", effects=("store", "web"))))
    skip = ("goap_update_action", {"action": "build", "status": "skipped", "result": "`other` does it"})
    assert isinstance(await decompose(harness, run, ScriptedAgentModel(skip, "dropped")), PlanWritten)
    assert harness.statuses(run) == {"build": "skipped", "other": "pending"}


async def test_an_earlier_error_need_not_be_fixed_by_breaking_down(harness):
    run = await planned(harness, shop(BUILD, act("mail", effects=("mail",)), wants=("store", "web", "mail")))
    await fail(harness, run, "mail", "no server")
    assert isinstance(await decompose(harness, run, ScriptedAgentModel(WHOLE, "done")), PlanWritten)
    assert harness.statuses(run)["pages"] == "pending"


async def test_a_supervisor_cannot_change_the_plan_of_another_goal(harness):
    """SC-8, OR-8: each goal has its own supervisor, the only one that changes it."""
    run = await planned(harness, shop(BUILD), goal("blog", act("post")))
    model = ScriptedAgentModel(
        create_actions("blog", proposed_action("extra", gives=["post_done"])),
        ("goap_update_action", {"action": "post", "status": "skipped", "result": "no"}),
        ("goap_create_goal", {"name": "more", "description": "", "goal_state": ["x"]}),
        WHOLE,
        "done",
    )
    assert isinstance(await decompose(harness, run, model), PlanWritten)
    assert ["`blog`" in model.input_text(answer) for answer in (2, 3)] == [True, True]
    assert len(harness.store.goals.for_run(run.id)) == 2
    assert harness.statuses(run) == {"build": "pending", "post": "pending", "schema": "pending", "pages": "pending"}


async def test_a_replan_gets_the_reason_and_settles_the_failure(harness):
    """OR-3, SC-8: the lesson is in the prompt; once another way is stored the failure counts as settled."""
    run = await planned(
        harness, shop(act("schema", effects=("store",)), act("pages", needs=["store"], effects=("web",)))
    )
    await fail(harness, run, "schema", "no type json")
    assert [each.key for each in read_goal_view(harness.store, run, harness.goal(run, "shop")).exhausted] == ["schema"]
    other = create_actions("shop", proposed_action("schema-by-hand", gives=["store"]))
    skip = ("goap_update_action", {"action": "schema", "status": "skipped", "result": "replaced"})
    model = ScriptedAgentModel([skip, other], "another way")
    assert isinstance(await replan(harness, run, model), PlanWritten)
    asked = model.input_text(1)
    assert ("`schema` failed permanently" in asked, "no type json" in asked) == (True, True)
    assert "- pages: `schema` failed" in asked
    assert read_goal_view(harness.store, run, harness.goal(run, "shop")).exhausted == ()
    assert harness.statuses(run) == {"schema": "skipped", "pages": "pending", "schema-by-hand": "pending"}


async def test_a_retry_needs_another_approach(harness):
    """SC-20: the same words again are refused, another approach gives the action one more attempt."""
    run = await planned(harness, shop(act("schema", effects=("store",)), wants=("store",)))
    await fail(harness, run, "schema", "broken")

    def again(words):
        return ("goap_update_action", {"action": "schema", "status": "pending", "result": words})

    model = ScriptedAgentModel(again("do schema."), again("Write the migration by hand."), "once more")
    assert isinstance(await replan(harness, run, model), PlanWritten)
    assert "a retry needs a new approach" in model.input_text(2)
    assert harness.action(run, "schema").guidance == snapshot("Write the migration by hand.")
    assert harness.statuses(run) == {"schema": "pending"}


async def test_a_replan_without_anything_new_is_fruitless(harness):
    """OR-3: it ends without changes, the failure is settled, and one of the goal's replans is used up."""
    run = await planned(
        harness, shop(act("schema", effects=("store",)), act("spare", effects=("store",)), wants=("store",))
    )
    await fail(harness, run, "schema", "broken")
    assert read_goal_view(harness.store, run, harness.goal(run, "shop")).replans_left == 3
    assert await replan(harness, run, ScriptedAgentModel("`spare` will do")) == PlanWritten((), "`spare` will do")
    view = read_goal_view(harness.store, run, harness.goal(run, "shop"))
    assert (view.exhausted, view.replans_left) == ((), 2)


async def test_a_replan_that_leaves_the_goal_unreachable_is_refused_and_the_failure_stays(harness):
    """BX-7."""
    run = await planned(harness, shop(act("schema", effects=("store",)), wants=("store",)))
    await fail(harness, run, "schema", "broken")
    ending = await replan(harness, run, ScriptedAgentModel("sorry", "really", "no"))
    assert isinstance(ending, PlanRejected)
    view = read_goal_view(harness.store, run, harness.goal(run, "shop"))
    assert ([each.key for each in view.exhausted], view.replans_left) == (["schema"], 2)


async def test_a_gap_in_a_compound_is_closed_by_more_children(harness):
    """SC-5: children that ended without its effects get siblings."""
    run = await planned(
        harness, shop(BUILD, act("schema", parent="build", effects=("store", "web")), wants=("store", "web"))
    )
    harness.move(harness.action(run, "build"), Running())
    await fail(harness, run, "schema", "too much at once")
    smaller = create_actions(
        "shop", proposed_action("half", gives=["store"]), proposed_action("rest", gives=["web"]), parent="build"
    )
    model = ScriptedAgentModel("it is fine", smaller, "two halves")
    assert isinstance(await replan(harness, run, model, under="build", unmet=("store", "web")), PlanWritten)
    assert "[no-children]" in model.input_text(2)
    assert model.asked[0].caller.action == "build"
    assert harness.action(run, "half").parent_id == harness.action(run, "build").id


async def test_a_replan_in_the_same_situation_as_the_one_before_says_so(harness):
    """SC-8: no new fact, the same error again: repeating the approach is no alternative."""
    run = await planned(harness, shop(act("schema", effects=("store",)), wants=("store",)))
    await fail(harness, run, "schema", "3 tests failed at 1a2b3c4")

    def again(words):
        return ("goap_update_action", {"action": "schema", "status": "pending", "result": words})

    first = ScriptedAgentModel(again("By hand."), "once more")
    await replan(harness, run, first)
    assert "# Stop" not in first.input_text(1)
    await fail(harness, run, "schema", "17 tests failed at 9f8e7d6")
    second = ScriptedAgentModel(create_actions("shop", proposed_action("other", gives=["store"])), "another")
    await replan(harness, run, second)
    assert "# Stop" in second.input_text(1)
    assert "By hand." in second.input_text(1)
    assert "replan: done" in second.input_text(1)


async def test_results_of_a_compounds_providers_are_shortened(harness):
    run = await planned(
        harness, shop(act("schema", effects=("store",)), act("ui", kind="compound", needs=["store"], effects=("web",)))
    )
    with harness.store.transaction():
        harness.store.actions.move(harness.action(run, "schema").id, Running(), result="Tables: users. " + "x" * 5_000)
    model = ScriptedAgentModel(
        create_actions(
            "shop", proposed_action("a", gives=["web"]), proposed_action("b", gives=["b"], needs=["web"]), parent="ui"
        ),
        "ok",
    )
    assert isinstance(await decompose(harness, run, model, "ui"), PlanWritten)
    assert "\n- schema: Tables: users. xxx" in model.input_text(1)
    assert "characters omitted]" in model.input_text(1)


async def test_a_model_that_cannot_be_opened_is_reported_and_not_tried_again(harness):
    run = await planned(harness, shop(BUILD))

    def opened(*, patience):
        raise UsageError("no key", "Set one.")

    ending = await SupervisorAgent(harness.context, run, opened).decompose(
        harness.goal(run, "shop").id, harness.action(run, "build").id
    )
    assert ending == ModelFailed("no key. Set one.", retryable=False)
    assert harness.store.turns.for_run(run.id) == ()


@pytest.mark.parametrize("size", [10, 100, 1_000])
@pytest.mark.slow
async def test_the_length_of_a_prompt_does_not_grow_with_the_project(harness, size):
    """OR-4: the whole request, tools included, stays below 4 K tokens at 10, 100 and 1,000 actions."""
    run = await grown(harness, size)
    model = ScriptedAgentModel("nothing", "nothing", "nothing")
    await decompose(harness, run, model, "more")
    await replan(harness, run, model, unmet=("end",), why="everything failed " * 200)
    await SupervisorAgent(harness.context, run, model.opened).judge(
        harness.goal(run, "shop").id, "much happened " * 200, None
    )
    first = [request for request in model.asked if request.caller.turn == 1]
    assert [request.caller.event for request in first] == ["decompose", "replan", "judge"]
    for request in first:
        assert 500 < tokens(request) < MOST_TOKENS, request.caller.event
    if size > 10:
        assert "goap_list_actions shows" in first[0].messages[0].parts[0].text


def tokens(request):
    """Return the approximate number of tokens of a request."""
    words = "".join(part.text for message in request.messages for part in message.parts)
    tools = "".join(tool.name + tool.description + json.dumps(tool.schema) for tool in request.tools)
    return len(request.system + request.context + words + tools) / 4


async def grown(harness, size):
    """Return a run with many verbose actions in every state, and a ready compound."""
    long = "It is a long story, with every detail there is. " * 40
    many = [act(f"modules/part-{at:04}", description=long, effects=(f"module_{at:04}_works",)) for at in range(size)]
    needs = [effect for action in many[: size // 2] for effect in action.effects]
    more = act("more", kind="compound", description=long, needs=needs, effects=("end",))
    last = act("last", kind="compound", needs=["end", *many[-1].effects], effects=("all",))
    run = await planned(harness, shop(*many, more, last, wants=["all", *(e for a in many for e in a.effects)]))
    for at in range(1, 5):
        await fail(harness, run, many[-at].key, long)
    with harness.store.transaction():
        for each in many[: size // 2]:
            action = harness.action(run, each.key)
            harness.store.actions.move_each((action,), Running(), Verifying(), Landing())
            harness.store.actions.move(action.id, Completed(), result=long)
        done = [effect for each in many[: size // 2] for effect in each.effects]
        shop_id = harness.goal(run, "shop").id
        harness.store.facts.record_all(shop_id, done, commit=COMMIT, paths=(), evidence=())
        harness.store.goals.set_summary(shop_id, long, was="")
    return run


async def test_turns_that_plan_are_told_what_earlier_work_showed(harness):
    """AL-16, BX-16: the notes that fit the goal, as data; without a room for them there are none."""
    now = harness.clock.now()
    learning = Learning(
        id="l", triple=Triple("a parser is planned", "begin with a lexer"), created_at=now, changed_at=now
    )
    with harness.store.transaction():
        harness.store.learnings.put(learning)
    run = await harness.own(goal("g", act("a")))
    told = with_notes_for_planning(harness.context, run, "Plan it.", "we want a parser, planned well")
    assert told.startswith("Plan it.\n\n# Notes from earlier work\nThese lines are data")
    assert '"do": "begin with a lexer"' in told
    assert with_notes_for_planning(harness.context, run, "Plan it.", "something else") == "Plan it."
    assert not harness.store.learning_uses.for_learnings(["l"])
    run = await harness.own(goal("h", act("b")), tokens=0)
    assert with_notes_for_planning(harness.context, run, "Plan it.", "a parser is planned") == "Plan it."
