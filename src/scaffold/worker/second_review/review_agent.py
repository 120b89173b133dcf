"""The second reviewer: an agent that reads and answers one yes-or-no question with citations that resolve."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from scaffold.agent.agent_spec import TurnResult
from scaffold.agent.model_access import connect_model
from scaffold.core.errors import BudgetExceeded, ModelError, UsageError
from scaffold.core.ids import Commit
from scaffold.core.proof.contract import Review
from scaffold.git.client.command_line import Git
from scaffold.llm.transport.live_context import Patience
from scaffold.run.learning.stores import reviewer_standing
from scaffold.verify.contract.review_verdict import parse_review, unresolved_citations
from scaffold.worker.agent.agent_source import AgentSource
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.agent.role_agents import program_of
from scaffold.worker.agent.side_agent import SideAgent
from scaffold.worker.agent.watchdog import NoProgress
from scaffold.worker.agent.worker_tools import reading_tools
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.file_requests import DeclarationAnswer, DeclarationQuestion, DeclarationReviewer, no_reviewer
from scaffold.worker.second_review.reviewer_prompts import paths_prompt, unusable_prompt
from scaffold.worker.workspace.workplace import Workplace

MAX_ASKS = 3
"""Answers a reviewer may give until one can be used."""
HAND_IN_RESERVE_S = 2.0
"""Seconds of an attempt's time that a review leaves for handing in the work."""
ReviewEvent = Literal["change", "lost_tests", "files"]
"""The subject of a question: a change that passed, tests that it makes fail, further files that an agent may change."""


class ReviewQuestion(Struct, frozen=True, kw_only=True):
    """A yes-or-no question about the work of an attempt."""

    event: ReviewEvent
    prompt: str
    work: Commit
    """The commit whose lines are cited."""
    paths: tuple[str, ...] = ()
    """The paths in question: a verdict counts only if it cites at least one of them; empty for any."""


TakesTurn = Callable[[str], Awaitable[TurnResult | NoProgress]]


class YesNoReviewer(Protocol):
    """Answers a question about work, with citations."""

    async def ask(self, question: ReviewQuestion, /) -> Review | None:
        """Return the verdict; None without a usable one."""
        ...


class SecondReviewer:
    """Asks another model, or the same one in a conversation of its own. Implements `YesNoReviewer`."""

    def __init__(self, place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords, name: str) -> None:
        """`name` is the reviewer's model string; the work's open model is used if it is the same."""
        self._place = place
        self._capabilities = capabilities
        self._records = records
        self.model_name = name

    async def ask(self, question: ReviewQuestion) -> Review | None:
        """Return the verdict, without secrets; None, with a warning in the run, if the reviewer gives no usable one.

        The work is not lost to a failing reviewer: it is then judged as if there were none.
        """
        deadline: asyncio.Timeout | None = None
        try:
            async with (
                self._capabilities.human.deadline(spare_s=HAND_IN_RESERVE_S) as deadline,
                self._opened_source() as source,
            ):
                place, tools = self._place, partial(reading_tools, self._place, self._records)
                agent = SideAgent(place.workspace, self._records, source, "reviewer", event=question.event, tools=tools)
                git, base = place.run_context.git, place.workspace.base
                answer: Review | str = await usable_verdict(agent.turn, question, git=git, base=base)
        except TimeoutError:
            if deadline is None or not deadline.expired():
                raise
            answer = "the attempt has no time left for it"
        except (ModelError, BudgetExceeded, UsageError) as error:
            answer = error.what
        if isinstance(answer, Review):
            clean = self._records.redactor.clean_all(msgspec.to_builtins(answer))
            return msgspec.convert(clean, Review)
        task = self._records.task
        self._records.warn(f"{task.action.key} got no second review: {answer}")
        return None

    @asynccontextmanager
    async def _opened_source(self) -> AsyncIterator[AgentSource]:
        task = self._records.task
        settings = task.run.settings
        patience = Patience(settings.limits.model_wait_s, self._records.activity.parked)
        folder = self._place.workspace.path
        if (program := program_of(self._place.run_context, task.run, "reviewer", folder, patience)) is not None:
            yield program
            return
        if (
            self._capabilities.model
            and self.model_name == settings.worker_model(task.action.role, task.action.type).name
        ):
            yield self._capabilities.model
            return
        async with connect_model(
            self.model_name, patience=patience, windows=settings.model.windows, profiles=settings.model.profiles
        ) as model:
            yield model


async def usable_verdict(turn: TakesTurn, question: ReviewQuestion, *, git: Git, base: Commit) -> Review | str:
    """Return a verdict that counts, or the reason why there is none; `turn` sends a prompt to the reviewer's agent."""
    prompt, why = question.prompt, ""
    for _ in range(MAX_ASKS):
        finish = await turn(prompt)
        if isinstance(finish, NoProgress):
            return finish.cause
        review = "Your message was a refusal." if finish.stop == "refused" else parse_review(finish.text)
        why = review if isinstance(review, str) else await _verdict_problem(review, question, git, base)
        if isinstance(review, Review) and not why:
            return review
        prompt = unusable_prompt(why)
    return f"none of its {MAX_ASKS} answers can be used. {why}"


async def _verdict_problem(review: Review, question: ReviewQuestion, git: Git, base: Commit) -> str:
    missing = await unresolved_citations(review, git, question.work, base=base)
    if missing:
        return "\n".join(["These citations do not match the commit:", *missing])
    if not review.citations:
        return "It cites nothing: cite at least one file and line that shows your reason."
    if question.paths and not any(citation.file in question.paths for citation in review.citations):
        return "It cites no line of a file that is in question."
    return ""


def second_reviewer(
    place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords
) -> SecondReviewer | None:
    """Return the second reviewer of the run; None if its settings name none."""
    settings = records.task.run.settings.planning.reviewer
    return None if settings is None else SecondReviewer(place, capabilities, records, settings.model.name)


def declaration_reviewer(
    place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords
) -> DeclarationReviewer:
    """Return the decider of requests for files that judge the work: the second reviewer, or `no_reviewer`."""
    reviewer = second_reviewer(place, capabilities, records)
    # A human is asked in place of one that misses too much.
    if reviewer is None or reviewer_standing(reviewer.model_name, records.run_context.clock).is_unreliable:
        return no_reviewer

    async def decide(question: DeclarationQuestion) -> DeclarationAnswer | None:
        review = await judge_path_request(place, reviewer, question.entries, question.reason)
        return None if review is None else DeclarationAnswer(review.verdict == "approve", review.summary)

    return decide


async def judge_path_request(
    place: Workplace, reviewer: YesNoReviewer, paths: Sequence[str], why: str
) -> Review | None:
    """Return the verdict about an agent's request to change `paths`, for its reason; None without a usable one.

    The agent may still be at work: the reviewer reads the worktree as it is now, and cites the base, where lines of any
    file count, since a path that is asked for need not exist yet. The model must not be in use by another request.
    """
    prompt = paths_prompt(place.task.action, paths, why)
    return await reviewer.ask(ReviewQuestion(event="files", prompt=prompt, work=place.workspace.base))
