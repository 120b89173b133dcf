"""The output of one call of `ralph`, in each of its formats."""

import json

from inline_snapshot import snapshot

from fakes import MemoryHistory
from scaffold.cli.render.reporters import TextReporter, reporter_for
from scaffold.core.conversation import (
    AssistantMessage,
    RetryWait,
    StreamReset,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UserMessage,
)
from scaffold.core.errors import BudgetExceeded, ModelError, TurnLimitExceeded
from scaffold.core.model import Usage
from scaffold.session.result import UsageCounter, result_json, stop_reason

END = result_json(session="s1", model="local:m@http://h", result="done", usage=Usage())


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_stream_is_one_event_per_line_from_session_to_result(capsys):
    """RA-2: text and thinking come in chunks, calls and results whole; the last line is the whole object."""
    reporter = reporter_for("stream-json")
    reporter.session(session_id="s1", model="m")
    reporter.on_delta(ThinkingDelta("hm"))
    reporter.on_delta(TextDelta("I wi"))
    reporter.on_delta(TextDelta("ll look"))
    reporter.on_delta(ToolCallDelta(0, "read_file", '{"pa'))
    reporter.note("text", text="I will look")
    reporter.note("tool_call", id="c1", name="read_file", args={"path": "a"})
    reporter.note("usage", input_tokens=1)
    reporter.note("approval", tool="shell", decision="deny")
    reporter.note("tool_result", id="c1", name="read_file", content="1 a", failed=False)
    reporter.note("notice", text="careful")
    reporter.note("news", text="Your subagent sub-1 ended")
    reporter.result(END)
    events = lines(capsys)
    assert [event.pop("type") for event in events] == [
        *("session", "thinking", "text", "text", "tool_call", "approval", "tool_result", "notice", "notice", "result")
    ]
    assert events[-2] == snapshot({"notice": "news", "text": "Your subagent sub-1 ended"})
    assert "".join(event["text"] for event in events[2:4]) == "I will look"
    assert events[4]["args"] == {"path": "a"}
    assert events[-1] == dict(END)


def test_text_that_was_not_streamed_is_printed_whole(capsys):
    reporter = reporter_for("stream-json")
    reporter.on_delta(TextDelta("first"))
    reporter.note("text", text="first")
    reporter.note("usage", input_tokens=1)
    reporter.note("text", text="second")
    assert [event["text"] for event in lines(capsys)] == ["first", "second"]


def test_text_of_a_broken_stream_is_marked_as_void(capsys):
    """RA-21: what was shown before a stream broke is said to be void, and comes again."""
    reporter = reporter_for("stream-json")
    reporter.on_delta(TextDelta("hal"))
    reporter.on_delta(StreamReset("the connection was lost"))
    reporter.on_delta(RetryWait(1.5, "the endpoint is busy"))
    reporter.on_delta(TextDelta("half"))
    reporter.note("text", text="half")
    kinds = [(event["type"], event.get("notice")) for event in lines(capsys)]
    assert kinds == [("text", None), ("notice", "superseded"), ("notice", "waiting"), ("text", None)]


def test_json_output_is_only_the_object(capsys):
    reporter = reporter_for("json")
    reporter.session(session_id="s1")
    reporter.on_delta(TextDelta("x"))
    reporter.note("notice", text="careful")
    reporter.result(END)
    assert lines(capsys) == [dict(END)]


def test_text_output_is_the_answer_and_notices_go_to_standard_error(capsys):
    reporter = reporter_for("text")
    for delta in (TextDelta("x"), ThinkingDelta("y"), ToolCallDelta(0, "z", "{}")):
        reporter.on_delta(delta)
    reporter.on_delta(RetryWait(2.0, "busy"))
    reporter.on_delta(StreamReset("lost"))
    reporter.note("notice", text="careful\x1b[2J")
    reporter.note("tool_call", name="shell", args={})
    reporter.result(END)
    out, err = capsys.readouterr()
    assert out == "done\n"
    assert err == "waiting 2 s: busy\nasking again: lost\ncareful\\x1b[2J\n"


def test_on_a_terminal_each_step_is_shown_on_one_line(capsys):
    TextReporter(live=True).note("tool_call", name="shell", args={"command": "a\nb\x1b" + "c" * 500})
    (line,) = capsys.readouterr().err.splitlines()
    assert "shell" in line
    assert "\x1b[2" not in line
    assert len(line) < 160
    assert "…" in line


def test_an_empty_answer_prints_no_empty_line(capsys):
    reporter_for("text").result({**END, "result": ""})
    assert capsys.readouterr().out == ""


def test_usage_counts_only_this_call_and_keeps_the_final_text():
    inner = MemoryHistory()
    tally = UsageCounter(inner)
    tally.add(UserMessage((Text("go"),)))
    tally.add(AssistantMessage((Text("gone"),)), Usage(input_tokens=3, cost_usd=0.5, requests=1))
    tally.compact(1, "earlier")
    tally.spend(Usage(input_tokens=2, cost_usd=0.25))
    assert tally.text == "gone"
    assert tally.usage == inner.usage == Usage(input_tokens=5, cost_usd=0.75, requests=1)
    assert (inner.messages[0].parts, inner.compactions) == ((Text("go"),), [(1, "earlier", 1)])


def test_every_stop_reason_has_its_word():
    table = {TurnLimitExceeded: "max_turns", BudgetExceeded: "budget", ModelError: "error"}
    assert {error: stop_reason(error("what", "fix")) for error in table} == table


def test_subagents_count_towards_usage_but_not_turns():
    """RA-11: `usage` is of all, `turns` of the agent alone; one unknown price makes the sum unknown."""
    own = Usage(input_tokens=10, output_tokens=1, cost_usd=0.5, requests=2)
    others = Usage(input_tokens=5, cached_input_tokens=4, output_tokens=2, cost_usd=0.25, requests=3)
    result = result_json(session="s", model="m", result="", usage=own, others=others)
    assert result["usage"] == {
        "input_tokens": 15,
        "cached_input_tokens": 4,
        "output_tokens": 3,
        "cost_usd": 0.75,
        "requests": 5,
    }
    assert result["turns"] == 2
    free = result_json(session="s", model="m", result="", usage=own, others=Usage(cost_usd=None))
    assert free["usage"]["cost_usd"] is None
