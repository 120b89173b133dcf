"""Output without secrets, in chunks and as a whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from scaffold.cli.render.reporters import reporter_for
from scaffold.cli.repl.renderer import Renderer
from scaffold.cli.repl.transcript import LIVE_CHARACTERS, Transcript
from scaffold.cli.repl.user_input import PendingInput
from scaffold.core.conversation import RetryWait, StreamReset, TextDelta, ThinkingDelta, Todo, ToolCallDelta
from scaffold.core.tool import ToolOutput
from scaffold.policy.secret.redaction import Redactor
from scaffold.session.redacted_output import RedactingReporter, StreamRedactor
from scaffold.session.running_tools import FinishedCall
from support.fake_clock import FakeClock

SECRET = "canary-7f3e6a1d"
REDACTOR = Redactor({"MY_TOKEN": SECRET})
LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj+gEA"
KEY = "\n".join(["-----BEGIN {0}-----", *[LINE] * 4, "-----END {0}-----"]).format("PRIVATE" + " KEY")


class ReporterLog:
    """A reporter that records what it gets."""

    for_people = True

    def __init__(self):
        self.entries = []

    def session(self, **fields):
        self.entries.append(("session", fields))

    def on_delta(self, delta):
        self.entries.append(delta)

    def note(self, kind, **fields):
        self.entries.append((kind, fields))

    def result(self, shape):
        self.entries.append(("result", shape))


def trickled(*pieces):
    trickle = StreamRedactor(REDACTOR)
    return [*map(trickle.take, pieces), trickle.end()]


@given(st.lists(st.text(alphabet="ab \n-", max_size=6)), st.data())
def test_a_secret_is_redacted_however_the_text_is_chunked(words, data):
    """BX-9: everything else is passed on, in order."""
    text = f"{' '.join(words)} {SECRET} {' '.join(words)}"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(trickled(*pieces)) == text.replace(SECRET, "[redacted:MY_TOKEN]")


def test_text_is_passed_on_as_soon_as_it_cannot_be_part_of_a_secret():
    """BX-9: at most two words are held back."""
    assert trickled("one two", " three", " four five") == ["", "one", " two three", " four five"]


def test_a_token_after_its_scheme_and_a_multi_line_key_become_marks():
    """BX-9: the text before them makes them secrets."""
    token = ["Authorization: Bearer ", "abcdefgh1234", "5678IJKL", " ends here, it does"]
    assert "".join(trickled(*token)) == "Authorization: Bearer [redacted:bearer-token] ends here, it does"
    assert "".join(trickled("The key:\n", *KEY, "\nand on")) == "The key:\n[redacted:private-key]\nand on"


def test_endless_text_is_passed_on_eventually():
    """BX-9: no secret is that long, and a reader is waiting."""
    assert len(trickled("x" * 5_000)[0]) == 5_000


def test_every_kind_of_output_is_redacted():
    """BX-9: the beginning, chunks, notices and the end; held-back text comes before what follows it."""
    log = ReporterLog()
    reporter = RedactingReporter(log, REDACTOR)
    reporter.session(cwd=f"/tmp/{SECRET}")
    reporter.on_delta(ThinkingDelta("can"))
    reporter.on_delta(TextDelta(f"is it {SECRET[:8]}"))
    reporter.on_delta(TextDelta(SECRET[8:]))
    reporter.on_delta(ToolCallDelta(0, "shell", "{"))
    reporter.on_delta(RetryWait(1.0, SECRET))
    reporter.note("tool_call", id="c", name="shell", args={"command": f"echo {SECRET}"})
    reporter.result({"result": SECRET, "usage": {"requests": 1}})
    assert log.entries == [
        ("session", {"cwd": "/tmp/[redacted:MY_TOKEN]"}),
        ThinkingDelta("can"),
        TextDelta("is"),
        TextDelta(" it [redacted:MY_TOKEN]"),
        ToolCallDelta(0, "shell", "{"),
        RetryWait(1.0, "[redacted:MY_TOKEN]"),
        ("tool_call", {"id": "c", "name": "shell", "args": {"command": "echo [redacted:MY_TOKEN]"}}),
        ("result", {"result": "[redacted:MY_TOKEN]", "usage": {"requests": 1}}),
    ]


def test_voided_text_is_discarded():
    """BX-9: held-back text goes with the reply."""
    log = ReporterLog()
    reporter = RedactingReporter(log, REDACTOR)
    reporter.on_delta(TextDelta("half a"))
    reporter.on_delta(StreamReset(f"cut at {SECRET}"))
    reporter.note("usage")
    assert log.entries == [StreamReset("cut at [redacted:MY_TOKEN]"), ("usage", {})]


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_no_format_prints_a_secret(output, capsys):
    """BX-9: on neither stream; streamed text is printed once."""
    reporter = RedactingReporter(reporter_for(output), REDACTOR)
    reporter.session(session_id="s", model="m", cwd="/")
    for piece in ("the token ", "is canary-", "7f3e6a1d", "."):
        reporter.on_delta(TextDelta(piece))
    reporter.note("text", text=f"the token is {SECRET}.")
    reporter.note("usage")
    reporter.note("notice", text=SECRET)
    reporter.result({"result": f"the token is {SECRET}.", "error": None})
    out, err = capsys.readouterr()
    assert SECRET not in out + err
    assert "[redacted:MY_TOKEN]" in out
    if output == "stream-json":
        events = [json.loads(line) for line in out.splitlines()]
        words = "".join(event["text"] for event in events if event["type"] == "text")
        assert words == snapshot("the token is [redacted:MY_TOKEN].")


class Page:
    """Keeps what is shown for good."""

    renderer = Renderer(width=200, plain=True, clean=REDACTOR.clean)
    echoes = False

    def __init__(self):
        self.shown = []

    def show(self, text):
        self.shown.append(text)


def test_a_repl_shows_no_secret_while_streaming_or_afterwards():
    """BX-9: what a command printed, what the model says, and what a question is about."""
    page = Page()
    transcript = Transcript(page, FakeClock(), pending=PendingInput(lambda words: ()))
    transcript.on_delta(TextDelta(f"It is {SECRET} "))
    assert transcript.live().strip() == "It is [redacted:MY_TOKEN]"
    transcript.note("text", text=f"It is {SECRET}")
    transcript.call_finished(FinishedCall("shell", {"command": "env"}, ToolOutput(f"MY_TOKEN={SECRET}"), None))
    transcript.question(page.renderer.words(f"May it run `echo {SECRET}`?"), "")
    shown = "\n".join(page.shown)
    assert SECRET not in shown
    assert shown.count("[redacted:MY_TOKEN]") == 3


LONG = "canary-" + "0123456789abcdef" * 8


def narrow_page():
    page = Page()
    page.renderer = Renderer(width=80, plain=True, clean=Redactor({"MY_KEY": LONG}).clean)
    return page, Transcript(page, FakeClock(), pending=PendingInput(lambda words: ()))


def test_a_secret_longer_than_a_line_is_redacted_before_it_is_wrapped():
    """BX-9"""
    page, transcript = narrow_page()
    transcript.note("text", text=f"The key is {LONG}, keep it.")
    transcript.note("thinking", text=f"I saw {LONG}.")
    transcript.notice(f"set to {LONG}")
    transcript.error(f"refused {LONG}", f"unset {LONG}")
    transcript.user_message(f"use {LONG}")
    transcript.call_finished(FinishedCall("shell", {"command": f"echo {LONG}"}, ToolOutput(LONG), None))
    transcript.todos((Todo(id=1, content=f"rotate {LONG}", status="pending", priority="high"),))
    shown = "".join("".join(page.shown).split())
    assert "0123456789" not in shown
    assert shown.count("[redacted:MY_KEY]") == 9


def test_no_part_of_a_secret_is_drawn_while_it_is_streamed():
    """BX-9: neither its beginning as it grows, nor its end where a long text is cut."""
    _, transcript = narrow_page()
    for size in range(1, len(LONG)):
        transcript.finish_turn()
        transcript.on_delta(TextDelta(f"The key is {LONG[:size]}"))
        assert len(set(transcript.live().split()) - {"The", "key", "is"}) <= 1
        assert "0123456789" not in transcript.live()
    for size in range(LIVE_CHARACTERS - len(LONG), LIVE_CHARACTERS, 20):
        transcript.finish_turn()
        transcript.on_delta(TextDelta(f"{LONG} {'x ' * (size // 2)}"))
        assert "abcdef" not in transcript.live()
