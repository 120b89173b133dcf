"""Ask, once per run, before a repository's own code runs without a sandbox: before anything is stored or spent."""

import sys
from collections.abc import Awaitable, Callable, Sequence

import click
from msgspec import structs

from scaffold.cli.execution.chosen_executors import with_ready_executors
from scaffold.cli.render.init_text import found_lines, labelled
from scaffold.cli.render.terminal.style import is_terminal
from scaffold.cli.render.terminal.text_layout import confirm, layout_for
from scaffold.config.folder_trust import folder_trust
from scaffold.config.permission_settings import detect_sandbox_level
from scaffold.core.ids import Commit
from scaffold.core.model import Run
from scaffold.core.printable_text import printable
from scaffold.core.proof.contract import Contract
from scaffold.core.run_settings import RunSettings, SandboxSettings
from scaffold.policy.command_sandbox import needs_agreement, require_agreement
from scaffold.policy.trust_decision import TrustStatus
from scaffold.run.context import RunContext
from scaffold.session.opened_extensions import project_programs
from scaffold.session.options import SessionOptions
from scaffold.verify.gates.detection import detect_for_run

AskUser = Callable[[Sequence[str]], Awaitable[bool]]
"""Shows the lines and returns whether the user agrees."""


async def ask_on_terminal(lines: Sequence[str]) -> bool:
    """Show the lines on standard error and ask; False without a terminal."""
    if not is_terminal(sys.stdin, sys.stderr):
        return False
    layout = layout_for(sys.stderr)
    click.echo("\n".join(row for line in lines for row in layout.wrap("", line, hang=4)), err=True)
    return confirm("Run them with all your rights?")


async def agreed_sandbox(
    sandbox: SandboxSettings, trust: TrustStatus | None, commands: Sequence[str], ask: AskUser = ask_on_terminal
) -> SandboxSettings:
    """Return the settings with the user's agreement that `commands` of the repository run without a sandbox.

    They are as given where there is a sandbox, or an earlier agreement. Raise TrustError without an agreement, and in a
    folder that is not trusted, without asking.
    """
    detected = await detect_sandbox_level()
    if not needs_agreement(sandbox, detected):
        return sandbox
    if trust is None or not trust.trusted:
        require_agreement(sandbox, detected, trusted=False)
    title = f"There is no sandbox: {detected.problem}. Code of this repository, which agents may change, runs for:"
    if not await ask([title, *map(printable, commands)]):
        require_agreement(sandbox, detected)
    return structs.replace(sandbox, unconfined=True)


async def agreed_settings(
    context: RunContext,
    settings: RunSettings,
    base: Commit,
    contracts: Sequence[Contract],
    *,
    once: bool,
    ask: AskUser = ask_on_terminal,
) -> RunSettings:
    """Return a run's settings as `agreed_sandbox` does; `contracts` are those known, `once` is `--trust-once`."""
    sandbox = settings.sandbox
    if not needs_agreement(sandbox, await detect_sandbox_level()):
        return settings
    found = await detect_for_run(context.git, base, settings.gates, settings.environment.setup)
    checks = (check.command for contract in contracts for check in contract.commands)
    named = [
        *(("service", line) for line in settings.environment.services),
        *(("hook", hook.command) for hook in settings.extensions.hooks if not hook.own),
        *(("check", command) for command in dict.fromkeys(checks)),
        ("later", "checks that agents write for their work"),
    ]
    commands = [*found_lines(found), *(line for label, text in named for line in labelled(label, text))]
    trust = folder_trust(context.repository.root, once=once)
    return structs.replace(settings, sandbox=await agreed_sandbox(sandbox, trust, commands, ask))


async def agreed_to_resume(
    context: RunContext, run: Run, settings: RunSettings, *, once: bool, ask: AskUser = ask_on_terminal
) -> RunSettings:
    """Return the new settings of a stored run as `agreed_settings` does: an answer that it stored holds.

    The programs that it uses have passed their drill.
    """
    actions = context.store.actions.for_run(run.id)
    contracts = [action.contract for action in actions if action.contract]
    settings = await agreed_settings(context, settings, run.base_sha, contracts, once=once, ask=ask)
    return await with_ready_executors(context, settings, (action.executor for action in actions))


async def agreed_session(options: SessionOptions, trust: TrustStatus | None) -> SessionOptions:
    """Return the options of a session of `ralph` as `agreed_settings` does: for its folder's hooks and servers."""
    lines = [line for program in project_programs(options) for line in labelled("runs", program)]
    return structs.replace(options, sandbox=await agreed_sandbox(options.sandbox, trust, lines)) if lines else options
