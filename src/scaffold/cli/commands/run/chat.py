"""`scaffold` without a command: a conversation that refines a plan and then starts a run."""

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from scaffold.agent.model_access import open_user_store
from scaffold.agent.prompts import orchestrator_prompt
from scaffold.cli.commands.run.execution_options import flags_of, shared_options
from scaffold.cli.execution.flow import warn_interrupted
from scaffold.cli.execution.unconfined import agreed_session
from scaffold.cli.render.terminal.style import is_terminal, print_note
from scaffold.cli.repl.loop import run_repl
from scaffold.cli.repl.orchestrator_profile import orchestrator_profile
from scaffold.cli.wiring import open_context
from scaffold.config.permission_settings import permission_rules, sandbox_settings
from scaffold.config.run.effective_settings import RunFlags, chosen_models, setting_overrides
from scaffold.config.schema.parsers import SIZES
from scaffold.config.settings import Settings, load_settings
from scaffold.config.trusted_extensions import find_extensions
from scaffold.core.errors import UsageError
from scaffold.host.process.async_runner import run_async
from scaffold.session.options import SessionOptions

MAX_REQUESTS = 100  # in one turn


@click.command(hidden=True)
@click.option("--trust-once", is_flag=True, help="Use this folder's own configuration this time.")
@shared_options
def chat_plan(**options: Any) -> int:
    """Discuss a plan, then execute it."""
    if not is_terminal(sys.stdin, sys.stdout):
        raise UsageError("a chat needs a terminal", 'Elsewhere, pass a task: `scaffold run "TASK"`.')
    return run_async(_chat_plan(flags_of(options)))


async def _chat_plan(flags: RunFlags) -> int:
    settings = load_settings(Path.cwd(), os.environ, setting_overrides(flags), trust_once=flags.trust_once)
    for note in settings.notes:
        print_note(note)
    models = chosen_models(settings, settings.tier(), settings.money("budget_usd"), notice=print_note)
    model = models.assigned.by_role.get("planner", models.model).name
    context, store = await open_context(create=True), open_user_store()
    warn_interrupted(context)
    try:
        profile = partial(orchestrator_profile, context, flags)
        plain = settings.text("terminal") == "plain"
        options = await agreed_session(_session_options(settings, flags), settings.trust)
        return await run_repl(options, store, None, model, profile, plain=plain)
    finally:
        store.close()
        context.store.close()


def _session_options(settings: Settings, flags: RunFlags) -> SessionOptions:
    return SessionOptions(
        cwd=Path.cwd(),
        home=Path.home(),
        rules=permission_rules(settings, allow=(), allow_category=(), yolo=flags.yolo),
        max_turns=MAX_REQUESTS,
        budget_usd=settings.money("budget_usd"),
        stream=True,
        system_prompt=orchestrator_prompt(),
        effort=settings.role_efforts().get("planner") or settings.effort(settings.text("model")),
        size_efforts={size: settings.effort(size) for size in SIZES},
        compaction=settings.compaction(),
        windows=settings.windows(),
        profiles=settings.profiles(),
        embedding=settings.text("models.embedding"),
        environment=settings.texts("environment"),
        sandbox=sandbox_settings(settings),
        plugin_network=settings.texts("plugins.network"),
        mcp=False,
        extensions=find_extensions(settings, settings.trust, home=Path.home(), notice=print_note),
    )
