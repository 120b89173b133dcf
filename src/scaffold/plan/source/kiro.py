"""Numbered task lists, as in Kiro's `tasks.md`: nested by number, with the criteria of `requirements.md`."""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding
from scaffold.plan.source.checklist import (
    Heading,
    Item,
    MarkdownLine,
    balanced,
    heading,
    items_of,
    lines_of,
    mostly,
    tick_mark,
    unread_items,
)
from scaffold.plan.source.task import SourceTask, TaskDocument, TaskTree, empty_document, in_written_order

# The text of a task: a number with a point, as in `1.` or `1.2`, but not `7 endpoints work`.
_TASK = re.compile(
    r"(?:\*\*)?(?P<id>\d+(?=\*?[.)])|\d+(?:\.\d+)+[a-z]?)(?P<star>\*?)[.)]?(?:\*\*)?:?\s+(?P<text>\S.*)", re.DOTALL
)
_PARALLEL = re.compile(r"\s*\(P\)(?=\s*$)")
_OWN_FOLDER = re.compile(r"(?:^|/)\.kiro/specs/[^/]+/[^/]+$")
# The dependencies of a task, in any language whose word for it begins so: `Depends on`, `Dependencies`, `Dependências`.
_DEPENDS = re.compile(r"_D[eé]pend[^_\n:：]*[:：]\s*(?P<list>[^_\n]*)_", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)*[a-z]?(?![\w-])")
# The criteria that a task refers to; in other languages what is in italics, or a line by itself, and has only numbers
# after its name.
_REQUIREMENTS = re.compile(
    r"(?:_Requirements?:|Validates:\**\s*Requirements?)\s*(?P<list>[^_*\n]*)"
    r"|_(?!D[eé]pend)[^_:：\n]+[:：]\s*(?P<numbers>[\d.,，、\s–-]+)_"
    r"|^[ \t]*(?:[-*+][ \t]+)?[*_]*(?:[^\s:：]+[:：][ \t]*)?[^\s\d:：]{0,4}"
    r"(?:Requirements?|Requisitos?|Exigences?|Anforderung(?:en)?|Требования|Yêu cầu|需求|要求|要件|요구 ?사항)"
    r"\**[:：]?\**[ \t]*(?P<alone>\d[\d.,，、 \t–-]*)[*_]*[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_RANGE = re.compile(r"(?<![\w.-])(?P<first>\d+(?:\.\d+)?)(?:\s*[-–]\s*(?P<last>\d+(?:\.\d+)?))?(?![\w.]*\w)")
# A line of details other than a statement such as `_Requirements: 1.2_` or `**Validates: Requirements 1.2**`.
_DETAIL = re.compile(r"^[ \t]*(?!(?:[-*+][ \t]+)?(?:_|\*\*))\S", re.MULTILINE)
_REQUIREMENT = re.compile(r"[^\d\n:：.]*?(?P<number>\d+)(?:\s*[:：.)(（–—-].*|\s*)")
_CRITERIA_HEADING = re.compile(r"criteri|критери|验收|受[けり]?入|수용|인수|aceit|acept|akzept", re.IGNORECASE)
_BULLET = re.compile(r"[-*+][ \t]+(?P<text>\S.*)")
_CRITERION = re.compile(
    r"[ \t]{0,3}(?:[-*+][ \t]+)?(?:\*\*)?(?:(?P<number>\d+)[.)]|(?P<full>\d+\.\d+)[.)]?)(?:\*\*)?[ \t]+(?P<text>\S.*)"
)

Criteria = Mapping[tuple[int, int], str]
"""Acceptance criteria by the numbers of their requirement and of their own."""


def is_kiro(text: str, *, name: str = "") -> bool:
    """Return whether most items with a box in the text are numbered; in Kiro's own folder one is enough."""
    lines = lines_of(text.removeprefix("\ufeff"))
    # In Kiro's folder the file is known by its name.
    return mostly(lines, _match_task) or (bool(_OWN_FOLDER.search(name)) and bool(items_of(lines, _match_task)))


def read_criteria(text: str) -> Criteria:
    """Return the criteria of a `requirements.md`, below a heading with the requirement's number.

    They are numbered items, counted on where a number occurs again, or bullets below a heading for criteria.
    """
    reader = _CriteriaReader()
    for line in lines_of(text.removeprefix("\ufeff")):
        reader.read(line)
    return reader.found


class _CriteriaReader:
    def __init__(self) -> None:
        self.found: dict[tuple[int, int], str] = {}
        self._requirement: int | None = None
        self._level = 0
        self._bullets = False
        """Whether bullets are criteria here."""
        self._last = 0
        self._current: tuple[int, int] | None = None

    def read(self, line: MarkdownLine) -> None:
        """Take in the next line: a heading, a criterion, or a line that continues one."""
        if title := heading(line):
            self._enter_heading(title)
        elif self._requirement is not None and not line.literal and (stated := self._match_criterion(line.text)):
            self._last, text = stated
            self._current = (self._requirement, self._last)
            self.found[self._current] = text
        elif not line.text.strip():
            pass
        # An indented line continues the criterion above it.
        elif self._current is not None and line.text[0].isspace():
            self.found[self._current] += "\n" + line.text.strip()
        else:
            self._current = None

    def _enter_heading(self, title: Heading) -> None:
        self._current = None
        match = _REQUIREMENT.fullmatch(title.text)
        if match:
            self._requirement, self._level, self._last = int(match["number"]), title.level, 0
        # A heading of the same level or a higher one ends the requirement.
        elif title.level <= self._level:
            self._requirement = None
        self._bullets = bool(_CRITERIA_HEADING.search(title.text))

    def _match_criterion(self, text: str) -> tuple[int, str] | None:
        """Return the number and the text of the criterion that a line begins; None if it begins none."""
        if match := _CRITERION.fullmatch(text):
            own = int(match["number"] or match["full"].partition(".")[2])
            # Lists often restart their numbers below each heading.
            counted = match["number"] and (self._requirement, own) in self.found
            return (self._last + 1 if counted else own), match["text"].strip()
        match = _BULLET.fullmatch(text) if self._bullets else None
        return (self._last + 1, match["text"].strip()) if match else None


def read_kiro(text: str, *, name: str, requirements: str = "") -> TaskDocument:
    """Return the tasks in `text`, in their order; `(P)` marks those that may run beside their neighbours.

    `requirements` is the text of the `requirements.md` beside it, for the criteria that tasks refer to. A task with
    details of its own contains its parts. Raises PlanInvalid if there is no task; other dependencies are not checked.
    """
    lines = lines_of(text.removeprefix("\ufeff"))
    items = items_of(lines, _match_task)
    criteria = read_criteria(requirements)
    tasks = _fold_parts(_source_tasks(items, lines, criteria, name))
    return TaskDocument(
        format="kiro",
        tasks=in_written_order(tasks, [0] * len(tasks)).tasks,
        warnings=(*unread_items(lines, items, "1.2"), *(_unknown_references(items, criteria) if criteria else ())),
    )


def numbered_tasks(text: str, *, name: str) -> tuple[SourceTask, ...]:
    """Return all tasks in `text` by their numbers, without order, criteria and what parts do to what they are part of.

    Raises PlanInvalid if there is none.
    """
    lines = lines_of(text.removeprefix("\ufeff"))
    return _source_tasks(items_of(lines, _match_task), lines, {}, name)


def _source_tasks(
    items: Sequence[Item], lines: Sequence[MarkdownLine], criteria: Criteria, name: str
) -> tuple[SourceTask, ...]:
    if not items:
        raise empty_document(name, "there is no numbered task", "Write e.g. `- [ ] 1. Create the project`.")
    mark = tick_mark(items, lines)
    # A number is a part of another one only if that is a task.
    ids = {match["id"] for each in items if (match := _match_task(each))}
    return tuple(_source_task(each, match, ids, criteria, mark) for each in items if (match := _match_task(each)))


def _match_task(each: Item) -> re.Match[str] | None:
    return _TASK.fullmatch(each.title)


def _source_task(each: Item, match: re.Match[str], ids: set[str], criteria: Criteria, mark: str) -> SourceTask:
    title = balanced(match["text"].strip())
    return SourceTask(
        id=ActionKey(match["id"]),
        title=_PARALLEL.sub("", title),
        description=each.details,
        acceptance=tuple(criteria[key] for key in _criterion_references(each, criteria) if key in criteria),
        depends_on=tuple(
            ActionKey(key) for stated in _DEPENDS.finditer(each.details) for key in _NUMBER.findall(stated["list"])
        ),
        done=each.ticked,
        parallel=bool(_PARALLEL.search(title)),
        optional=each.starred or bool(match["star"]),
        parent=_parent_id(match["id"], ids),
        position=each.position,
        done_edits=each.tick(mark),
        open_edits=each.untick(),
    )


def _fold_parts(tasks: Sequence[SourceTask]) -> tuple[SourceTask, ...]:
    """Return the tasks; one that has both details and open parts contains these as steps, so that no work is lost.

    Details beside parts are work of their own as often as they are a summary of the parts, and only one agent that
    does both needs not know which.
    """
    tree = TaskTree(tasks)
    inside: dict[ActionKey, ActionKey] = {}
    steps: dict[ActionKey, list[SourceTask]] = {}
    # Done parts leave nothing to do twice, and a task without details of its own is only a heading.
    containers = {
        task.id
        for task in tree.by_id.values()
        if not task.done and not all(map(tree.done, tree.required_parts(task))) and _DETAIL.search(task.description)
    }
    for task in tasks:
        whole = next((each for each in reversed([*tree.ancestors(task)]) if each.id in containers), None)
        if whole is not None and not tree.optional(task):
            inside[task.id] = whole.id
            steps.setdefault(whole.id, []).append(task)
    return tuple(_with_steps(task, steps.get(task.id, ()), inside) for task in tasks if task.id not in inside)


def _with_steps(task: SourceTask, steps: Sequence[SourceTask], inside: Mapping[ActionKey, ActionKey]) -> SourceTask:
    needed = (inside.get(key, key) for each in (task, *steps) for key in each.depends_on)
    criteria = (text for each in (task, *steps) for text in each.acceptance)
    listed = (
        line
        for step in steps
        for line in (
            f"- [{'x' if step.done else ' '}] {step.id} {step.title}",
            *(f"  {each}" if each else "" for each in step.description.splitlines()),
        )
    )
    return replace(
        task,
        description="\n".join((f"{task.description}\n\nSteps:", *listed)) if steps else task.description,
        acceptance=tuple(dict.fromkeys(criteria)),
        depends_on=tuple(dict.fromkeys(key for key in needed if not steps or key != task.id)),
    )


def _parent_id(task_id: str, ids: set[str]) -> ActionKey | None:
    """Return the nearest task whose number is the beginning of this one's."""
    while "." in task_id:
        task_id = task_id.rpartition(".")[0]
        if task_id in ids:
            return ActionKey(task_id)
    return None


def _criterion_references(each: Item, criteria: Criteria) -> Iterator[tuple[int, int]]:
    """Yield the criteria that the task refers to: each once; a number without a point is all of a requirement's."""
    seen: dict[tuple[int, int], None] = {}
    for stated in _REQUIREMENTS.finditer(each.details):
        for match in _RANGE.finditer(stated["list"] or stated["numbers"] or stated["alone"] or ""):
            first, last = _criterion_key(match["first"]), _criterion_key(match["last"] or match["first"])
            if first[1] and last[1]:
                seen.update(dict.fromkeys(key for key in criteria if first <= key <= last))
                # A criterion that does not exist is kept, so that it can be reported.
                seen.setdefault(first)
            else:
                seen.update(dict.fromkeys(key for key in criteria if first[0] <= key[0] <= last[0]))
    yield from seen


def _criterion_key(number: str) -> tuple[int, int]:
    requirement, _, own = number.partition(".")
    return int(requirement), int(own or 0)


def _unknown_references(items: Sequence[Item], criteria: Criteria) -> Iterator[Finding]:
    for each in items:
        for requirement, own in _criterion_references(each, criteria):
            if (requirement, own) not in criteria:
                yield Finding(
                    code="unknown-requirement",
                    severity="warning",
                    message=f"the task refers to criterion {requirement}.{own}, which requirements.md does not have",
                    fix="Correct the number, or add the criterion.",
                    line=each.position.line,
                    column=each.position.column,
                )
