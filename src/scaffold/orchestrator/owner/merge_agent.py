"""The merge agent: the prompt about files that no program could merge, and the parser of its answer."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import unified_diff

from msgspec import structs

from scaffold.agent.agent_spec import AgentRecords, AgentSpec
from scaffold.agent.io_port import AgentIO
from scaffold.agent.journal import JournalFile
from scaffold.agent.prompts import system_prompt
from scaffold.core.conversation import Caller
from scaffold.core.errors import BudgetExceeded, ModelError, UsageError
from scaffold.core.ids import AttemptId
from scaffold.core.landing.conflict import (
    ConflictExplanation,
    FileVersions,
    MergeAnswer,
    MergedCode,
    MergeQuestion,
    NotMerged,
)
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.ports import MergeCheck
from scaffold.core.printable_text import truncate_text, utf8_safe
from scaffold.core.spending import Spender
from scaffold.host.process_identity import own_identity
from scaffold.llm.transport.live_context import Patience
from scaffold.run.attempts.time_limit import TimeLimit
from scaffold.run.context import RunContext
from scaffold.run.notices import warn
from scaffold.run.paid_replies import PaidReplies
from scaffold.store.spending.run_budget import RunBudget
from scaffold.worker.agent.agent_source import AgentSource, OpenSource, booked_as
from scaffold.worker.agent.role_agents import new_agent
from scaffold.worker.agent.watchdog import TurnTaker

ROLE = "merger"
MAX_ASKS = 3
"""How many answers the agent may give until one is usable."""
MAX_QUESTIONS = 3
"""How many questions one attempt's work may cause: landings meanwhile may change the files."""
TASK_CHARS, EXPLANATION_CHARS = 8_000, 2_000
_SECTION = re.compile(r"^[#*_\s]*(MERGED CODE|CONFLICT EXPLANATION)[*_:\s]*", re.MULTILINE)
_BLOCK = re.compile(
    r"^(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL
)


class MergeAgent:
    """Asks the run's model in a new conversation, paid by the attempt whose work is merged. Implements `Merger`.

    An answered question costs nothing again: a candidate may wait, or its owner die, and then meet the same tip. If the
    model fails, the conflict is left to a new attempt, and no work is lost.
    """

    def __init__(self, context: RunContext, run: Run, open_source: OpenSource) -> None:
        self._context = context
        self._run = run
        self._open_source = open_source
        self._questions = defaultdict[AttemptId, set[MergeQuestion]](set)

    async def merge(self, question: MergeQuestion, check: MergeCheck) -> MergeAnswer:
        """Return the merged files, or why there are none; if the model failed, it may answer the next time."""
        store, redactor = self._context.store, self._context.redactor
        action = store.actions.by_key(self._run.id, question.action)
        attempts = store.attempts.for_action(action.id) if action else ()
        if action is None or not attempts:
            raise LookupError(question.action)
        attempt = attempts[-1]
        answered = self._questions[attempt.id]
        if question not in answered and len(answered) >= MAX_QUESTIONS:
            return NotMerged(f"it was asked {MAX_QUESTIONS} times, and the files kept changing")
        limit = TimeLimit(self._context.clock, self._run.settings.tier.timeout_s)
        patience = Patience(self._run.settings.limits.model_wait_s, limit.paused)
        try:
            async with limit.enforced(), self._open_source(patience=patience) as source:
                answer = await self._ask_until_usable(self._create_agent(source, action, attempt), question, check)
            answered.add(question)
        except TimeoutError:
            if limit.left_s > 0:
                raise
            answer = NotMerged(f"it took more than {limit.limit_s:.0f} s")
        except (ModelError, BudgetExceeded, UsageError) as error:
            answer = NotMerged(error.what)
        if isinstance(answer, MergedCode):
            return answer
        warn(self._context, self._run.id, f"{action.key} was not merged by an agent: {answer.why}")
        return structs.replace(answer, why=redactor.clean(utf8_safe(answer.why)))

    def _create_agent(self, source: AgentSource, action: Action, attempt: Attempt) -> TurnTaker:
        context, settings = self._context, self._run.settings
        own = settings.agent_model(ROLE)
        goal = context.store.goals.get(action.goal_id)
        journal = JournalFile(
            context.journal(goal.name if goal else action.key, action.key),
            clock=context.clock,
            fields={"run": self._run.id, "action": action.key, "attempt": attempt.number, "role": ROLE},
            redactor=context.redactor,
        )
        budget = RunBudget(
            context.store,
            attempt,
            Spender(ROLE, booked_as(source, own)),
            limits=settings.limits,
            clock=context.clock,
            owner=own_identity(),
        )
        return new_agent(
            source,
            tools=(),
            brief=AgentSpec(
                caller=Caller(role=ROLE, action=action.key, attempt=attempt.number),
                system=system_prompt(
                    ROLE, folders=settings.planning.prompts, notice=lambda text: warn(context, self._run.id, text)
                ),
                max_requests=MAX_ASKS,
                effort=own.effort_of(ROLE),
                compaction=own.compaction,
                whole_prompt=True,
            ),
            io=AgentIO(redactor=context.redactor),
            records=AgentRecords(
                journal=journal, budget=budget, paid=PaidReplies(context.store, attempt.action_id, own.name)
            ),
        )

    async def _ask_until_usable(self, agent: TurnTaker, question: MergeQuestion, check: MergeCheck) -> MergeAnswer:
        prompt, problem = self._context.redactor.clean(merge_prompt(question)), ""
        if prompt != merge_prompt(question):
            # The answer would land with a placeholder in place of the secret.
            return NotMerged("a version of a file has a secret in it, which no model is shown")
        for _ in range(MAX_ASKS):
            finish = await agent.turn(prompt)
            if finish.stop == "refused":
                return NotMerged("the model refused")
            answer = read_answer(finish.text, [each.path for each in question.files])
            if isinstance(answer, ConflictExplanation):
                return answer
            problem = answer if isinstance(answer, str) else check(answer.texts)
            if isinstance(answer, MergedCode) and not problem:
                return answer
            prompt = f"That cannot be used: {problem}.\nAnswer again: MERGED CODE, or CONFLICT EXPLANATION."
        return NotMerged(f"none of its {MAX_ASKS} answers can be used: {problem}")


def merge_prompt(question: MergeQuestion) -> str:
    """Return the prompt about files in conflict."""
    parts = [f"# The task: {question.action}\n{truncate_text(question.task, TASK_CHARS)}"]
    for file in question.files:
        parts += [
            f"# {file.path}",
            f"What has landed:\n{_fence_text(file.ours)}",
            f"What the landed work changed in it:\n{_fence_text(_diff_text(file, file.ours))}",
            f"What the work of the task changed in it:\n{_fence_text(_diff_text(file, file.theirs))}",
            f"The work:\n{_fence_text(file.theirs)}",
        ]
    return "\n\n".join([*parts, "Merge these files."])


def _diff_text(file: FileVersions, side: str) -> str:
    lines = unified_diff(file.base.splitlines(), side.splitlines(), "before", "after", lineterm="")
    return "\n".join(lines)


def _fence_text(text: str) -> str:
    longest = max((len(found) for found in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text.rstrip(chr(10))}\n{fence}"


def read_answer(text: str, paths: Sequence[str]) -> MergedCode | ConflictExplanation | str:
    """Return the answer in a reply about the files at `paths`, or why there is none."""
    sections = list(_SECTION.finditer(text))
    kinds = {found[1] for found in sections}
    if kinds == {"CONFLICT EXPLANATION"}:
        return ConflictExplanation(
            truncate_text(text[sections[0].end() :].strip(), EXPLANATION_CHARS) or "it gave no reason"
        )
    if kinds != {"MERGED CODE"}:
        return "it must have exactly one of the sections MERGED CODE and CONFLICT EXPLANATION"
    return _read_code(text[sections[0].end() :], paths)


def _read_code(text: str, paths: Sequence[str]) -> MergedCode | str:
    texts: dict[str, str] = {}
    for before, info, code in _read_blocks(text):
        path = _path_in(info, paths) or _path_in(before, paths)
        if path is None and len(paths) == 1 and not texts:
            (path,) = paths
        if path is None or path in texts:
            return "each block must have the path of another one of the files on the line before it"
        texts[path] = code
    missing = [path for path in paths if path not in texts]
    return f"there is no whole block for {missing[0]}" if missing else MergedCode(texts)


def _read_blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (last line before the block, info string, text) of each fenced block."""
    at = 0
    for found in _BLOCK.finditer(text):
        lines = [line for line in text[at : found.start()].split("\n") if line.strip()]
        yield (lines[-1] if lines else ""), found["info"], found["text"]
        at = found.end()


def _path_in(line: str, paths: Sequence[str]) -> str | None:
    words = line.strip().strip("#*`:> ")
    return next((path for path in paths if words == path or words.endswith((f" {path}", f"`{path}"))), None)
