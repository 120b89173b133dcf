"""Options that `run` and `resume` share."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from scaffold.cli.commands.budget_options import budget_tokens_option, budget_usd_option
from scaffold.cli.commands.options import quiet_option
from scaffold.config.run.effective_settings import RunFlags
from scaffold.config.schema.tier_settings import BUILT_IN_TIERS
from scaffold.core.errors import UsageError
from scaffold.policy.command_sandbox import SANDBOX_MODES

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def shared_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that `run` and `resume` share."""
    options: list[Decorator] = [
        click.option("--model", metavar="MODEL", help="A model string, e.g. `cassette:replies.yaml`."),
        click.option(
            "--executor",
            metavar="NAME",
            help="Who works: native, claude, codex, copilot, gemini, opencode, qwen, pi, or acp:CMD.",
        ),
        click.option("--agents", type=click.IntRange(1, 20), metavar="N", help="How many agents work in parallel."),
        budget_usd_option,
        budget_tokens_option,
        click.option(
            "--sandbox",
            type=click.Choice(SANDBOX_MODES),
            help="How commands of agents are confined; with `off` each one needs your approval.",
        ),
        click.option(
            "--tier", metavar="TIER", help=f"The effort of the run: {', '.join(BUILT_IN_TIERS)}, or a tier of your own."
        ),
        click.option("--greenfield", is_flag=True, help="Fast-forward the base branch when the run has completed."),
        click.option("--pr", is_flag=True, help="Push, and open a pull request, when the run has completed."),
        click.option("--detach", is_flag=True, help="Run in the background; `scaffold attach` watches."),
        click.option("--yolo", is_flag=True, help="Workers need no approvals."),
        click.option("--json", "as_json", is_flag=True, help="One JSON event per line; the last is the result."),
        quiet_option,
    ]
    for option in reversed(options):
        function = option(function)
    return function


def flags_of(options: Mapping[str, Any]) -> RunFlags:
    """Return the given flags; the path of the plan becomes absolute, because it is stored with the run."""
    if options.get("greenfield") and options.get("pr"):
        raise UsageError("--greenfield and --pr exclude each other", "Pass only one of them.")
    plan_path = options.get("plan_path")
    return msgspec.convert({**options, "plan_path": plan_path and str(Path(plan_path).absolute())}, RunFlags)
