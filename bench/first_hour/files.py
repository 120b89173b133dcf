"""The files that the pages mention, and the recorded replies of the hour's agents."""

from collections.abc import Mapping

import yaml


def _action(key: str, path: str, check: str, needs: tuple[str, ...] = ()) -> dict[str, object]:
    return {
        "key": key,
        "description": f"Write {path}: what this project is for, how it is built and how its tests are run.",
        "preconditions": list(needs),
        "effects": [f"{key}_works"],
        "files": [path],
        "contract": {"commands": [{"command": check}]},
    }


def _plan(name: str, *actions: dict[str, object]) -> str:
    wanted = [effect for each in actions for effect in each["effects"]]  # type: ignore[attr-defined]
    goal = {"name": name, "description": f"Have {name}.", "goal_state": wanted, "actions": list(actions)}
    return yaml.safe_dump({"version": 1, "goals": [goal]}, sort_keys=False)


def _calls(action: str, *calls: dict[str, object]) -> dict[str, object]:
    usage = {"input_tokens": 10_000, "output_tokens": 500}
    return {"when": {"action": action, "turn": 1}, "text": "I do it.", "tool_calls": list(calls), "usage": usage}


def _write(path: str, content: str) -> dict[str, object]:
    return {"name": "write_file", "args": {"path": path, "content": content}}


def _shell(command: str) -> dict[str, object]:
    return {"name": "shell", "args": {"command": command, "timeout_s": 60}}


STORE = _action("store", "docs/STORE.md", "grep -q tests docs/STORE.md")
API = _action("api", "docs/API.md", "grep -q STORE docs/API.md", ("store_works",))
WRONG = _action("wrong", "docs/WRONG.md", "grep -q right docs/WRONG.md")
SLOW = _action("slow", "docs/SLOW.md", "test -f docs/SLOW.md")
ASKS = _action("asks", "docs/ASKS.md", "test -f docs/ASKS.md")
REPLIES = {
    "version": 1,
    "prices": {"input_per_mtok": 3.0, "output_per_mtok": 15.0},
    "replies": [
        {
            "when": {"role": "planner", "turn": 1},
            "usage": {"input_tokens": 5000, "output_tokens": 500},
            "tool_calls": [
                {
                    "name": "goap_create_goal",
                    "args": {"name": "notes", "description": "Notes", "goal_state": ["store_works"]},
                },
                {"name": "goap_create_actions", "args": {"goal": "notes", "actions": [STORE]}},
            ],
        },
        {"when": {"role": "planner"}, "text": "One goal with one action."},
        {"when": {"role": "critic"}, "text": "Good.\n\nTotal: 9/9\nDONE"},
        {"when": {"role": "drafter"}, "text": '```json\n{"intent": "notes", "commands": ["ls docs"]}\n```'},
        _calls("store", _write("docs/STORE.md", "# Store\n\nRun the tests before you commit.\n")),
        _calls("api", _write("docs/API.md", "# API\n\nSee STORE.md.\n")),
        _calls("wrong", _write("docs/WRONG.md", "# Left\n")),
        _calls("slow", _shell("sleep 4"), _write("docs/SLOW.md", "# Slow\n")),
        _calls("asks", _shell("python3 -c 'print(1)'"), _write("docs/ASKS.md", "# Asks\n")),
        {
            "when": {"role": "implementation", "turn": 1},
            "tool_calls": [_write("docs/NOTES.md", "# Notes\n")],
            "usage": {"input_tokens": 10_000, "output_tokens": 500},
        },
        {"when": {}, "text": "Done.", "usage": {"input_tokens": 10_000, "output_tokens": 50}},
    ],
}
SHORTENER = _plan("shortener", STORE, API)
FILES: Mapping[str, str] = {
    "plan.yaml": SHORTENER,
    "examples/shortener/plan.yaml": SHORTENER,
    "examples/shortener/replies.yaml": yaml.safe_dump(REPLIES, sort_keys=False),
    "replies.yaml": yaml.safe_dump(REPLIES, sort_keys=False),
    "wrong.yaml": _plan("wrong", WRONG),
    "slow.yaml": _plan("slow", SLOW),
    "asks.yaml": _plan("asks", ASKS),
    "unreachable.yaml": _plan("api", API),
    "spec.md": "# Notes\n\nWrite docs/STORE.md.\n",
    "tasks.json": '[{"description": "Write docs/NOTES.md", "files": ["docs/NOTES.md"]}]\n',
    "error.log": "ImportError: cannot import name 'api'\n",
    "calls.jsonl": '{"id": 1, "tool": "shell", "args": {"command": "git status"}}\n',
}
