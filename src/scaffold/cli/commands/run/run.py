"""`run`: plan and execute a request, or execute a plan."""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, assert_never

import click
import msgspec
from msgspec.structs import replace

from scaffold.cli.commands.run.execution_options import flags_of, shared_options
from scaffold.cli.commands.run.work_input import GivenInput, read_input, require_requirements, tier_question
from scaffold.cli.execution.chosen_executors import with_ready_executors
from scaffold.cli.execution.flow import continue_run, ensure_planned, print_commands, print_preview, warn_interrupted
from scaffold.cli.execution.foreground import (
    STOPPED_WATCHING,
    handle_interrupts,
    print_end,
    print_result,
    restore_interrupts,
    watch_run,
)
from scaffold.cli.execution.unconfined import agreed_settings, agreed_to_resume
from scaffold.cli.exit_codes import INTERRUPTED, OK, WAITING
from scaffold.cli.render.terminal.style import is_terminal, note_printer, print_json
from scaffold.cli.render.terminal.text_layout import confirm, print_text
from scaffold.cli.wiring import open_context
from scaffold.config.permission_settings import detect_sandbox_level, sandbox_settings
from scaffold.config.run.effective_settings import (
    RunFlags,
    planned_tokens,
    resume_settings,
    run_limits,
    run_settings,
    setting_overrides,
)
from scaffold.config.run.tier_choice import SettingsInTier, TierQuestion, settings_in_tier
from scaffold.config.settings import load_settings
from scaffold.core.errors import PlanInvalid, UsageError
from scaffold.core.ids import ActionKey
from scaffold.core.model import Run
from scaffold.core.printable_text import join_limited
from scaffold.core.run_settings import RunSettings, WriteBack
from scaffold.git.refs import resolve
from scaffold.git.repository import checkout_status, open_repository, starting_point
from scaffold.host.process.async_runner import run_async
from scaffold.landing.taking.github_pull_request import GH_FIX
from scaffold.landing.taking.user_programs import require_program
from scaffold.orchestrator.owner.run_end import save_run
from scaffold.orchestrator.owner.run_files import marked_copy
from scaffold.orchestrator.planning.agent_advice import advice_for
from scaffold.orchestrator.user_control.open_run import (
    RunExecutedElsewhere,
    RunInput,
    RunOpened,
    RunTakenOver,
    reconfigure_run,
    start_run,
    start_run_once,
)
from scaffold.plan.source.formats import marked_tasks
from scaffold.plan.source.prompt_loop import single_action_plan
from scaffold.policy.command_sandbox import require_sandbox
from scaffold.run.context import RunContext
from scaffold.run.task_list import read_list
from scaffold.views.store_reader import is_interrupted

MAX_NAMES = 8


@click.command()
@click.argument("task", required=False)
@click.option(
    "--spec", metavar="FILE", help="A file that describes the task, or a list of tasks; `-` is standard input."
)
@click.option("--plan", "plan_path", metavar="FILE", help="Execute this plan, YAML or JSON, as it is.")
@click.option("--tasks", "tasks_path", metavar="FILE", help="Execute this list of tasks, in their order.")
@click.option("--prd", "prd_path", metavar="FILE", help="Work the stories of this PRD, JSON, each in steps.")
@click.option("--write-back", is_flag=True, help="Mark tasks as done in their list, each in the commit that lands it.")
@click.option("--one-shot", is_flag=True, help="Work the request as one story, in steps, without a planner.")
@click.option("--until-complied", is_flag=True, help="Audit each requirement of the specification; gaps become tasks.")
@click.option("--yes", is_flag=True, help="Start without asking; resume if the same input was interrupted.")
@click.option("--trust-once", is_flag=True, help="Use this folder's own configuration this time.")
@click.option("--dry-run", is_flag=True, help="Print what would run, as JSON, without a model and without changes.")
@shared_options
def run(task: str | None, spec: str | None, tasks_path: str | None, prd_path: str | None, **options: Any) -> int:
    """Plan TASK and execute it: agents work in parallel, each result is checked, and what passes lands.

    Pass a long task with `--spec` or on standard input. With `--plan`, or `--tasks` and a list of objects with a
    `description` and what each `depends_on` (indexes from 0, or keys), nothing is planned; nor if `--spec` or
    `--tasks` is a list of task-master, spec-kit, Kiro or beads, or the folder of one. Add `--tier` to let agents
    decompose compounds and replan dead ends. Work lands on `session-<run>`; without `--greenfield` or `--pr` your
    checkout is not touched, and nothing is pushed.
    """
    flags = flags_of(options)
    replans = may_replan(flags)
    asked = GivenInput(task=task, spec=spec, tasks=tasks_path, prd=prd_path)
    given = read_input(asked, flags, replans=replans)
    if given is None:
        if options["as_json"]:
            print_json({"type": "result", "run": None})
        return OK
    work, flags = given
    require_list(work, write_back=flags.write_back)
    question = tier_question(work, flags, has_plan=options["plan_path"] is not None)
    return run_async(_open_and_execute(flags, work, question, replans=replans))


def may_replan(flags: RunFlags) -> bool:
    """Return whether agents may add to a given plan: if a tier with a planner is asked for."""
    if flags.tier is None:
        return False
    overrides = setting_overrides(flags)
    return load_settings(Path.cwd(), os.environ, overrides, trust_once=flags.trust_once).tier().decompose


async def _open_and_execute(flags: RunFlags, work: RunInput, question: TierQuestion, *, replans: bool) -> int:
    overrides = setting_overrides(flags)
    found = settings_in_tier(Path.cwd(), os.environ, overrides, question, trust_once=flags.trust_once)
    tell = note_printer(quiet=flags.quiet)
    for note in found.settings.notes:
        tell(note)
    # Otherwise the preview says it, and the run's first events.
    if found.notice and (flags.dry_run or flags.detach):
        tell(found.notice)
    planned = flags.plan_path is not None or bool(work.plan.goals)
    quick = not planned and not found.settings.tier().decompose
    if quick:
        require_requirements(work, flags)
        work = msgspec.structs.replace(work, plan=single_action_plan(work.request))
    if flags.dry_run:
        return await _dry_run(found, flags, work, quick=quick)
    context = await open_context(create=True)
    with closing(context.store):
        planner = replans if planned else not quick
        return await _plan_and_execute(context, found, flags, work, planner=planner)


async def _plan_and_execute(
    context: RunContext, found: SettingsInTier, flags: RunFlags, work: RunInput, *, planner: bool
) -> int:
    if flags.pr:
        require_program(context, "gh", GH_FIX)  # before anything is spent
    tell = note_printer(quiet=flags.quiet)
    chosen = await run_settings(context, found.settings, flags, planner=planner, notice=tell, choice=found.choice)
    if flags.write_back:
        chosen = await with_write_back(context, chosen, work, tell)
    base = (await starting_point(context.repository)).head
    contracts = [action.contract for action in work.plan.actions if action.contract]
    chosen = await agreed_settings(context, chosen, base, contracts, once=flags.trust_once)
    chosen = await with_ready_executors(context, chosen, (action.executor for action in work.plan.actions))
    if flags.yes:
        return await _start_once(context, work, chosen, flags)
    if not flags.quiet:
        warn_interrupted(context)
    return await start(context, await start_run(context, work, chosen), flags)


async def _start_once(context: RunContext, work: RunInput, chosen: RunSettings, flags: RunFlags) -> int:
    while True:
        match await start_run_once(context, work, chosen):
            case RunOpened(run=run):
                if not flags.quiet:
                    warn_interrupted(context)
                return await start(context, run, flags)
            case RunTakenOver(run=run):
                print_text(f"continuing run {run.id}, which was interrupted", err=True)
                settings = resume_settings(context, run, flags)
                settings = await agreed_to_resume(context, run, settings, once=flags.trust_once)
                if flags.write_back:
                    landing = msgspec.structs.replace(settings.landing, write_back=chosen.landing.write_back)
                    settings = msgspec.structs.replace(settings, landing=landing)
                reconfigure_run(context, run, settings)
                return await continue_run(context, run.id, flags)
            case RunExecutedElsewhere(run=run):
                # If its owner dies, the next round takes the run over.
                code = await _follow_run(context, run, flags)
                if code is not None:
                    return code
            case never:
                assert_never(never)


async def _follow_run(context: RunContext, run: Run, flags: RunFlags) -> int | None:
    print_text(f"run {run.id} of the same input is being executed already; this command follows it", err=True)
    if flags.detach:
        print_commands(run.id, err=True)
        await print_result(context, run.id, as_json=flags.as_json)
        return OK
    interrupted = asyncio.Event()
    handle_interrupts(interrupted.set)
    try:
        ended = await watch_run(context, run, as_json=flags.as_json, quiet=flags.quiet, is_enough=interrupted.is_set)
    finally:
        restore_interrupts()
    if interrupted.is_set():
        print_text(STOPPED_WATCHING, err=True)
        return INTERRUPTED
    return None if is_interrupted(ended) else await print_end(context, ended, as_json=flags.as_json)


async def start(context: RunContext, run: Run, flags: RunFlags) -> int:
    """Plan a run if needed, show it, and execute it if the user agrees, otherwise save it; return the exit code."""
    if (copy := marked_copy(context, run)) and not flags.quiet:
        print_text(f"tasks that are done are marked in {copy.name}", err=True)
    # No question is asked, so the background process can plan, too.
    if flags.yes and flags.detach:
        return await continue_run(context, run.id, flags)
    code = await ensure_planned(context, run.id, as_json=flags.as_json, quiet=flags.quiet)
    if code is not None:
        return code
    # A user who is asked to start the plan sees it.
    if not (flags.quiet and flags.yes):
        await print_preview(context, run.id)
    if not flags.yes and not (is_terminal(sys.stdin) and confirm("Start?")):
        save_run(context, run.id)
        print_text(f"saved as run {run.id}; start it with `scaffold resume {run.id}`", err=True)
        await print_result(context, run.id, as_json=flags.as_json)
        return WAITING
    return await continue_run(context, run.id, flags)


async def _dry_run(found: SettingsInTier, flags: RunFlags, work: RunInput, *, quick: bool) -> int:
    repository = await open_repository(Path.cwd(), environ=os.environ)
    where = await checkout_status(repository)
    require_sandbox(sandbox_settings(found.settings), await detect_sandbox_level())
    tier, fixed = found.settings.tier(), found.settings.values["agents"].value is not None
    advice = None if quick else advice_for(work.plan, tier.agents, run_limits(found.settings), fixed=fixed)
    run = {
        "tier": tier.name,
        "tier_confidence": found.choice.confidence,
        "tier_words": found.choice.found_words,
        "base_branch": where.branch,
        "base_sha": where.head,
        "agents": advice.agents if advice else tier.agents,
        "agents_reason": advice.why if advice else None,
        "budget": found.settings.money("budget_usd"),
        "budget_tokens": planned_tokens(found.settings, flags, work.plan),
    }
    print_json({"run": run})
    return 0


def require_list(work: RunInput, *, write_back: bool) -> None:
    """Raise UsageError if tasks are to be marked as done, and the input is not a list that has marks."""
    if write_back and work.task_format is None:
        raise UsageError(
            "--write-back needs a list of tasks in which something can be marked as done",
            "Pass a list of task-master, spec-kit, Kiro or beads, or a PRD; or leave it out.",
        )


async def with_write_back(
    context: RunContext, settings: RunSettings, work: RunInput, tell: Callable[[str], None]
) -> RunSettings:
    """Return the settings with the file in which tasks are marked, about which `tell` receives a note."""
    if work.task_format is None:
        return settings
    path = Path(settings.planning.plan_path)
    try:
        str(path).encode()  # the store keeps text
    except UnicodeEncodeError as error:
        raise UsageError(
            "the name of the list of tasks is not UTF-8", "Rename it, or leave out --write-back."
        ) from error
    # The name of a link counts, not where it leads: git tracks the link. Empty if the file is outside.
    place, top = path.parent.resolve() / path.name, context.repository.root.resolve()
    tracked_path = place.relative_to(top).as_posix() if place.is_relative_to(top) else ""
    tracked = WriteBack(path=tracked_path, format=work.task_format, tracked=True)
    head = await resolve(context.git, "HEAD") if tracked_path else None
    version = await read_list(context.git, tracked, head) if head is not None else None
    known = None if version is None else await asyncio.to_thread(_committed_tasks, tracked, version.text)
    if known is None:
        tell(f"{work.request} is not a list of tasks in the checked out commit: it stays as it is and a copy is marked")
        listed = replace(tracked, path=str(path), tracked=False)
    else:
        tell(f"tasks that land are marked as done in {work.request}, each in the commit that lands it")
        listed = tracked
        if missing := [each for each in work.listed if each not in known]:
            names = join_limited(missing, MAX_NAMES)
            tell(f"not in the list as it was committed, so that no mark follows: {names}")
    return replace(settings, landing=replace(settings.landing, write_back=listed))


def _committed_tasks(listed: WriteBack, committed: str) -> frozenset[ActionKey] | None:
    try:
        return frozenset(task.id for task in marked_tasks(listed.format, committed, name=listed.path))
    except PlanInvalid:
        return None  # the user may have repaired the list since
