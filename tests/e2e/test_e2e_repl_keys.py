"""Keys of the REPL in a real pseudo-terminal: Escape, Shift-Tab, `!` and long pastes."""

import pytest
import yaml

from support.scenario import shell, wait_until, write
from support.terminal import ALT_ENTER, ARMED, CTRL_C, CTRL_D, ESCAPE, IDLE, UP, record_replies

SHIFT_TAB, BACKSPACE = "\x1b[Z", "\x7f"
HELD = shell("touch out/began; sleep 60")


def paste(text):
    return f"\x1b[200~{text}\x1b[201~"


def expect(scenario, turn, *words):
    """Let the reply of this turn be given only to a request that contains the words."""
    path = scenario.home / "talk.yaml"
    talk = yaml.safe_load(path.read_text())
    talk["replies"][turn - 1]["when"]["contains"] = list(words) if len(words) > 1 else words[0]
    path.write_text(yaml.safe_dump(talk))


@pytest.mark.slow
def test_escape_stops_the_turn_and_nothing_else(scenario, terminal):
    """RA-19: as one Ctrl-C does; with Enter it is a new line, and when idle it does nothing."""
    screen = terminal("--model", record_replies(scenario, HELD, "went on"), "--yolo")
    screen.wait_for(IDLE)
    screen.type_line("go")
    assert wait_until((scenario.out / "began").exists)
    screen.send("one" + ALT_ENTER + "two")
    screen.wait_for("^  two")
    assert "stopped" not in screen.text
    screen.send(ESCAPE)
    screen.wait_for("stopped; the conversation is kept")
    screen.send(ESCAPE)
    screen.pause()  # with Enter at once it would be a new line
    screen.type_line("")
    screen.wait_for("^went on")
    assert "› one\n  two" in screen.text


@pytest.mark.slow
def test_escape_closes_the_menu_before_it_stops_the_turn(scenario, terminal):
    """RA-19."""
    screen = terminal("--model", record_replies(scenario, HELD, "went on"), "--yolo")
    screen.wait_for(IDLE)
    screen.type_line("go")
    assert wait_until((scenario.out / "began").exists)
    screen.send("/co")
    screen.wait_for("tokens and costs")
    screen.send(ESCAPE)
    assert wait_until(lambda: screen.read() and "tokens and costs" not in screen.text)
    assert "stopped" not in screen.text
    screen.send(ESCAPE)
    screen.wait_for("stopped; the conversation is kept")


@pytest.mark.slow
def test_shift_tab_cycles_ask_accept_edits_and_plan(scenario, terminal):
    """RA-5, RA-13, RA-18: accepted edits are for one session, and leave what other programs obey to a question."""
    model = record_replies(scenario, write("a.py", "x"), write("Makefile", "x"), write("b.py", "x"), "over")
    screen = terminal("--model", model, columns=40)
    screen.wait_for("^↑0 ↓0 ")
    screen.send(SHIFT_TAB)
    screen.wait_for("^accept-edits ")
    screen.type_line("go")
    screen.wait_for("│ Makefile$")
    assert (scenario.repo / "a.py").exists()
    screen.wait_for(ARMED)
    screen.wait_for("asks you .*  accept-edits ")
    screen.send(SHIFT_TAB)  # an answer: nothing may change in this mode
    screen.wait_for("^over")
    screen.wait_for("^plan ")
    assert not {"Makefile", "b.py"} & {path.name for path in scenario.repo.iterdir()}
    for shown in ("^↑", "^accept-edits "):
        screen.send(SHIFT_TAB)
        screen.wait_for(shown)
    screen.type_line("/mode default")
    screen.wait_for("works in mode default")
    screen.wait_for("^↑")
    screen.send(SHIFT_TAB)
    screen.wait_for("^accept-edits ")
    screen.send(CTRL_D)
    screen.wait_for_exit()
    resumed = terminal("-c", columns=40).wait_for("^↑0 ↓0 ")
    assert "mode" not in resumed.splitlines()[0]


@pytest.mark.slow
def test_the_calls_of_one_reply_are_one_question(scenario, terminal):
    """RA-13: for all of them, one by one, or all edits; keys that come together, as in a paste, are no answer."""
    calls = [write("a.py", "x"), shell("touch out/b"), shell("touch out/c; rm -r out")]
    screen = terminal("--model", record_replies(scenario, calls, "over"))
    screen.wait_for(IDLE)
    screen.type_line("go")
    screen.wait_for("^y yes to all 3   n no   r no, because   o one by one")
    screen.wait_for("! `rm -r out` deletes or overwrites")
    screen.pause()
    screen.send(paste("A\r"))
    screen.wait_for("^› A$")
    screen.pause()
    screen.send("yA")
    screen.wait_for("^  yA$")
    assert not (scenario.repo / "a.py").exists()
    screen.answer("A")
    screen.wait_for("^y yes to all 2 ")
    assert (scenario.repo / "a.py").exists()
    screen.answer("o")
    screen.wait_for(r"allows: exactly this call")
    screen.answer("y")
    screen.wait_for("● shell touch out/b")
    screen.answer(CTRL_C)
    screen.wait_for("^over")
    assert [path.name for path in scenario.out.iterdir()] == ["b"]


@pytest.mark.slow
def test_a_key_sends_a_waiting_request_again(scenario, terminal):
    """RA-21: alone in the line; as the first letter of a message it is one."""
    model = record_replies(scenario, "here")
    path = scenario.home / "talk.yaml"
    talk = yaml.safe_load(path.read_text())
    talk["replies"][0]["fault"] = {"kind": "http", "status": 529, "times": 7}
    path.write_text(yaml.safe_dump(talk))
    screen = terminal("--model", model, columns=40)
    screen.wait_for("^↑0 ↓0 ")
    screen.type_line("go")
    screen.wait_for("^waiting [0-9]+ s: ", times=4)  # one of at least four seconds
    screen.wait_for("r retries now · Esc gives")
    screen.send("r")
    screen.wait_for("^asking again now$")
    screen.wait_for("^waiting [0-9]+ s: ", times=5)
    screen.send("rest")
    screen.wait_for("^› rest$")
    screen.pause()
    screen.send(ESCAPE)
    screen.wait_for("stopped; the conversation is kept")
    assert screen.text.count("asking again now") == 1
    screen.wait_for("^› rest$")


@pytest.mark.slow
def test_a_command_of_the_users_own_runs_at_once_and_the_agent_knows(scenario, terminal):
    """RA-18: no question, and secrets stay out of what the model reads."""
    secret = "ghp_" + "a1B2" * 9
    model = record_replies(scenario, "I saw it.")
    expect(scenario, 1, "The user ran this command")
    screen = terminal("--model", model)
    screen.wait_for(IDLE)
    (scenario.repo / "key.txt").write_text(f"token={secret}\n")
    screen.type_line("!cat key.txt; echo $((6 * 7)) > answer; exit 3")
    screen.wait_for("exit code 3")
    assert (scenario.repo / "answer").read_text() == "42\n"
    screen.wait_for(IDLE)
    screen.type_line("what was that?")
    screen.wait_for("^I saw it")
    screen.type_line("/export talk.md")
    screen.wait_for("written to")
    assert secret not in screen.text
    assert "cat key.txt" in (scenario.repo / "talk.md").read_text()


@pytest.mark.slow
def test_a_command_of_the_users_own_is_stopped_by_ctrl_c(scenario, terminal):
    """RA-19: it ends, the session goes on."""
    screen = terminal("--model", record_replies(scenario, "I saw it."))
    expect(scenario, 1, "stopped it before it ended")
    screen.wait_for(IDLE)
    screen.type_line("!touch out/began; sleep 60")
    assert wait_until((scenario.out / "began").exists)
    screen.wait_for("running your command")
    screen.send(CTRL_C)
    screen.wait_for("stopped; the conversation is kept")
    screen.type_line("go on")
    screen.wait_for("^I saw it")


@pytest.mark.slow
def test_a_long_paste_is_shown_as_a_mark_and_sent_whole(scenario, terminal):
    """RA-18."""
    model = record_replies(scenario, "read it")
    expect(scenario, 1, "line 119 of 120")
    screen = terminal("--model", model)
    screen.wait_for(IDLE)
    text = "\r".join(f"line {number} of 120" for number in range(120))
    screen.send("see " + paste(text))
    screen.wait_for(r"^› see \[pasted 120 lines\]")
    screen.send(BACKSPACE)
    screen.wait_for(r"^› see$")
    screen.send(paste(text))
    screen.wait_for(r"^› see \[pasted 120 lines\]")
    screen.type_line("")
    screen.wait_for("^read it")
    screen.wait_for(r"^  \.\.\. 1\d\d more lines")


@pytest.mark.slow
def test_what_waits_is_edited_with_up_and_reaches_the_agent_as_it_is_then(scenario, terminal):
    """RA-12, RA-18: a long paste is a mark again; an edited command takes effect as it was edited."""
    held = shell("touch out/began; until [ -e gate ]; do sleep 0.05; done")
    model = record_replies(scenario, held, "read it")
    expect(scenario, 2, "(?s)no, this: line 0.*line 119")
    screen = terminal("--model", model, "--yolo")
    screen.wait_for(IDLE)
    screen.type_line("go")
    assert wait_until((scenario.out / "began").exists)
    screen.send("see " + paste("\r".join(f"line {number}" for number in range(120))))
    screen.type_line("")
    screen.wait_for("queued: see line 0")
    screen.type_line("/mode plan please")
    screen.wait_for("has invalid arguments")
    screen.type_line("/compact the milk")
    screen.wait_for("queued: /compact the milk")
    screen.send(UP)
    screen.wait_for("^› /compact the milk$")
    screen.send("\x15" + UP)
    screen.wait_for(r"^› see \[pasted 120 lines\]$")
    screen.send("\x01" + "\x1b[3~" * 4 + "no, this: ")
    screen.wait_for(r"^› no, this: \[pasted 120 lines\]$")
    screen.type_line("")
    screen.wait_for("queued: no, this: line 0")
    (scenario.repo / "gate").touch()
    screen.wait_for("^read it")
    assert "queued" not in screen.wait_for(IDLE)


@pytest.mark.slow
def test_an_image_that_is_dragged_onto_the_terminal_is_attached(scenario, terminal):
    """RA-18: as the terminal quotes it; a paste of other text stays text, and answers no question."""
    image = scenario.home / "it's a shot.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    (scenario.home / "b.bmp").write_bytes(b"BM\0\xff")
    model = record_replies(scenario, write("made.txt", "x"), "saw it")
    expect(scenario, 1, "Attached: .*shot.png")
    screen = terminal("--model", model, columns=400)
    screen.wait_for(IDLE)
    quoted = str(image).replace("'", "'\\''")
    screen.send("what is" + paste(f"'{quoted}'") + paste(f"file://{scenario.home}/b.bmp") + paste("/no/such.png"))
    screen.wait_for(rf"^› what is @\"{image}\" @\"{scenario.home}/b.bmp\" /no/such.png$")
    screen.type_line("")
    screen.wait_for("b.bmp is neither text nor an image")
    screen.wait_for(ARMED)
    screen.pause()
    screen.send(paste("y") + paste("y\r"))
    screen.wait_for("^› yy$")
    screen.answer("n")
    screen.wait_for("^saw it")
    assert not (scenario.repo / "made.txt").exists()


@pytest.mark.slow
def test_a_pasted_command_is_a_message(scenario, terminal):
    """RA-18: only what is typed runs."""
    screen = terminal("--model", record_replies(scenario, "read it"))
    screen.wait_for(IDLE)
    screen.send(paste("!touch out/ran"))
    screen.type_line("")
    screen.wait_for("^read it")
    assert not (scenario.out / "ran").exists()


@pytest.mark.slow
def test_a_denial_with_a_reason_reaches_the_model(scenario, terminal):
    """RA-13, RA-18: what was typed before stays in the line, and Escape leads back to the question."""
    model = record_replies(scenario, write("a", "x"), "understood")
    expect(scenario, 2, "the user denied it and says: use b instead")
    screen = terminal("--model", model)
    screen.wait_for(IDLE)
    screen.type_line("go")
    screen.wait_for(ARMED)
    screen.send("mine")
    screen.answer("r")
    screen.wait_for(r"^no, because ›$")
    screen.send("never mind" + ESCAPE)
    screen.wait_for("^› mine$")
    screen.answer("r")
    screen.wait_for(r"^no, because ›$")
    screen.type_line("use b instead")
    screen.wait_for("^understood")
    screen.wait_for("^› mine$")
    assert "no, because use b instead" in screen.text
    assert not (scenario.repo / "a").exists()


@pytest.mark.slow
def test_a_command_with_a_known_prefix_is_not_asked_about_again(scenario, terminal):
    """RA-13: only where the flag lists know the command; anything else is allowed exactly as it is."""
    model = record_replies(scenario, shell("npm test"), shell("npm test --silent"), shell("npm test; ./x"), "done")
    screen = terminal("--model", model, columns=120)
    screen.wait_for(IDLE)
    screen.type_line("go")
    screen.wait_for(r"a don't ask again for `npm test \*`")
    screen.answer("a")
    screen.wait_for(r"│ npm test; \./x")
    screen.wait_for(r"^y yes .* a don't ask again$")
    screen.answer("n")
    text = screen.wait_for("^done")
    assert text.count("asks to use shell") == 2


@pytest.mark.slow
def test_a_question_that_has_moved_up_is_named_beside_its_answers(scenario, terminal):
    """RA-11, RA-13: messages may push the question of a subagent off a small screen."""
    calls = [{"name": "subagent", "args": {"task": f"{each} part"}} for each in ("left", "right")]
    talk = [
        ({"contains": "go", "turn": 1}, {"tool_calls": calls}),
        ({"contains": "left part", "turn": 1}, {"tool_calls": [shell("touch out/left")]}),
        ({"contains": "right part", "turn": 1}, {"tool_calls": [shell("touch out/right")]}),
        ({}, {"text": "over"}),
    ]
    path = scenario.home / "talk.yaml"
    replies = [{"when": {"role": "agent", **when}, **reply} for when, reply in talk]
    path.write_text(yaml.safe_dump({"version": 1, "replies": replies}))
    screen = terminal("--model", f"cassette:{path}", columns=60)
    screen.wait_for("^↑0 ↓0 ")
    screen.type_line("go")
    for shown in ("^y yes to all 2", r"^a don't ask again   \(1 more\)|^y yes .*\(1 more\)"):
        screen.wait_for(shown)
        screen.wait_for(ARMED)
        screen.send("y")
    screen.wait_for(r"^\? sub-\d shell touch out/(left|right)   y yes")
