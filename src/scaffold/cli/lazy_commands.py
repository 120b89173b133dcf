"""Modules that are imported only when needed, so that `--help` stays fast: commands, the REPL, redaction, reports."""

import os
from collections.abc import Mapping
from functools import cache

import click

from scaffold.cli.examples import examples_text
from scaffold.cli.global_options import add_global_options
from scaffold.host.startup import lazy_import

COMMANDS: Mapping[str, str] = {
    "init": "scaffold.cli.commands.setup.init:init",
    "run": "scaffold.cli.commands.run.run:run",
    "status": "scaffold.cli.commands.inspection.status:status",
    "inbox": "scaffold.cli.commands.inbox:inbox",
    "review": "scaffold.cli.commands.taking.review:review",
    "land": "scaffold.cli.commands.taking.land:land",
    "revert": "scaffold.cli.commands.taking.revert:revert",
    "rebase": "scaffold.cli.commands.taking.rebase:rebase",
    "stop": "scaffold.cli.commands.run.control:stop",
    "resume": "scaffold.cli.commands.run.resume:resume",
    "doctor": "scaffold.cli.commands.doctor.doctor:doctor",
    "plan": "scaffold.cli.commands.plan.check:plan",
    "runs": "scaffold.cli.commands.inspection.runs:runs",
    "queue": "scaffold.cli.commands.inspection.runs:queue",
    "cost": "scaffold.cli.commands.inspection.cost:cost",
    "attach": "scaffold.cli.commands.run.attach:attach",
    "goals": "scaffold.cli.commands.inspection.goals_tasks:goals",
    "tasks": "scaffold.cli.commands.inspection.goals_tasks:tasks",
    "audit": "scaffold.cli.commands.inspection.audit:audit",
    "agents": "scaffold.cli.commands.inspection.agents:agents",
    "logs": "scaffold.cli.commands.inspection.logs:logs",
    "path": "scaffold.cli.commands.inspection.path:path",
    "send": "scaffold.cli.commands.send:send",
    "open": "scaffold.cli.commands.inspection.open:open_report",
    "diff": "scaffold.cli.commands.inspection.run_diff:diff",
    "contract": "scaffold.cli.commands.inspection.contract:contract",
    "baseline": "scaffold.cli.commands.inspection.baseline:baseline",
    "learn": "scaffold.cli.commands.learning.learn:learn",
    "memory": "scaffold.cli.commands.memory.memory:memory",
    "item": "scaffold.cli.commands.items.item:item",
    "approve": "scaffold.cli.commands.approvals:approve",
    "reject": "scaffold.cli.commands.approvals:reject",
    "answer": "scaffold.cli.commands.approvals:answer",
    "retry": "scaffold.cli.commands.run.control:retry",
    "pause": "scaffold.cli.commands.run.control:pause",
    "cancel": "scaffold.cli.commands.run.control:cancel",
    "cleanup": "scaffold.cli.commands.upkeep.cleanup:cleanup",
    "service": "scaffold.cli.commands.upkeep.service:service",
    "salvage": "scaffold.cli.commands.upkeep.salvage:salvage",
    "purge": "scaffold.cli.commands.upkeep.purge:purge",
    "config": "scaffold.cli.commands.setup.config:config",
    "completion": "scaffold.cli.commands.setup.completion:completion",
    "trust": "scaffold.cli.commands.setup.trust:trust",
    "mcp": "scaffold.cli.commands.mcp:mcp",
    "demo": "scaffold.cli.commands.run.demo:demo",
    "chat": "scaffold.cli.commands.run.chat:chat_plan",
    "worker": "scaffold.cli.commands.processes.worker:worker",
    "background": "scaffold.cli.commands.processes.background:background",
    "supervisor": "scaffold.cli.commands.processes.supervisor:supervisor",
    "zygote": "scaffold.cli.commands.processes.zygote:zygote",
    "subagent": "scaffold.cli.commands.processes.subagent:subagent",
    "trial-cleaner": "scaffold.cli.commands.processes.trial_cleaner:trial_cleaner",
    "login": "scaffold.cli.commands.setup.login:login",
    "logout": "scaffold.cli.commands.setup.login:logout",
    "whoami": "scaffold.cli.commands.setup.login:whoami",
    "permissions": "scaffold.cli.commands.setup.permissions:permissions",
    "ralph": "scaffold.cli.commands.ralph.ralph:ralph",
    "acp": "scaffold.cli.commands.ralph.editor:acp",
}
HIDDEN = frozenset({"chat", "background", "worker", "supervisor", "zygote", "subagent", "trial-cleaner"})
VISIBLE = tuple(name for name in COMMANDS if name not in HIDDEN)
"""The commands for people, the most needed first."""

COMPLETION_VARIABLES = ("_SCAFFOLD_COMPLETE", "_RALPH_COMPLETE")
"""One of them is set where a shell asks what to offer."""

REPL_MAIN = "scaffold.cli.repl.loop:run_repl"
"""Runs the REPL of `ralph`: importing it takes longer than a one-shot call may take to start."""

PICK_CONVERSATION = "scaffold.cli.repl.picker:pick_conversation"
"""Lets the user choose a conversation; imported late for the same reason."""

REDACT, REDACTED_TRACEBACK = "scaffold.cli.error_text:redact", "scaffold.cli.error_text:redacted_traceback"
PRINT_ERROR = "scaffold.cli.error_text:print_redacted"
"""Both are needed only by commands that fail."""

COMPLETE_ARGUMENTS = "scaffold.cli.argument_completion:complete_arguments"
"""Needed only where a shell asks what to offer."""

REPORT_PAGE = "scaffold.cli.render.html.page:report_page"
"""Renders a report; needed only at the end of a run."""

UNKNOWN_COMMAND = "scaffold.cli.error_text:unknown_command"
"""Makes the error of a command that does not exist."""


@cache
def load_command(name: str) -> click.Command:
    """Import and return the command of this name; raises KeyError if there is none."""
    command = lazy_import(COMMANDS[name])
    if not isinstance(command, click.Command):
        raise TypeError(COMMANDS[name])
    add_global_options(command)
    if any(name in os.environ for name in COMPLETION_VARIABLES):
        lazy_import(COMPLETE_ARGUMENTS)(command)
    command.epilog = "\n\n".join(filter(None, (command.epilog, examples_text(name))))
    return command
