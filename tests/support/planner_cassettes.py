"""Cassettes with a planner's replies, and short builders for its tool calls."""

import yaml

USAGE = {"input_tokens": 1000, "output_tokens": 50}


def create_goal_call(name, *effects):
    """Return the call that creates a goal."""
    args = {"name": name, "description": f"have {name}", "goal_state": list(effects)}
    return {"name": "goap_create_goal", "args": args}


def create_actions_call(goal_name, *specs, parent=None):
    """Return the call that creates actions; each of `specs` is what `scenario.action` returns."""
    args = {"goal": goal_name, "actions": [{"kind": "primitive", **spec} for spec in specs]}
    return {"name": "goap_create_actions", "args": args if parent is None else {**args, "parent": parent}}


def compound(key, *, effects, needs=()):
    """Return a compound action without children."""
    return {
        "key": key,
        "description": f"have {', '.join(effects)}",
        "kind": "compound",
        "preconditions": list(needs),
        "effects": list(effects),
    }


def reply_entries(steps, **when):
    """Return a cassette's entries: for each step its calls, or its text, in a separate reply, in order."""
    entries = []
    for turn, step in enumerate(steps, start=1):
        said = {"text": step} if isinstance(step, str) else {"tool_calls": step if isinstance(step, list) else [step]}
        entries.append({"when": {**when, "turn": turn}, "usage": USAGE, **said})
    return entries


def add_planner(cassette, *steps, **more):
    """Let the cassette at this path answer a planner, too; after its last step it says that all is laid out.

    `more` are keys of the cassette itself, e.g. `prices`.
    """
    content = yaml.safe_load(cassette.read_text())
    planner = [*reply_entries(steps, role="planner"), {"when": {"role": "planner"}, "text": "all is laid out"}]
    cassette.write_text(yaml.safe_dump({**content, **more, "replies": [*planner, *content["replies"]]}))
    return f"cassette:{cassette}"
