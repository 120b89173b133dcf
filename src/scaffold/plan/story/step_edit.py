"""Edits of a workflow that an agent asks for: their operations, read from JSON with a position for every problem."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from scaffold.core.errors import PlanInvalid
from scaffold.core.plan import Finding
from scaffold.plan.spelling_hints import SpellingHints
from scaffold.plan.story.step_type import STEP_TYPES, StepType
from scaffold.plan.text.fields import FieldReader, FindingCollector, bad_characters
from scaffold.plan.text.parse_tree import (
    ListNode,
    MappingNode,
    PositionedNode,
    TextPosition,
    invalid_plan,
    parse_positioned,
)

MAX_EDIT_BYTES = 64 * 1024
"""Largest edit file; read one byte more than this to find out."""
MAX_REASON_CHARS = 2_000
MAX_DESCRIPTION_CHARS = 8_000
MAX_OPERATIONS = 30


class NewStep(Struct, frozen=True, kw_only=True):
    """A step to add."""

    type: StepType
    description: str
    id: str | None = None
    """The id that its agent expects it to get; None if it names none."""


class AddAfter(Struct, frozen=True, tag="add_after"):
    """Insert steps after another one."""

    target: str
    new_steps: tuple[NewStep, ...]


class Split(Struct, frozen=True, tag="split"):
    """Replace a pending step."""

    target: str
    replacement_steps: tuple[NewStep, ...]


class Skip(Struct, frozen=True, tag="skip"):
    """Skip a pending step."""

    target: str


class Reorder(Struct, frozen=True, tag="reorder"):
    """Change the order of the pending steps."""

    new_order: tuple[str, ...]


class EditDescription(Struct, frozen=True, tag="edit_description"):
    """Change the description of a pending step."""

    target: str
    new_description: str


class Restart(Struct, frozen=True, tag="restart"):
    """Execute the current step again, with another description."""

    target: str
    new_description: str


Operation = AddAfter | Split | Skip | Reorder | EditDescription | Restart


class StepEdit(Struct, frozen=True, kw_only=True):
    """An operation with its reason."""

    operation: Operation
    reason: str
    mark: TextPosition
    """Where it begins in the text."""
    story: str | None = None
    """The story that it names; None if it names none, as usual."""

    @property
    def name(self) -> str:
        """The name of the operation in JSON."""
        return str(self.operation.__struct_config__.tag)


_OWN_KEYS = {
    "add_after": ("target_step_id", "new_steps"),
    "split": ("target_step_id", "replacement_steps"),
    "skip": ("target_step_id",),
    "reorder": ("new_order",),
    "edit_description": ("target_step_id", "new_description"),
    "restart": ("target_step_id", "new_description"),
}
_TYPES: Mapping[str, StepType] = {str(each): each for each in STEP_TYPES}
_ALL_KEYS = tuple(dict.fromkeys(key for keys in _OWN_KEYS.values() for key in keys))


def read_edits(content: bytes, *, name: str) -> tuple[StepEdit, ...]:
    """Return the operations in the file `name`, which ends in `.json`: an array of objects, or a single object.

    Raises PlanInvalid with all problems and their positions. Keys that no operation has are ignored. Whether the
    operations suit the workflow is decided by `apply_edit.py`.
    """
    if len(content) > MAX_EDIT_BYTES:
        what = f"the file has more than {MAX_EDIT_BYTES:,} bytes"
        raise invalid_plan(name, (_edit_finding(TextPosition(1, 1), what, "Shorten reasons and descriptions."),))
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        # The text is valid up to the invalid byte, so that its position is known.
        before = content[: error.start].decode()
        mark = TextPosition(before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise invalid_plan(name, (_edit_finding(mark, "the text is not UTF-8", "Write the file as UTF-8."),)) from error
    if not text.strip():
        # Another process may read the folder between the creation of a file and its content.
        fix = "Write the whole array into another file first, then rename that to this name."
        raise invalid_plan(name, (_edit_finding(TextPosition(1, 1), "the file is empty", fix),))
    return edits_from_node(parse_positioned(text, name=name), name=name)


def edits_from_node(node: PositionedNode, *, name: str) -> tuple[StepEdit, ...]:
    """Return the same as `read_edits`, for JSON that is already parsed, e.g. the arguments of a tool call."""
    found: list[Finding] = []
    # A single object is what many agents write.
    items = node.items if isinstance(node, ListNode) else (node,)
    if not isinstance(node, ListNode | MappingNode):
        found.append(_edit_finding(node.mark, "expected an array of operations", f"Write `{EXAMPLE}`."))
    elif len(items) > MAX_OPERATIONS:
        what = f"the array has {len(items)} operations; the limit is {MAX_OPERATIONS}"
        found.append(_edit_finding(node.mark, what, "Ask only for the most important ones."))
    # Too many are not even read.
    edits = () if found else tuple(_read_operations(items, found))
    if found:
        raise invalid_plan(name, tuple(found))
    return edits


EXAMPLE = '[{"operation": "skip", "target_step_id": "step-009", "reason": "..."}]'


def _edit_finding(mark: TextPosition, what: str, fix: str) -> Finding:
    return Finding(code="bad-value", severity="error", message=what, fix=fix, line=mark.line, column=mark.column)


def _read_operations(items: tuple[PositionedNode, ...], found: list[Finding]) -> Iterator[StepEdit]:
    """Yield the operations that can be read; record what is wrong with the others."""
    for index, item in enumerate(items):
        fields = FieldReader(FindingCollector(found), item, f"operation {index + 1}")
        before = len(found)
        operation = fields.text("operation", complaint=_bad_operation)
        own = _OWN_KEYS.get(operation, ())
        fields.check(("operation", "reason", *own), required=("operation", "reason", *own), closed=False)
        # A key of another operation shows that its agent meant something else.
        for key in _ALL_KEYS if own else ():
            if key not in own and fields.has(key):
                fields.complain(key, f"does not belong to `{operation}`", "Remove it, or write another operation.")
        # Only a complete operation is built: later checks rely on all of its fields.
        if len(found) > before:
            continue
        reason = fields.text("reason", complaint=lambda text: _bad_prose(text, MAX_REASON_CHARS))
        read = _read_operation(operation, fields)
        edit = StepEdit(operation=read, reason=reason, mark=item.mark, story=fields.text("story_id") or None)
        if len(found) == before:
            yield edit


def _read_operation(operation: str, fields: FieldReader) -> Operation:
    target = fields.text("target_step_id")
    match operation:
        case "add_after":
            return AddAfter(target, _new_steps(fields, "new_steps"))
        case "split":
            return Split(target, _new_steps(fields, "replacement_steps"))
        case "skip":
            return Skip(target)
        case "reorder":
            order = fields.texts("new_order")
            # `texts` leaves out repetitions and what is not a text.
            if len(order) < len(fields.items("new_order")):
                fields.complain("new_order", "names a step twice, or not by its id", "Name each pending step once.")
            return Reorder(order)
    description = fields.text("new_description", complaint=_bad_description)
    return Restart(target, description) if operation == "restart" else EditDescription(target, description)


def _new_steps(fields: FieldReader, key: str) -> tuple[NewStep, ...]:
    fields.never_empty(key)
    steps: list[NewStep] = []
    for each in fields.tables(key):
        each.check(("type", "description"), required=("type", "description"), closed=False)
        # An unknown type has been recorded, and the operation is not used; any other one stands in for it here.
        kind = _TYPES.get(each.text("type", complaint=_bad_type), "coding")
        description = each.text("description", complaint=_bad_description)
        steps.append(NewStep(type=kind, description=description, id=each.text("id") or None))
    return tuple(steps)


def _bad_operation(text: str) -> str | None:
    if text in _OWN_KEYS:
        return None
    return f"is not an operation. {SpellingHints(_OWN_KEYS).hint(text)}The operations are {', '.join(_OWN_KEYS)}"


def _bad_type(text: str) -> str | None:
    if text in STEP_TYPES:
        return None
    return f"is not a type of step. {SpellingHints(STEP_TYPES).hint(text)}The types are {', '.join(STEP_TYPES)}"


def _bad_description(text: str) -> str | None:
    return _bad_prose(text, MAX_DESCRIPTION_CHARS)


def _bad_prose(text: str, limit: int) -> str | None:
    if not text.strip():
        return "says nothing"
    if len(text) > limit:
        return f"has {len(text):,} characters; the limit is {limit:,}"
    return bad_characters(text)


def problems_in(error: PlanInvalid) -> tuple[str, ...]:
    """Return the problems of a file as lines with their positions, each with what to do."""
    return tuple(f"{each.line}:{each.column}: {each.message}. {each.fix}" for each in error.findings)
