"""How a one-shot ends: empty replies, repeated failures, denials, wrong usage, budgets, servers that are not there."""

import json
import os

import pytest
import yaml

from support.scenario import shell, write

JSON = ("--output-format", "json")


def replies(scenario, *steps, prices=None, usage=None):
    """Write a cassette: each step is the calls of one reply, or its text."""
    entries = [
        {
            "when": {"role": "agent", "turn": turn},
            "usage": usage or {},
            **({"text": step} if isinstance(step, str) else {"tool_calls": step}),
        }
        for turn, step in enumerate(steps, start=1)
    ]
    path = scenario.home / "ralph.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "replies": entries} | ({"prices": prices} if prices else {})))
    return f"cassette:{path}"


def ralph(scenario, *args):
    return scenario.scaffold("ralph", *args)


def result(done):
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_an_empty_reply_after_tools_is_nudged_once(scenario):
    """RA-2: the one request more that a one-shot may make."""
    model = replies(scenario, [shell("true")], "", "done after all")
    done = ralph(scenario, "go", "--yolo", "--model", model, *JSON)
    assert (done.returncode, result(done)["result"], result(done)["turns"]) == (0, "done after all", 3)


@pytest.mark.slow
def test_a_second_empty_reply_is_an_error(scenario):
    """RA-2: the result is never empty without saying so."""
    model = replies(scenario, [shell("true")], "", [shell("true")], " \n")
    done = ralph(scenario, "go", "--yolo", "--model", model, *JSON)
    assert (done.returncode, result(done)["result"].strip(), result(done)["stop_reason"]) == (1, "", "error")
    assert "without an answer" in result(done)["error"]
    assert ralph(scenario, "go", "--model", replies(scenario, ""), *JSON).returncode == 0


@pytest.mark.slow
def test_a_call_written_into_the_text_is_not_the_answer(scenario):
    """RA-2: it is not run either."""
    written = (
        'I will write it.\n```json\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "text"}}\n```'
    )
    model = replies(scenario, written, [write("a.txt", "called")], "done")
    done = ralph(scenario, "go", "--yolo", "--model", model, *JSON)
    assert (done.returncode, result(done)["result"], result(done)["turns"]) == (0, "done", 3)
    assert (scenario.repo / "a.txt").read_text() == "called"


@pytest.mark.slow
def test_the_same_failure_is_noted_the_third_time_and_reads_never_end_a_session(scenario):
    """BX-12."""
    failing, reading = shell("false"), {"name": "read_file", "args": {"path": "README.md"}}
    steps = [[failing, failing], [reading], [failing], *[[reading]] * 8, [failing], "done"]
    done = ralph(scenario, "go", "--yolo", "--model", replies(scenario, *steps), "--output-format", "stream-json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, events[-1]["result"]) == (0, "done")
    answers = [event["content"] for event in events if event["type"] == "tool_result" and event["name"] == "shell"]
    assert [answer.count("This call failed the same way 3 times") for answer in answers] == [0, 0, 0, 1]


@pytest.mark.slow
def test_what_was_denied_is_in_the_result_and_on_standard_error(scenario):
    """RA-2, RA-13: with the arguments and the reason; secrets are removed."""
    key = "sk-ant-api03-" + "a1B2" * 12
    model = replies(scenario, [write("a.txt", key), shell("make x"), shell("make y")], [write(".env", "x")], "sorry")
    done = ralph(scenario, "go", "--model", model, *JSON)
    denials = result(done)["permission_denials"]
    assert done.returncode == 0
    assert [denial["tool"] for denial in denials] == ["write_file", "shell", "shell", "write_file"]
    assert denials[0]["args"]["path"] == "a.txt"
    assert denials[1]["args"]["command"] == "make x"
    assert "`make` is not known to be read-only" in denials[1]["reason"]
    assert "is protected (.env*)" in denials[3]["reason"]
    assert key not in done.stdout
    assert "denied: 4 calls: write_file (2), shell (2). Allow what needs approval with" in done.stderr
    done = ralph(scenario, "go", "--yolo", "--model", replies(scenario, [shell("true")], "ok"), *JSON)
    assert result(done)["permission_denials"] == []
    assert "denied" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("--bogus",), "No such option"),
        (("hi", "--mode", "zen"), "'zen' is not one of"),
        (("hi", "there"), "unexpected extra argument"),
        (("-p",), "there is no task"),
        (("hi",), "no model is configured"),
        (("hi", "--model", "nonsense"), "not a model string"),
        (("hi", "--model", "anthropic:claude-sonnet-4-5"), "ANTHROPIC_API_KEY"),
        (("hi", "--model", "cassette:/none"), "/none"),
        (("-c", "hi"), "no conversation in this directory"),
        (("hi", "--max-budget-usd", "nan"), "amount in dollars"),
        (("hi", "--allow", "shell"), "is not a rule"),
    ],
)
def test_usage_errors_are_json_where_json_was_asked_for(scenario, args, error):
    """RA-2: one object on standard output, wherever the format stands among the arguments."""
    for done in (ralph(scenario, *args, *JSON), ralph(scenario, "--output-format=stream-json", *args)):
        assert done.returncode in {1, 64}
        assert error in result(done)["error"]
        assert (result(done)["result"], result(done)["stop_reason"]) == ("", "error")
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_first_request_above_the_budget_is_refused(scenario):
    """BX-11: no request is made."""
    prices = {"input_per_mtok": 1_000_000.0, "cached_input_per_mtok": 1.0, "output_per_mtok": 1_000_000.0}
    model = replies(scenario, "hello", prices=prices, usage={"output_tokens": 1})
    done = ralph(scenario, "hi", "--model", model, "--max-budget-usd", "0.5", *JSON)
    assert (done.returncode, result(done)["stop_reason"], result(done)["turns"]) == (2, "budget", 0)
    assert "one request would cost about" in result(done)["error"]


@pytest.mark.slow
def test_a_local_server_that_is_not_there_is_an_error_soon(scenario):
    """RA-21: and again the next time, as its absence makes no later request wait for minutes."""
    for _ in range(2):
        done = ralph(scenario, "hi", "--model", "local:m@http://127.0.0.1:9/v1", *JSON)
        assert (done.returncode, result(done)["stop_reason"]) == (1, "error")
        assert "Connection refused (tried" in result(done)["error"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [".env", ".netrc", "id_rsa", "AGENTS.md", ".scaffold", ".gitignore", "notes"])
def test_links_that_lead_in_a_circle_are_no_obstacle(scenario, name):
    """RA-4, RA-14: at the top of the folder, in PATH, and as what a tool is given."""
    (scenario.repo / name).unlink(missing_ok=True)
    (scenario.repo / name).symlink_to(name)
    circle = {"path": name}
    steps = [{"name": each, "args": circle} for each in ("read_file", "list_dir", "file_info")]
    steps += [{"name": "search_files", "args": {"pattern": "Sample"}}, shell("ls"), write(name, "x")]
    model = replies(scenario, steps, "done")
    scenario.environ["PATH"] = f"{scenario.repo / name}{os.pathsep}{scenario.environ['PATH']}"
    done = ralph(scenario, f"look @{name}", "--yolo", "--model", model, "--output-format", "stream-json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, events[-1]["result"]) == (0, "done"), done.stderr
    found = {event["name"]: event["content"] for event in events if event["type"] == "tool_result"}
    assert "README.md" in found["search_files"]
    assert found["shell"].startswith("exit code 0")
    assert not any("crashed" in content for content in found.values())
