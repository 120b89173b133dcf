"""`ralph`: one agent, one task, in one directory."""

import asyncio
import math
import os
import select
import signal
import sys
from pathlib import Path

import click
from msgspec import Struct

from scaffold.agent.crew import Limits
from scaffold.agent.discretion import redactor_for
from scaffold.agent.modes import MODES, parse_mode
from scaffold.agent.recap import recap
from scaffold.agent.slash import parse_slash
from scaffold.cli.discreet import Discreet
from scaffold.cli.exits import INTERRUPTED, OK
from scaffold.cli.models import open_user_store
from scaffold.cli.oneshot import Task, carry_out
from scaffold.cli.order import Order
from scaffold.cli.outcome import shape
from scaffold.cli.rules import rules_of
from scaffold.cli.safe import printable
from scaffold.cli.sandbox import sandbox_of
from scaffold.cli.screen import at_terminal
from scaffold.cli.session import Talk
from scaffold.cli.settings import Settings, load_settings
from scaffold.cli.sitting import sitting
from scaffold.cli.slash import Shot, obey
from scaffold.cli.table import REPL, late
from scaffold.cli.telling import Format, Teller, teller
from scaffold.core.errors import UsageProblem
from scaffold.core.legible import legible
from scaffold.core.model import Usage
from scaffold.host.collector import calm_down
from scaffold.host.identity import own_identity
from scaffold.host.loop import run_async
from scaffold.llm.naming import pinned_model
from scaffold.policy.sandbox import SANDBOX_MODES
from scaffold.store.conversations import StoredConversation
from scaffold.store.user import UserStore

LATEST = ""
"""Stands for the conversation that was gone on with last in this directory."""

NOT_YET = frozenset({"login", "logout"})
"""Commands to come: no model is to take them for a task."""

PATIENCE_S = 3.0
"""How long a pipe that says nothing is listened to when there is a task already."""


class Flags(Struct, frozen=True, kw_only=True):
    """The command line, as click understood it."""

    task: str | None
    printed: bool
    go_on: bool
    resume: str | None
    model: str | None
    mode: str | None
    cwd: Path
    output_format: Format
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
    calm_down()
    flags = Flags(**given)  # type: ignore[arg-type] # click has checked each of them
    given_settings = {"model": flags.model, "sandbox.mode": flags.sandbox}
    chosen = load_settings(flags.cwd, os.environ, given_settings, trust_once=flags.trust_once)
    for note in chosen.notes:
        click.echo(printable(f"note: {note}"), err=True)
    try:
        return run_async(_work(flags, chosen, _piped(flags)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        click.echo("interrupted: nothing that was said is lost; go on with `ralph -c`", err=True)
        return INTERRUPTED


def _piped(flags: Flags) -> str:
    """Return what standard input holds; a pipe that stays silent is given up if there is a task already."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return ""
    if flags.task and not select.select([sys.stdin], [], [], PATIENCE_S)[0]:
        click.echo("note: standard input says nothing and is not waited for", err=True)
        return ""
    return sys.stdin.buffer.read().decode(errors="replace")


async def _work(flags: Flags, settings: Settings, piped: str) -> int:
    """Have one turn, carry a slash command out, or talk with whoever sits at the terminal."""
    task = flags.task or ""
    talking = not (task + piped).strip() and not flags.printed and at_terminal(sys.stdin, sys.stdout)
    if not talking:
        _refuse_what_is_no_task(flags, task, piped)
    if flags.max_budget_usd is not None and not math.isfinite(flags.max_budget_usd):
        raise UsageProblem("--max-budget-usd takes an amount in dollars", "Write it like `--max-budget-usd 0.50`.")
    _end_in_good_order()
    store = open_user_store()
    try:
        stored = _stored(flags, store)
        command = parse_slash(task)
        if command is not None:
            model = settings.model() or "none" if stored is None else stored.model
            said = obey(command, Shot(_order(flags, settings), store, stored, model))
            ending = shape(session=stored.id if stored else "", model=model, result=said, usage=Usage(), stop="end")
            _teller(flags).result(ending)
            return OK
        model = _model(settings, stored)
        if talking:
            talk: Talk = late(REPL)
            return await talk(_order(flags, settings), store, stored, model)
        return await _one_shot(Task(task, piped), flags, settings, stored, model, store)
    finally:
        store.close()


def _refuse_what_is_no_task(flags: Flags, task: str, piped: str) -> None:
    if not (task + piped).strip():
        hint = "Pass it as an argument, or on standard input with -p." if flags.printed else 'Try `ralph "TASK"`.'
        raise UsageProblem("there is no task", hint)
    if task in NOT_YET:
        hint = "Set ANTHROPIC_API_KEY or OPENAI_API_KEY instead; or say it in more words if it is a task."
        raise UsageProblem(f"`ralph {task}` does not exist yet", hint)


def _end_in_good_order() -> None:
    """Let a request to end count as an interrupt, which asyncio sees to; what a parent has ignored stays ignored."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if task is not None and signal.getsignal(number) == signal.SIG_DFL:
            loop.add_signal_handler(number, task.cancel)


async def _one_shot(
    task: Task, flags: Flags, settings: Settings, stored: StoredConversation | None, model: str, store: UserStore
) -> int:
    """Begin a conversation, or take one up where it stands, and have one turn of it."""
    order, told = _order(flags, settings), _teller(flags)
    cwd, title = str(order.cwd), task.words or task.piped
    with sitting(store, stored, cwd=cwd, model=model, title=title, me=own_identity()) as seat:
        told.session(session_id=seat.id, model=model, cwd=legible(cwd))
        if stored is not None:
            told.note("notice", text=recap(seat.conversation, stored.usage, model=stored.model))
        return await carry_out(task, order, seat, told)


def _teller(flags: Flags) -> Teller:
    return Discreet(teller(flags.output_format), redactor_for(os.environ, flags.cwd.resolve()))


def _order(flags: Flags, settings: Settings) -> Order:
    own = flags.system_prompt_file
    return Order(
        cwd=flags.cwd.resolve(),
        home=Path.home(),
        rules=rules_of(settings, allow=flags.allow, allow_category=flags.allow_category, yolo=flags.yolo),
        max_turns=flags.max_turns,
        budget_usd=flags.max_budget_usd,
        stream=not flags.no_stream,
        own_prompt=None if own is None else own.read_text("utf-8", "replace"),
        mode=None if flags.mode is None else parse_mode(flags.mode),
        subagents=Limits(most=int(settings.number("max_subagents")), timeout_s=settings.number("subagent_timeout_s")),
        environment=settings.texts("environment"),
        sandbox=sandbox_of(settings),
    )


def _stored(flags: Flags, store: UserStore) -> StoredConversation | None:
    """Return the conversation to go on with, None for a new one; UsageProblem if there is none such."""
    if flags.resume is None and not flags.go_on:
        return None
    if flags.resume:
        found, named = store.conversations.get(flags.resume), f"`{flags.resume}`"
    else:
        found, named = store.conversations.latest(str(flags.cwd.resolve())), "in this directory"
    if found is None:
        raise UsageProblem(f"there is no conversation {named} to go on with", 'Start one: `ralph "TASK"`.')
    return found


def _model(settings: Settings, stored: StoredConversation | None) -> str:
    """Return the model string: what the command line says, else what the conversation had, else what is configured."""
    if stored is not None and settings.values["model"].origin != "--model":
        return stored.model
    chosen = settings.model()
    if chosen is None:
        raise UsageProblem(
            "no model is configured",
            "Pass `--model anthropic:NAME` (with ANTHROPIC_API_KEY), `--model openai:NAME` (with OPENAI_API_KEY) or "
            "`--model local:NAME@http://HOST:PORT/v1`, or set SCAFFOLD_MODEL; `ralph /model` lists models, "
            "`scaffold demo` needs none.",
        )
    return pinned_model(chosen)
