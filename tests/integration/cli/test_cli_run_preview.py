"""The preview of a run before it starts."""

import re
from datetime import UTC, datetime

import msgspec
import pytest
from inline_snapshot import snapshot

from builders import make_context, make_repository, make_run, with_settings
from scaffold.cli.render.cost_terms import billing_note, planning_terms, run_terms
from scaffold.cli.render.run_preview import MAX_ACTIONS, RunPreview, sandbox_summary
from scaffold.cli.render.terminal.text_layout import Layout
from scaffold.core.run_settings import AssignedModel, AssignedModels
from scaffold.core.spending import PastCost
from scaffold.host.sandbox.level import DetectedLevel, level_limits
from scaffold.orchestrator.planning.apply_plan import stored_plan
from scaffold.plan.budget import spending_limits

PLAN = """\
version: 1
goals:
  - name: shop
    goal_state: [sold]
    actions:
      - {key: store, kind: compound, effects: [stored]}
      - {key: model, parent: store, effects: [modelled]}
      - {key: table, parent: store, preconditions: [modelled], effects: [stored]}
      - {key: sell, preconditions: [stored], effects: [sold, "paid\\u0301"]}
"""


@pytest.fixture
def context(tmp_path):
    made = make_context(make_repository(tmp_path / "repo"))
    yield made
    made.store.close()


def offered(context, plan=PLAN, **settings):
    """Return the preview of a run of this plan."""
    run = make_run(context, plan, **settings)
    return RunPreview(run, stored_plan(context.store, run))


def priced(offer, model):
    """Return the preview with another model."""
    settings = with_settings(offer.run.settings, model=model)
    return RunPreview(msgspec.structs.replace(offer.run, settings=settings), offer.plan)


def test_it_shows_goals_and_a_tree_of_actions_with_their_effects(context):
    """SC-8: a plan can be judged before it starts."""
    lines = offered(context, agents=4, budget_usd=2.5).text(Layout()).splitlines()
    assert lines[:5] == [
        "shop: sold",
        "  store (compound) -> stored",
        "    model -> modelled",
        "    table -> stored",
        "  sell -> sold, paid\u0301",
    ]
    rest = "\n".join(lines[5:])
    for value in ("`paid\u0301`", "4 actions", "4 agents", " model -> table -> sell", "1 agent ", "$2.50"):
        assert value in rest, value


def test_the_advice_keeps_to_the_limit_of_a_goal(context):
    """SC-22, SC-15: the user sets the number of agents of a goal."""
    names = "abcdef"
    actions = "".join(f"      - {{key: {name}, effects: [{name}_done], files: [{name}]}}\n" for name in names)
    wanted = ", ".join(f"{name}_done" for name in names)
    text = f"version: 1\ngoals:\n  - name: g\n    goal_state: [{wanted}]\n    actions:\n{actions}"
    assert "2 agents recommended" in offered(context, text, agents=8, goal_agents=2).text(Layout())
    assert "6 agents recommended" in offered(context, text, agents=8, goal_agents=6).text(Layout())


def test_the_estimate_counts_each_action_for_the_model_that_does_it(context):
    """SC-8, AL-2: tasks of the type SETUP have a smaller model here."""
    offer = priced(offered(context), "anthropic:claude-opus-4-1")
    small = AssignedModel(name="anthropic:claude-haiku-4-5")
    settings = msgspec.structs.replace(offer.run.settings, assigned=AssignedModels(by_task={"boilerplate": small}))
    actions = [msgspec.structs.replace(each, type="SETUP") for each in offer.plan.actions]
    dear, cheap = (
        float(re.findall(r"roughly \$([\d.]+)", "\n".join(run_terms(settings, each, offer.run.created_at)))[0])
        for each in (offer.plan.actions, actions)
    )
    assert 0 < cheap < dear / 5


def test_a_long_plan_is_shortened_and_says_so(context):
    actions = "".join(f"      - {{key: a{n}, effects: [e{n}]}}\n" for n in range(100))
    text = f"version: 1\ngoals:\n  - name: g\n    goal_state: [e0]\n    actions:\n{actions}"
    output = offered(context, text, plan_path="/plan.yaml").text(Layout())
    assert f"and {100 - MAX_ACTIONS} more actions" in output
    assert output.count(" -> e") == MAX_ACTIONS


def test_the_estimate_grows_with_the_plan_or_says_that_there_is_none(context):
    """SC-8: the cost is shown before the work, and who pays."""
    offer = priced(offered(context), "anthropic:claude-sonnet-4-5")
    (line,) = (line for line in offer.text(Layout()).splitlines() if line.startswith("  roughly"))
    low, high = (float(amount) for amount in re.findall(r"\$([\d.]+)", line)[:2])
    assert 0 < low < high
    assert re.search(r", [\d,]+ to [\d,]+ tokens, by a rule of thumb; ", line)
    for model, words in (
        ("cassette:/x.yaml", "no cost"),
        ("local:llama@http://127.0.0.1:1/v1", "cost unknown"),
        ("codex:gpt-5", "cost unknown"),
        ("openai:nobody-knows-it", "cost unknown"),
    ):
        assert f"\n  {words}, roughly " in priced(offer, model).text(Layout())


def test_a_cassette_with_prices_is_estimated_at_them(context, tmp_path):
    """AL-21: its replies are counted at them, so that budgets can be tried; the estimate says the same."""
    cassette = tmp_path / "cassette.yaml"
    cassette.write_text("version: 1\nreplies: []\nprices: {input_per_mtok: 3.0, output_per_mtok: 15.0}\n")
    text = priced(offered(context), f"cassette:{cassette}").text(Layout())
    assert "$3.00 in and $15.00 out" in " ".join(text.split())
    assert "\n  roughly $" in text


def test_before_the_plan_its_price_is_told_and_the_budget_that_holds(context):
    """SC-8: planning costs money, too."""
    run = priced(offered(context), "anthropic:claude-sonnet-4-5").run
    terms = planning_terms(run.settings, run.created_at)
    assert terms.startswith("planning with anthropic:claude-sonnet-4-5 (")
    assert "$3.00 in and $15.00 out" in terms
    assert "\n  roughly $" in terms
    assert "`--budget-usd X` or `--budget-tokens N`" in terms
    limits = msgspec.structs.replace(run.settings.limits, budget_usd=5.0)
    limited = msgspec.structs.replace(run.settings, limits=limits)
    told = planning_terms(limited, run.created_at)
    assert told.split("; ")[-2:] == snapshot(
        ["the run may use at most $5.00", "a limit in dollars replaces the tier's limit in tokens"]
    )


def test_the_cap_in_tokens_says_how_it_follows_from_the_tier(context):
    """AL-28: before the first request; one that the user named is only named."""
    run = offered(context, action_tokens=100_000).run
    assert spending_limits(run.settings.limits).tokens == 300_000
    (line,) = run_terms_about(run.settings, "tier builder")
    assert line.split("; ")[-1] == snapshot(
        "the run may use at most 300,000 tokens (tier builder: 100,000 for each of 3 actions)"
    )
    unplanned = with_settings(run.settings, agreed_actions=0)
    told = planning_terms(unplanned, run.created_at)
    assert "100,000 for each of up to 6 actions" in told
    stored = msgspec.structs.replace(run, settings=unplanned)
    preview = RunPreview(stored, stored_plan(context.store, run)).text(Layout())
    assert "100,000 for each of 3 actions" in preview, "as it is stored when the run starts"
    named = with_settings(run.settings, budget_tokens=5_000)
    assert "at most 5,000 tokens" in planning_terms(named, run.created_at)
    assert not run_terms_about(named, "tier builder")


def run_terms_about(settings, words):
    return [line for line in run_terms(settings, (), datetime(2026, 1, 1, tzinfo=UTC)) if words in line]


def test_an_estimate_follows_from_earlier_runs_where_there_are_any(context):
    """AL-21: from their cheapest to their dearest action; a single one is doubled and halved."""
    offer = offered(context)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    past = (PastCost(10_000.0, 0.5), PastCost(30_000.0, 0.25))
    shown = [
        re.search("roughly [^;]*", "\n".join(run_terms(offer.run.settings, offer.plan.actions, now, earlier)))[0]
        for earlier in (past, past[:1], (PastCost(10.0, None),) * 2)
    ]
    assert shown == snapshot(
        [
            "roughly $0.75 to $1.50, 30,000 to 90,000 tokens, as 2 earlier runs here",
            "roughly $0.75 to $3.00, 15,000 to 60,000 tokens, as 1 earlier run here",
            "roughly 30 to 30 tokens, as 2 earlier runs here",
        ]
    )


def test_it_says_who_pays():
    models = (
        *("cassette:/x.yaml", "local:llama@http://127.0.0.1:1/v1", "codex:gpt-5"),
        *("anthropic:claude-sonnet-4-5", "openai:nobody-knows-it"),
    )
    assert {model: billing_note(model, datetime(2026, 1, 1, tzinfo=UTC)) for model in models} == snapshot(
        {
            "cassette:/x.yaml": "replayed from a file, free",
            "local:llama@http://127.0.0.1:1/v1": "your own server, no price known",
            "codex:gpt-5": "covered by your subscription",
            "anthropic:claude-sonnet-4-5": "billed to your API key, $3.00 in and $15.00 out per million tokens",
            "openai:nobody-knows-it": "billed to your API key, price unknown",
        }
    )


def test_no_escape_sequence_of_a_plan_reaches_the_terminal(context):
    offer = offered(context)
    shouted = msgspec.structs.replace(offer.plan.goals[0], name="\x1b[31mshop")
    run = msgspec.structs.replace(offer.run, base_branch="\x1b[31mmain")
    text = RunPreview(run, msgspec.structs.replace(offer.plan, goals=(shouted,))).text(Layout())
    assert "shop: sold" in text
    assert "main at" in text
    assert "\x1b" not in text


def test_the_header_claims_no_network_that_the_level_cannot_give(context):
    """BX-9"""
    settings = offered(context).run.settings
    assert sandbox_summary(DetectedLevel("bubblewrap"), settings) == "sandbox bubblewrap, network loopback"
    weak = sandbox_summary(DetectedLevel("landlock", "no user namespaces", "allow them"), settings)
    assert weak.startswith(f"sandbox landlock, {level_limits('landlock')[0]}; ")
    assert weak.endswith(" (no user namespaces; to improve it, allow them)")
    assert "loopback" not in weak
