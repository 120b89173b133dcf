"""Plans as text: read from YAML or JSON with every problem at its place, written as YAML."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import msgspec
import yaml

from scaffold.core.contract import Check, Contract, ExitCode, Expectation, OutputContains
from scaffold.core.ids import Assertion, Key
from scaffold.core.plan import DEFAULT_ROLE, ActionSpec, Finding, GoalSpec, Kind, Plan
from scaffold.plan.fields import Fields, Notes, any_text
from scaffold.plan.located import Located, invalid, read_located
from scaffold.plan.wording import shown

VERSION = 1
LONGEST_KEY = 128
LONGEST_TIMEOUT_S = 1e9
LINE_WIDTH = 120

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The fast emitter where YAML was built with it."""

_PLAN = ("version", "goals")
_GOAL = ("name", "description", "goal_state", "persistent", "actions")
_ACTION = ("key", "description", "kind", "role", "parent", "preconditions", "effects", "files", "contract")
_CONTRACT = ("intent", "commands", "must_exist", "must_not_exist", "must_not_change")
_CHECK = ("command", "expect", "description", "required", "timeout_s")

_EXIT = re.compile(r"exit (\d{1,3})")
_OUTPUT = re.compile(r"output contains (.+)", re.DOTALL)


def read_plan(text: str, *, name: str) -> tuple[Plan, tuple[Finding, ...]]:
    """Return the plan that `text` describes, and warnings; `name` is the file's, for messages.

    The text is JSON if `name` ends in `.json` or it reads as a JSON object, else YAML. Raises PlanInvalid with all
    problems at their places: `syntax`, `wrong-type`, `missing-key`, `duplicate-key`, `bad-value`. Whether the plan can
    reach its goals is for `lint` to say.
    """
    return plan_of(read_located(text, name=name), name=name)


def read_contract(text: str, *, name: str) -> Contract:
    """Return the contract that `text` describes, as it stands in a plan.

    Raises PlanInvalid with all that is wrong with it; a key that nobody knows is wrong, too, for a check would be lost.
    """
    found: list[Finding] = []
    contract = _contract(Fields(Notes(found), read_located(text, name=name), "contract"))
    if found:
        raise invalid(name, tuple(found))
    return contract


def plan_of(root: Located, *, name: str) -> tuple[Plan, tuple[Finding, ...]]:
    """Return what `read_plan` does, for a text that was read already."""
    found: list[Finding] = []
    plan = _plan(root, Notes(found))
    found.sort(key=lambda finding: (finding.line or 0, finding.column or 0))
    if errors := tuple(finding for finding in found if finding.severity == "error"):
        raise invalid(name, errors)
    return plan, tuple(found)


def bad_key(key: str) -> str | None:
    """Return why `key` cannot name an action, None if it can: keys become parts of paths and command lines."""
    if wrong := bad_name(key):
        return wrong
    if len(key) > LONGEST_KEY:
        return f"is longer than {LONGEST_KEY} characters"
    if key.startswith("-"):
        return "starts with `-`"
    if "\\" in key or any(character.isspace() for character in key):
        return "contains a blank or a backslash"
    if not {"", ".", ".."}.isdisjoint(key.split("/")):
        return "has a part that is empty, `.` or `..`"
    return None


def bad_name(name: str) -> str | None:
    """Return why `name` cannot name a goal, a role or an assertion, None if it can."""
    if not name.strip():
        return "is empty"
    if name != name.strip() or not name.isprintable():
        return "begins or ends with a blank, or contains a character that cannot be printed"
    return None


def bad_glob(glob: str) -> str | None:
    """Return why `glob` does not stay inside a tree, None if it does."""
    if not glob.strip() or not glob.isprintable():
        return "is empty or contains a character that cannot be printed"
    if glob.startswith("/") or ".." in glob.split("/"):
        return "leaves the tree: globs are relative, without `..`"
    return None


def _plan(node: Located, notes: Notes) -> Plan:
    fields = Fields(notes, node, "plan")
    fields.check(_PLAN, required=_PLAN)
    if (version := fields.number("version")) is not None and version != VERSION:
        fields.complain("version", f"version {shown(str(version))} is not known", f"Write `version: {VERSION}`.")
    goals = fields.tables("goals")
    fields.never_empty("goals")
    specs = tuple(_goal(goal) for goal in goals)
    _unique_names(goals, specs)
    return Plan(goals=specs)


def _unique_names(goals: Sequence[Fields], specs: Sequence[GoalSpec]) -> None:
    seen: set[str] = set()
    for fields, spec in zip(goals, specs, strict=True):
        if spec.name and spec.name in seen:
            message = f"another goal is named `{spec.name}`, too"
            fields.complain("name", message, "Give each goal a name of its own.", "duplicate-key")
        seen.add(spec.name)


def _goal(fields: Fields) -> GoalSpec:
    name = fields.text("name", complaint=bad_name)
    fields.notes = fields.notes.about(goal=name)
    fields.check(_GOAL, required=("name", "goal_state", "actions"))
    fields.never_empty("goal_state")
    actions = fields.tables("actions")
    specs = tuple(_action(action) for action in actions)
    _sound_parents(actions, specs)
    return GoalSpec(
        name=name,
        description=fields.text("description"),
        goal_state=_assertions(fields, "goal_state"),
        persistent=fields.flag("persistent", default=False),
        actions=specs,
    )


def _action(fields: Fields) -> ActionSpec:
    return action_of(fields, _ACTION, required=("key",))


def action_of(fields: Fields, known: tuple[str, ...], *, required: tuple[str, ...]) -> ActionSpec:
    """Return the action that `fields` describe, which may have the keys `known` and must have those `required`."""
    key = fields.text("key", complaint=bad_key)
    fields.notes = fields.notes.about(action=key)
    fields.check(known, required=required)
    return ActionSpec(
        key=Key(key),
        description=fields.text("description", key),
        kind=_kind(fields),
        role=fields.text("role", DEFAULT_ROLE, bad_name),
        parent=Key(parent) if (parent := fields.text("parent", complaint=bad_key)) else None,
        preconditions=_assertions(fields, "preconditions"),
        effects=_assertions(fields, "effects"),
        files=fields.texts("files", bad_glob),
        contract=_contract(contract) if (contract := fields.table("contract")) else None,
    )


def _kind(fields: Fields) -> Kind:
    match fields.text("kind", "primitive"):
        case "primitive" | "compound" as kind:
            return kind
        case other:
            fields.complain("kind", f"{shown(other)} is no kind of action", "Write primitive or compound.")
            return "primitive"


def _assertions(fields: Fields, key: str) -> tuple[Assertion, ...]:
    return tuple(map(Assertion, fields.texts(key, bad_name)))


def _sound_parents(actions: Sequence[Fields], specs: Sequence[ActionSpec]) -> None:
    """Note parents that are no compound of the same goal, and compounds that are inside themselves."""
    by_key = {spec.key: spec for spec in reversed(specs)}
    seen: set[Key] = set()
    for fields, spec in zip(actions, specs, strict=True):
        if spec.parent is None:
            continue
        if (parent := by_key.get(spec.parent)) is None:
            fields.complain("parent", f"unknown parent `{spec.parent}`", "Name a compound of the same goal.")
        elif parent.kind != "compound":
            fix = f"Give `{spec.parent}` the kind compound, or name another parent."
            fields.complain("parent", f"the parent `{spec.parent}` is primitive", fix)
        elif ring := parent_ring(spec, by_key, seen):
            fields.complain("parent", f"the parents go round: {ring}", "Take one of the parents out.")


def parent_ring(spec: ActionSpec, by_key: Mapping[Key, ActionSpec], seen: set[Key]) -> str | None:
    """Return the ring of parents that `spec` leads to, if there is one and nobody has `seen` its keys yet."""
    path: dict[Key, None] = {}
    above: ActionSpec | None = spec
    while above is not None and above.key not in path and above.key not in seen:
        path[above.key] = None
        above = by_key.get(above.parent) if above.parent else None
    seen.update(path)
    if above is None or above.key not in path:
        return None
    return " -> ".join([*tuple(path)[tuple(path).index(above.key) :], above.key])


def _contract(fields: Fields) -> Contract:
    fields.check(_CONTRACT)
    return Contract(
        intent=fields.text("intent"),
        commands=tuple(map(_check, fields.tables("commands", short="command"))),
        must_exist=fields.texts("must_exist", bad_glob),
        must_not_exist=fields.texts("must_not_exist", bad_glob),
        must_not_change=fields.texts("must_not_change", bad_glob),
    )


def _check(fields: Fields) -> Check:
    """Read one command; a bare text stands for a command that must exit with 0."""
    fields.check(_CHECK, required=("command",))
    return Check(
        command=fields.text("command", complaint=_bad_command),
        expect=_expectation(fields),
        description=fields.text("description"),
        required=fields.flag("required", default=True),
        timeout_s=_timeout(fields),
    )


def _bad_command(command: str) -> str | None:
    return any_text(command) if command.strip() else "is empty"


def _expectation(fields: Fields) -> Expectation:
    if not (expect := fields.text("expect")):
        return ExitCode(0)
    if (code := _EXIT.fullmatch(expect)) and int(code[1]) <= 255:
        return ExitCode(int(code[1]))
    if output := _OUTPUT.fullmatch(expect):
        return OutputContains(output[1])
    message = f"{shown(expect)} is nothing a command can be expected to do"
    fields.complain("expect", message, "Write `exit N` with N from 0 to 255, or `output contains TEXT`.")
    return ExitCode(0)


def _timeout(fields: Fields) -> float | None:
    timeout_s = fields.number("timeout_s")
    if timeout_s is None or 0 < timeout_s <= LONGEST_TIMEOUT_S:
        return None if timeout_s is None else float(timeout_s)
    fields.complain("timeout_s", "is no number of seconds above 0", "Write e.g. 60, or leave it out.")
    return None


def write_plan(plan: Plan) -> str:
    """Return YAML that `read_plan` reads back to the same plan; what goes without saying is left out."""
    document = plan_document(plan)
    text: str = yaml.dump(document, Dumper=_DUMPER, sort_keys=False, allow_unicode=True, width=LINE_WIDTH)
    return text


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return what `write_plan` writes as plain values; as JSON, `read_plan` reads it back to the same plan."""
    return {"version": VERSION, "goals": [_goal_entry(goal) for goal in plan.goals]}


def _goal_entry(goal: GoalSpec) -> dict[str, Any]:
    return _without_defaults(
        {
            "name": goal.name,
            "description": goal.description,
            "goal_state": list(goal.goal_state),
            "persistent": goal.persistent,
        }
    ) | {"actions": [_action_entry(action) for action in goal.actions]}


def _action_entry(action: ActionSpec) -> dict[str, Any]:
    entry = _without_defaults(
        {
            "kind": "" if action.kind == "primitive" else action.kind,
            "role": "" if action.role == DEFAULT_ROLE else action.role,
            "parent": action.parent,
            "preconditions": list(action.preconditions),
            "effects": list(action.effects),
            "files": list(action.files),
        }
    )
    description = {} if action.description == action.key else {"description": action.description}
    contract = {} if action.contract is None else {"contract": contract_document(action.contract)}
    return {"key": action.key} | description | entry | contract


def contract_document(contract: Contract) -> dict[str, Any]:
    """Return what a plan file says of a contract, as plain values; as JSON, `read_contract` reads it back."""
    return _without_defaults(
        {
            "intent": contract.intent,
            "commands": [_check_entry(check) for check in contract.commands],
            "must_exist": list(contract.must_exist),
            "must_not_exist": list(contract.must_not_exist),
            "must_not_change": list(contract.must_not_change),
        }
    )


def whole_document(contract: Contract) -> dict[str, Any]:
    """Return a contract in the words of a plan file with every field of it, for programs that look at it."""
    commands = [{**msgspec.structs.asdict(check), "expect": expected(check.expect)} for check in contract.commands]
    return {**msgspec.structs.asdict(contract), "commands": commands}


def _check_entry(check: Check) -> dict[str, Any]:
    options = {"description": check.description, "timeout_s": check.timeout_s}
    required = {} if check.required else {"required": False}
    return {"command": check.command, "expect": expected(check.expect)} | _without_defaults(options) | required


def expected(expect: Expectation) -> str:
    """Return an expectation in the words of a plan file."""
    match expect:
        case ExitCode(code=code):
            return f"exit {code}"
        case OutputContains(text=text):
            return f"output contains {text}"
        case _:
            assert_never(expect)


def _without_defaults(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if value}
