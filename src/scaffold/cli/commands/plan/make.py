"""`plan "TASK"`: plan a task and print the plan; nothing is started or stored."""

import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import structs

from scaffold.cli.commands.budget_options import budget_usd_option
from scaffold.cli.commands.options import json_option, quiet_option
from scaffold.cli.execution.chosen_executors import with_ready_executors
from scaffold.cli.execution.flow import run_planning
from scaffold.cli.execution.trial import contract_comments
from scaffold.cli.global_options import add_global_options
from scaffold.cli.render.run_preview import RunPreview
from scaffold.cli.render.terminal.style import note_printer, print_findings
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.cli.request import STDIN, read_request
from scaffold.cli.specification import TaskSource, find_stories, find_tasks, free_text_note, read_task_source
from scaffold.cli.task_argument import check_task
from scaffold.cli.wiring import context_at
from scaffold.config.run.effective_settings import RunFlags, run_settings, setting_overrides
from scaffold.config.run.tier_choice import TierQuestion, settings_in_tier
from scaffold.core.errors import PlanInvalid, UsageError
from scaffold.core.plan import Plan
from scaffold.git.repository import open_repository
from scaffold.host.atomic_files import write_atomic
from scaffold.host.process.async_runner import run_async
from scaffold.orchestrator.planning.apply_plan import stored_plan
from scaffold.orchestrator.user_control.open_run import RunInput, start_run
from scaffold.plan.story.stories_goal import one_shot_plan
from scaffold.plan.text.file_format import plan_document, read_plan, write_plan
from scaffold.store.driver.sqlite import IN_MEMORY


@click.command(hidden=True)
@click.argument("task", required=False)
@click.option(
    "--spec", metavar="FILE", help="A file that describes the task, or a list of tasks; `-` is standard input."
)
@click.option("--prd", metavar="FILE", help="The stories of a PRD, JSON, each in steps.")
@click.option("--one-shot", is_flag=True, help="The request as one story, in steps.")
@click.option("-o", "--output", metavar="FILE", help="Write the plan to FILE; only an older plan is replaced.")
@click.option("--model", metavar="MODEL", help="A model string, e.g. `cassette:replies.yaml`.")
@budget_usd_option
@click.option("--trust-once", is_flag=True, help="Use this folder's own configuration this time.")
@json_option
@quiet_option
def make(
    task: str | None,
    spec: str | None,
    prd: str | None,
    output: str | None,
    *,
    one_shot: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Plan TASK and print the plan as YAML, or JSON with `--json`; `run --plan FILE --tier builder` executes it."""
    if task is not None:
        check_task(task, yes=False)
    place = None if output is None else Path(output)
    if place is not None:
        # Before planning, which costs money.
        _refuse_to_replace(place)
    if prd is not None and (task is not None or spec is not None):
        raise UsageError("a task cannot be combined with a PRD", "Pass only one of them.")
    if one_shot:
        if prd is not None:
            raise UsageError("--one-shot works one request as a story, not a PRD", "Pass only one of them.")
        tell = note_printer(quiet=options["quiet"])
        _write_output(one_shot_plan(read_request(task, spec, sys.stdin)), place, as_json=as_json, tell=tell)
        return 0
    given = prd or spec
    if task is None and given is not None and given != STDIN:
        tasks = read_task_source(find_stories if prd else find_tasks, given)
        if tasks is not None:
            return _write_tasks(tasks, place, as_json=as_json, tell=note_printer(quiet=options["quiet"]))
    request = read_request(task, spec, sys.stdin)
    if spec is not None and spec != STDIN:
        note_printer(quiet=options["quiet"])(free_text_note(spec))
    code, plan = run_async(_make_plan(request, RunFlags(**options)))
    if plan is not None:
        _write_output(plan, place, as_json=as_json, tell=note_printer(quiet=options["quiet"]))
    return code


add_global_options(make)  # not a command of the group: the group calls it for a task


def _write_tasks(tasks: TaskSource, place: Path | None, *, as_json: bool, tell: Callable[[str], None]) -> int:
    print_findings(tasks.document.warnings, tasks.path)
    for note in tasks.notes():
        tell(note)
    plan = tasks.plan()
    if plan.goals:
        _write_output(plan, place, as_json=as_json, tell=tell)
    else:
        print_text(f"{tasks.path}: nothing is left to do", err=True)
    return 0


async def _make_plan(request: str, flags: RunFlags) -> tuple[int, Plan | None]:
    # A tier without a planner cannot make a plan.
    question = TierQuestion(texts=[request], needs_planner=True)
    found = settings_in_tier(Path.cwd(), os.environ, setting_overrides(flags), question, trust_once=flags.trust_once)
    tell = note_printer(quiet=flags.quiet)
    for note in found.settings.notes:
        tell(note)
    repository = await open_repository(Path.cwd(), environ=os.environ)
    # Planning needs a stored run; in memory it leaves none behind.
    context = context_at(repository, IN_MEMORY, create=True)
    with closing(context.store):
        chosen = await run_settings(context, found.settings, flags, planner=True, notice=tell, choice=found.choice)
        chosen = await with_ready_executors(context, chosen, ())
        # The repository's code does not run here, and the policy decides about each command of the planner.
        chosen = structs.replace(chosen, sandbox=structs.replace(chosen.sandbox, unconfined=True))
        run = await start_run(context, RunInput(request=request, source=request), chosen)
        code = await run_planning(context, run.id, quiet=flags.quiet, err=True, capture_baseline=False)
        if code is not None:
            return code, None
        plan = stored_plan(context.store, run)
        if not flags.quiet:
            click.echo(RunPreview(run, plan).text(layout_for(sys.stderr)), err=True)
        return 0, plan


def _write_output(plan: Plan, place: Path | None, *, as_json: bool, tell: Callable[[str], None]) -> None:
    wants_json = as_json or (place is not None and place.suffix == ".json")
    # As the files of other tools: indented, with a newline at the end.
    text = (
        f"{msgspec.json.format(msgspec.json.encode(plan_document(plan))).decode()}\n"
        if wants_json
        else write_plan(plan)
    )
    if place is None:
        click.echo(text, nl=False)
        return
    comments = run_async(contract_comments(plan, tell))
    if wants_json:  # it has no comments
        tell("\n".join(comments))
    else:
        text = "".join(f"# {each}\n" for each in comments) + text
    try:
        write_atomic(place, text.encode())
    except OSError as error:
        what = f"{place} cannot be written: {(error.strerror or str(error)).lower()}"
        raise UsageError(what, "Pass another file with -o.") from error
    print_text(f"written to {place}; execute it with `scaffold run --plan {place} --tier builder`", err=True)


def _refuse_to_replace(place: Path) -> None:
    if not place.exists():
        return
    # An older plan is replaced; any other file may have been named by mistake.
    try:
        read_plan(place.read_text(encoding="utf-8"), name=str(place))
    except (OSError, UnicodeDecodeError, PlanInvalid) as error:
        raise UsageError(f"{place} exists and is not a plan", "Pass another file with -o, or move it away.") from error
