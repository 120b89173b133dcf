"""Check the evidence that an agent names for a claim: commands that it quotes, and commits.

Which words are a command is never guessed: it is in backticks, in a field of its own, or a check of the run, word for
word. The finding is part of the answer and of the recorded claim, but it proves nothing: the agent chose the command.
"""

import re
import shutil
from collections.abc import Collection, Sequence
from functools import partial
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
MAX_CHECKED = 3
"""The most commits and commands of one claim that are checked, as each may take long."""
_COMMIT = re.compile(r"\bcommit[\s:]+`?([0-9a-f]{7,64})\b|`([0-9a-f]{7,64})`|\A\s*([0-9a-f]{7,64})\s*\Z", re.IGNORECASE)
_QUOTED = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)(?:(?:ba|z)?sh\n)?(?P<text>.+?)(?<!`)(?P=ticks)(?!`)", re.DOTALL)
_NAME = re.compile(r"[\w.+-]+|\[")
Finding = dict[str, Any]
"""The `commit` or `command`, and in `found` the result in words."""


def summarize_finding(finding: Finding) -> str:
    """Return what was checked and the finding, on one line."""
    named = finding.get("command") or finding["commit"]
    return " ".join(f"{named}: {finding['found']}".split())[:SUMMARY_CHARS]


class EvidenceCheck(Protocol):
    """Checks the evidence for a claim about a goal."""

    async def __call__(self, evidence: str, command: str) -> Sequence[Finding]:
        """Return a finding for each commit and command that is named; `command` is one, unless it is empty."""
        ...


async def nothing_to_check(evidence: str, command: str) -> Sequence[Finding]:  # noqa: ARG001 - it checks none
    """Return no findings: no evidence is checked."""
    return ()


class BranchEvidence:
    """Checks evidence at the tip of the run's branch, in a clean checkout, under the rules for workers' commands."""

    def __init__(self, context: RunContext, run: Run, goal_id: GoalId) -> None:
        self._context = context
        self._run = run
        self._checkouts = Checkouts(context, run, [f"evidence-{goal_id}"])

    async def __call__(self, evidence: str, command: str) -> Sequence[Finding]:
        """Return the findings about commits, then about commands; each is named once."""
        named = (next(filter(None, found.groups())) for found in _COMMIT.finditer(evidence))
        checks = [partial(self._check_commit, name.lower()) for name in dict.fromkeys(named)]
        checks += [partial(self._check_command, each) for each in self._commands_in(evidence, command.strip())]
        return [await check() for check in checks[:MAX_CHECKED]]

    async def _check_commit(self, name: str) -> Finding:
        branch = self._run.session_branch
        try:
            found = await commits.read_commit(self._context.git, name)
        except GitError:
            return {"commit": name, "found": f"There is no commit {name} in this repository."}
        if await commits.is_ancestor(self._context.git, found.commit, await session_tip(self._context, self._run)):
            return {"commit": found.commit, "found": f"It is on {branch}."}
        return {"commit": found.commit, "found": f"It exists, but is not on {branch}: it has not landed."}

    def _commands_in(self, evidence: str, command: str) -> Sequence[str]:
        store, run = self._context.store, self._run
        baseline, actions = store.baselines.for_run(run.id), store.actions.for_run(run.id)
        known = {each.gate.command for each in baseline.runs} if baseline else set[str]()
        known |= {check.command for each in actions if each.contract for check in each.contract.commands}
        quoted = [found["text"].strip() for found in _QUOTED.finditer(evidence)]
        # Names of the plan are quoted, too, and may be those of programs.
        names = {name for each in actions for name in (each.key, *each.effects)}
        # The programs of the run's own checks may be installed in their environment only.
        programs = {*BUILTINS, *(each.split(maxsplit=1)[0] for each in known)}
        run_once = [each for each in quoted if each not in names and self._is_command(each, programs)]
        whole = [evidence.strip()] if evidence.strip() in known else []
        return [*dict.fromkeys((*filter(None, [command]), *whole, *run_once))]

    def _is_command(self, quoted: str, programs: Collection[str]) -> bool:
        # What is quoted may also be a file, an error or a name: a command begins with a program.
        parsed = parse_plain(quoted)
        first = parsed.commands[0].words[0].text if parsed else (quoted.split() or [""])[0]
        path = command_environment(self._context.environ).get("PATH")
        return first in programs or bool(_NAME.fullmatch(first) and shutil.which(first, path=path))

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
