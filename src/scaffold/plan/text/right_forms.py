"""The rules of a plan file, each with an example of the right form: by the code of a finding, or by its key.

A text that YAML cannot read is explained by what the reader stumbled over.
"""

import re
from collections.abc import Mapping

from msgspec import Struct

_STORE = "{key: store, effects: [store_works]}"
_API = "{key: api, preconditions: [store_works], effects: [api_works]}"
_CHECK = "{command: python -m shop --version, expect: output contains 1., timeout_s: 60}"
_CONTRACT = "contract: {commands: [python -m pytest -q tests/test_store.py], must_exist: [store.py]}"
_ACTIONS = f"actions:\n  - {_STORE}\n  - {_API}"
_GOAL = f"  - name: shop\n    goal_state: [store_works]\n    actions:\n      - {_STORE}"
_PLAN = f"version: 1\ngoals:\n{_GOAL}"

EXAMPLES: Mapping[str, str] = {
    "plan": _PLAN,
    "plan.version": "version: 1",
    "plan.goals": f"goals:\n{_GOAL}",
    "plan.goals.name": "name: shop",
    "plan.goals.description": "description: A shop that keeps its goods",
    "plan.goals.goal_state": "goal_state: [store_works, api_works]",
    "plan.goals.persistent": "persistent: true",
    "plan.goals.actions": _ACTIONS,
    "plan.goals.actions.key": "key: store",
    "plan.goals.actions.title": 'title: "store: keep what is sold"',
    "plan.goals.actions.description": "description: Keep what is sold in memory",
    "plan.goals.actions.type": "type: FEATURE",
    "plan.goals.actions.acceptance": "acceptance: [two goods are kept, none is kept twice]",
    "plan.goals.actions.verification_intent": "verification_intent: what was sold is found again",
    "plan.goals.actions.notes": "notes: see docs/store.md",
    "plan.goals.actions.kind": "kind: compound",
    "plan.goals.actions.method": "method: htn",
    "plan.goals.actions.workspace": "workspace: own",
    "plan.goals.actions.role": "role: testing",
    "plan.goals.actions.executor": "executor: native",
    "plan.goals.actions.parent": "parent: store",
    "plan.goals.actions.preconditions": "preconditions: [store_works]",
    "plan.goals.actions.effects": "effects: [store_works]",
    "plan.goals.actions.files": 'files: [store.py, "tests/**/*.py"]',
    "plan.goals.actions.contract": _CONTRACT,
    "plan.goals.actions.contract.intent": "intent: what was sold is found again",
    "plan.goals.actions.contract.commands": "commands: [python -m pytest -q tests/test_store.py]",
    "plan.goals.actions.contract.must_exist": "must_exist: [store.py]",
    "plan.goals.actions.contract.must_not_exist": 'must_not_exist: ["*.orig"]',
    "plan.goals.actions.contract.must_not_change": "must_not_change: [README.md]",
    "plan.goals.actions.contract.commands.command": "command: python -m pytest -q tests/test_store.py",
    "plan.goals.actions.contract.commands.expect": "expect: exit 0",
    "plan.goals.actions.contract.commands.description": "description: the tests of the store",
    "plan.goals.actions.contract.commands.required": "required: false",
    "plan.goals.actions.contract.commands.timeout_s": "timeout_s: 60",
    "unreachable-goal": f"goal_state: [store_works]\nactions:\n  - {_STORE}",
    "unprovided-precondition": _ACTIONS,
    "cycle": _ACTIONS,
    "self-dependency": _ACTIONS,
    "duplicate-key": _ACTIONS,
    "malformed-story": "actions:\n  - {key: store, kind: compound, effects: [store_works]}",
    "unused-effect": _ACTIONS,
    "duplicate-provider": _ACTIONS,
    "empty-effects": _ACTIONS,
    "no-contract": f"actions:\n  - key: store\n    effects: [store_works]\n    {_CONTRACT}",
    "needs-planner": (
        "actions:\n  - {key: store, kind: compound, effects: [store_works]}\n"
        "  - {key: store/memory, parent: store, effects: [store_works]}"
    ),
    "shared-file": (
        "actions:\n  - {key: store, effects: [store_works], files: [shop.py]}\n"
        "  - {key: api, preconditions: [store_works], effects: [api_works], files: [shop.py]}"
    ),
    "ignored-file": "files: [build/made.txt]\ncontract: {must_exist: [build/made.txt]}",
    "unknown-executor": "executor: native",
    "unknown-format": _PLAN,
    "syntax": _PLAN,
    "cut-text": 'title: "store: keep what is sold, as #12 asks"',
}
"""Text to copy: a key with its value, or some of the keys of a goal or an action."""


class SyntaxRule(Struct, frozen=True):
    """What is wrong with a text that YAML cannot read."""

    found: re.Pattern[str]
    """What the reader says, then on the next line the text from where it stopped."""
    fix: str
    example: str
    at_begin: bool = False
    """Whether the mistake is where the unfinished part begins, not where the reader stopped."""


SYNTAX_RULES = (
    SyntaxRule(re.compile(r"\n\t|tab character"), "Indent with spaces: YAML allows no tabs.", _ACTIONS),
    SyntaxRule(re.compile("\n```"), "Leave out the lines that begin with ```: they belong to Markdown.", _PLAN),
    SyntaxRule(
        re.compile(r"start any token\n[`@%]"),
        "Put the text in quotes: it begins with a character that means something else in YAML.",
        'title: "`store` keeps what is sold"',
    ),
    SyntaxRule(
        re.compile(r"scanning an? (?:alias|anchor)|undefined alias"),
        "Put the text in quotes: `*` and `&` at its beginning mean something else in YAML.",
        'files: ["*.py"]',
    ),
    SyntaxRule(
        re.compile("quoted scalar"),
        "End the text with the quote that it begins with; put a text with a quote in quotes of the other kind.",
        "title: \"don't keep what isn't sold\"",
        at_begin=True,
    ),
    SyntaxRule(
        re.compile("mapping values are not allowed"),
        "Put a text with `: ` in quotes; or end the key in the line above with a colon, or indent both alike.",
        'title: "store: keep what is sold"',
    ),
    SyntaxRule(
        re.compile("simple key|expected ':'"), "Write a colon and a space after each key.", "key: store", at_begin=True
    ),
    SyntaxRule(
        re.compile("flow (?:sequence|mapping)"),
        "Separate the entries by commas, and end what `[` or `{` begins.",
        "effects: [store_works, store_lists]",
        at_begin=True,
    ),
    SyntaxRule(re.compile("block (?:collection|mapping|sequence)"), "Indent what belongs together alike.", _ACTIONS),
)
"""The first that fits explains it."""
