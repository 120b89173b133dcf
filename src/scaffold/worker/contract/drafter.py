"""The contract drafter: its answer becomes a contract, or it is asked again with the error."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, structs

from scaffold.agent.journal import approval_logger
from scaffold.core.errors import PlanInvalid, ScaffoldError
from scaffold.core.model import Action
from scaffold.core.plan import full_text
from scaffold.core.printable_text import truncate_text
from scaffold.core.proof.contract import Contract
from scaffold.core.tool import Tool, ToolOutput
from scaffold.plan.text.file_format import contract_document, read_contract
from scaffold.tools.arguments import object_schema
from scaffold.verify.contract.strictness import find_weakenings, strengthen
from scaffold.verify.paths.conventions import is_test
from scaffold.verify.paths.declared_paths import is_declared_path
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.agent.side_agent import SideAgent
from scaffold.worker.agent.watchdog import NoProgress
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.inbox_approval import worker_gate
from scaffold.worker.workspace.workplace import Workplace

TASK_CHARS = 16_000
BRIEFING_CHARS = 8_000
DIFF_CHARS = 24_000
MAX_PATHS = 60
MAX_ASKS = 3
"""Answers a drafter may give until one can be used."""
MAX_COMMANDS = 30
NO_CONTRACT_FIX = "Give the action a contract in its plan, or choose another model for the drafter."
_FENCED = re.compile(r"^```[ \t]*\w*[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_STRENGTHEN = """\
Now that you can see the work: what else must hold that the contract does not check? Answer with the whole contract: all
existing entries first and unchanged, then your additions. You can only add. If nothing is missing, answer with the
contract as it is."""


class DraftContext(Struct, frozen=True, kw_only=True):
    """The repository as the drafter sees it."""

    paths: tuple[str, ...]
    """All paths on the base."""
    gates: tuple[tuple[str, str], ...] = ()
    """The repository's own gates: names and commands."""


class NoContract(ScaffoldError):
    """The drafter gave no usable contract."""


class ContractDrafter:
    """One conversation with the drafter, paid from the attempt's budget and recorded in the action's journal."""

    def __init__(
        self,
        place: Workplace,
        capabilities: AgentCapabilities,
        records: AttemptRecords,
        event: Literal["draft", "refine"],
    ) -> None:
        self._place = place
        self._human = capabilities.human
        self._records = records
        self._side_agent = SideAgent(place.workspace, records, capabilities.adviser("drafter"), "drafter", event=event)

    async def contract(self, prompt: str) -> Contract:
        """Return a contract whose commands may be run; NoContract if the drafter gives none."""
        asked = 0
        while True:
            asked += 1
            finish = await self._side_agent.turn(prompt)
            if isinstance(finish, NoProgress):
                raise NoContract(f"the drafter returned no contract: {finish.cause}", NO_CONTRACT_FIX)
            answer = _read_answer(finish.text)
            if isinstance(answer, Contract):
                # The drafter is a model: its commands are judged before anything is sealed.
                denied = await self._denied_command(answer)
                if not denied:
                    intent = answer.intent or intent_of(self._records.task.action)
                    return structs.replace(answer, intent=intent)
                answer = _UnusableAnswer(denied)
            if asked >= MAX_ASKS:
                why = f"the drafter returned no contract in {MAX_ASKS} answers: {answer.why}"
                raise NoContract(why, NO_CONTRACT_FIX)
            prompt = unreadable_prompt(answer.why)

    async def strengthened(self, draft: Contract, prompt: str) -> Contract:
        """Return `draft` with the drafter's additions; NoContract if its answers keep weakening the draft."""
        answer = await self.contract(prompt)
        for _ in range(MAX_ASKS - 1):
            differences = find_weakenings(draft, answer)
            if not differences:
                break
            answer = await self.contract(weakened_prompt(differences))
        differences = find_weakenings(draft, answer)
        if differences:
            raise NoContract(f"the final contract is weaker than the draft: {differences[0]}", "See `scaffold logs`.")
        return strengthen(draft, answer)

    async def _denied_command(self, contract: Contract) -> str:
        if missing := await self._place.missing_program(contract, self._records.declaration.files):
            return f"{missing.what}. Choose a check that can run there."
        # A sandbox confines the commands; without one they are judged like an agent's calls.
        place, permissions = self._place, self._records.task.run.settings.permissions
        if place.sandbox is not None:
            return ""
        root, tell = place.workspace.path, approval_logger(self._side_agent.journal)
        gate = worker_gate(place.run_context, permissions, root, self._human, confined=False, tell=tell)
        shell = gate.guard(_COMMAND_PROBE)
        for check in contract.commands:
            judged = await shell.run({"command": check.command})
            if judged.failed:
                return f"`{check.command}` may not be run. {judged.content}"
        return ""


class _UnusableAnswer(Struct, frozen=True):
    """An answer that is not a usable contract; the drafter gets `why`."""

    why: str


def _read_answer(text: str) -> Contract | _UnusableAnswer:
    # Models often explain first, so the last fenced block counts; without one, the whole answer.
    blocks = _FENCED.findall(text)
    try:
        contract = read_contract(blocks[-1] if blocks else text, name="contract")
    except PlanInvalid as invalid:
        return _UnusableAnswer(" ".join(f"{finding.message}. {finding.fix}" for finding in invalid.findings[:5]))
    if contract.empty:
        return _UnusableAnswer("it checks nothing.")
    if len(contract.commands) > MAX_COMMANDS:
        return _UnusableAnswer(f"it has more than {MAX_COMMANDS} commands.")
    return contract


async def _run_nothing(_: Mapping[str, Any]) -> ToolOutput:
    return ToolOutput("")


_COMMAND_PROBE = Tool(
    name="shell",
    description="A check, judged like a command of an agent, and run later.",
    schema=object_schema({"command": {"type": "string"}}),
    category="shell",
    run=_run_nothing,
)


def draft_prompt(action: Action, repository: DraftContext, briefing: str) -> str:
    """Return the prompt for a contract before the work."""
    paths = repository.paths
    at_root = dict.fromkeys(f"{first}{slash}" for first, slash, _ in (path.partition("/") for path in paths))
    declared = [path for path in paths if is_declared_path(path, action.files)]
    other_tests = [path for path in paths if is_test(path) and not is_declared_path(path, action.files)]
    parts = [
        f"# The task: {action.key} (role: {action.role})\n{truncate_text(full_text(action), TASK_CHARS)}",
        _bounded_list("# Effects that hold once it has landed", action.effects),
        _bounded_list("# Files it is expected to change", action.files),
        _bounded_list("# Gates that run anyway", (f"{name}: `{command}`" for name, command in repository.gates)),
        _bounded_list("# At the root of the repository", at_root),
        _bounded_list("# Paths that may matter", (*declared, *other_tests)),
        f"# What earlier attempts showed\n{truncate_text(briefing, BRIEFING_CHARS)}" if briefing else "",
        "Write the contract of this task. None of the work has been done yet.",
    ]
    return "\n\n".join(part for part in parts if part)


def refine_prompt(action: Action, draft: Contract, diff: str) -> str:
    """Return the prompt for the final contract, after the work passed its draft."""
    return "\n\n".join(
        (
            f"# The task: {action.key}\n{truncate_text(full_text(action), TASK_CHARS)}",
            f"# Its contract, which the work passes\n{fenced_json(draft)}",
            f"# The change\n```diff\n{truncate_text(diff, DIFF_CHARS)}\n```",
            _STRENGTHEN,
        )
    )


def fenced_json(contract: Contract) -> str:
    """Return a contract in the format drafters write."""
    return f"```json\n{json.dumps(contract_document(contract), indent=2, ensure_ascii=False)}\n```"


def unreadable_prompt(finding: str) -> str:
    """Return the prompt after an answer that is not a valid contract."""
    return f"That is not a valid contract: {finding}\nAnswer with one fenced JSON block, as described."


def holds_before_work_prompt(contract: Contract) -> str:
    """Return the prompt after a contract that passes before the work."""
    names = ", ".join(f"`{check.command}`" for check in contract.commands[:5])
    return (
        f"All its checks already pass before any work{f': {names}' if names else ''}, so it proves nothing. Write it "
        "so that at least one required check fails now and passes once the work is done; if no command can tell, "
        "repeat the same contract."
    )


def weakened_prompt(differences: Sequence[str]) -> str:
    """Return the prompt after a final contract that is weaker than its draft."""
    lines = "\n".join(f"- {each}" for each in differences[:20])
    return f"That is weaker than the contract, which is not allowed:\n{lines}\nRestore these entries; you can only add."


def intent_of(action: Action) -> str:
    """Return the planner's intent for verification, else the first paragraph of the description."""
    return action.verification_intent.strip() or action.description.strip().partition("\n\n")[0]


def _bounded_list(heading: str, lines: Iterable[str]) -> str:
    every = list(lines)
    if not every:
        return ""
    more = [f"- … and {len(every) - MAX_PATHS} more"] if len(every) > MAX_PATHS else []
    return "\n".join([heading, *(f"- {line}" for line in every[:MAX_PATHS]), *more])
