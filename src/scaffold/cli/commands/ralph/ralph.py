"""`ralph`: one agent, one task, in one directory."""

import asyncio
import os
import select
import shutil
import signal
import sys
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import get_args

import click
from msgspec import Struct, structs

from scaffold.agent.context.conversation_window import recap
from scaffold.agent.model_access import open_user_store
from scaffold.agent.modes import MODES, parse_mode
from scaffold.agent.prompts import PROMPT_VERSION
from scaffold.agent.subagents.process_pool import SubagentLimits
from scaffold.cli.commands.budget_options import require_dollars
from scaffold.cli.commands.ralph.oneshot import OneshotTask, run_oneshot
from scaffold.cli.entry import RALPH_COMMANDS
from scaffold.cli.exit_codes import INTERRUPTED, OK, USAGE, exit_code
from scaffold.cli.global_options import log_work_in, update_options
from scaffold.cli.render.reporters import OutputFormat, reporter_for
from scaffold.cli.render.terminal.style import can_redraw, is_terminal, print_note
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.task_argument import reject_command, reject_file
from scaffold.config.permission_settings import permission_rules, sandbox_settings
from scaffold.config.schema.parsers import SIZES
from scaffold.config.settings import Settings, load_settings
from scaffold.config.trusted_extensions import find_extensions
from scaffold.core.errors import ScaffoldError, UsageError
from scaffold.core.model import Usage
from scaffold.core.printable_text import utf8_safe
from scaffold.core.run_settings import Effort
from scaffold.host.process.async_runner import run_async
from scaffold.host.process_identity import own_identity
from scaffold.host.startup import importing, relax_gc
from scaffold.llm.registry.model_name import absolute_model
from scaffold.policy.command_sandbox import SANDBOX_MODES
from scaffold.policy.secret.sources import redactor_for
from scaffold.session.open_conversation import open_conversation
from scaffold.session.opened_extensions import project_programs
from scaffold.session.options import SessionOptions
from scaffold.session.redacted_output import RedactingReporter
from scaffold.session.reporter import Reporter
from scaffold.session.result import Ending, result_json
from scaffold.session.slash.prompt_commands import all_commands, hidden_commands
from scaffold.session.slash.syntax import (
    AgentCommand,
    Command,
    CommandSyntax,
    item_command,
    parse_slash,
    with_own_commands,
)
from scaffold.session.slash_commands import OneshotTarget, run_slash_command
from scaffold.store.user.conversations import StoredConversation
from scaffold.store.user_store import UserStore

LATEST = ""  # `--resume` without an id: the user chooses

FORMAT_FLAG = "--output-format"
JSON_FORMATS: tuple[OutputFormat, ...] = ("json", "stream-json")

STDIN_WAIT_S = 3.0  # for a silent pipe, if the command line has a task


class RalphFlags(Struct, frozen=True, kw_only=True):
    """The parsed command line."""

    model: str | None
    max_turns: int
    max_budget_usd: float | None
    yolo: bool
    allow: tuple[str, ...]
    allow_category: tuple[str, ...]
    trust_once: bool
    sandbox: str | None
    # The options below are those of a terminal: `ralph acp` has none of them.
    task: str | None = None
    printed: bool = False
    resume_latest: bool = False
    resume: str | None = None
    mode: str | None = None
    cwd: Path = Path()
    output_format: OutputFormat = "text"
    no_stream: bool = False
    system_prompt_file: Path | None = None
    effort: str | None = None
    plain: bool = False
    accept_edits: bool = False
    worktree: bool = False


class RalphCommand(click.Command):
    """The command line of `ralph`: its mistakes are reported as JSON where JSON was asked for."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; a usage error is printed as the result if that is JSON."""
        # By hand: the command line may not be parsed, and its error is JSON where that was asked for.
        given = [after for word, after in pairwise((*args, "")) if word == FORMAT_FLAG]
        given += [word.removeprefix(f"{FORMAT_FLAG}=") for word in args if word.startswith(f"{FORMAT_FLAG}=")]
        output = next((each for each in JSON_FORMATS if each in given), None)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as problem:
            if output is None:
                raise
            _report_failure(output, UsageError(problem.format_message(), "Try `ralph --help`."))
            raise click.exceptions.Exit(USAGE) from problem


@click.command(cls=RalphCommand)
@click.version_option(package_name="ralph-scaffold", prog_name="ralph")
@click.argument("task", required=False)
@click.option("-p", "--print", "printed", is_flag=True, help="One shot: the task is an argument, or on stdin.")
@click.option("-c", "--continue", "resume_latest", is_flag=True, help="Resume this directory's latest conversation.")
@click.option(
    "--resume", is_flag=False, flag_value=LATEST, metavar="[ID]", help="Resume a conversation; without ID, choose one."
)
@click.option("--model", metavar="MODEL", help="A model string, e.g. `anthropic:NAME`, or small, medium, large.")
@click.option("--mode", type=click.Choice(MODES), help="Start in this mode; plan, explore and review change nothing.")
@click.option("--cwd", type=click.Path(exists=True, file_okay=False, path_type=Path), default=Path(), help="Work here.")
@click.option(
    FORMAT_FLAG,
    type=click.Choice(["text", "json", "stream-json"]),
    default="text",
    show_default=True,
    help="Of a one-shot: text, one JSON object, or one JSON event per line.",
)
@click.option("--no-stream", is_flag=True, help="Request complete replies instead of streaming them.")
@click.option(
    "--max-turns",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="Maximum number of requests in a turn.",
)
@click.option("--max-budget-usd", type=float, metavar="X", help="Start no request beyond this cost.")
@click.option("--yolo", is_flag=True, help="Allow everything without asking; protected files stay protected.")
@click.option("--accept-edits", is_flag=True, help="Change files in this folder without asking, in this session.")
@click.option("--worktree", is_flag=True, help="Work in a new git worktree of the commit that is checked out.")
@click.option("--allow", multiple=True, metavar="TOOL:PATTERN", help="Allow matching calls, e.g. `shell:pytest *`.")
@click.option("--allow-category", multiple=True, metavar="CAT", help="Allow all tools of this category.")
@click.option("--sandbox", type=click.Choice(SANDBOX_MODES), help="The sandbox of the agent's commands.")
@click.option(
    "--effort", type=click.Choice(get_args(Effort)), help="How much the model thinks; auto: as its provider recommends."
)
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
@click.option(
    "--system-prompt-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Replace the built-in base prompt with this file.",
)
@click.option("--plain", is_flag=True, help="Show a chat line by line, without redrawing: for screen readers.")
@click.option("--trust-once", is_flag=True, help="Use this folder's own configuration this time.")
def ralph(**given: object) -> int:
    """Let one agent do TASK in the current directory.

    Reading is always allowed; a call that would need your consent is denied unless a rule allows it, and the agent
    learns why. Write @FILE in the task to attach a file or an image. AGENTS.md is read if it exists.

    `ralph permissions check -- COMMAND` shows beforehand what would be allowed, and why.
    """
    relax_gc()
    flags = RalphFlags(**given)  # type: ignore[arg-type] # click has checked each of them
    try:
        return _start_in_worktree(flags) if flags.worktree else _start_session(flags)
    except ScaffoldError as error:
        if flags.output_format == "text":
            raise
        _report_failure(flags.output_format, error)
        return exit_code(error)


ralph.params += update_options()


def _start_in_worktree(flags: RalphFlags) -> int:
    if flags.resume is not None or flags.resume_latest:
        raise UsageError("a conversation goes on in its own folder", "Leave out --worktree, or start a new one.")
    with importing():  # few sessions have one
        from scaffold.cli.commands.ralph.session_worktree import SessionWorktree
    place = run_async(SessionWorktree.create(flags.cwd))
    try:
        return _start_session(structs.replace(flags, cwd=place.folder(flags.cwd)))
    finally:
        click.echo(run_async(place.close()), err=True)  # commands are copied: no line is broken


def _start_session(flags: RalphFlags) -> int:
    log_work_in(flags.cwd)
    overrides = {"model": flags.model, "sandbox.mode": flags.sandbox, "effort": flags.effort}
    overrides["terminal"] = "plain" if flags.plain else None
    settings = load_settings(flags.cwd, os.environ, overrides, trust_once=flags.trust_once)
    for note in settings.notes:
        print_text(f"note: {note}", err=True)
    try:
        piped = ""
        if not sys.stdin.isatty():
            # A parent process may leave a pipe open as standard input and never write to it.
            if flags.task and not select.select([sys.stdin], [], [], STDIN_WAIT_S)[0]:
                print_text("note: no data on standard input; not waiting for any", err=True)
            else:
                piped = sys.stdin.buffer.read().decode(errors="replace")
        if "\0" in piped:
            what = "standard input is not text: it contains a NUL byte"
            raise UsageError(what, "Pipe text, or name a file in the task: `@FILE`.")
        return run_async(_run_session(flags, settings, piped))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print_text("interrupted: the conversation is kept; resume it with `ralph -c`", err=True)
        return INTERRUPTED


def _report_failure(output: OutputFormat, error: ScaffoldError) -> None:
    reporter = RedactingReporter(reporter_for(output), redactor_for(os.environ, Path.cwd()))
    reporter.result(
        result_json(session="", model="", result="", usage=Usage(), ending=Ending(stop="error", error=error.in_full))
    )


async def _run_session(flags: RalphFlags, settings: Settings, piped: str) -> int:
    task = OneshotTask(flags.task or "", piped)
    interactive = task.empty and not flags.printed and is_terminal(sys.stdin, sys.stdout)
    if not interactive:
        _require_task(flags, task)
    # Here and not by its type: the error is JSON where that was asked for.
    if flags.max_budget_usd is not None:
        require_dollars("--max-budget-usd", flags.max_budget_usd)
    cancel_on_terminate()
    store = open_user_store()
    try:
        plain = settings.text("terminal") == "plain" or not can_redraw(os.environ)
        if interactive and flags.resume == LATEST and not plain and store.conversations.listed(limit=1):
            with importing():  # takes longer than a one-shot call may take to start
                from scaffold.cli.repl.picker import pick_conversation
            if (picked := await pick_conversation(store, Path.home())) is None:
                return OK
            flags = structs.replace(flags, resume=picked)
        stored = _find_stored(flags, store)
        options = session_options(flags, settings, stored)
        if project_programs(options):
            with importing():  # few folders bring any along
                from scaffold.cli.execution.unconfined import agreed_session
            options = await agreed_session(options, settings.trust)
        for line in hidden_commands(options.extensions.commands):
            print_note(line)
        known = with_own_commands((item_command(_items_here),))
        commands = all_commands(options.extensions.commands, known)
        command = parse_slash(task.words, commands)
        if command is not None and not isinstance(command, AgentCommand):
            model = settings.model() or "none" if stored is None else stored.model
            target = OneshotTarget(options, store, stored, model, partial(click.echo, err=True))
            return await _run_slash(command, target, _make_reporter(flags), commands)
        model = chosen_model(settings, stored)
        if interactive:
            with importing():  # for the same reason
                from scaffold.cli.repl.loop import run_repl
                from scaffold.cli.repl.repl_profile import ReplProfile
            profile = ReplProfile(commands=known)
            return await run_repl(options, store, stored, model, lambda _: profile, plain=plain)
        task = structs.replace(task, command=command)
        return await _run_task(task, OneshotTarget(options, store, stored, model), _make_reporter(flags))
    finally:
        store.close()


def _items_here(words: Sequence[str]) -> str:
    with importing():  # few calls ask for them
        from scaffold.cli.commands.item import items_here
    return items_here(words)


def _require_task(flags: RalphFlags, task: OneshotTask) -> None:
    if flags.task is not None and not flags.printed:  # with `-p` it is certain that a task was meant
        reject_file(flags.task, f'Write what to do with it: `ralph "Explain @{flags.task}"`.')
        reject_command(flags.task, "ralph", RALPH_COMMANDS)
    if task.empty:
        raise UsageError("there is no task", 'Pass one: `ralph "TASK"`, or on standard input; a chat needs a terminal.')


def cancel_on_terminate() -> None:
    """Handle SIGTERM and SIGHUP like an interrupt; a signal that the parent process ignores stays ignored."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # `nohup` makes a program ignore SIGHUP.
        if task is not None and signal.getsignal(number) == signal.SIG_DFL:
            loop.add_signal_handler(number, task.cancel)


async def _run_slash(
    command: Command, target: OneshotTarget, reporter: Reporter, commands: Sequence[CommandSyntax]
) -> int:
    width = shutil.get_terminal_size().columns
    reply = await run_slash_command(command, target, width=width, commands=commands)
    session = target.stored.id if target.stored else ""
    reporter.result(result_json(session=session, model=target.model, result=reply.text, usage=Usage()))
    return OK


async def _run_task(task: OneshotTask, target: OneshotTarget, reporter: Reporter) -> int:
    options, stored, model = target.options, target.stored, target.model
    cwd, title = str(options.cwd), task.words or task.piped
    with open_conversation(target.store, stored, cwd=cwd, model=model, title=title, me=own_identity()) as conversation:
        reporter.session(
            session_id=conversation.id, model=model, cwd=utf8_safe(cwd), prompts=f"version {PROMPT_VERSION}"
        )
        if stored is not None:
            elsewhere = conversation.elsewhere(options.cwd)
            text = recap(conversation.conversation, stored.title, stored.usage, model=stored.model, elsewhere=elsewhere)
            reporter.note("notice", text=text)
        return await run_oneshot(task, options, conversation, reporter)


def _make_reporter(flags: RalphFlags) -> Reporter:
    return RedactingReporter(reporter_for(flags.output_format), redactor_for(os.environ, flags.cwd.resolve()))


def session_options(flags: RalphFlags, settings: Settings, stored: StoredConversation | None) -> SessionOptions:
    """Return the options of a session, from the command line and the settings."""
    prompt = flags.system_prompt_file
    size = settings.text("model") if _chooses_model(settings, stored) else None
    return SessionOptions(
        cwd=flags.cwd.resolve(),
        home=Path.home(),
        rules=permission_rules(settings, allow=flags.allow, allow_category=flags.allow_category, yolo=flags.yolo),
        max_turns=flags.max_turns,
        budget_usd=flags.max_budget_usd,
        stream=not flags.no_stream,
        system_prompt=None if prompt is None else prompt.read_text("utf-8", "replace"),
        effort=settings.effort(size),
        chosen_effort=settings.effort() if flags.effort is not None else None,
        size_efforts={size: settings.effort(size) for size in SIZES},
        compaction=settings.compaction(),
        windows=settings.windows(),
        profiles=settings.profiles(),
        embedding=settings.text("models.embedding"),
        mode=None if flags.mode is None else parse_mode(flags.mode),
        accept_edits=flags.accept_edits,
        subagents=SubagentLimits(
            most=int(settings.number("max_subagents")), timeout_s=settings.number("subagent_timeout_s")
        ),
        environment=settings.texts("environment"),
        sandbox=sandbox_settings(settings),
        plugin_network=settings.texts("plugins.network"),
        trust_once=flags.trust_once,
        extensions=find_extensions(settings, settings.trust, home=Path.home(), notice=print_note),
    )


def _find_stored(flags: RalphFlags, store: UserStore) -> StoredConversation | None:
    if flags.resume is None and not flags.resume_latest:
        return None
    if flags.resume:
        found, named = store.conversations.get(flags.resume), f"`{flags.resume}`"
    else:
        found, named = store.conversations.latest(str(flags.cwd.resolve())), "in this directory"
    if found is None:
        raise UsageError(f"there is no conversation {named} to resume", 'Start one: `ralph "TASK"`.')
    return found


def _chooses_model(settings: Settings, stored: StoredConversation | None) -> bool:
    # A stored conversation keeps its model unless a flag names another.
    return stored is None or settings.values["model"].origin == "--model"


def chosen_model(settings: Settings, stored: StoredConversation | None) -> str:
    """Return the model string: of the command line, else of the conversation, else of the configuration."""
    if stored is not None and not _chooses_model(settings, stored):
        return stored.model
    model = settings.model()
    if model is None:
        raise UsageError(
            "no model is configured",
            "Pass `--model anthropic:NAME` (with ANTHROPIC_API_KEY), `--model openai:NAME` (with OPENAI_API_KEY), "
            "`--model codex:NAME` (after `ralph login`) or `--model local:NAME@http://HOST:PORT/v1`, or set "
            "SCAFFOLD_MODEL; `ralph /model` lists models, `scaffold demo` needs none.",
        )
    return absolute_model(model)
