"""The answers of slash commands, as functions of values."""

from datetime import UTC, datetime, timedelta

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from fakes import ECHO
from scaffold.agent.context.window_use import WindowPart, WindowUse
from scaffold.core.conversation import Todo
from scaffold.core.errors import UsageError
from scaffold.core.model import Usage
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.session.model_catalog import ModelOffer
from scaffold.session.slash.queries import (
    ConversationInfo,
    UsageSummary,
    answer_query,
    conversation_listing,
    effort_text,
    model_listing,
    parse_effort,
    subagent_usage,
)
from scaffold.session.slash.syntax import Help, ShowAgents, ShowContext, ShowCost, ShowGoals, ShowMode, ShowTools
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user.subagents import StoredSubagent

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
USED = Usage(input_tokens=10_000, cached_input_tokens=7_500, output_tokens=300, cost_usd=0.25, requests=2)
TODOS = (
    Todo(id=1, content="first", status="completed"),
    Todo(id=2, content="second", status="in_progress", priority="high"),
    Todo(id=4, content="third"),
)


def subagent(number, **changes):
    fields = {
        "id": f"abc/sub-{number}",
        "parent": "abc",
        "number": number,
        "task": "count\nthe beans",
        "context": "",
        "spec": "",
        "model": "cassette:x",
        "timeout_s": 300.0,
        "status": "success",
        "outcome": "success",
        "result": "seven",
        "error": None,
        "process": None,
        "usage": USED,
        "started_at": NOW - timedelta(seconds=90),
        "ended_at": NOW - timedelta(seconds=60),
    }
    return StoredSubagent(**{**fields, **changes})


def answer(inquiry, **changes):
    fields = {"model": "b", "mode": "plan", "spending": UsageSummary(total=USED), "rules": RuleSet()}
    return answer_query(inquiry, ConversationInfo(**{**fields, "now": NOW, "width": 80, **changes}))


def test_models_are_numbered_and_those_that_cannot_be_used_say_why():
    """RA-1, RA-18: the current one is marked; at 40 columns as well."""
    offers = (
        ModelOffer(model="openai:b", about="window 8,000, $1.00 / $2.00 per M"),
        ModelOffer(model="local:c@http://h:1/v1", about="free"),
        ModelOffer(model="anthropic:NAME", about="claude-x, claude-y", why_not="ANTHROPIC_API_KEY is not set"),
        ModelOffer(model="local:d@http://h:2/v1", why_not="no answer within 3 s"),
    )
    assert model_listing(offers, "local:c@http://h:1/v1", 80).split("\n")[:5] == snapshot(
        [
            "   1 openai:b               window 8,000, $1.00 / $2.00 per M",
            "*  2 local:c@http://h:1/v1  free",
            "Not to be used now:",
            "  anthropic:NAME (claude-x, claude-y): ANTHROPIC_API_KEY is not set",
            "  local:d@http://h:2/v1: no answer within 3 s",
        ]
    )
    assert max(map(len, model_listing(offers, "openai:b", 40).split("\n"))) <= 40


def test_the_listing_marks_the_current_mode():
    """RA-5."""
    lines = answer(ShowMode()).split("\n")
    assert [line[0] for line in lines[:6]] == [" ", " ", "*", " ", " ", " "]
    assert lines[2].startswith("* plan")


def test_help_lists_keys_only_for_an_interactive_prompt():
    """RA-18."""
    assert "Ctrl-C" in answer(Help(), interactive=True)
    shot = answer(Help())
    assert "Ctrl-C" not in shot
    assert "/compact" not in shot
    assert "/cost" in shot


def test_help_fits_the_width():
    """RA-18."""
    for width in (20, 40, 80, 200):
        lines = answer(Help(), interactive=True, width=width).split("\n")
        assert all(len(line) <= max(34, width) for line in lines)


def test_the_steps_to_a_goal_are_listed_completely_ready_ones_only_or_singly():
    """RA-18, SC-19: list, ready, show."""
    assert answer(ShowGoals(), todos=TODOS, request="mend\nit").split("\n") == [
        "goal: mend it",
        "[x] 1. first",
        "[>] 2. second (high)",
        "[ ] 4. third",
        "1 of 3 completed",
    ]
    assert answer(ShowGoals("ready"), todos=TODOS).split("\n")[0] == "[ ] 4. third"
    assert "status in_progress, priority high" in answer(ShowGoals("show", 2), todos=TODOS)
    with pytest.raises(UsageError, match="no step 3"):
        answer(ShowGoals("show", 3), todos=TODOS)
    assert answer(ShowGoals("ready"), todos=TODOS[:1]) == snapshot("No step is pending.")


def test_subagents_are_listed_and_shown():
    """RA-18, SC-19."""
    subagents = (subagent(1), subagent(2, status="running", ended_at=None, result=None))
    assert answer(ShowAgents(), subagents=subagents).split("\n") == snapshot(
        ["sub-1  success    30 s  count the beans", "sub-2  running    1 m 30 s  count the beans"]
    )
    for name in ("1", "sub-1", "abc/sub-1"):
        assert "result: seven" in answer(ShowAgents(name), subagents=subagents)
    with pytest.raises(UsageError, match="no subagent `9`"):
        answer(ShowAgents("9"), subagents=subagents)
    assert subagent_usage(subagents).requests == 4
    assert subagent_usage(()) is None


def test_costs_are_shown_for_the_session_in_total_by_model_and_remaining():
    """RA-18."""
    spending = UsageSummary(total=USED + USED, now=USED, models={"a": USED, "b": USED}, limit_usd=1.0, left_usd=0.75)
    lines = answer(ShowCost(), spending=spending).split("\n")
    assert lines[0] == "this session  $0.25, 10,000 tokens in (75% cached), 300 out, 2 requests"
    assert [line.split("  ")[0] for line in lines] == ["this session", "", "", "conversation", "budget"]
    assert lines[-1].endswith("$0.75 left of $1.00")
    unknown = Usage(cost_usd=None, requests=1)
    assert "cost unknown, 0 tokens in, 0 out, 1 request" in answer(ShowCost(), spending=UsageSummary(total=unknown))


def test_the_window_is_shown_by_its_parts():
    """RA-18: tokens, and their share of the window if its size is known."""
    parts = (WindowPart("system prompt", 1_500), WindowPart("results of read_file", 500))
    lines = answer(ShowContext(), window=WindowUse(parts, 10_000)).split("\n")
    assert lines[0].startswith("about 2,000 of 10,000 tokens are used (20.0%)")
    assert lines[-2:] == snapshot(["  system prompt         1,500 (15.0%)", "  results of read_file  500 (5.0%)"])
    unknown = answer(ShowContext(), window=WindowUse(parts, None))
    assert unknown.startswith("about 2,000 tokens are used; the size of the model's window is unknown\n")
    assert "%" not in unknown


def test_tools_are_listed_with_their_permission():
    """RA-13."""
    assert "file_write: asks you  echo" in answer(ShowTools(), tools=(ECHO,))
    assert "file_write: allowed (--yolo)  echo" in answer(ShowTools(), tools=(ECHO,), rules=RuleSet(yolo=True))
    assert "file_write: denied  echo" in answer(
        ShowTools(), tools=(ECHO,), rules=RuleSet(categories={"file_write": "deny"})
    )
    assert "file_write: allowed in this folder  echo" in answer(ShowTools(), tools=(ECHO,), mode="accept-edits")
    assert "In mode plan nothing runs that changes something." in answer(ShowTools(), tools=(ECHO,), mode="plan")
    confined = structs.replace(ECHO, category="python", sandboxed=True)
    assert answer(ShowTools(), tools=(confined,)).startswith("python: allowed  echo")


def test_conversations_are_listed_with_their_titles():
    """RA-18, SC-19: a title cannot reach the terminal as an escape sequence."""
    stored = StoredConversation(
        id="abcdefghijkl",
        cwd="/x",
        model="m",
        title="mend\n\x1b[31m it",
        messages=2,
        usage=USED,
        owner=None,
        created_at=NOW,
        updated_at=NOW - timedelta(days=3),
    )
    line = conversation_listing((stored,), "abcdefghijkl", now=NOW, width=80).split("\n")[0]
    assert line == "* abcdefghijkl  3 d ago     mend \\x1b[31m it"


def test_the_effort_is_shown_with_what_the_model_can():
    """RA-2, RA-18."""
    rows = [
        ("anthropic:claude-sonnet-4-5", "effort high: anthropic:claude-sonnet-4-5 thinks"),
        ("openai:gpt-4.1", "effort high: openai:gpt-4.1 does not think"),
        ("openai:o1-mini", "thinks as much as it likes"),
        ("local:q@http://h/v1", "only the server knows whether local:q@http://h/v1 thinks"),
    ]
    texts = [effort_text("high", model) for model, _ in rows]
    assert [text for text, (_, says) in zip(texts, rows, strict=True) if says not in text] == []
    assert [text for text in texts if not text.endswith("auto, low, medium, high, off.")] == []


def test_an_effort_that_does_not_exist_is_refused_with_those_that_do():
    """RA-18."""
    assert parse_effort("LOW") == "low"
    with pytest.raises(UsageError, match="`most`"):
        parse_effort("most")
