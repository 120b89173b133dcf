"""Order of tasks that are worked on one after another, as their list says, some of them beside each other."""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from scaffold.core.ids import ActionKey
from scaffold.plan.source.task import SourceTask, TaskTree


class OrderedTasks(Struct, frozen=True):
    """Tasks that wait for those before them."""

    tasks: tuple[SourceTask, ...]
    """As given, with their dependencies."""
    last: Mapping[int, ActionKey]
    """By section, the task that all other tasks of the section come before; none if several could be the last."""


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
    # What is done, optional, or done by its parts has no place in the order.
    first = [each for each in tasks if tree.by_id[each.id] is each]
    left = [each for each in first if not (tree.done(each) or tree.optional(each) or tree.required_parts(each))]
    for task in _by_dependencies(left, tree):
        # Parallel tasks of one section share a group; whoever is not parallel is alone in its own.
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
