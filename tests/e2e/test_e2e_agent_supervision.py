"""The agent takes every step of its goals (`supervision: agent`): what it claims is checked, and only work lands."""

import pytest

from support.planner_cassettes import add_planner, create_actions_call, create_goal_call, reply_entries
from support.scenario import action, put_before, text_entry, write

pytestmark = pytest.mark.slow


def claim(evidence):
    args = {"goal": "greeting", "assertions": {"hello_there": True}, "evidence": evidence}
    return {"name": "goap_update_world_state", "args": args}


def test_a_claim_is_answered_with_what_its_command_shows_and_only_landed_work_completes_the_goal(scenario):
    """SC-3, SC-12: the command passes on the base, fails for the missing file, and neither makes the goal hold."""
    scenario.configure(supervision="agent")
    hello = action("hello", effects=["hello_there"], check="test -f hello.txt")
    cassette = scenario.cassette(hello=[write("hello.txt", "hello\n")])
    add_planner(cassette, [create_goal_call("greeting", "hello_there"), create_actions_call("greeting", hello)])
    first = [
        claim("`test -f README.md` exits with 0"),
        claim("see `test -f hello.txt`"),
        claim("commit " + scenario.git("rev-parse", "HEAD").strip()),
        {"name": "goap_dispatch_action", "args": {"action": "hello"}},
        "It is being written.",
    ]
    put_before(cassette, *reply_entries(first, role="supervisor"), text_entry("supervisor", "Nothing to do."))
    scenario.request("greet", "--yes", code=0)
    status = scenario.status()
    assert status["goals"][0]["status"] == "completed"
    (attempt,) = status["actions"][0]["attempts"]
    assert attempt["outcome"] == "landed"
    said = scenario.journal("greeting", "supervisor")
    assert '\\"verdict\\":\\"pass\\"' in said
    assert "Expected exit code 0, but got exit code 1." in said
    assert "It is on session-" in said
    assert "it holds once `hello` has landed with evidence" in said
    (fact,) = status["goals"][0]["facts"]
    assert {each["command"] for each in fact["evidence"]} == {"test -f hello.txt"}
    assert len(scenario.git("worktree", "list").splitlines()) == 1
