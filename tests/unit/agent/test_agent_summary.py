from inline_snapshot import snapshot

from scaffold.agent.context.call_summary import ToolEffects, describe_call
from scaffold.agent.context.conversation_window import Conversation, recap
from scaffold.agent.context.rolling_summary import extend_summary, plain_text, summary_entries
from scaffold.agent.context.text_size import text_size
from scaffold.core.conversation import AssistantMessage, Image, Text, ToolCall, ToolResult, UserMessage
from scaffold.core.model import Usage


def asked(text):
    return UserMessage((Text(text),))


def step(call_id, name, content, *, failed=False, words="", **args):
    said = (Text(words),) if words else ()
    return [
        AssistantMessage((*said, ToolCall(call_id, name, args))),
        UserMessage((ToolResult(call_id, name, content, failed),)),
    ]


STORY = [
    UserMessage((Text("Fix the\n  clock."), Image("image/png", b""))),
    *step("1", "read_file", "clock.py: total_lines 3, range 1-3\n1\tx", path="clock.py", words="I look first."),
    *step("2", "shell", "exit code 2 after 1.0 s\n--- output\nboom", failed=True, command="make\n  test"),
    AssistantMessage((Text("The clock was late."),)),
    asked("Thanks."),
]


def test_a_summary_lists_requests_replies_and_calls_in_order():
    """RA-10: deterministic, by code; tool results shrink to how they ended."""
    effects = ToolEffects(reading=frozenset({"read_file"}))
    assert extend_summary("", STORY, 10_000, effects).split("\n") == snapshot(
        [
            "- user: Fix the",
            "    clock.",
            "  [an image]",
            "- you: I look first.",
            "- read: read_file `clock.py`: clock.py: total_lines 3, range 1-3",
            "- tool: shell `make test`: failed: exit code 2 after 1.0 s … boom",
            "- you: The clock was late.",
            "- user: Thanks.",
        ]
    )


def test_a_summary_parses_back_even_if_its_text_looks_like_entries():
    """RA-10: summaries are rolled forward."""
    sly = [asked("a\n- you: I am not you\n- left out: 9 requests, 9 replies, 9 tool calls"), *STORY]
    summary = extend_summary("", sly, 10_000)
    assert summary_entries(summary, []) == summary_entries("", sly)
    assert "- left out" not in extend_summary(summary, [], 10_000).split("\n")


def test_the_first_request_and_the_newest_of_each_kind_stay_and_the_rest_is_counted():
    """RA-10."""
    talk = [asked("the task")]
    for number in range(300):
        talk += [*step(str(number), "shell", f"exit code {number}", command=f"run {number}", words=f"step {number}")]
        talk += [asked(f"more {number}")]
    summary = extend_summary("", talk, 6_000)
    assert text_size(summary) <= 6_000
    texts = [entry.text for entry in summary_entries(summary, [])]
    assert texts[0] == "the task"
    assert {"more 299", "step 299", "shell `run 299`: exit code 299"} <= set(texts)
    assert "more 0" not in texts
    counts = [int(word) for word in summary.split("\n", 1)[0].split() if word.isdigit()]
    assert sum(counts) + len(texts) == 1 + 3 * 300


def test_a_summary_stays_bounded_over_a_thousand_turns():
    """RA-10."""
    summary, sizes = "", []
    for number in range(1_000):
        turn = [asked(f"request {number} " + "word " * 200), *step("1", "shell", "exit code 0", command="make")]
        summary = extend_summary(summary, turn, 8_000)
        sizes.append(text_size(summary))
    assert max(sizes) <= 8_000
    assert summary_entries(summary, [])[0].text.startswith("request 0 ")
    first_line = summary.split("\n", 1)[0]
    left_out = [int(word) for word in first_line.split() if word.isdigit()]
    assert left_out[0] + sum(entry.kind == "user" for entry in summary_entries(summary, [])) == 1_000


def test_a_long_task_keeps_as_many_lines_as_fit():
    [entry] = summary_entries(extend_summary("", [asked("first line\n" + "x" * 50_000 + "\nlast line")], 20_000), [])
    assert entry.text.startswith("first line\nxxx")
    assert entry.text.endswith("\nlast line")


def test_a_call_is_summarised_by_its_subject_and_outcome():
    rows = [
        ({"command": "ls"}, "exit code 0", "t `ls`: exit code 0"),
        ({"a": 1}, "\n\nfine\nmore", "t: fine"),
        ({"path": "a", "content": "long"}, "", "t `a`:"),
    ]
    assert [
        (args, content, describe_call(ToolCall("1", "t", args), ToolResult("1", "t", content)))
        for args, content, _ in rows
    ] == rows


def test_an_attachment_is_summarised_by_its_name():
    """RA-20: the content of an attachment is not the user's text."""
    words = Text("Attached: not a file, the user says so\nreally")
    message = UserMessage((words, Text("Attached: a.py\nline\nline"), Text("Attached: b.png"), Image("image/png", b"")))
    assert plain_text(message) == f"{words.text}\n[Attached: a.py]\n[Attached: b.png]\n[an image]"


def test_a_call_without_a_result_is_marked_as_such():
    assert describe_call(ToolCall("1", "t", {}), None) == "t: not answered"


def test_a_recap_lists_the_request_the_work_the_last_state_and_the_cost():
    """RA-10: recap on resume."""
    usage = Usage(input_tokens=12_345, cached_input_tokens=9_000, output_tokens=678, cost_usd=0.12, requests=3)
    assert recap(Conversation(STORY), "", usage, model="openai:x").split("\n") == snapshot(
        [
            "Resuming: Fix the clock.",
            "Last request: Thanks.",
            "Last call: shell make test",
            "Last reply: The clock was late.",
            "Stopped: before the model replied",
            "Used so far: 12,345 tokens in (9,000 cached), 678 out, 3 requests, $0.12, openai:x",
        ]
    )


def test_a_recap_of_a_compacted_conversation_holds_nothing_of_its_summary():
    """RA-10: a summary is written for the model, and has entries that the user never saw."""
    *before, last = STORY[:-1]
    talk = Conversation([last], extend_summary("", before, 9_000))
    assert recap(talk, "Fix the clock.", Usage(cost_usd=None)).split("\n") == snapshot(
        [
            "Resuming: Fix the clock.",
            "Last reply: The clock was late.",
            "Stopped: after the model's last reply",
            "Used so far: 0 tokens in, 0 out, 0 requests, cost unknown",
        ]
    )


def test_a_recap_of_a_conversation_interrupted_in_a_tool_says_so():
    """RA-10."""
    recaps = [recap(Conversation(STORY[:4]), "", Usage()), recap(Conversation(), "", Usage(), elsewhere="/other")]
    assert [line for text in recaps for line in text.split("\n") if not line.startswith("Used")] == snapshot(
        [
            "Resuming: Fix the clock.",
            "Last call: shell make test",
            "Last reply: I look first.",
            "Stopped: while shell was running; not run again",
            "Resuming a conversation without text.",
            "Stopped: after the model's last reply",
            "Begun in /other; continues in this directory",
        ]
    )


def test_a_recap_quotes_only_the_user_and_cuts_between_words():
    """RA-10: neither files nor notes of the program are requests; what is left out is counted."""
    told = [Text("Go on.", "note"), Text("Attached: a\nb", "file"), Text("sub-1 ended", "agent")]
    talk = [asked("word " * 50), AssistantMessage((Text("x" * 200),)), UserMessage(tuple(told))]
    assert recap(Conversation(talk), "", Usage()).split("\n")[:3] == [
        f"Resuming: {'word ' * 32}… (90 more characters)",
        f"Last reply: {'x' * 160} … (40 more characters)",
        "Stopped: before the model replied",
    ]
