"""`ralph`: one agent, one task, in one directory."""

import asyncio
import math
import os
import select
import signal
import sys
from pathlib import Path
from typing import Protocol

import click
from msgspec import Struct

from scaffold.agent.context.recap import recap
from scaffold.agent.model_access import open_user_store
from scaffold.agent.modes import MODES, parse_mode
from scaffold.agent.slash import parse_slash
from scaffold.agent.subagents.pool import SubagentLimits
from scaffold.cli.commands.ralph.oneshot import OneshotTask, run_oneshot
from scaffold.cli.commands.ralph.oneshot_slash import SlashContext, run_oneshot_slash
from scaffold.cli.exit_codes import INTERRUPTED, OK
from scaffold.cli.lazy_commands import REPL_MAIN
from scaffold.cli.render.reporters import OutputFormat, reporter_for
from scaffold.cli.render.style import is_terminal
from scaffold.config.permission_rules import permission_rules
from scaffold.config.sandbox import sandbox_settings
from scaffold.config.settings import Settings, load_settings
from scaffold.core.errors import UsageError
from scaffold.core.model import Usage
from scaffold.core.printable_text import printable, utf8_safe
from scaffold.host.identity import own_identity
from scaffold.host.lazy_import import lazy_import
from scaffold.host.process.async_runner import run_async
from scaffold.host.process.gc_tuning import relax_gc
from scaffold.llm.registry.model_name import absolute_model
from scaffold.policy.sandbox_setup import SANDBOX_MODES
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.conversation import open_conversation
from scaffold.session.options import SessionOptions
from scaffold.session.redacted_output import RedactingReporter
from scaffold.session.reporter import Reporter
from scaffold.session.result import result_json
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore

LATEST = ""
"""Stands for the conversation that was gone on with last in this directory."""

UNAVAILABLE_COMMANDS = frozenset({"login", "logout"})
"""Commands to come: no model is to take them for a task."""

STDIN_WAIT_S = 3.0
"""How long a pipe that says nothing is listened to when there is a task already."""


class RalphFlags(Struct, frozen=True, kw_only=True):
    """The command line, as click understood it."""

    task: str | None
    printed: bool
    go_on: bool
    resume: str | None
    model: str | None
    mode: str | None
    cwd: Path
    output_format: OutputFormat
    no_stream: bool
    max_turns: int
    max_budget_usd: float | None
    yolo: bool
    allow: tuple[str, ...]
    allow_category: tuple[str, ...]
    system_prompt_file: Path | None
    trust_once: bool
    sandbox: str | None


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ralph-scaffold", prog_name="ralph")
@click.argument("task", required=False)
@click.option("-p", "--print", "printed", is_flag=True, help="One shot: the task comes as argument, or on stdin.")
@click.option("-c", "--continue", "go_on", is_flag=True, help="Go on with this directory's latest conversation.")
@click.option("--resume", is_flag=False, flag_value=LATEST, metavar="[ID]", help="Go on with a conversation.")
@click.option("--model", metavar="MODEL", help="A model string, e.g. `anthropic:NAME`, or small, medium, large.")
@click.option("--mode", type=click.Choice(MODES), help="Begin in this mode; plan, explore and review change nothing.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path(), help="Work here.")
@click.option("--output-format", type=click.Choice(["text", "json", "stream-json"]), default="text", show_default=True)
@click.option("--no-stream", is_flag=True, help="Ask for each reply in one piece.")
@click.option("--max-turns", type=click.IntRange(min=1), default=100, show_default=True, help="Requests at the most.")
@click.option("--max-budget-usd", type=click.FloatRange(min=0.0), metavar="X", help="Start no request beyond this.")
@click.option("--yolo", is_flag=True, help="Nothing needs your consent; protected files stay protected.")
@click.option("--allow", multiple=True, metavar="TOOL:PATTERN", help="Needs no consent, e.g. `shell:pytest *`.")
@click.option("--allow-category", multiple=True, metavar="CAT", help="No tool of this category needs consent.")
@click.option("--sandbox", type=click.Choice(SANDBOX_MODES), help="What holds the commands of agents.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
@click.option(
    "--system-prompt-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Use these words instead of the built-in base prompt.",
)
@click.option("--trust-once", is_flag=True, help="Let this folder's own configuration count, this time.")
def ralph(**given: object) -> int:
    """Let one agent do TASK in the current directory.

    Reading is free; what would need your consent is denied unless a rule allows it, and the agent is told so. Write
    @FILE in the task to attach a file or a picture. AGENTS.md is read where there is one.

    `ralph permissions check -- COMMAND` says beforehand what would be allowed, and why.
    """
    relax_gc()
    flags = RalphFlags(**given)  # type: ignore[arg-type] # click has checked each of them
    given_settings = {"model": flags.model, "sandbox.mode": flags.sandbox}
    chosen = load_settings(flags.cwd, os.environ, given_settings, trust_once=flags.trust_once)
    for note in chosen.notes:
        click.echo(printable(f"note: {note}"), err=True)
    try:
        return run_async(_work(flags, chosen, _read_stdin(flags)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        click.echo("interrupted: nothing that was said is lost; go on with `ralph -c`", err=True)
        return INTERRUPTED


def _read_stdin(flags: RalphFlags) -> str:
    """Return what standard input holds; a pipe that stays silent is given up if there is a task already."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    if flags.task and not select.select([sys.stdin], [], [], STDIN_WAIT_S)[0]:
        click.echo("note: standard input says nothing and is not waited for", err=True)
        return ""
    return sys.stdin.buffer.read().decode(errors="replace")


async def _work(flags: RalphFlags, settings: Settings, piped: str) -> int:
    """Have one turn, carry a slash command out, or talk with whoever sits at the terminal."""
    task = flags.task or ""
    talking = not (task + piped).strip() and not flags.printed and is_terminal(sys.stdin, sys.stdout)
    if not talking:
        _require_task(flags, task, piped)
    if flags.max_budget_usd is not None and not math.isfinite(flags.max_budget_usd):
        raise UsageError("--max-budget-usd takes an amount in dollars", "Write it like `--max-budget-usd 0.50`.")
    _cancel_on_terminate()
    store = open_user_store()
    try:
        stored = _stored(flags, store)
        command = parse_slash(task)
        if command is not None:
            model = settings.model() or "none" if stored is None else stored.model
            said = run_oneshot_slash(command, SlashContext(_session_options(flags, settings), store, stored, model))
            ending = result_json(
                session=stored.id if stored else "", model=model, result=said, usage=Usage(), stop="end"
            )
            _reporter(flags).result(ending)
            return OK
        model = _model(settings, stored)
        if talking:
            talk: ReplMain = lazy_import(REPL_MAIN)
            return await talk(_session_options(flags, settings), store, stored, model)
        return await _one_shot(OneshotTask(task, piped), flags, settings, stored, model, store)
    finally:
        store.close()


def _require_task(flags: RalphFlags, task: str, piped: str) -> None:
    if not (task + piped).strip():
        hint = "Pass it as an argument, or on standard input with -p." if flags.printed else 'Try `ralph "TASK"`.'
        raise UsageError("there is no task", hint)
    if task in UNAVAILABLE_COMMANDS:
        hint = "Set ANTHROPIC_API_KEY or OPENAI_API_KEY instead; or say it in more words if it is a task."
        raise UsageError(f"`ralph {task}` does not exist yet", hint)


def _cancel_on_terminate() -> None:
    """Let a request to end count as an interrupt, which asyncio sees to; what a parent has ignored stays ignored."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if task is not None and signal.getsignal(number) == signal.SIG_DFL:
            loop.add_signal_handler(number, task.cancel)


async def _one_shot(
    task: OneshotTask,
    flags: RalphFlags,
    settings: Settings,
    stored: StoredConversation | None,
    model: str,
    store: UserStore,
) -> int:
    """Begin a conversation, or take one up where it stands, and have one turn of it."""
    order, told = _session_options(flags, settings), _reporter(flags)
    cwd, title = str(order.cwd), task.words or task.piped
    with open_conversation(store, stored, cwd=cwd, model=model, title=title, me=own_identity()) as seat:
        told.session(session_id=seat.id, model=model, cwd=utf8_safe(cwd))
        if stored is not None:
            told.note("notice", text=recap(seat.conversation, stored.usage, model=stored.model))
        return await run_oneshot(task, order, seat, told)


def _reporter(flags: RalphFlags) -> Reporter:
    return RedactingReporter(reporter_for(flags.output_format), redactor_for(os.environ, flags.cwd.resolve()))


def _session_options(flags: RalphFlags, settings: Settings) -> SessionOptions:
    own = flags.system_prompt_file
    return SessionOptions(
        cwd=flags.cwd.resolve(),
        home=Path.home(),
        rules=permission_rules(settings, allow=flags.allow, allow_category=flags.allow_category, yolo=flags.yolo),
        max_turns=flags.max_turns,
        budget_usd=flags.max_budget_usd,
        stream=not flags.no_stream,
        system_prompt=None if own is None else own.read_text("utf-8", "replace"),
        mode=None if flags.mode is None else parse_mode(flags.mode),
        subagents=SubagentLimits(
            most=int(settings.number("max_subagents")), timeout_s=settings.number("subagent_timeout_s")
        ),
        environment=settings.texts("environment"),
        sandbox=sandbox_settings(settings),
    )


def _stored(flags: RalphFlags, store: UserStore) -> StoredConversation | None:
    """Return the conversation to go on with, None for a new one; UsageProblem if there is none such."""
    if flags.resume is None and not flags.go_on:
        return None
    if flags.resume:
        found, named = store.conversations.get(flags.resume), f"`{flags.resume}`"
    else:
        found, named = store.conversations.latest(str(flags.cwd.resolve())), "in this directory"
    if found is None:
        raise UsageError(f"there is no conversation {named} to go on with", 'Start one: `ralph "TASK"`.')
    return found


def _model(settings: Settings, stored: StoredConversation | None) -> str:
    """Return the model string: what the command line says, else what the conversation had, else what is configured."""
    if stored is not None and settings.values["model"].origin != "--model":
        return stored.model
    chosen = settings.model()
    if chosen is None:
        raise UsageError(
            "no model is configured",
            "Pass `--model anthropic:NAME` (with ANTHROPIC_API_KEY), `--model openai:NAME` (with OPENAI_API_KEY) or "
            "`--model local:NAME@http://HOST:PORT/v1`, or set SCAFFOLD_MODEL; `ralph /model` lists models, "
            "`scaffold demo` needs none.",
        )
    return absolute_model(chosen)


class ReplMain(Protocol):
    """A REPL: talks with the user until they have enough."""

    async def __call__(
        self, order: SessionOptions, store: UserStore, stored: StoredConversation | None, model: str
    ) -> int:
        """Go on with `stored`, or begin a conversation where that is None, with `model`; return the exit code."""
        ...
