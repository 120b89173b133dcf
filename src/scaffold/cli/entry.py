"""The entry points: the table of commands, each imported when it is called, so that `--help` stays fast.

The only names of modules in strings. Everything else that loads late is an import statement in `with importing()`.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import click

from scaffold.cli.global_options import add_global_options
from scaffold.host.startup import importing


class EntryPoint(NamedTuple):
    """A command: where it is, what it does, and the examples that its `--help` ends with; hidden without a summary."""

    target: str
    """`MODULE:NAME`."""
    summary: str = ""
    examples: tuple[str, ...] = ()
    """Words in capitals stand for names."""


COMMANDS: Mapping[str, EntryPoint] = {
    "init": EntryPoint(
        "scaffold.cli.commands.setup.init:init",
        "Examine this repository and write a commented configuration.",
        ("scaffold init",),
    ),
    "run": EntryPoint(
        "scaffold.cli.commands.run.run:run",
        "Plan a task and execute it: agents work, evidence decides, what passes lands.",
        (
            'scaffold run "add rate limiting to every endpoint"',
            "scaffold run --spec spec.md --budget-usd 5 --agents 4",
            "scaffold run --plan plan.yaml --yes --detach",
        ),
    ),
    "status": EntryPoint(
        "scaffold.cli.commands.inspection.status:status",
        "Show a run: goals, actions, evidence, inbox.",
        ("scaffold status", "scaffold status --watch", "scaffold status RUN --json"),
    ),
    "live": EntryPoint(
        "scaffold.cli.commands.screens:live",
        "Show a run on the whole terminal, and steer it by keys.",
        ("scaffold live", "scaffold live RUN"),
    ),
    "inbox": EntryPoint(
        "scaffold.cli.commands.inbox:inbox",
        "Show what is waiting for you: approvals and questions.",
        ("scaffold inbox", "scaffold inbox --all --json"),
    ),
    "review": EntryPoint(
        "scaffold.cli.commands.taking.review:review",
        "Show the work of a run: weak facts, commits with evidence, the diff by intent.",
        ("scaffold review", "scaffold review --stat", "scaffold review RUN --web"),
    ),
    "land": EntryPoint(
        "scaffold.cli.commands.taking.land:land",
        "Take the work of a run: fast-forward, one commit, or a pull request.",
        ("scaffold land", "scaffold land --squash", "scaffold land --only ACTION", "scaffold land RUN --pr"),
    ),
    "revert": EntryPoint(
        "scaffold.cli.commands.taking.rebase_revert:revert",
        "Undo the work of an action on the session branch, and open it again.",
        ("scaffold revert ACTION", "scaffold revert ACTION --run RUN"),
    ),
    "rebase": EntryPoint(
        "scaffold.cli.commands.taking.rebase_revert:rebase",
        "Carry the work of a run over to the new tip of its base branch.",
        ("scaffold rebase", "scaffold rebase RUN && scaffold resume RUN"),
    ),
    "stop": EntryPoint(
        "scaffold.cli.commands.run.control:stop",
        "Stop a run or a goal cleanly, or cancel an action; no work is lost.",
        ("scaffold stop", "scaffold stop GOAL", "scaffold stop ACTION"),
    ),
    "resume": EntryPoint(
        "scaffold.cli.commands.run.resume:resume",
        "Continue an interrupted or paused run, or a paused goal.",
        ("scaffold resume", "scaffold resume RUN --budget-usd 10", "scaffold resume --interrupted"),
    ),
    "doctor": EntryPoint(
        "scaffold.cli.commands.doctor.doctor:doctor",
        "Check this machine and repository, and show how to fix problems.",
        ("scaffold doctor", "scaffold doctor --json"),
    ),
    "plan": EntryPoint(
        "scaffold.cli.commands.plan.check:plan",
        "Turn a task into a plan file; check, explain, compare and simulate plans.",
        (
            'scaffold plan "add rate limiting" -o plan.yaml',
            "scaffold plan check plan.yaml",
            "scaffold plan simulate plan.yaml --agents 4",
        ),
    ),
    "runs": EntryPoint(
        "scaffold.cli.commands.inspection.listings:runs",
        "List the runs of this repository.",
        ("scaffold runs", "scaffold runs --status paused --status saved", "scaffold runs -n 1 --json"),
    ),
    "queue": EntryPoint(
        "scaffold.cli.commands.inspection.listings:queue",
        "Show the candidates of a run that wait to land.",
        ("scaffold queue", "scaffold queue --json"),
    ),
    "cost": EntryPoint(
        "scaffold.cli.commands.inspection.cost:cost",
        "Show what a run cost, by goal, role and model.",
        ("scaffold cost", "scaffold cost RUN --json"),
    ),
    "attach": EntryPoint(
        "scaffold.cli.commands.run.control:attach",
        "Watch a background run; Ctrl-C does not stop it.",
        ("scaffold attach", "scaffold attach RUN --json"),
    ),
    "goals": EntryPoint(
        "scaffold.cli.commands.inspection.listings:goals",
        "List the goals of a run: what holds and what is missing.",
        ("scaffold goals", "scaffold goals --json"),
    ),
    "tasks": EntryPoint(
        "scaffold.cli.commands.inspection.listings:tasks",
        "Show the actions of a run as a tree.",
        ("scaffold tasks", "scaffold tasks GOAL"),
    ),
    "audit": EntryPoint(
        "scaffold.cli.commands.inspection.listings:audit",
        "Show the requirements of a run, and what its last audit says of each.",
        ("scaffold audit", "scaffold audit RUN --json"),
    ),
    "agents": EntryPoint(
        "scaffold.cli.commands.inspection.listings:agents",
        "Show every process of a run: its work and its cost.",
        ("scaffold agents", "scaffold agents --json"),
    ),
    "logs": EntryPoint(
        "scaffold.cli.commands.inspection.logs:logs",
        "Show the replies and tool calls of an action's agents.",
        ("scaffold logs ACTION", "scaffold logs -f"),
    ),
    "path": EntryPoint(
        "scaffold.cli.commands.inspection.path:path",
        "Print the worktree in which an action's agent is working.",
        ('cd "$(scaffold path ACTION)"',),
    ),
    "send": EntryPoint(
        "scaffold.cli.commands.send:send",
        "Send a message to the agent of an action.",
        ('scaffold send ACTION "use sqlite, not files"', "scaffold send ACTION - < notes.md"),
    ),
    "open": EntryPoint(
        "scaffold.cli.commands.inspection.open:open_report",
        "Open the report of a run in your browser, or print its path.",
        ("scaffold open", "scaffold open RUN --json"),
    ),
    "diff": EntryPoint(
        "scaffold.cli.commands.inspection.run_diff:diff",
        "Show the changes of an action or a run.",
        ("scaffold diff ACTION", "scaffold diff RUN"),
    ),
    "contract": EntryPoint(
        "scaffold.cli.commands.inspection.contract:contract",
        "Show the checks that an action must pass.",
        ("scaffold contract ACTION", "scaffold contract ACTION --json"),
    ),
    "baseline": EntryPoint(
        "scaffold.cli.commands.inspection.baseline:baseline",
        "Show the gate results before the work, or reset them.",
        ("scaffold baseline", "scaffold baseline reset"),
    ),
    "learn": EntryPoint(
        "scaffold.cli.commands.learn:learn",
        "Show what earlier work showed, and what of it helped; add to it.",
        (
            "scaffold learn add 'WHEN tests hang DO look for localhost RESULT they pass' -c tests",
            "scaffold learn tests hang",
            "scaffold learn --evaluate",
        ),
    ),
    "memory": EntryPoint(
        "scaffold.cli.commands.memory.memory:memory",
        "Show, search, correct and delete what `ralph` remembers; add to it.",
        (
            "scaffold memory search database tests",
            "scaffold memory add 'The integration tests need Redis on port 6379'",
            "scaffold memory export memories.md",
        ),
    ),
    "item": EntryPoint(
        "scaffold.cli.commands.item:item",
        "Keep tasks and epics outside of any plan; agents file here what they find.",
        (
            "scaffold item add 'the cache is never emptied' -p shop -l bug",
            "scaffold item ready",
            "scaffold item block ITEM waits for the new server",
        ),
    ),
    "approve": EntryPoint(
        "scaffold.cli.commands.decisions:approve",
        "Approve a request of an agent.",
        ("scaffold approve ID", "scaffold approve ID --for run --hours 2"),
    ),
    "reject": EntryPoint(
        "scaffold.cli.commands.decisions:reject",
        "Reject a request of an agent; the agent reads your reason.",
        ('scaffold reject ID --why "use the file tools"',),
    ),
    "answer": EntryPoint(
        "scaffold.cli.commands.decisions:answer", "Answer an agent's question.", ('scaffold answer ID "sqlite"',)
    ),
    "notify": EntryPoint(
        "scaffold.cli.commands.notify:notify",
        "Deliver notifications that are due, or try your channels.",
        ("scaffold notify", "scaffold notify --test"),
    ),
    "retry": EntryPoint(
        "scaffold.cli.commands.run.control:retry",
        "Retry a failed action, goal or run.",
        ("scaffold retry ACTION", "scaffold retry && scaffold resume"),
    ),
    "pause": EntryPoint(
        "scaffold.cli.commands.run.control:pause",
        "Start nothing new in a run or a goal; running work finishes.",
        ("scaffold pause", "scaffold pause GOAL"),
    ),
    "cancel": EntryPoint(
        "scaffold.cli.commands.run.control:cancel",
        "End a run or a goal for good; landed work stays, other work stays pinned.",
        ("scaffold cancel RUN", "scaffold cancel GOAL"),
    ),
    "cleanup": EntryPoint(
        "scaffold.cli.commands.upkeep.cleanup:cleanup",
        "Remove leftovers of ended and interrupted runs; unlanded work is pinned first.",
        ("scaffold cleanup --dry-run", "scaffold cleanup"),
    ),
    "service": EntryPoint(
        "scaffold.cli.commands.upkeep.service:service",
        "Print a systemd or launchd unit that continues interrupted runs after a reboot.",
        ("scaffold service", "scaffold service RUN"),
    ),
    "salvage": EntryPoint(
        "scaffold.cli.commands.upkeep.salvage:salvage",
        "List unlanded work, or make a branch of it.",
        ("scaffold salvage", "scaffold salvage ATTEMPT"),
    ),
    "purge": EntryPoint(
        "scaffold.cli.commands.upkeep.cleanup:purge",
        "Remove Scaffold's state of this repository; with `--all`, your settings, too.",
        ("scaffold purge --dry-run",),
    ),
    "config": EntryPoint(
        "scaffold.cli.commands.setup.config:config",
        "Print every setting with its value and origin, or set one.",
        (
            "scaffold config",
            "scaffold config budget_usd 5",
            "scaffold config quality_gates.test 'npm test'",
            "scaffold config --unset budget_usd",
            "scaffold config --list",
        ),
    ),
    "completion": EntryPoint(
        "scaffold.cli.commands.setup.completion:completion",
        "Print what makes your shell complete commands, actions, runs and settings.",
        ('eval "$(scaffold completion bash)"', "scaffold completion fish | source"),
    ),
    "trust": EntryPoint(
        "scaffold.cli.commands.setup.trust:trust",
        "Review a folder's own configuration, and trust it.",
        ("scaffold trust --show", "scaffold trust --yes"),
    ),
    "executors": EntryPoint(
        "scaffold.cli.commands.executors:executors",
        "Show the coding agents of others that can work for you, and try one.",
        ("scaffold executors", "scaffold executors check claude"),
    ),
    "serve": EntryPoint(
        "scaffold.cli.commands.screens:serve",
        "Show all your runs in a browser: evidence, what waits for you, commands.",
        ("scaffold serve", "scaffold serve --port 8080 --read-only"),
    ),
    "mcp": EntryPoint(
        "scaffold.cli.commands.mcp:mcp",
        "Serve this repository's runs to other programs, by the Model Context Protocol.",
        ("scaffold mcp", "scaffold mcp --allow-start", "scaffold mcp --http 0"),
    ),
    "demo": EntryPoint(
        "scaffold.cli.commands.run.demo:demo",
        "Watch a whole run on a sample project, without an API key.",
        ("scaffold demo", "scaffold demo --dir /tmp/demo"),
    ),
    "chat": EntryPoint("scaffold.cli.commands.run.chat:chat_plan"),
    "worker": EntryPoint("scaffold.cli.commands.processes.worker:worker"),
    "background": EntryPoint("scaffold.cli.commands.processes.background:background"),
    "supervisor": EntryPoint("scaffold.cli.commands.processes.supervisor:supervisor"),
    "zygote": EntryPoint("scaffold.cli.commands.processes.zygote:zygote"),
    "subagent": EntryPoint("scaffold.cli.commands.processes.subagent:subagent"),
    "trial-cleaner": EntryPoint("scaffold.cli.commands.processes.trial_cleaner:trial_cleaner"),
    "login": EntryPoint(
        "scaffold.cli.commands.setup.login:login",
        "Log in with your ChatGPT subscription, for models such as `codex:gpt-5`.",
        ("ralph login", "ralph login --headless"),
    ),
    "logout": EntryPoint(
        "scaffold.cli.commands.setup.login:logout",
        "Delete that login for good, and ask the provider to revoke it.",
        ("ralph logout",),
    ),
    "whoami": EntryPoint(
        "scaffold.cli.commands.setup.login:whoami",
        "Show with which subscription you are logged in.",
        ("ralph whoami", "ralph whoami --json"),
    ),
    "permissions": EntryPoint(
        "scaffold.cli.commands.setup.permissions:permissions",
        "Show what agents may do: `permissions check -- COMMAND`.",
        ("scaffold permissions check -- git push --force",),
    ),
    "ralph": EntryPoint(
        "scaffold.cli.commands.ralph.ralph:ralph",
        "Work with one agent (the same as the command `ralph`).",
        ('ralph "fix the failing test"', "ralph -c", "git diff | ralph -p 'review this'"),
    ),
    "acp": EntryPoint(
        "scaffold.cli.commands.ralph.editor:acp",
        "Let an editor work with `ralph`, by the Agent Client Protocol: `ralph acp`.",
        ("ralph acp", "ralph acp --model anthropic:claude-sonnet-4-5"),
    ),
}
VISIBLE = tuple(name for name, entry in COMMANDS.items() if entry.summary)
"""The commands for people, the most needed first."""
RALPH_COMMANDS = ("acp", "login", "logout", "permissions", "whoami")
"""Commands of `scaffold` that are commands of `ralph`, too: as its first word they are not a task."""
COMPLETION_VARIABLES = ("_SCAFFOLD_COMPLETE", "_RALPH_COMPLETE")  # one is set when a shell asks for completions


@cache
def load_command(name: str) -> click.Command:
    """Import and return the command of this name; raises KeyError if there is none."""
    entry = COMMANDS[name]
    # onnxruntime asks for its maker's host otherwise, and keeps an id of this device; it reads this as it is loaded.
    # Unlike `os.environ`, this does not reach the commands of agents and checks.
    os.putenv("ORT_DISABLE_TELEMETRY", "1")
    module, _, attribute = entry.target.partition(":")
    _load_msgspec()
    with importing():
        command = getattr(importlib.import_module(module), attribute)
    if not isinstance(command, click.Command):
        raise TypeError(entry.target)
    add_global_options(command)
    if any(each in os.environ for each in COMPLETION_VARIABLES):
        with importing():
            from scaffold.cli.argument_completion import complete_arguments
        complete_arguments(command)
    if entry.examples:
        examples = "\n".join(f"  {line}" for line in entry.examples)
        # `\b` keeps click from wrapping the lines.
        command.epilog = "\n\n".join(filter(None, (command.epilog, f"\b\nExamples:\n{examples}")))
    return command


def _load_msgspec() -> None:
    """Load msgspec without `typing_extensions`, of which it would take three names that `typing` has, too.

    That module takes longer to load than msgspec; others can still load it.
    """
    if "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment] # as if there were no such module
        with importing():
            import msgspec  # noqa: F401
        del sys.modules["typing_extensions"]
