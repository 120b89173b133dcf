"""Task lists of spec-kit (`tasks.md`): items with an id such as `T012`, in phases that follow each other."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.ids import ActionKey
from scaffold.plan.source.checklist import (
    Item,
    MarkdownLine,
    balanced,
    heading,
    items_of,
    lines_of,
    mostly,
    paragraph,
    tick_mark,
    unread_items,
)
from scaffold.plan.source.task import SourceTask, TaskDocument, empty_document, in_written_order

PHASE_LEVEL = 2
PARALLEL = "P"
_ID = r"T\d+[A-Za-z]?(?:-(?!T\d)[A-Z][A-Z0-9]*)?"
_TASK = re.compile(
    rf"(?:\*\*)?(?P<id>{_ID})(?:\*\*)?(?:[:.](?=\s))?(?P<labels>(?:\s*\[[^\]\n]+\])*)\s+(?P<text>\S.*)", re.DOTALL
)
_LABEL = re.compile(r"\[([^\]\n]+)\]")
_RANGE = rf"(?:{_ID}(?:\s*[-–]\s*{_ID})?|US\d+)"
_DEPENDS = re.compile(
    rf"(?:\(|^[^\w\n(]*)depends on:?[\s*]+(?P<list>{_RANGE}(?:(?:\s*,\s*|\s+)(?:(?:and|&)\s+)?{_RANGE})*)",
    re.IGNORECASE | re.MULTILINE,
)
_REFERENCE = re.compile(rf"(?P<first>{_ID})(?:\s*[-–]\s*(?P<last>{_ID}))?|(?P<story>US\d+)")
_FIELD = re.compile(r"\*\*(?P<name>Goal|Purpose|Independent Test|Checkpoint)(?::\*\*|\*\*\s*:)\s*(?P<text>.*)")


class Phase(Struct):
    """A section of the list, with what is said about it as a whole."""

    title: str
    fields: dict[str, str]
    """Goal, Purpose, Independent Test and Checkpoint, as far as they are given."""

    @property
    def text(self) -> str:
        """All of it, one statement a line."""
        return "\n".join(
            (f"This is a part of: {self.title}", *(f"{name}: {text}" for name, text in self.fields.items()))
        )


class _TaskEntry(Struct, frozen=True):
    item: Item
    id: ActionKey
    labels: tuple[str, ...]
    title: str
    phase: int


def is_spec_kit(text: str) -> bool:
    """Return whether most items with a box in the text have an id of spec-kit."""
    return mostly(lines_of(text.removeprefix("\ufeff")), _match_task)


def read_spec_kit(text: str, *, name: str) -> TaskDocument:
    """Return the tasks in `text`; phases follow each other, and in a phase neighbours with `[P]` may run together.

    An independent test is what the last task of its phase has to show. Raises PlanInvalid if there is no task; other
    dependencies are not checked.
    """
    lines = lines_of(text.removeprefix("\ufeff"))
    phases, entries = _phases_and_tasks(lines)
    if not entries:
        raise empty_document(
            name, "there is no task with an id such as `T001`", "Write e.g. `- [ ] T001 Create the project`."
        )
    mark = tick_mark([entry.item for entry in entries], lines)
    names = _Names(entries)
    tasks = [
        SourceTask(
            id=entry.id,
            title=entry.title,
            description=entry.item.details,
            notes=phases[entry.phase].text,
            depends_on=tuple(names.dependencies(entry)),
            done=entry.item.ticked,
            parallel=PARALLEL in entry.labels,
            position=entry.item.position,
            done_edits=entry.item.tick(mark),
            open_edits=entry.item.untick(),
        )
        for entry in entries
    ]
    ordered = in_written_order(tasks, [entry.phase for entry in entries])
    tests = {key: phases[phase].fields.get("Independent Test", "") for phase, key in ordered.last.items()}
    return TaskDocument(
        format="spec-kit",
        # The last task of a phase shows that the phase works on its own.
        tasks=tuple(replace(task, verification_intent=tests.get(task.id, "")) for task in ordered.tasks),
        warnings=unread_items(lines, [entry.item for entry in entries], "T001"),
    )


def _match_task(each: Item) -> re.Match[str] | None:
    return _TASK.fullmatch(each.title)


def _phases_and_tasks(lines: Sequence[MarkdownLine]) -> tuple[list[Phase], list[_TaskEntry]]:
    """Return the phases, and the tasks with their phase's index; tasks before the first heading are in phase 0."""
    phases = [Phase("the list", {})]
    entries: list[_TaskEntry] = []
    items = {each.line.number: each for each in items_of(lines, _match_task)}
    for place, line in enumerate(lines):
        # Deeper headings structure a phase.
        if (title := heading(line)) and title.level <= PHASE_LEVEL:
            phases.append(Phase(title.text, {}))
        elif (each := items.get(line.number)) and (match := _match_task(each)):
            labels = tuple(_LABEL.findall(match["labels"]))
            entries.append(_TaskEntry(each, ActionKey(match["id"]), labels, balanced(match["text"]), len(phases) - 1))
        elif not line.literal and (field := _FIELD.match(line.text)):
            phases[-1].fields.setdefault(field["name"], paragraph(field["text"], lines[place + 1 :]))
    return phases, entries


class _Names:
    """Names that tasks may use in a list: ids, ranges of ids, stories."""

    def __init__(self, entries: Sequence[_TaskEntry]) -> None:
        self._ids = [entry.id for entry in entries]
        # Reversed, so that the first of several with one id counts.
        self._places = {key: place for place, key in reversed([*enumerate(self._ids)])}
        self._stories: dict[str, list[ActionKey]] = {}
        for entry in entries:
            for label in entry.labels:
                self._stories.setdefault(label, []).append(entry.id)

    def dependencies(self, entry: _TaskEntry) -> Iterator[ActionKey]:
        """Yield the ids that the task names after `depends on`; a name that nothing has is yielded as it is."""
        for stated in _DEPENDS.finditer(entry.item.written):
            for reference in _REFERENCE.finditer(stated["list"]):
                if story := reference["story"]:
                    # A story's own task names it only to say where it belongs.
                    yield from () if story in entry.labels else self._stories.get(story, [ActionKey(story)])
                    continue
                first, last = ActionKey(reference["first"]), ActionKey(reference["last"] or reference["first"])
                # A range means all that stand between its ends, whatever their numbers.
                if first in self._places and last in self._places:
                    yield from self._ids[self._places[first] : self._places[last] + 1]
                else:
                    yield from (first, last)
