"""`ralph acp`: the agent for editors, by the Agent Client Protocol on standard input and output."""

import logging
import os
from pathlib import Path
from typing import Any

import click
from msgspec import structs

from scaffold.agent.model_access import open_user_store
from scaffold.cli.commands.budget_options import require_dollars
from scaffold.cli.commands.options import require_extra
from scaffold.cli.commands.ralph.ralph import RalphFlags, cancel_on_terminate, chosen_model, session_options
from scaffold.cli.global_options import log_work_in
from scaffold.config.schema.parsers import SIZES
from scaffold.config.settings import load_settings
from scaffold.core.errors import ScaffoldError
from scaffold.host.process.async_runner import run_async
from scaffold.host.protocol_streams import ProtocolStreams, take_protocol_streams
from scaffold.host.startup import importing, relax_gc
from scaffold.llm.registry.cards import known_models, model_card
from scaffold.llm.registry.model_name import parse_model
from scaffold.policy.command_sandbox import SANDBOX_MODES
from scaffold.store.user.conversations import StoredConversation

FIX = "Let your editor start it: docs/editors.md shows how."


@click.command()
@click.option("--model", metavar="MODEL", help="A model string, e.g. `anthropic:NAME`, or small, medium, large.")
@click.option(
    "--max-turns", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum requests in a turn."
)
@click.option("--max-budget-usd", type=float, metavar="X", help="Start no request of a session beyond this cost.")
@click.option("--yolo", is_flag=True, help="Allow everything without asking; protected files stay protected.")
@click.option("--allow", multiple=True, metavar="TOOL:PATTERN", help="Allow matching calls, e.g. `shell:pytest *`.")
@click.option("--allow-category", multiple=True, metavar="CAT", help="Allow all tools of this category.")
@click.option("--sandbox", type=click.Choice(SANDBOX_MODES), help="The sandbox of the agent's commands.")
@click.option("--trust-once", is_flag=True, help="Use the folders' own configuration this time.")
def acp(**given: Any) -> int:
    """Work for an editor that speaks the Agent Client Protocol, such as Zed: the editor starts this command.

    Its questions, diffs and todo list appear in the editor. Conversations are those of `ralph`: one that began in the
    editor goes on with `ralph --resume`, and the other way round.
    """
    if given["max_budget_usd"] is not None:
        require_dollars("--max-budget-usd", given["max_budget_usd"])
    require_extra("acp", "acp")
    streams = take_protocol_streams("`ralph acp`", FIX)
    # The SDK logs invalid requests with tracebacks; the editor gets an error, and the log is for users.
    logging.getLogger().addHandler(logging.NullHandler())
    run_async(_serve_editor(RalphFlags(**given), streams))
    return 0


async def _serve_editor(flags: RalphFlags, streams: ProtocolStreams) -> None:
    cancel_on_terminate()
    with importing():  # needs the SDK of the extra `acp`
        from scaffold.acp.agent import EditorWork, serve_editor
        from scaffold.acp.editor_session import SessionSetup
    relax_gc()
    try:
        model = load_settings(flags.cwd, os.environ, {"model": flags.model}).model()
        # Without a model, each session says itself what its model does not accept.
        images = model is None or model_card(parse_model(model)).images
    except ScaffoldError:
        images = True
    store = open_user_store()

    def set_up(cwd: Path, stored: StoredConversation | None) -> SessionSetup:
        here = structs.replace(flags, cwd=cwd)
        log_work_in(cwd)
        overrides = {"model": flags.model, "sandbox.mode": flags.sandbox}
        settings = load_settings(cwd, os.environ, overrides, trust_once=flags.trust_once)
        configured = [model for size in SIZES for model in settings.models(size)]
        return SessionSetup(
            options=session_options(here, settings, stored),
            model=chosen_model(settings, stored),
            # The configured ones first.
            models=tuple(dict.fromkeys([*configured, *(card.model for card in known_models())])),
            notes=settings.notes,
        )

    try:
        await serve_editor(EditorWork(set_up, images), store, streams)
    finally:
        store.close()
