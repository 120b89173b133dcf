"""The plan file format: read from YAML or JSON with a position for every problem, written as YAML."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec
import yaml

from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import (
    DEFAULT_ROLE,
    ActionKind,
    ActionSpec,
    Finding,
    GoalSpec,
    Method,
    Plan,
    TaskType,
    Workspace,
)
from scaffold.core.proof.contract import Check, Contract, ExitCode, Expectation, OutputContains
from scaffold.plan.message_text import quoted
from scaffold.plan.text.fields import FieldReader, FindingCollector, bad_characters, bad_line
from scaffold.plan.text.parse_tree import PositionedNode, invalid_plan, parse_positioned

VERSION = 1
MAX_KEY_CHARS = 128
MAX_TIMEOUT_S = 1e9
LINE_WIDTH = 120

# The C emitter, if PyYAML was built with it; it is faster.
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
TEXT_KEYS = ("title", "description", "type", "acceptance", "verification_intent", "notes")
"""Keys of an action's text."""
_PLAN = ("version", "goals")
_GOAL = ("name", "description", "goal_state", "persistent", "actions")
_ACTION = (
    *("key", *TEXT_KEYS, "kind", "method", "workspace", "role", "executor"),
    *("parent", "preconditions", "effects", "files", "contract"),
)
_CONTRACT = ("intent", "commands", "must_exist", "must_not_exist", "must_not_change")
_CHECK = ("command", "expect", "description", "required", "timeout_s")
_EXIT = re.compile(r"exit (\d{1,3})")
_OUTPUT = re.compile(r"output contains (.+)", re.DOTALL)


def read_plan(text: str, *, name: str) -> tuple[Plan, tuple[Finding, ...]]:
    """Return the plan in `text`, and warnings; `name` is the file name for messages.

    The text is JSON if `name` ends in `.json` or if it parses as a JSON object, else YAML. Raises PlanInvalid with all
    errors and their positions: `syntax`, `wrong-type`, `missing-key`, `duplicate-key`, `bad-value`. Whether the plan
    can reach its goals is checked by `lint`, not here.
    """
    return parse_plan(parse_positioned(text, name=name), name=name)


def read_contract(text: str, *, name: str) -> Contract:
    """Return the contract in `text`, in the format of a plan file.

    Raises PlanInvalid with all problems. Unknown keys are errors here: ignoring one could silently drop a check.
    """
    found: list[Finding] = []
    contract = _read_contract(FieldReader(FindingCollector(found), parse_positioned(text, name=name), "contract"))
    if found:
        raise invalid_plan(name, tuple(found))
    return contract


def parse_plan(root: PositionedNode, *, name: str) -> tuple[Plan, tuple[Finding, ...]]:
    """Return the same as `read_plan`, for text that is already parsed."""
    found: list[Finding] = []
    fields = FieldReader(FindingCollector(found), root, "plan")
    fields.check(_PLAN, required=_PLAN)
    if (version := fields.number("version")) is not None and version != VERSION:
        fields.complain("version", f"version {quoted(str(version))} is not supported", f"Write `version: {VERSION}`.")
    goals = fields.tables("goals")
    fields.never_empty("goals")
    specs = tuple(_read_goal(goal) for goal in goals)
    seen: set[str] = set()
    for goal, spec in zip(goals, specs, strict=True):
        if spec.name and spec.name in seen:
            message = f"another goal is also named `{spec.name}`"
            goal.complain("name", message, "Give each goal its own name.", "duplicate-key")
        seen.add(spec.name)
    # Problems of a goal are found after its actions' problems, but a reader expects them in the order of the text.
    found.sort(key=lambda finding: (finding.line or 0, finding.column or 0))
    # Warnings alone do not stop a plan.
    if errors := tuple(finding for finding in found if finding.severity == "error"):
        raise invalid_plan(name, errors)
    return Plan(goals=specs), tuple(found)


def bad_key(key: str) -> str | None:
    """Return why `key` cannot name an action, None if it can. Keys become parts of paths and command lines."""
    if wrong := bad_name(key):
        return wrong
    if len(key) > MAX_KEY_CHARS:
        # Keys become parts of paths, refs and command lines.
        return f"is longer than {MAX_KEY_CHARS} characters"
    if key.startswith("-"):
        return "starts with `-`"
    if "\\" in key or any(character.isspace() for character in key):
        return "contains whitespace or a backslash"
    if not {"", ".", ".."}.isdisjoint(key.split("/")):
        return "has a part that is empty, `.` or `..`"
    return None


def bad_name(name: str) -> str | None:
    """Return why `name` cannot name a goal, a role or an assertion; None if it can."""
    if not name.strip():
        return "is empty"
    # People cannot compare characters that they cannot see.
    if name != name.strip() or not name.isprintable():
        return "begins or ends with whitespace, or contains an unprintable character"
    return None


def bad_glob(glob: str) -> str | None:
    """Return why `glob` is invalid or could match outside the tree; None if it is valid."""
    if not glob.strip() or not glob.isprintable():
        return "is empty or contains an unprintable character"
    if glob.startswith("/") or ".." in glob.split("/"):
        return "is outside the repository: globs are relative, without `..`"
    return None


def _read_goal(fields: FieldReader) -> GoalSpec:
    name = fields.text("name", complaint=bad_name)
    fields.notes = fields.notes.about(goal=name)
    fields.check(_GOAL, required=("name", "goal_state", "actions"))
    fields.never_empty("goal_state")
    actions = fields.tables("actions")
    specs = tuple(parse_action(action, _ACTION, required=("key",)) for action in actions)
    # After the actions, whose keys it needs.
    _check_parents(actions, specs)
    return GoalSpec(
        name=name,
        description=fields.text("description"),
        goal_state=_read_assertions(fields, "goal_state"),
        persistent=fields.flag("persistent", default=False),
        actions=specs,
    )


def parse_action(fields: FieldReader, known: tuple[str, ...], *, required: tuple[str, ...]) -> ActionSpec:
    """Return the action in `fields`; keys outside `known` get a warning, missing `required` keys an error."""
    key = fields.text("key", complaint=bad_key)
    fields.notes = fields.notes.about(action=key)
    fields.check(known, required=required)
    title = fields.text("title", complaint=bad_line)
    return ActionSpec(
        key=ActionKey(key),
        title=title,
        description=fields.text("description", title or key),
        type=_read_type(fields),
        acceptance=_read_acceptance(fields),
        verification_intent=fields.text("verification_intent", complaint=bad_characters),
        notes=fields.text("notes"),
        kind=_read_kind(fields),
        method=_read_method(fields),
        workspace=_read_workspace(fields),
        role=fields.text("role", DEFAULT_ROLE, bad_name),
        executor=fields.text("executor", complaint=bad_line),
        parent=ActionKey(parent) if (parent := fields.text("parent", complaint=bad_key)) else None,
        preconditions=_read_assertions(fields, "preconditions"),
        effects=_read_assertions(fields, "effects"),
        files=fields.texts("files", bad_glob),
        contract=_read_contract(contract) if (contract := fields.table("contract")) else None,
    )


def _read_kind(fields: FieldReader) -> ActionKind:
    match fields.text("kind", "primitive"):
        case "primitive" | "compound" as kind:
            return kind
        case other:
            fields.complain("kind", f"{quoted(other)} is not a kind of action", "Write primitive or compound.")
            return "primitive"


def _read_method(fields: FieldReader) -> Method | None:
    match fields.text("method"):
        case "":
            return None
        case "htn" | "story" | "dag" | "single" as known:
            return known
        case other:
            fields.complain("method", f"{quoted(other)} is not a method", "Write htn, story, dag or single.")
            return None


def _read_workspace(fields: FieldReader) -> Workspace:
    match fields.text("workspace", "own"):
        case "own" | "parent" as known:
            if known == "parent" and not fields.has("parent"):
                fields.complain("workspace", "there is no parent to share a worktree with", "Name a `parent`.")
            return known
        case other:
            fields.complain("workspace", f"{quoted(other)} is not a workspace", "Write own or parent.")
            return "own"


def _read_type(fields: FieldReader) -> TaskType | None:
    match fields.text("type").upper():
        case "":
            return None
        case "SETUP" | "FEATURE" | "BUGFIX" | "REFACTOR" as known:
            return known
        case other:
            fix = "Write SETUP, FEATURE, BUGFIX or REFACTOR."
            fields.complain("type", f"{quoted(other)} is not a type of task", fix)
            return None


def _read_acceptance(fields: FieldReader) -> tuple[str, ...]:
    """Return the acceptance criteria; a single text counts as a list of one."""
    if fields.lists("acceptance"):
        return fields.texts("acceptance", bad_characters)
    criterion = fields.text("acceptance", complaint=bad_characters)
    return (criterion,) if criterion else ()


def _read_assertions(fields: FieldReader, key: str) -> tuple[Assertion, ...]:
    return tuple(map(Assertion, fields.texts(key, bad_name)))


def _check_parents(actions: Sequence[FieldReader], specs: Sequence[ActionSpec]) -> None:
    """Record parents that are not a compound of the same goal, and parents that form a cycle."""
    # Reversed, so that the first of several with one key counts.
    by_key = {spec.key: spec for spec in reversed(specs)}
    seen: set[ActionKey] = set()
    for fields, spec in zip(actions, specs, strict=True):
        if spec.parent is None:
            continue
        if (parent := by_key.get(spec.parent)) is None:
            fields.complain("parent", f"unknown parent `{spec.parent}`", "Name a compound of the same goal.")
        elif parent.kind != "compound":
            fix = f"Give `{spec.parent}` the kind compound, or name another parent."
            fields.complain("parent", f"the parent `{spec.parent}` is primitive", fix)
        elif cycle := parent_cycle(spec, by_key, seen):
            fields.complain("parent", f"the parents form a cycle: {cycle}", "Remove one of the parents.")


def parent_cycle(spec: ActionSpec, by_key: Mapping[ActionKey, ActionSpec], seen: set[ActionKey]) -> str | None:
    """Return the cycle of parents that `spec` leads to, None if there is none or its keys are all in `seen`."""
    path: dict[ActionKey, None] = {}
    ancestor: ActionSpec | None = spec
    while ancestor is not None and ancestor.key not in path and ancestor.key not in seen:
        path[ancestor.key] = None
        ancestor = by_key.get(ancestor.parent) if ancestor.parent else None
    # Each key is walked once: a chain that was found free of cycles stays so.
    seen.update(path)
    if ancestor is None or ancestor.key not in path:
        return None
    return " -> ".join([*tuple(path)[tuple(path).index(ancestor.key) :], ancestor.key])


def _read_contract(fields: FieldReader) -> Contract:
    fields.check(_CONTRACT)
    return Contract(
        intent=fields.text("intent"),
        commands=tuple(map(_read_check, fields.tables("commands", short="command"))),
        must_exist=fields.texts("must_exist", bad_glob),
        must_not_exist=fields.texts("must_not_exist", bad_glob),
        must_not_change=fields.texts("must_not_change", bad_glob),
    )


def _read_check(fields: FieldReader) -> Check:
    """Return one check; a bare text is a command that must exit with 0."""
    fields.check(_CHECK, required=("command",))
    return Check(
        command=fields.text("command", complaint=lambda text: bad_characters(text) if text.strip() else "is empty"),
        expect=_read_expectation(fields),
        description=fields.text("description"),
        required=fields.flag("required", default=True),
        timeout_s=_read_timeout(fields),
    )


def _read_expectation(fields: FieldReader) -> Expectation:
    if not (expect := fields.text("expect")):
        return ExitCode(0)
    # Exit codes have one byte.
    if (code := _EXIT.fullmatch(expect)) and int(code[1]) <= 255:
        return ExitCode(int(code[1]))
    if output := _OUTPUT.fullmatch(expect):
        return OutputContains(output[1])
    message = f"{quoted(expect)} is not a valid expectation"
    fields.complain("expect", message, "Write `exit N` with N from 0 to 255, or `output contains TEXT`.")
    return ExitCode(0)


def _read_timeout(fields: FieldReader) -> float | None:
    timeout_s = fields.number("timeout_s")
    if timeout_s is None or 0 < timeout_s <= MAX_TIMEOUT_S:
        return None if timeout_s is None else float(timeout_s)
    fields.complain("timeout_s", "is not a positive number of seconds", "Write e.g. 60, or leave it out.")
    return None


def write_plan(plan: Plan) -> str:
    """Return YAML that `read_plan` reads back as the same plan; default values are left out."""
    document = plan_document(plan)
    text: str = yaml.dump(document, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=LINE_WIDTH)
    return text


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the content of `write_plan` as plain values; as JSON, `read_plan` reads it back as the same plan."""
    goals = [
        _without_defaults(
            {
                "name": goal.name,
                "description": goal.description,
                "goal_state": list(goal.goal_state),
                "persistent": goal.persistent,
            }
        )
        | {"actions": [_action_entry(action) for action in goal.actions]}
        for goal in plan.goals
    ]
    return {"version": VERSION, "goals": goals}


def _action_entry(action: ActionSpec) -> dict[str, Any]:
    entry = _without_defaults(
        {
            "kind": "" if action.kind == "primitive" else action.kind,
            "method": action.method,
            "workspace": "" if action.workspace == "own" else action.workspace,
            "role": "" if action.role == DEFAULT_ROLE else action.role,
            "executor": action.executor,
            "parent": action.parent,
            "preconditions": list(action.preconditions),
            "effects": list(action.effects),
            "files": list(action.files),
        }
    )
    # A description that only repeats the title, or the key, is what reading fills in.
    plain = action.description == (action.title or action.key)
    title = {"title": action.title} if action.title else {}
    description = {} if plain else {"description": action.description}
    text = _without_defaults(
        {
            "type": action.type,
            "acceptance": list(action.acceptance),
            "verification_intent": action.verification_intent,
            "notes": action.notes,
        }
    )
    contract = {} if action.contract is None else {"contract": contract_document(action.contract)}
    return {"key": action.key} | title | description | text | entry | contract


def contract_document(contract: Contract) -> dict[str, Any]:
    """Return a contract in the plan file format, as plain values; as JSON, `read_contract` reads it back."""
    return _without_defaults(
        {
            "intent": contract.intent,
            "commands": [_check_entry(check) for check in contract.commands],
            "must_exist": list(contract.must_exist),
            "must_not_exist": list(contract.must_not_exist),
            "must_not_change": list(contract.must_not_change),
        }
    )


def full_contract_document(contract: Contract) -> dict[str, Any]:
    """Return a contract in the plan file format with all fields, defaults included, for other programs."""
    commands = [
        {**msgspec.structs.asdict(check), "expect": expectation_text(check.expect)} for check in contract.commands
    ]
    return {**msgspec.structs.asdict(contract), "commands": commands}


def _check_entry(check: Check) -> dict[str, Any]:
    options = {"description": check.description, "timeout_s": check.timeout_s}
    required = {} if check.required else {"required": False}
    return {"command": check.command, "expect": expectation_text(check.expect)} | _without_defaults(options) | required


def expectation_text(expect: Expectation) -> str:
    """Return an expectation as written in a plan file."""
    match expect:
        case ExitCode(code=code):
            return f"exit {code}"
        case OutputContains(text=text):
            return f"output contains {text}"
        case _:
            assert_never(expect)


def _without_defaults(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if value}
