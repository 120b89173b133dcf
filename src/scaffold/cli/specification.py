"""Recognize lists of tasks, in a file or in the folder of their tool, and plan the open tasks."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from scaffold.cli.render.terminal.style import print_findings
from scaffold.cli.task_argument import TASKS_FILE
from scaffold.core.errors import PlanInvalid, UsageError
from scaffold.core.plan import Finding, Plan
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.proof.specification_audit import Requirement
from scaffold.host.contained_path import ContainedPath
from scaffold.orchestrator.planning.projects import task_list_plan
from scaffold.plan.compliance.requirements import requirements_of
from scaffold.plan.edit.proposal_limits import MAX_ASSERTIONS, problems_of
from scaffold.plan.source.dag import dag_goal
from scaffold.plan.source.formats import detect_format, read_tasks_of
from scaffold.plan.source.prompt_loop import PROMPT_FILE
from scaffold.plan.source.task import FORMAT_TITLES, TaskDocument, with_task_positions
from scaffold.plan.source.task_plan import PlannedTasks, planned_tasks
from scaffold.plan.story.stories_goal import stories_goal
from scaffold.plan.text.parse_tree import invalid_plan

REQUIREMENTS_FILES = ("requirements.md", "bugfix.md")
REFERENCE_FILES = ("spec.md", "plan.md", "requirements.md", "bugfix.md", "design.md", "data-model.md")
"""Files next to the list of tasks that agents read too, if they exist."""
MAX_BYTES = 16_000_000
MAX_SHOWN = 5
FREE_TEXT = "taken as a free-text specification"
MARKDOWN = ".md"
NO_TASKS = (
    "no list of tasks in a known format",
    "Give an id to each box, such as `- [ ] T001 ...` or `- [ ] 1.2 ...`.",
)
"""The error for a Markdown file without tasks, and its fix."""


class TaskSource(Struct, frozen=True, kw_only=True):
    """A list of tasks, with the tasks that are left to do."""

    path: str
    """Of the file with the tasks, as the user gave it or below the folder that was given."""
    text: str
    """All that the plan depends on."""
    document: TaskDocument
    tasks: PlannedTasks

    def plan(self) -> Plan:
        """Return the plan with one goal that the tasks left reach, stories in steps; no goal if none is left."""
        if not self.tasks.planned:
            return Plan(goals=())
        name = Path(self.path).resolve()
        if self.document.format == "prd":
            stories = stories_goal(name.stem, f"All stories of {name.name} are done.", self.document.tasks)
            return Plan(goals=(stories,))
        goal = name.parent.name if name.name == TASKS_FILE else name.stem
        return task_list_plan(goal, name.name, self.tasks.planned)

    def requirements(self) -> tuple[Requirement, ...]:
        """Return what audits check: the criteria, or else the titles, of tasks that are done or planned."""
        counted = {*self.tasks.done, *(task.key for task in self.tasks.planned)}
        return requirements_of([task for task in self.document.tasks if task.id in counted])

    def notes(self) -> Iterator[str]:
        """Yield the format of the file, how much is left to do, and what is left out."""
        left_out = self.tasks.left_out
        counts = [f"{count_of(len(self.tasks.planned), 'task')} to do", f"{len(self.tasks.done)} done"]
        if left_out:
            counts.append(f"{len(left_out)} left out")
        yield f"{self.path} was taken for {FORMAT_TITLES[self.document.format]}: {', '.join(counts)}"
        if left_out:
            yield f"left out: {join_limited([f'{key} {why}' for key, why in left_out.items()], MAX_SHOWN)}"


def find_tasks(given: str) -> TaskSource | None:
    """Return the tasks of a file, or of `tasks.md` in a folder; None if the file is not a list of tasks.

    Raises PlanInvalid with the positions of all problems in a list of tasks, UsageError for a folder without one.
    """
    path = tasks_file(given)
    text = _read_text(path)
    tasks = None if text is None else tasks_in(text, path)
    if tasks is None and path != given:
        raise UsageError(f"{path} is {NO_TASKS[0]}", NO_TASKS[1])
    return tasks


def find_stories(given: str) -> TaskSource:
    """Return the stories of a PRD; UsageError for another file. Raises as `find_tasks` does."""
    found = find_tasks(given)
    if found is None or found.document.format != "prd":
        taken = FORMAT_TITLES[found.document.format] if found else "no list of stories"
        raise UsageError(f"{given} is {taken}", 'Write {"userStories": [{"id": "US-001", "title": "..."}]}.')
    return found


def tasks_in(text: str, path: str) -> TaskSource | None:
    """Return the tasks in the text of the file `path`; None if it is not a list of tasks."""
    task_format = detect_format(text, name=path)
    if task_format is None:
        return None
    beside = Path(path).parent
    # Nobody has typed these names, so no link decides what is read.
    requirements = (ContainedPath(beside, each) for each in REQUIREMENTS_FILES) if task_format == "kiro" else ()
    criteria = next((read for each in requirements if each.is_file() and (read := _read_text(str(each)))), "")
    document = read_tasks_of(task_format, text, name=path, requirements=criteria)
    given = (beside / each for each in REFERENCE_FILES) if Path(path).name == TASKS_FILE else ()
    references = tuple(os.path.relpath(each) for each in given if each.is_file())
    tasks = planned_tasks(document, references=references)
    if findings := tuple(_over_limits(tasks)):
        raise invalid_plan(path, with_task_positions(findings, document.tasks))
    return TaskSource(path=path, text=text + criteria, document=document, tasks=tasks)


def _over_limits(tasks: PlannedTasks) -> Iterator[Finding]:
    # Reported with their positions before the run starts; planning would refuse the action without them.
    if len(tasks.planned) > MAX_ASSERTIONS:
        what = f"{len(tasks.planned):,} tasks are left to do, more than the {MAX_ASSERTIONS:,} of a run"
        yield Finding(code="bad-value", severity="error", message=what, fix="Split the list.")
    elif tasks.planned:
        for action in dag_goal("tasks", tasks.planned).actions:
            for problem in problems_of(action):
                yield Finding(
                    code="bad-value", severity="error", action=action.key, message=problem.what, fix=problem.fix
                )


def free_text_note(given: str) -> str:
    """Return a note that says how a specification without a list of tasks is used."""
    name = Path(given).name
    if name == PROMPT_FILE:
        return f"{given} is a prompt for rounds, as `run --spec` works it; here it was {FREE_TEXT}"
    return f"{given} was {FREE_TEXT}"


def tasks_file(given: str) -> str:
    """Return the path of the list of tasks in a folder, or the path given; raise UsageError for a folder without."""
    if not Path(given).is_dir():
        return given
    path = ContainedPath(Path(given), TASKS_FILE)
    if not path.is_file():
        what = f"{given} cannot be read: it is a folder without a {TASKS_FILE}"
        raise UsageError(what, "Pass a file, or the folder of a specification of spec-kit or Kiro.")
    return str(path)


def _read_text(path: str) -> str | None:
    # Positions and marks need the line endings, which `read_text` would change. None for a file that is not text.
    try:
        if not Path(path).is_file():
            return None
        content = Path(path).read_bytes()
    except (OSError, ValueError):
        return None
    if len(content) > MAX_BYTES:
        limit = f"{path} has {len(content):,} bytes, more than the {MAX_BYTES:,} of a specification"
        raise UsageError(limit, "Split it, or leave out what is done.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def read_task_source(find: Callable[[str], TaskSource | None], path: str) -> TaskSource | None:
    """Return what `find` finds at the path; PlanInvalid, after printing its findings, for an invalid list of tasks."""
    try:
        return find(path)
    except PlanInvalid as error:
        print_findings(error.findings, path)
        raise
