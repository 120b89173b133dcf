"""`executors`: the programs of others that could work here, and their drill."""

import os
import sys
from pathlib import Path

import click
from msgspec import structs

from scaffold.cli.commands.options import json_option
from scaffold.cli.render.live.work_line import WorkLine
from scaffold.cli.render.terminal.style import print_json, status_mark
from scaffold.cli.render.terminal.text_layout import layout_for, print_text
from scaffold.cli.render.terminal.text_table import table_lines
from scaffold.config.permission_settings import sandbox_settings
from scaffold.config.run.executor_choice import executor_settings
from scaffold.config.settings import load_settings
from scaffold.core.model import Activity
from scaffold.executors.catalog import find_program
from scaffold.executors.drill import COST, DrillVerdict, drill_program, user_place
from scaffold.executors.installed import ask_version
from scaffold.executors.overview import KnownExecutor, known_executors
from scaffold.host.clock import SystemClock
from scaffold.host.process.async_runner import run_async

LOGINS = {"ok": "logged in", "missing": "not logged in", "unknown": "login unknown"}
NAME = 10  # columns
QUESTIONS = {
    "asks": "asks before it acts",
    "obeys_denial": "obeys a denial",
    "ends_when_unanswered": "ends with a question open",
    "leaves_children": "leaves processes behind",
    "usage": "reports what it used",
}


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def executors(context: click.Context, *, as_json: bool) -> int:
    """Show the coding agents of others that can work for you, by `--executor NAME` or the settings `executors`.

    Each is asked for its own version; no model is. `check NAME` tries one.
    """
    if context.invoked_subcommand:
        return 0
    cwd = Path.cwd()
    settings = executor_settings(load_settings(cwd, os.environ, {}))

    async def look() -> list[KnownExecutor]:
        async with WorkLine(SystemClock(), quiet=as_json).during(Activity(label="asks programs for their versions")):
            return await known_executors(settings, os.environ, cwd)

    found = run_async(look())
    if as_json:
        print_json({"executors": [_executor_json(each) for each in found]})
        return 0
    layout = layout_for(sys.stdout)
    for each in found:
        head = f"{status_mark('ok' if each.program else 'skip')} {each.spec.name:<{NAME}} "
        click.echo("\n".join(layout.prose(head, executor_text(each))))
    return 0


@executors.command("check")
@click.argument("name", metavar="NAME")
@json_option
def check(name: str, *, as_json: bool) -> int:
    """Try the executor NAME in a scratch repository: deny it things, leave it without an answer, end it.

    It asks its provider, as in a run. Exit code 0 if it may work, 1 if it is refused.
    """
    cwd = Path.cwd()
    settings = load_settings(cwd, os.environ, {})
    spec = find_program(name, executor_settings(settings).programs)

    async def drill() -> DrillVerdict:
        program = await ask_version(spec, user_place(cwd, os.environ))
        print_text(f"drills {program.title}: {COST}", err=True)
        async with WorkLine(SystemClock(), told=True).during(Activity(label=f"drills {spec.name}")):
            return await drill_program(program, os.environ, sandbox_settings(settings))

    verdict = run_async(drill())
    if as_json:
        print_json(verdict)
    else:
        _print_verdict(verdict)
    return 0 if verdict.verdict == "ok" else 1


def executor_text(executor: KnownExecutor) -> str:
    """Describe an executor in one line."""
    program, drilled = executor.program, executor.drilled
    if program is None:
        return "not installed"
    old = f", older than {executor.spec.minimum}" if program.is_old else ""
    tried = "not drilled yet"
    if drilled is not None:
        tried = "drill passed" if drilled.verdict == "ok" else f"refused: {drilled.reason}"
    if executor.unasked:
        tried = f"refused: it would not ask about what is allowed in {', '.join(executor.unasked)}"
    return f"{program.version or 'of an unknown version'}{old}; {LOGINS[executor.login]}; {tried}; {program.path}"


def _executor_json(executor: KnownExecutor) -> dict[str, object]:
    program, drilled = executor.program, executor.drilled
    return {
        "name": executor.spec.name,
        "chosen": executor.chosen,
        "version": program and program.version,
        "path": program and str(program.path),
        "login": executor.login,
        "minimum": executor.spec.minimum,
        "old": program is not None and program.is_old,
        "unasked": list(executor.unasked),
        "drill": drilled and structs.asdict(drilled),
    }


def _print_verdict(verdict: DrillVerdict) -> None:
    layout = layout_for(sys.stdout)
    shown = structs.asdict(verdict)
    rows = [("  ", words, "yes" if shown[field] else "no") for field, words in QUESTIONS.items()]
    rows.append(("  ", "exit code after a denial", str(verdict.exit_after_denial)))
    click.echo("\n".join(table_lines(rows, layout)))
    mark = status_mark("ok" if verdict.verdict == "ok" else "fail")
    may = "may work" if verdict.verdict == "ok" else "is refused"
    what = " ".join(filter(None, (verdict.name, verdict.version, may)))
    click.echo("\n".join(layout.prose(f"{mark} ", what + (f": {verdict.reason}" if verdict.reason else ""))))
