"""Check the evidence that an agent names for a claim, if it is a command or a commit.

The finding is part of the answer and of the recorded claim, but it proves nothing: the agent chose the command.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from scaffold.core.errors import GitError
from scaffold.core.ids import GoalId
from scaffold.core.model import Run
from scaffold.core.printable_text import truncate_text
from scaffold.core.proof.contract import Check, CheckResult, Contract
from scaffold.git import commits
from scaffold.landing.facts.landing_record import session_tip
from scaffold.landing.proving.checkout import Checkouts
from scaffold.landing.proving.fact_refresh import FactRefresher
from scaffold.policy.permission.call_decision import CallContext, decide_call
from scaffold.policy.permission.call_request import ToolInvocation, permission_request
from scaffold.policy.secret.command_environment import command_environment
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.parse.command_parser import parse_plain
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.run.context import RunContext
from scaffold.verify.contract.check_runs import Tree, run_check
from scaffold.worker.human.inbox_approval import worker_rules

DETAIL_CHARS = 1_000
"""Limit for the output of a command in an answer, in characters."""
SUMMARY_CHARS = 200
BUILTINS = frozenset({"test", "[", "cd", "true", "false", ":"})
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_NAME = re.compile(r"[\w./+-]+")
Finding = dict[str, Any]
"""The `commit` or `command`, and in `found` the result in words."""


def summarize_finding(finding: Finding) -> str:
    """Return the finding on one line."""
    return " ".join(str(finding["found"]).split())[:SUMMARY_CHARS]


class EvidenceCheck(Protocol):
    """Checks the evidence for a claim about a goal."""

    async def __call__(self, evidence: str) -> Finding | None:
        """Return the finding; None if the evidence is neither a command nor a commit."""
        ...


async def nothing_to_check(evidence: str) -> Finding | None:  # noqa: ARG001 - it checks none
    """Return None: no evidence is checked."""
    return None


class BranchEvidence:
    """Checks evidence at the tip of the run's branch, in a clean checkout, under the rules for workers' commands."""

    def __init__(self, context: RunContext, run: Run, goal_id: GoalId) -> None:
        self._context = context
        self._run = run
        self._checkouts = Checkouts(context, run, [f"evidence-{goal_id}"])

    async def __call__(self, evidence: str) -> Finding | None:
        """Return the finding about a commit or a command; None if the evidence is neither."""
        text = evidence.strip()
        if _COMMIT.fullmatch(text):
            return await self._check_commit(text)
        return await self._check_command(text) if self._is_command(text) else None

    async def _check_commit(self, name: str) -> Finding:
        branch = self._run.session_branch
        try:
            found = await commits.read_commit(self._context.git, name)
        except GitError:
            return {"commit": name, "found": f"There is no commit {name} in this repository."}
        if await commits.is_ancestor(self._context.git, found.commit, await session_tip(self._context, self._run)):
            return {"commit": found.commit, "found": f"It is on {branch}."}
        return {"commit": found.commit, "found": f"It exists, but is not on {branch}: it has not landed."}

    def _is_command(self, text: str) -> bool:
        # A command begins with a word that the shell finds as a program; most other texts do not.
        parsed = parse_plain(text)
        first = parsed.commands[0].words[0].text if parsed else (text.split() or [""])[0]
        if not _NAME.fullmatch(first):
            return False
        path = command_environment(self._context.environ).get("PATH")
        return first in BUILTINS or first in set(self._known_programs()) or shutil.which(first, path=path) is not None

    def _known_programs(self) -> Iterator[str]:
        # The programs of the run's own checks and gates may be installed in their environment only.
        baseline = self._context.store.baselines.for_run(self._run.id)
        for run in baseline.runs if baseline else ():
            yield run.gate.command.split(maxsplit=1)[0]
        for action in self._context.store.actions.for_run(self._run.id):
            for check in action.contract.commands if action.contract else ():
                yield check.command.split(maxsplit=1)[0]

    async def _check_command(self, command: str) -> Finding:
        store, run = self._context.store, self._run
        refresher = FactRefresher(self._context, run, self._checkouts, lambda: store.baselines.for_run(run.id))
        tip = await session_tip(self._context, run)
        try:
            (result,) = await refresher.run_contract(
                Contract(commands=(Check(command=command),)), tip, {"SCAFFOLD_RUN": run.id}, run=self._run_if_allowed
            )
        finally:
            await self._checkouts.remove()
        found = {"verdict": result.verdict, "exit_code": result.exit_code, "commit": tip}
        return {"command": command, **found, "found": truncate_text(result.detail, DETAIL_CHARS)}

    async def _run_if_allowed(self, check: Check, tree: Tree) -> CheckResult:
        # Under the rules of a worker's shell, without asking for approval.
        confined = tree.sandbox is not None
        workspace = WorkspacePaths.on_disk(tree.git.cwd, Path.home())
        call = ToolInvocation(tool="shell", category="shell", args={"command": check.command}, confined=confined)
        rules = worker_rules(self._run.settings.permissions, confined=confined)
        decision = await decide_call(
            permission_request(call, workspace),
            rules,
            CallContext(workspace=workspace),
            ShellCommandPolicy(self._context.environ),
        )
        if decision.decision == "allow":
            return await run_check(check, tree)
        how = "Make it a check in the contract of an action."
        return CheckResult(name=check.command, verdict="error", detail=f"It was not run: {decision.reason}. {how}")
