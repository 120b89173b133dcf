"""A PRD and what the agents of its steps do, for the real command."""

import json

from scaffold.plan.story.step_type import STEP_TYPES
from support.scenario import Scenario, calls_entry, shell, text_entry

DONE = "done\n\nSUMMARY\nlooked\nat\nit"


def prd_file(scenario: Scenario, given) -> tuple[str, str]:
    """Write a PRD, which may be text, and return the flags for it."""
    path = scenario.home / "prd.json"
    path.write_text(given if isinstance(given, str) else json.dumps(given))
    return "--prd", str(path)


def story(number: int, *needs: int, **fields):
    named = {"id": story_id(number), "title": f"Add {number}", "depends_on": [story_id(need) for need in needs]}
    return {**named, **fields}


def story_id(number: int) -> str:
    return f"US-{number:03d}"


def done_steps(*replies):
    """Return the replies, and one for each other request of a step, whose agent does nothing and sums it up."""
    return [*replies, *(text_entry(each, DONE) for each in STEP_TYPES)]


def command(number: int, step: int, text: str, *, attempt: int | None = None, turn: int = 1):
    """Return the reply with a command in a step of a story, in one attempt at it or in each."""
    when = {"action": f"{story_id(number)}/step-{step:03d}", "turn": turn}
    return _of_any_role(calls_entry("", shell(text), **when, **({"attempt": attempt} if attempt else {})))


def edit_file(number: int, *operations) -> str:
    """Return a command that asks for edits of the story's steps by a file."""
    text = json.dumps([{"reason": "it is better", **each} for each in operations])
    return f"""printf '%s' '{text}' > "$SCAFFOLD_SHARED_DIR/workflow_edits/{story_id(number)}.json" """


def edit_call(number: int, step: int, *operations, turn: int = 1):
    """Return the reply that asks for edits of the story's steps by the tool."""
    call = {
        "name": "edit_workflow",
        "args": {"operations": [{"reason": "it is better", **each} for each in operations]},
    }
    return _of_any_role(calls_entry("", call, action=f"{story_id(number)}/step-{step:03d}", turn=turn))


def refused_request(number: int, step: int, *, attempt: int):
    """Return the reply of a provider that refuses what is asked in a step."""
    when = {"action": f"{story_id(number)}/step-{step:03d}", "attempt": attempt}
    return {"when": when, "fault": {"kind": "http", "status": 400, "times": 99}, "text": "never"}


def until_landed(number: int, seconds: int = 60) -> str:
    """Return a command that waits until a story has landed."""
    landed = f"git log --all --format=%s | grep -q 'feat(ralph): {story_id(number)} - '"
    return f"for i in $(seq {seconds * 10}); do {landed} && break; sleep 0.1; done"


def without_markers(path: str) -> str:
    """Return a command that keeps both sides of each conflict in a file."""
    return f"grep -v '^[<=>][<=>]' {path} > kept; mv kept {path}"


def fix_cycle(after: str):
    """Return the operation that adds coding, linting and testing after a step."""
    kinds = ("coding", "linting", "initial_testing")
    return {
        "operation": "add_after",
        "target_step_id": after,
        "new_steps": [{"type": each, "description": f"Fix it: {each}"} for each in kinds],
    }


def restart(step: str):
    return {"operation": "restart", "target_step_id": step, "new_description": "Do it another way"}


def skip(*steps: str):
    return [{"operation": "skip", "target_step_id": each} for each in steps]


def _of_any_role(reply):
    del reply["when"]["role"]
    return reply
