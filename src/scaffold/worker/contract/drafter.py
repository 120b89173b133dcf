"""The contract drafter: its answer becomes a contract, or it is asked again with the error."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from scaffold.agent.journal import approval_logger
from scaffold.core.errors import PlanInvalid, ScaffoldError
from scaffold.core.proof.contract import Contract
from scaffold.core.tool import Tool, ToolOutput
from scaffold.plan.text.file_format import read_contract
from scaffold.tools.arguments import object_schema
from scaffold.verify.contract.strictness import find_weakenings, strengthen
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.agent.side_agent import SideAgent
from scaffold.worker.agent.watchdog import NoProgress
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.contract.drafter_prompts import intent_of, unreadable_prompt, weakened_prompt
from scaffold.worker.human.inbox_approval import worker_gate
from scaffold.worker.workspace.workplace import Workplace

MAX_ASKS = 3
"""Answers a drafter may give until one can be used."""
MAX_COMMANDS = 30
NO_CONTRACT_FIX = "Give the action a contract in its plan, or choose another model for the drafter."

_FENCED = re.compile(r"^```[ \t]*\w*[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


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
        self._asked = 0
        self._side_agent = SideAgent(place.workspace, records, capabilities.model_of("drafter"), "drafter", event=event)

    async def contract(self, prompt: str) -> Contract:
        """Return a contract whose commands may be run; NoContract if the drafter gives none."""
        self._asked = 0
        while True:
            answer = _read(await self._answer(prompt))
            if isinstance(answer, Contract):
                # The drafter is a model: without a sandbox its commands are judged like
                # those of an agent, before anything is sealed.
                denied = await self._denied(answer)
                if not denied:
                    return self._with_intent(answer)
                answer = _UnusableAnswer(denied)
            if self._asked >= MAX_ASKS:
                raise _no_contract(answer.why)
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

    async def _answer(self, prompt: str) -> str:
        self._asked += 1
        finish = await self._side_agent.turn(prompt)
        if isinstance(finish, NoProgress):
            raise NoContract(f"the drafter returned no contract: {finish.cause}", NO_CONTRACT_FIX)
        return finish.text

    def _with_intent(self, contract: Contract) -> Contract:
        return contract if contract.intent else structs.replace(contract, intent=intent_of(self._records.task.action))

    async def _denied(self, contract: Contract) -> str:
        """Return why a command may not be run; empty if all may, as always in a sandbox."""
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


def _read(text: str) -> Contract | _UnusableAnswer:
    """Return the contract in the answer's last fenced block, or in the whole answer if it has none."""
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


def _no_contract(why: str) -> NoContract:
    return NoContract(
        f"the drafter returned no contract in {MAX_ASKS} answers: {why}",
        NO_CONTRACT_FIX,
    )


async def _run_nothing(_: Mapping[str, Any]) -> ToolOutput:
    return ToolOutput("")


_COMMAND_PROBE = Tool(
    name="shell",
    description="A check, judged like a command of an agent, and run later.",
    schema=object_schema({"command": {"type": "string"}}),
    category="shell",
    run=_run_nothing,
)
