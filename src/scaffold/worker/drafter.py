"""The drafter of contracts: what it writes becomes a contract, or it is asked again with what is wrong with it."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from scaffold.agent.journal import noting
from scaffold.core.contract import Contract
from scaffold.core.errors import PlanInvalid, ScaffoldError
from scaffold.core.ports import Model
from scaffold.core.tool import Tool, ToolOutput
from scaffold.plan.planfile import read_contract
from scaffold.tools.arguments import object_schema
from scaffold.verify.strengthen import strengthened, weakened
from scaffold.worker.adviser import Adviser
from scaffold.worker.consent import worker_gate
from scaffold.worker.draft_prompt import intent_of, unreadable, weaker
from scaffold.worker.station import Station
from scaffold.worker.watch import Stuck

ASKS = 3
"""How often a drafter is asked until its answer can be used."""
MOST_COMMANDS = 30
MEND = "Give the action a contract in its plan, or choose another model for the drafter."

_FENCED = re.compile(r"^```[ \t]*\w*[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


class NoContract(ScaffoldError):
    """A drafter was asked, and gave no contract that could be used."""


class Drafter:
    """One conversation with the drafter, paid by the attempt and written into its journal."""

    def __init__(self, station: Station, model: Model, event: Literal["draft", "refine"]) -> None:
        self._station = station
        self._asked = 0
        self._adviser = Adviser(station, model, "drafter", event=event)

    async def contract(self, said: str) -> Contract:
        """Ask until the answer is a contract whose commands may be run."""
        self._asked = 0
        while True:
            answer = _read(await self._answer(said))
            if isinstance(answer, Contract):
                denied = await self._denied(answer)
                if not denied:
                    return self._with_intent(answer)
                answer = _Unusable(denied)
            if self._asked >= ASKS:
                raise _no_contract(answer.why)
            said = unreadable(answer.why)

    async def strengthened(self, held: Contract, said: str) -> Contract:
        """Ask until the answer is a contract that only adds to the one `held`; return both in one."""
        answer = await self.contract(said)
        for _ in range(ASKS - 1):
            differences = weakened(held, answer)
            if not differences:
                break
            answer = await self.contract(weaker(differences))
        differences = weakened(held, answer)
        if differences:
            raise NoContract(f"what was to strengthen it asks for less: {differences[0]}", "See `scaffold logs`.")
        return strengthened(held, answer)

    async def _answer(self, said: str) -> str:
        self._asked += 1
        finish = await self._adviser.turn(said)
        if isinstance(finish, Stuck):
            raise NoContract(f"the drafter gave no contract: {finish.cause}", MEND)
        return finish.text

    def _with_intent(self, contract: Contract) -> Contract:
        return contract if contract.intent else structs.replace(contract, intent=intent_of(self._station.task.action))

    async def _denied(self, contract: Contract) -> str:
        """Return why a command may not be run outside a sandbox; empty if all may, or if they are held."""
        station, settings = self._station, self._station.task.run.settings
        if station.walls is not None:
            return ""
        root, tell = station.workspace.path, noting(self._adviser.journal)
        gate = worker_gate(station.site, settings, root, station.human, confined=False, tell=tell)
        shell = gate.guard(_JUDGED)
        for check in contract.commands:
            judged = await shell.run({"command": check.command})
            if judged.failed:
                return f"`{check.command}` may not be run. {judged.content}"
        return ""


class _Unusable(Struct, frozen=True):
    """An answer that is no contract."""

    why: str


def _read(text: str) -> Contract | _Unusable:
    """Return the contract in an answer: in its last fenced block, or all of it."""
    blocks = _FENCED.findall(text)
    try:
        contract = read_contract(blocks[-1] if blocks else text, name="contract")
    except PlanInvalid as invalid:
        return _Unusable(" ".join(f"{finding.message}. {finding.fix}" for finding in invalid.findings[:5]))
    if contract.empty:
        return _Unusable("it checks nothing at all.")
    if len(contract.commands) > MOST_COMMANDS:
        return _Unusable(f"it has more than {MOST_COMMANDS} commands.")
    return contract


def _no_contract(why: str) -> NoContract:
    return NoContract(
        f"the drafter gave no contract in {ASKS} answers: {why}",
        MEND,
    )


async def _anything(_: Mapping[str, Any]) -> ToolOutput:
    return ToolOutput("")


_JUDGED = Tool(
    name="shell",
    description="A check, judged like a command of an agent, and run later.",
    schema=object_schema({"command": {"type": "string"}}),
    category="shell",
    run=_anything,
)
