"""What a run is asked to do: a task, a specification, a plan, or a list of tasks."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from scaffold.cli.lazy_commands import VISIBLE
from scaffold.cli.render.layout import print_text
from scaffold.cli.render.style import note_printer, print_findings
from scaffold.cli.request import STDIN, read_request
from scaffold.cli.specification import TaskSource, find_stories, find_tasks, free_text_note
from scaffold.cli.task_argument import check_task, reject_command
from scaffold.config.run_settings import RunFlags
from scaffold.core.errors import PlanInvalid, UsageError
from scaffold.core.plan import Plan
from scaffold.orchestrator.owner.open_run import RunInput, reject_childless_compounds
from scaffold.orchestrator.planning.projects import project_goal
from scaffold.plan.analysis.lint import lint
from scaffold.plan.edit.proposed_actions import read_tasks
from scaffold.plan.story.one_shot import one_shot_plan
from scaffold.plan.text.file_format import read_plan

TASKS_HINT = 'Write a list such as [{"description": "..."}, {"description": "...", "depends_on": [0]}].'
QUICK_TIER = "quick"
"""The tier that runs without a planner."""


class GivenInput(Struct, frozen=True, kw_only=True):
    """What the user passed besides a plan."""

    task: str | None = None
    spec: str | None = None
    tasks: str | None = None
    prd: str | None = None


def read_input(asked: GivenInput, flags: RunFlags) -> tuple[RunInput, RunFlags] | None:
    """Return what to do, and the flags with the path of the plan or list of tasks; None if nothing is left to do.

    Raises UsageError for input that cannot be combined or read, PlanInvalid after printing the findings.
    """
    files = [path for path in (flags.plan_path, asked.tasks, asked.prd) if path is not None]
    if flags.one_shot and files:
        raise UsageError(
            "--one-shot works one request as a story: it cannot be combined with a plan, tasks or a PRD",
            "Pass a task or a specification with it, and nothing else.",
        )
    if not files:
        return _from_request(asked, flags)
    if asked.task is not None or asked.spec is not None:
        raise UsageError("a task cannot be combined with a plan, tasks or a PRD", "Pass only one of them.")
    (given,) = files
    if flags.plan_path is not None:
        text, plan = _read_valid_plan(given, planner=may_replan(flags))
    elif (source := _found_in(given, find_stories if asked.prd else find_tasks)) is not None:
        return _from_tasks(source, flags)
    else:
        text, plan = _read_task_list(given)
    return RunInput(request=_short_path(given), source=text, plan=plan), _with_path(flags, given)


def may_replan(flags: RunFlags) -> bool:
    """Return whether agents may add to a given plan."""
    return flags.tier not in {None, QUICK_TIER}


def tell_findings(error: PlanInvalid, path: str) -> PlanInvalid:
    """Print the findings of a file, and return the error."""
    print_findings(error.findings, path)
    return error


def _from_request(asked: GivenInput, flags: RunFlags) -> tuple[RunInput, RunFlags] | None:
    task, spec, tell = asked.task, asked.spec, note_printer(quiet=flags.quiet)
    if task is not None:
        reject_command(task, "scaffold", VISIBLE)
        check_task(task, yes=flags.yes or flags.dry_run)
    elif spec is not None and spec != STDIN and not flags.one_shot:
        if (source := _found_in(spec, find_tasks)) is not None:
            return _from_tasks(source, flags)
        tell(free_text_note(spec))
    request = read_request(task, spec, sys.stdin)
    if flags.one_shot:
        return RunInput(request=request, source=f"one-shot\0{request}", plan=one_shot_plan(request)), flags
    return RunInput(request=request, source=request), flags


def _found_in(path: str, find: Callable[[str], TaskSource | None]) -> TaskSource | None:
    try:
        return find(path)
    except PlanInvalid as error:
        raise tell_findings(error, path) from error


def _from_tasks(source: TaskSource, flags: RunFlags) -> tuple[RunInput, RunFlags] | None:
    print_findings(source.document.warnings, source.path)
    tell = note_printer(quiet=flags.quiet)
    for note in source.notes():
        tell(note)
    plan = source.plan()
    if not plan.goals:
        print_text(f"{source.path}: nothing is left to do", err=True)
        return None
    work = RunInput(
        request=_short_path(source.path),
        source=source.text,
        plan=plan,
        task_format=source.document.format,
        listed=tuple(each.key for each in source.tasks.planned if each.key),
    )
    return work, _with_path(flags, source.path)


def _with_path(flags: RunFlags, path: str) -> RunFlags:
    """Return the flags with the absolute path of what is executed, which is stored with the run."""
    return msgspec.structs.replace(flags, plan_path=str(Path(path).absolute()))


def _short_path(path: str) -> str:
    """Return an absolute path as a user would type it here: relative if it is below the current folder."""
    return os.path.relpath(path) if Path(path).absolute().is_relative_to(Path.cwd()) else path


def _read_valid_plan(path: str, *, planner: bool) -> tuple[str, Plan]:
    """Return the text of the plan and the plan; print findings, and raise PlanInvalid if it cannot reach its goals."""
    text = _read_text(path)
    try:
        plan, warnings = read_plan(text, name=path)
    except PlanInvalid as error:
        raise tell_findings(error, path) from error
    report = lint(plan).after(warnings)
    print_findings(report.findings, path)
    if not report.valid:
        raise PlanInvalid(f"{path} cannot reach its goals", "Fix the plan, then try again.", report.findings)
    if not planner:
        reject_childless_compounds(plan)
    return text, plan


def _read_task_list(path: str) -> tuple[str, Plan]:
    """Return the text of a list of tasks, and the plan with one goal, named after the file, that they all reach.

    Raises PlanInvalid, which names wrong tasks by their index from 0.
    """
    text = _read_text(path)
    try:
        tasks = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise PlanInvalid(f"{path} is neither a list of tasks of a known tool nor JSON: {error}", TASKS_HINT) from error
    except RecursionError as error:
        raise PlanInvalid(f"{path} is nested too deeply", TASKS_HINT) from error
    if not tasks:
        raise PlanInvalid(f"{path} has no tasks", TASKS_HINT)
    stem = Path(path).stem
    return text, Plan(goals=(project_goal(stem, f"All tasks of {Path(path).name} are done.", read_tasks(tasks)),))


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}", "Pass the path of a file that exists.") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UsageError(f"{path} cannot be read: {reason}", "Pass a text file.") from error
