"""Tasks as people have them in files: one value for all formats, its dependencies checked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.errors import PlanInvalid
from scaffold.core.ids import ActionKey
from scaffold.core.plan import Finding, TaskText
from scaffold.core.run_settings import TaskFormat
from scaffold.plan.source.dag import TaskSpec, dag_findings
from scaffold.plan.text.parse_tree import START, TextPosition, invalid_plan, with_position

FORMAT_TITLES: Mapping[TaskFormat, str] = {
    "prd": "product requirements (prd.json)",
    "task-master": "a task list of task-master",
    "spec-kit": "a task list of spec-kit",
    "kiro": "a numbered task list, as of Kiro",
    "beads": "an export of beads",
}


class TextEdit(Struct, frozen=True):
    """Replace the characters from `start` up to `end`, offsets in the text without a byte order mark."""

    start: int
    end: int
    text: str


class SourceTask(TaskText, frozen=True, kw_only=True):
    """A task or story as a file states it."""

    id: ActionKey
    priority: float | None = None
    """Lower comes first; None comes last."""
    depends_on: tuple[ActionKey, ...] = ()
    done: bool = False
    closes_parts: bool = False
    """Whether its parts are done once it is, whatever their own marks say."""
    held: str = ""
    """Why it must not be started now, as the end of a sentence that starts with it; empty if it may be."""
    parallel: bool = False
    """Whether the file says that it may run beside its neighbours."""
    optional: bool = False
    parent: ActionKey | None = None
    """The task that this one is a part of."""
    position: TextPosition = START
    done_edits: tuple[TextEdit, ...] = ()
    """The text edits that mark it as done; empty if it is."""
    open_edits: tuple[TextEdit, ...] = ()
    """The text edits that mark it as open again; empty if it is open."""


class TaskDocument(Struct, frozen=True, kw_only=True):
    """The tasks of one file, in the order they were written."""

    format: TaskFormat
    tasks: tuple[SourceTask, ...]
    warnings: tuple[Finding, ...] = ()


class MarkedText(Struct, frozen=True):
    """A text with tasks marked as done."""

    text: str
    unmarked: tuple[ActionKey, ...]
    """Ids that the text does not have, or has more than once; nothing was changed for them."""


class TaskTree:
    """The tree of tasks and their parts, with queries on it."""

    def __init__(self, tasks: Iterable[SourceTask]) -> None:
        """Take all tasks of a document; of tasks with the same id the first counts."""
        self.by_id: dict[ActionKey, SourceTask] = {}
        self._parts: dict[ActionKey, list[SourceTask]] = {}
        for task in tasks:
            # A second task with the same id is reported elsewhere.
            if self.by_id.setdefault(task.id, task) is task and task.parent is not None:
                self._parts.setdefault(task.parent, []).append(task)

    def ancestors(self, task: SourceTask) -> Iterator[SourceTask]:
        """Yield the tasks that contain the task, from the inside out; each once, even in a cycle."""
        seen = {task.id}
        while task.parent in self.by_id and task.parent not in seen:
            task = self.by_id[task.parent]
            seen.add(task.id)
            yield task

    def required_parts(self, task: SourceTask) -> tuple[SourceTask, ...]:
        """Return the parts that are not optional; a task with at least one has no work of its own."""
        return tuple(part for part in self._parts.get(task.id, ()) if not part.optional)

    def subtree(self, task: SourceTask) -> Iterator[SourceTask]:
        """Yield the task and its required parts, recursively; each once, even in a cycle."""
        seen: set[ActionKey] = set()
        rest = [task]
        while rest:
            each = rest.pop()
            if each.id not in seen:
                seen.add(each.id)
                rest += reversed(self.required_parts(each))
                yield each

    def work(self, task: SourceTask) -> Iterator[SourceTask]:
        """Yield the tasks with work of their own that complete this one: itself, or else those among its parts."""
        return (each for each in self.subtree(task) if not self.required_parts(each))

    def done(self, task: SourceTask) -> bool:
        """Return whether the task is done, because it is marked or because something done closes its parts."""
        return task.done or any(each.done and each.closes_parts for each in self.ancestors(task))

    def optional(self, task: SourceTask) -> bool:
        """Return whether the task is optional, or part of one that is."""
        return task.optional or any(each.optional for each in self.ancestors(task))

    def dependencies(self, task: SourceTask) -> tuple[ActionKey, ...]:
        """Return the dependencies of the task, including those of the tasks that contain it.

        Something done waits for nothing any more, and what waits for a part of itself makes no other part wait.
        """
        own = (key for key in task.depends_on if not self._is_inside(key, task))
        inherited = (
            key
            for each in self.ancestors(task)
            if not self.done(each)
            for key in each.depends_on
            if key in self.by_id and not self._is_inside(key, each)
        )
        return tuple(dict.fromkeys((*own, *inherited)))

    def _is_inside(self, key: ActionKey, whole: SourceTask) -> bool:
        return key in self.by_id and any(each.id == whole.id for each in self.ancestors(self.by_id[key]))


class OrderedTasks(Struct, frozen=True):
    """Tasks that wait for those before them."""

    tasks: tuple[SourceTask, ...]
    """As given, with their dependencies."""
    last: Mapping[int, ActionKey]
    """By section, the task that all other tasks of the section come before; none if several could be the last."""


def checked(document: TaskDocument, *, name: str) -> TaskDocument:
    """Return the document; raise PlanInvalid with the errors in ids and dependencies, at the positions of the tasks.

    Neither what a task that is done depends on matters any more, nor whether several such tasks have the same id.
    """
    tree = TaskTree(document.tasks)
    open_ids = {task.id for task in document.tasks if not tree.done(task)}
    specs: list[TaskSpec] = []
    for task in document.tasks:
        # Of those that are done, only the first with an id is part of the graph.
        if task.id not in open_ids and tree.by_id[task.id] is not task:
            continue
        # A task that is done needs nothing; its parts may still be open.
        named = () if tree.done(task) else tree.dependencies(task)
        needed = [key for key in named if key not in tree.by_id or not tree.done(tree.by_id[key])]
        needed += [
            part.id for part in tree.required_parts(task) if not all(tree.done(each) for each in tree.subtree(part))
        ]
        specs.append(TaskSpec(key=task.id, depends_on=tuple(needed)))
    if findings := dag_findings(specs):
        raise invalid_plan(name, with_task_positions(findings, document.tasks))
    return document


def empty_document(name: str, message: str, fix: str) -> PlanInvalid:
    """Return the error for a text that has nothing to do in it."""
    finding = Finding(code="bad-value", severity="error", message=message, fix=fix, line=1, column=1)
    return invalid_plan(name, (finding,))


def with_task_positions(findings: Iterable[Finding], tasks: Sequence[SourceTask]) -> tuple[Finding, ...]:
    """Return the findings; one without a position gets its task's, or the position of the second task with its id."""
    positions: dict[str, list[TextPosition]] = {}
    for task in tasks:
        positions.setdefault(task.id, []).append(task.position)
    return tuple(with_position(finding, positions.get(finding.action or "", [START])) for finding in findings)


def mark_done(text: str, tasks: Sequence[SourceTask], ids: Iterable[ActionKey]) -> MarkedText:
    """Return the text with the tasks `ids` marked as done, their required parts, and tasks that this completes.

    `tasks` were parsed from `text`. No other character changes; existing marks stay as they are written.
    """
    wanted = tuple(dict.fromkeys(ids))
    known: dict[ActionKey, int] = {}
    for task in tasks:
        known[task.id] = known.get(task.id, 0) + 1
    # With two tasks of one id it cannot be told which was done.
    found = {each for each in wanted if known.get(each) == 1}
    tree = TaskTree(tasks)
    before = {task.id for task in tasks if tree.done(task)}
    done = {part.id for key in found for part in tree.subtree(tree.by_id[key])}
    for key in found:
        for ancestor in tree.ancestors(tree.by_id[key]):
            # A task is complete once nothing required is left of it.
            if not all(part.id in done or part.id in before for part in tree.required_parts(ancestor)):
                break
            done.add(ancestor.id)
    edits = [edit for task in tasks if task.id in done and known[task.id] == 1 for edit in task.done_edits]
    return MarkedText(edited(text, edits), tuple(each for each in wanted if each not in found))


def edited(text: str, edits: Iterable[TextEdit]) -> str:
    """Return a text with edits applied that do not overlap; no other character changes."""
    body = text.removeprefix("\ufeff")
    # The byte order mark stays.
    pieces = [text[: len(text) - len(body)]]
    end = 0
    for edit in sorted(edits, key=lambda each: each.start):
        pieces += (body[end : edit.start], edit.text)
        end = edit.end
    return "".join((*pieces, body[end:]))


def in_written_order(tasks: Sequence[SourceTask], sections: Sequence[int]) -> OrderedTasks:
    """Return the tasks, each also waiting for those before it that are still open.

    Neighbours that are all parallel do not wait for each other, unless their numbers in `sections`, one for each task,
    differ. A task that depends on a later one takes its place after it. Tasks that are done, optional, or completed by
    their parts have no place in the order.
    """
    tree = TaskTree(tasks)
    section_of = dict(zip((task.id for task in tasks), sections, strict=True))
    groups: list[list[ActionKey]] = []
    group_of: tuple[bool, int] | None = None
    # Tasks that are done, optional, or done by their parts have no place in the order.
    first = [each for each in tasks if tree.by_id[each.id] is each]
    left = [each for each in first if not (tree.done(each) or tree.optional(each) or tree.required_parts(each))]
    for task in _by_dependencies(left, tree):
        # Parallel tasks of one section share a group; every other task has its own.
        if not (task.parallel and group_of == (True, section_of[task.id])):
            groups.append([])
        group_of = (task.parallel, section_of[task.id])
        groups[-1].append(task.id)
    waits: dict[ActionKey, Sequence[ActionKey]] = {key: before for before, group in pairwise(groups) for key in group}
    last = {section_of[group[0]]: group for group in groups}
    return OrderedTasks(
        tuple(
            replace(task, depends_on=tuple(dict.fromkeys((*task.depends_on, *waits.get(task.id, ())))))
            for task in tasks
        ),
        {section: group[0] for section, group in last.items() if len(group) == 1},
    )


def _by_dependencies(tasks: Sequence[SourceTask], tree: TaskTree) -> list[SourceTask]:
    """Return the tasks in the order given, but after those that they depend on; those on a cycle come last."""
    index = {task.id: place for place, task in enumerate(tasks)}
    missing: list[int] = []
    followers: list[list[int]] = [[] for _ in tasks]
    for place, task in enumerate(tasks):
        needed = {
            index[each.id]
            for key in tree.dependencies(task)
            if key in tree.by_id and not tree.done(tree.by_id[key])
            for each in tree.work(tree.by_id[key])
            if each.id in index
        }
        missing.append(len(needed))
        for other in needed:
            followers[other].append(place)
    # By place, so that the order given is changed only where dependencies say so.
    ready = [place for place, count in enumerate(missing) if count == 0]
    heapify(ready)
    ordered: list[int] = []
    while ready:
        ordered.append(heappop(ready))
        for place in followers[ordered[-1]]:
            missing[place] -= 1
            if missing[place] == 0:
                heappush(ready, place)
    placed = set(ordered)
    return [tasks[place] for place in (*ordered, *(place for place in index.values() if place not in placed))]
