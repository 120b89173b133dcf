"""Read the input of a run: a task, a specification, a plan, or a list of tasks."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from scaffold.cli.commands.plan.source import declared_but_ignored, unknown_executors
from scaffold.cli.entry import VISIBLE
from scaffold.cli.render.terminal.style import note_printer, print_findings
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.request import STDIN, read_request
from scaffold.cli.specification import TaskSource, find_stories, find_tasks, free_text_note, read_task_source
from scaffold.cli.task_argument import check_task, reject_command
from scaffold.config.run.effective_settings import RunFlags
from scaffold.config.run.tier_choice import TierQuestion
from scaffold.core.errors import PlanInvalid, UsageError
from scaffold.core.plan import Plan, headline
from scaffold.core.printable_text import count_of
from scaffold.core.proof.specification_audit import Requirement
from scaffold.orchestrator.planning.projects import task_list_plan
from scaffold.orchestrator.user_control.open_run import RunInput, reject_childless_compounds
from scaffold.plan.analysis.lint import lint
from scaffold.plan.compliance.requirements import MAX_REQUIREMENTS, requirements_in
from scaffold.plan.compliance.rounds import MAX_ROUNDS, audit_goal, is_reserved
from scaffold.plan.edit.proposed_actions import read_tasks
from scaffold.plan.source.prompt_loop import PROMPT_FILE, read_prompt_loop, round_goal
from scaffold.plan.story.stories_goal import one_shot_plan
from scaffold.plan.text.file_format import read_plan

TASKS_HINT = 'Write a list such as [{"description": "..."}, {"description": "...", "depends_on": [0]}].'


class GivenInput(Struct, frozen=True, kw_only=True):
    """The input from the command line, besides a plan."""

    task: str | None = None
    spec: str | None = None
    tasks: str | None = None
    prd: str | None = None


def read_input(asked: GivenInput, flags: RunFlags, *, replans: bool) -> tuple[RunInput, RunFlags] | None:
    """Return the input, and the flags with the path of the plan or list of tasks; None if nothing is left to do.

    `replans`: whether agents may add to a given plan.
    Raises UsageError for input that cannot be combined or read, PlanInvalid after printing the findings.
    """
    files = [path for path in (flags.plan_path, asked.tasks, asked.prd) if path is not None]
    if flags.one_shot and (files or flags.until_complied):
        raise UsageError(
            "--one-shot works one request as a story: it cannot be combined with a plan, tasks, a PRD or audits",
            "Pass a task or a specification with it, and nothing else.",
        )
    if flags.until_complied and (flags.plan_path is not None or asked.tasks is not None):
        raise UsageError(
            "--until-complied needs a specification, which a plan or a list of tasks is not",
            "Pass it with `--spec FILE` or `--prd FILE`.",
        )
    if len(files) > 1:
        raise UsageError("a plan, a list of tasks and a PRD cannot be combined", "Pass only one of them.")
    if not files:
        return _from_request(asked, flags, replans=replans)
    if asked.task is not None or asked.spec is not None:
        raise UsageError("a task cannot be combined with a plan, tasks or a PRD", "Pass only one of them.")
    (given,) = files
    if flags.plan_path is not None:
        text, plan = _read_valid_plan(given, planner=replans)
    elif (source := read_task_source(find_stories if asked.prd else find_tasks, given)) is not None:
        return _from_tasks(source, flags)
    else:
        text, plan = _read_task_list(given)
    return RunInput(request=_short_path(given), source=text, plan=plan), _with_path(flags, given)


def tier_question(work: RunInput, flags: RunFlags, *, has_plan: bool) -> TierQuestion:
    """Return the question that chooses a tier; `has_plan`: whether the user wrote a plan."""
    titles = [headline(action) for action in work.plan.actions if action.parent is None]
    return TierQuestion(
        # The path of a list of tasks says nothing about the effort; the titles do.
        texts=[work.request] if flags.plan_path is None else titles,
        has_plan=has_plan,
        needs_planner=flags.until_complied and not work.requirements,
    )


def require_requirements(work: RunInput, flags: RunFlags) -> None:
    """Raise UsageError if audits are asked for and there is neither a requirement nor a planner to list them."""
    if flags.until_complied and not work.requirements:
        what = "the specification has nothing in the form of a requirement, and no planner could list them in this tier"
        raise UsageError(what, 'Write requirements as a numbered list or with "shall", or choose another `--tier`.')


def _from_request(asked: GivenInput, flags: RunFlags, *, replans: bool) -> tuple[RunInput, RunFlags] | None:
    task, spec, tell = asked.task, asked.spec, note_printer(quiet=flags.quiet)
    if task is not None:
        reject_command(task, "scaffold", VISIBLE)
        check_task(task, yes=flags.yes or flags.dry_run)
    elif spec is not None and spec != STDIN and not flags.one_shot:
        if (source := read_task_source(find_tasks, spec)) is not None:
            return _from_tasks(source, flags)
        if Path(spec).name == PROMPT_FILE and not flags.until_complied:
            return _in_rounds(spec, flags, replans=replans)
        tell(free_text_note(spec))
    request = read_request(task, spec, sys.stdin)
    if flags.one_shot:
        return RunInput(request=request, source=f"one-shot\0{request}", plan=one_shot_plan(request)), flags
    return _until_complied(RunInput(request=request, source=request), requirements_in(request), flags), flags


def _in_rounds(path: str, flags: RunFlags, *, replans: bool) -> tuple[RunInput, RunFlags]:
    try:
        loop = read_prompt_loop(read_request(None, path, sys.stdin), name=path)
    except PlanInvalid as error:
        print_findings(error.findings, path)
        raise
    if replans:
        raise UsageError(
            "rounds of a prompt have no planner, which this tier asks for", "Leave out --tier, or pass `--tier quick`."
        )
    tell = note_printer(quiet=flags.quiet)
    tell(f"{path} was taken for a prompt for at most {loop.max_rounds} rounds; one that changes nothing is the last")
    work = RunInput(request=loop.prompt, source=f"rounds\0{loop.prompt}", plan=Plan(goals=(round_goal(loop, 1),)))
    return work, msgspec.structs.replace(flags, rounds=loop.max_rounds)


def _until_complied(work: RunInput, requirements: Sequence[Requirement], flags: RunFlags) -> RunInput:
    # With other audits it is another input, so `--yes` starts another run.
    if not flags.until_complied:
        return work
    if len(requirements) > MAX_REQUIREMENTS:
        what = f"{len(requirements):,} requirements are more than the {MAX_REQUIREMENTS} that a run audits"
        raise UsageError(what, "Split the specification.")
    given = [action for action in work.plan.actions if action.method != "audit"]
    if taken := [action.key for action in given if is_reserved(action.key)]:
        raise UsageError(f"the name `{taken[0]}` is kept for audits and their tasks", "Give it another name.")
    tell = note_printer(quiet=flags.quiet)
    listed = "requirements: the planner lists them" if not requirements else count_of(len(requirements), "requirement")
    tell(f"{listed}; each is audited after the work, and gaps become tasks, for up to {MAX_ROUNDS} rounds")
    source = f"until-complied\0{work.source}"
    return msgspec.structs.replace(work, source=source, requirements=tuple(requirements))


def _from_tasks(source: TaskSource, flags: RunFlags) -> tuple[RunInput, RunFlags] | None:
    print_findings(source.document.warnings, source.path)
    tell = note_printer(quiet=flags.quiet)
    for note in source.notes():
        tell(note)
    plan, requirements = source.plan(), source.requirements()
    if not plan.goals and flags.until_complied and requirements:
        # All tasks are marked as done; the first audit finds out whether they are.
        plan = Plan(goals=(audit_goal(1, requirements),))
    elif not plan.goals:
        print_text(f"{source.path}: nothing is left to do", err=True)
        return None
    work = RunInput(
        request=_short_path(source.path),
        source=source.text,
        plan=plan,
        task_format=source.document.format,
        listed=tuple(each.key for each in source.tasks.planned if each.key),
    )
    return _until_complied(work, requirements, flags), _with_path(flags, source.path)


def _with_path(flags: RunFlags, path: str) -> RunFlags:
    # Absolute, because it is stored with the run, which may be resumed elsewhere.
    return msgspec.structs.replace(flags, plan_path=str(Path(path).absolute()))


def _short_path(path: str) -> str:
    # As a user would type it here.
    return os.path.relpath(path) if Path(path).absolute().is_relative_to(Path.cwd()) else path


def _read_valid_plan(path: str, *, planner: bool) -> tuple[str, Plan]:
    text = _read_text(path)
    try:
        plan, warnings = read_plan(text, name=path)
    except PlanInvalid as error:
        print_findings(error.findings, path)
        raise
    unknown = tuple(unknown_executors(plan))
    report = lint(plan).after((*warnings, *declared_but_ignored(plan), *unknown))
    print_findings(report.findings, path)
    if not report.valid:
        hidden = f"{path} names an unknown executor" if unknown else f"{path} declares files that git ignores"
        what = hidden if lint(plan).valid else f"{path} cannot reach its goals"
        raise PlanInvalid(what, "Fix the plan, then try again.", report.findings)
    if not planner:
        reject_childless_compounds(plan)
    return text, plan


def _read_task_list(path: str) -> tuple[str, Plan]:
    text = _read_text(path)
    try:
        tasks = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise PlanInvalid(f"{path} is neither a list of tasks of a known tool nor JSON: {error}", TASKS_HINT) from error
    except RecursionError as error:
        raise PlanInvalid(f"{path} is nested too deeply", TASKS_HINT) from error
    if not tasks:
        raise PlanInvalid(f"{path} has no tasks", TASKS_HINT)
    return text, task_list_plan(Path(path).stem, Path(path).name, read_tasks(tasks))


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}", "Pass the path of a file that exists.") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UsageError(f"{path} cannot be read: {reason}", "Pass a text file.") from error
