"""The nine planning tools as a model calls them: through a toolbox, on a real store."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from msgspec.structs import replace

from builders import HEAD, THEN, a_goal, a_run, an_action, an_attempt, claim, events_of
from scaffold.agent.toolbox import Toolbox
from scaffold.core.conversation import ToolCall
from scaffold.core.events import AssertionProposed
from scaffold.core.states import Completed, Failed, Landing, Pending, Running, Verifying
from scaffold.orchestrator.planning.apply_plan import apply_changes, read_draft
from scaffold.orchestrator.planning.proposal_tools import planning_tools, supervisor_tools
from scaffold.orchestrator.planning.proposals import DraftProposals
from scaffold.orchestrator.planning.tool_responses import RESPONSE_CHARS
from scaffold.store.database import Store
from support.fake_clock import FakeClock
from support.property_examples import up_to

NINE = [
    "goap_create_goal",
    "goap_create_actions",
    "goap_get_goal",
    "goap_list_actions",
    "goap_update_action",
    "goap_dispatch_action",
    "goap_update_world_state",
    "goap_check_complete",
    "goap_get_action_results",
]
GOAL = a_goal("shop", desired=("store_works", "api_works"), id="goal-1")


@pytest.fixture
def store(tmp_path):
    opened = Store.open(tmp_path / "state.db", clock=FakeClock())
    with opened.transaction():
        opened.runs.add(a_run())
    yield opened
    opened.close()


@pytest.fixture
def proposals(store):
    return DraftProposals(store, store.runs.get("run-1"))


def lay(store, *actions):
    """Store the goal with these actions, in order."""
    with store.transaction():
        store.goals.add(GOAL)
        store.actions.add([replace(action, position=place) for place, action in enumerate(actions)])


def act(key, **fields):
    return an_action(key, goal=GOAL, **fields)


def land(store, key, result):
    """Complete an action with a result, and add its effects as facts."""
    action = store.actions.by_key("run-1", key)
    with store.transaction():
        for state in (Running(), Verifying(), Landing()):
            store.actions.move(action.id, state)
        store.actions.move(action.id, Completed(), result=result)
        store.facts.record_all("goal-1", action.effects, commit=HEAD, paths=(), evidence=())


def fail(store, key, error):
    """Fail an attempt at an action, and the action with it."""
    attempt = an_attempt(store.actions.by_key("run-1", key))
    claim(store, attempt, "executing")
    with store.transaction():
        store.attempts.end(attempt.id, outcome="contract_failed", error=error)
        store.actions.move(attempt.action_id, Running())
        store.actions.move(attempt.action_id, Failed(error))


async def call(proposals, name, /, **args):
    """Return the result that the model gets, and whether it is marked as failed."""
    result = await Toolbox(supervisor_tools(proposals)).result(ToolCall("1", name, args))
    return result.content, result.failed


async def ask(proposals, name, /, **args):
    """Return the answer of a call that succeeds."""
    content, failed = await call(proposals, name, **args)
    assert not failed, content
    return json.loads(content)


async def refusal(proposals, name, /, **args):
    """Return the message of a call that fails."""
    content, failed = await call(proposals, name, **args)
    assert failed, content
    assert "broke" not in content
    return content


def spec(key, **fields):
    return {
        "key": key,
        "description": f"Do {key}.",
        "kind": "primitive",
        "preconditions": [],
        "effects": [key],
    } | fields


async def a_goal_is_made(proposals):
    return await ask(proposals, "goap_create_goal", name="shop", description="A shop.", goal_state=["store", "api"])


def test_a_planner_has_the_drafting_tools_and_a_supervisor_all_nine(proposals):
    """SC-12."""
    assert [tool.name for tool in planning_tools(proposals)] == NINE[:4]
    assert [tool.name for tool in supervisor_tools(proposals)] == NINE


async def test_a_plan_is_drafted_call_by_call_before_anything_is_stored(store, proposals):
    """SC-8, SC-12: the draft holds all of it; applying it stores all of it."""
    assert await a_goal_is_made(proposals) == {"goal": "shop", "created": True}
    made = await ask(
        proposals, "goap_create_actions", goal="shop", actions=[spec("all", kind="compound", effects=["api"])]
    )
    assert made == snapshot(
        {
            "goal": "shop",
            "created": ["all"],
            "not_sound_yet": ["goal `shop` is never reached: no action makes `store` true"],
        }
    )
    children = [spec("store"), spec("api", preconditions=["store"], acceptance="it answers")]
    made = await ask(proposals, "goap_create_actions", goal="shop", parent="all", actions=children)
    assert made == {"goal": "shop", "created": ["store", "api"]}
    assert (await ask(proposals, "goap_get_goal", goal="shop"))["actions"] == {"pending": 3}
    assert store.goals.for_run("run-1") == ()
    with store.transaction():
        apply_changes(store, proposals.run, proposals.draft.changes, now=THEN)
    assert read_draft(store, proposals.run).plan == proposals.draft.plan


async def test_an_item_that_exists_with_the_same_content_is_returned(proposals):
    """SC-12: idempotent by name and key; different content is an error."""
    await a_goal_is_made(proposals)
    assert (await a_goal_is_made(proposals))["note"] == snapshot("An identical goal already exists.")
    await ask(proposals, "goap_create_actions", goal="shop", actions=[spec("store")])
    again = await ask(proposals, "goap_create_actions", goal="shop", actions=[spec("store"), spec("api")])
    assert again == {"goal": "shop", "created": ["api"], "existed": ["store"]}
    other = [spec("x"), spec("store", role="testing")]
    refused = await refusal(proposals, "goap_create_actions", goal="shop", actions=other)
    assert ("actions[1]" in refused, "`store`" in refused, "role" in refused) == (True, True, True)
    assert proposals.draft.action("x") is None


FAULTY_CALLS = [
    ("goap_create_goal", {"name": "x", "description": "x", "goal_state": []}, "its goal state is empty"),
    ("goap_create_goal", {"name": "x", "description": "x"}, "goap_create_goal needs `goal_state`"),
    ("goap_create_actions", {"goal": "shap", "actions": [spec("a")]}, "Did you mean `shop`?"),
    ("goap_create_actions", {"goal": "shop", "actions": []}, "list of actions is empty"),
    ("goap_create_actions", {"goal": "shop", "actions": [spec("a", depends_on=[])]}, "has no `depends_on`"),
    ("goap_create_actions", {"goal": "shop", "actions": [spec("a", kind="big")]}, "must be one of primitive"),
    ("goap_create_actions", {"goal": "shop", "actions": [spec("-a")]}, "starts with `-`"),
    ("goap_create_actions", {"goal": "shop", "parent": "stor", "actions": [spec("a")]}, "Did you mean `store`?"),
    ("goap_create_actions", {"goal": "shop", "parent": "store", "actions": [spec("a")]}, "is primitive"),
    ("goap_create_actions", {"goal": "shop", "actions": [spec("a", contract={"checks": []})]}, "is unknown"),
    ("goap_list_actions", {"goal": "shop", "status": "done"}, "A status is one of: failed"),
    ("goap_list_actions", {"goal": "shop", "parent": "nobody"}, "there is no action `nobody`"),
    ("goap_update_action", {"action": "store", "status": "completed"}, "only evidence completes"),
    ("goap_update_action", {"action": "store", "status": "cancelled"}, "only by a human"),
    ("goap_update_action", {"action": "store", "status": "running"}, "cannot be set to `running`"),
    ("goap_update_action", {"action": "stores", "status": "skipped"}, "Did you mean `store`?"),
    ("goap_update_world_state", {"goal": "shop", "assertions": {"store": "yes"}}, "neither true nor false"),
    ("goap_update_world_state", {"goal": "shop", "assertions": {"stor": True}}, "Did you mean `store`?"),
    ("goap_update_world_state", {"goal": "shop", "assertions": [True]}, "must be an object"),
    ("goap_get_action_results", {"goal": "shop", "actions": ["store"]}, "has no result"),
    ("goap_dispatch_action", {"action": "nobody"}, "there is no action `nobody`"),
]


async def test_errors_tell_the_model_how_to_fix_the_call(proposals):
    """SC-12: what was wrong with which thing, and what to do."""
    await a_goal_is_made(proposals)
    await ask(proposals, "goap_create_actions", goal="shop", actions=[spec("store")])
    before = proposals.draft.changes
    told = [(words, await refusal(proposals, name, **args)) for name, args, words in FAULTY_CALLS]
    assert [(words, message) for words, message in told if words not in message] == []
    assert proposals.draft.changes == before


async def test_the_result_of_a_change_names_the_first_errors(proposals):
    """SC-8, SC-12: an unsound draft is reported at once."""
    await ask(proposals, "goap_create_goal", name="shop", description="A shop.", goal_state=["a", "b", "c", "d", "e"])
    made = await ask(proposals, "goap_create_actions", goal="shop", actions=[spec("a")])
    assert len(made["not_sound_yet"]) == 4
    assert made["not_sound_yet"][3] == "... and 1 more"


async def test_goals_and_actions_are_identified_by_name_key_or_id(store):
    """SC-12."""
    lay(store, act("store", effects=("store_works",)), act("api"))
    proposals = DraftProposals(store, store.runs.get("run-1"))
    assert (await ask(proposals, "goap_check_complete", goal="goal-1"))["goal"] == "shop"
    changed = await ask(proposals, "goap_update_action", action="run-1/api", status="skipped", result="bought")
    assert changed == snapshot(
        {
            "action": "api",
            "status": "skipped",
            "changed": True,
            "not_sound_yet": ["goal `shop` is never reached: no action makes `api_works` true"],
        }
    )


async def test_completeness_follows_from_the_facts(store):
    """SC-3, SC-12: decided mechanically."""
    lay(store, act("store", effects=("store_works",)), act("api", effects=("api_works",)))
    land(store, "store", "Wrote it.")
    proposals = DraftProposals(store, store.runs.get("run-1"))
    assert await ask(proposals, "goap_check_complete", goal="shop") == {
        "goal": "shop",
        "complete": False,
        "unmet": ["api_works"],
    }
    report = await ask(proposals, "goap_get_goal", goal="shop")
    assert report["goal_state"] == {"api_works": False, "store_works": True}
    assert report["world_state"] == {"store_works": True}
    assert (report["status"], report["complete"]) == ("active", False)
    land(store, "api", "Wrote that.")
    proposals = DraftProposals(store, store.runs.get("run-1"))
    assert (await ask(proposals, "goap_check_complete", goal="shop"))["complete"] is True


async def test_a_proposal_is_answered_with_the_existing_evidence(store):
    """SC-3, SC-12: a proposal is recorded, and makes nothing true."""
    lay(store, act("store", effects=("store_works",)), act("api", effects=("api_works",)))
    land(store, "store", "Wrote it.")
    proposals = DraftProposals(store, store.runs.get("run-1"))
    claims = {"store_works": True, "api_works": True}
    said = await ask(
        proposals, "goap_update_world_state", goal="shop", assertions=claims, evidence="`store`, then api."
    )
    assert (said["holds"], said["not_shown"]) == (["store_works"], ["api_works"])
    assert said["notes"] == snapshot(
        [
            "`store_works` already holds: it was proven when `store` landed.",
            "`api` is pending: `api_works` will hold once it has landed with evidence.",
        ]
    )
    denied = await ask(
        proposals, "goap_update_world_state", goal="shop", assertions={"store_works": False}, summary="no"
    )
    assert denied["notes"] == snapshot(["`store_works` is backed by evidence; only a failing check can refute it."])
    with store.transaction():
        apply_changes(store, proposals.run, proposals.draft.changes, now=THEN)
    assert AssertionProposed("shop", "api_works", True, "`store`, then api.") in events_of(store)
    assert store.facts.holding("goal-1") == {"store_works"}
    assert store.goals.get("goal-1").summary == "no"


async def test_a_list_shows_items_that_need_attention_first_and_counts_the_rest(store):
    """SC-12: at most 50, filtered by status and parent."""
    lay(
        store,
        act("top", kind="compound", effects=("all",)),
        *(act(f"part-{n}", parent_id="run-1/top", preconditions=("never",)) for n in range(60)),
        act("broken"),
    )
    fail(store, "broken", "it cracked")
    proposals = DraftProposals(store, store.runs.get("run-1"))
    listing = await ask(proposals, "goap_list_actions", goal="shop")
    assert (listing["found"], len(listing["actions"]), listing["left_out"]) == (62, 50, 12)
    assert listing["actions"][0]["key"] == "broken"
    assert listing["actions"][0]["reason"] == "it cracked"
    below = await ask(proposals, "goap_list_actions", goal="shop", parent="top", status="pending")
    assert below["found"] == 60
    assert below["actions"][0]["not_yet_true"] == ["never"]
    assert (await ask(proposals, "goap_list_actions", goal="shop", status="running"))["actions"] == []


async def test_results_are_shortened_with_the_call_that_returns_the_rest(store):
    """SC-11, SC-12: shortened for the context, complete in the store."""
    lay(store, *(act(f"a{n}") for n in range(6)), act("broken", guidance="use bricks"))
    for n in range(6):
        land(store, f"a{n}", f"{n}" * 10_000)
    fail(store, "broken", "it cracked")
    proposals = DraftProposals(store, store.runs.get("run-1"))
    content, failed = await call(proposals, "goap_get_action_results", goal="shop")
    answer = json.loads(content)
    assert not failed
    assert len(content) <= RESPONSE_CHARS
    assert answer["results"][0] == {
        "action": "broken",
        "status": "failed",
        "attempts": 1,
        "error": "it cracked",
        "other_approach": "use bricks",
    }
    assert [each["action"] for each in answer["results"]][1:] + answer["left_out"] == [f"a{n}" for n in range(6)]
    assert all(len(each["result"]) < 2_100 for each in answer["results"][1:])
    assert answer["rest"] == snapshot("Name fewer in `actions` to see more of each.")
    alone = await ask(proposals, "goap_get_action_results", goal="shop", actions=["run-1/a3"])
    assert 7_000 < len(alone["results"][0]["result"]) < RESPONSE_CHARS
    assert store.actions.by_key("run-1", "a3").result == "3" * 10_000


async def test_a_result_that_speaks_of_omissions_is_not_shortened(store):
    """SC-12: only what was cut here can be read in full by naming fewer actions."""
    lay(store, act("a"), act("b"))
    for key in ("a", "b"):
        land(store, key, "it printed `... 5 characters omitted ...`")
    answer = await ask(DraftProposals(store, store.runs.get("run-1")), "goap_get_action_results", goal="shop")
    assert (len(answer["results"]), answer.get("rest")) == (2, None)


@pytest.mark.slow
async def test_every_answer_is_bounded(store):
    """OR-4, SC-12: a thousand actions with long texts cost no more than fifty."""
    long = tuple(f"{n}-{'x' * 150}" for n in range(90))
    lay(store, *(act(f"a{n}", description="x" * 5_000, effects=long, preconditions=long) for n in range(200)))
    proposals = DraftProposals(store, store.runs.get("run-1"))
    for name in ("goap_get_goal", "goap_list_actions", "goap_get_action_results", "goap_check_complete"):
        content, failed = await call(proposals, name, goal="shop")
        assert not failed
        assert len(content) <= RESPONSE_CHARS


async def test_in_a_draft_actions_are_dispatched_automatically(store):
    """SC-13."""
    lay(store, act("store"))
    proposals = DraftProposals(store, store.runs.get("run-1"))
    said = await ask(proposals, "goap_dispatch_action", action="store")
    assert said == snapshot(
        {
            "action": "store",
            "dispatched": False,
            "note": "Ready actions are dispatched automatically as soon as a worker is free.",
        }
    )
    assert store.actions.by_key("run-1", "store").state == Pending()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
likely = st.sampled_from(["shop", "goal-1", "store", "run-1/store", "pending", "skipped", "store_works", ""])
objects = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("key", "description", "kind", "effects", "contract", "acceptance", "files"), likely | json_values
    ),
)
arguments = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(("goal", "name", "action", "status", "result", "parent"), likely | json_values)
    | {
        "actions": st.lists(objects | json_values, max_size=3) | json_values,
        "goal_state": st.lists(likely) | json_values,
    }
    | {"assertions": st.dictionaries(likely, st.booleans() | json_values) | json_values, "description": json_values},
)


@settings(max_examples=up_to(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(NINE), args=arguments)
async def test_garbage_of_every_kind_is_answered_with_an_error(store, name, args):
    """SC-12: whatever a model sends, the tool answers; it never raises."""
    if store.goals.get("goal-1") is None:
        lay(store, act("store", effects=("store_works",)))
    content, _ = await call(DraftProposals(store, store.runs.get("run-1")), name, **args)
    assert content
    assert "broke:" not in content
