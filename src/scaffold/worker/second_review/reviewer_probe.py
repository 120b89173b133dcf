"""Find out whether a second reviewer reads: show it landed changes, some of them with a planted fault.

A planted fault exists in a scratch repository only: in no ref, no worktree and no object of the user's repository, so
it can never land, whatever is killed.
"""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from scaffold.agent.agent_spec import AgentRecords, AgentSpec, TurnResult
from scaffold.agent.io_port import AgentIO
from scaffold.agent.journal import JournalFile, approval_logger
from scaffold.agent.model_access import connect_model
from scaffold.agent.prompts import system_prompt
from scaffold.agent.turn_loop import Agent
from scaffold.core.conversation import Caller
from scaffold.core.errors import GitError, ModelError, UsageError
from scaffold.core.ids import Commit
from scaffold.core.model import Action, Attempt, Run, Usage
from scaffold.core.ports import Budget, Model
from scaffold.core.proof.contract import Review, Verification
from scaffold.core.proof.reviewer_record import ProbeAnswer
from scaffold.core.run_settings import ReviewerSettings
from scaffold.git import commits, refs
from scaffold.git.added_lines import added_lines_of
from scaffold.git.client.command_line import Git
from scaffold.git.trees.scratch_repository import ScratchRepository, scratch_repository
from scaffold.git.trees.tree_file import read_file
from scaffold.host.process_identity import own_identity
from scaffold.host.random_ids import new_id
from scaffold.run.attempts.contracts import contract_in_force
from scaffold.run.context import RunContext
from scaffold.run.learning.stores import user_store_if_any
from scaffold.store.spending.session_budget import session_budget
from scaffold.tools.catalog import builtin_tools
from scaffold.tools.read_cache import with_read_cache
from scaffold.tools.workspace import Workspace
from scaffold.verify.planted_faults import Fault, LandedFile, chosen_fault, faults_in, shuffled
from scaffold.worker.agent.side_agent import MAX_REQUESTS, PROMPTS, SideRole
from scaffold.worker.human.inbox_approval import worker_gate
from scaffold.worker.second_review.judge import DIFF_BYTES
from scaffold.worker.second_review.review_agent import ReviewQuestion, usable_verdict
from scaffold.worker.second_review.reviewer_prompts import ReviewSubject, base_tests_in_doubt, change_prompt

MAX_CHANGES = 200
"""The most landed changes that are considered."""
NEAR_LINES = 3
"""A citation within so many lines of a fault has found it."""
ANSWER_S = 900.0
"""The longest time for one verdict."""
ROLE: SideRole = "reviewer"
SAMPLED = "it is one of the changes that are sampled"


PROBES = "probe of reviewer"
"""The folder of the journals of probes."""


class LandedChange(Struct, frozen=True, kw_only=True):
    """A change that has landed, with what was shown of it."""

    run: Run
    action: Action
    attempt: Attempt
    base: Commit
    commit: Commit
    verification: Verification


class ProbeCase(Struct, frozen=True, kw_only=True):
    """A change that is shown to the reviewer; without a fault it is one for comparison."""

    change: LandedChange
    fault: Fault | None = None


class ProbeReply(Struct, frozen=True, kw_only=True):
    """What the reviewer said about one case."""

    case: ProbeCase
    answer: ProbeAnswer
    said: str
    """Its summary, or why it gave no verdict."""
    usage: Usage = Usage()


class ReviewerProbe:
    """Asks one reviewer about changes as it would be asked in a run."""

    def __init__(self, context: RunContext, reviewer: ReviewerSettings, prompts: Sequence[str]) -> None:
        """`prompts` are folders with prompts that replace the built-in ones."""
        self._context = context
        self._reviewer = reviewer
        self._prompts = prompts

    async def cases(self, runs: Sequence[Run], count: int, seed: int) -> list[ProbeCase]:
        """Return up to `count` cases with a fault, and up to as many without, in the order in which they are asked."""
        changes = shuffled(await self._landed_changes(runs), f"{seed}/changes")
        found = [(each, await self._possible_faults(each)) for each in changes[: max(count, 1) * 4]]
        usable = [(change, faults) for change, faults in found if faults]
        planted = list[ProbeCase]()
        for number in range(count if usable else 0):
            change, faults = usable[number % len(usable)]
            fault = chosen_fault(faults, f"{seed}/{number}")
            if all((fault, change.commit) != (each.fault, each.change.commit) for each in planted):
                planted.append(ProbeCase(change=change, fault=fault))
        sound = [ProbeCase(change=change) for change, _ in usable[: len(planted)]]
        return shuffled([*planted, *sound], f"{seed}/order")

    async def ask(self, cases: Sequence[ProbeCase], tell: Callable[[ProbeReply], None]) -> list[ProbeReply]:
        """Ask about each case and store each answer at once; `tell` receives it."""
        replies = []
        settings = self._reviewer.model
        with user_store_if_any(self._context.clock, create=True) as user:
            if user is None:
                raise LookupError("the user's database")
            budget = session_budget(
                user,
                f"probe-{new_id()}",
                limit_usd=None,
                model=settings.name,
                clock=self._context.clock,
                owner=own_identity(),
            )
            async with (
                connect_model(settings.name, windows=settings.windows, profiles=settings.profiles) as model,
                scratch_repository(self._context.repository) as scratch,
            ):
                for case in cases:
                    reply = await self._ask_about(model, scratch, case, budget)
                    with user.transaction():
                        user.reviewers.add_probe(reply.answer)
                    replies.append(reply)
                    tell(reply)
        return replies

    async def _landed_changes(self, runs: Sequence[Run]) -> list[LandedChange]:
        store, git = self._context.store, self._context.git
        found = list[LandedChange]()
        for run in runs:
            for attempt in store.attempts.for_run(run.id):
                action = store.actions.get(attempt.action_id)
                head, verification = attempt.head_sha, attempt.verification
                if attempt.outcome != "landed" or action is None or head is None or verification is None:
                    continue
                base = await refs.resolve(git, f"{head}^")
                if base is not None and len(found) < MAX_CHANGES:
                    found.append(
                        LandedChange(
                            run=run, action=action, attempt=attempt, base=base, commit=head, verification=verification
                        )
                    )
        return found

    async def _possible_faults(self, change: LandedChange) -> tuple[Fault, ...]:
        git = self._context.git
        paths = [each.path for each in await commits.path_changes(git, change.base, change.commit) if each.kind != "D"]
        try:
            lines = await added_lines_of(git, change.base, change.commit, paths) if paths else {}
        except GitError:  # a patch that is too large to be read
            return ()
        files = []
        for path, added in lines.items():
            content = await commits.file_contents(git, change.commit, path)
            if content is not None:
                files.append(LandedFile(path=path, content=content, lines=frozenset(added)))
        return await asyncio.to_thread(faults_in, files)

    async def _ask_about(self, model: Model, scratch: ScratchRepository, case: ProbeCase, budget: Budget) -> ProbeReply:
        head = await self._commit_shown(scratch, case)
        await scratch.check_out(head)
        used = list[Usage]()
        try:
            async with asyncio.timeout(ANSWER_S):
                agent = self._probe_agent(model, scratch.git, case.change, budget)
                found = await self._probe_verdict(agent, scratch.git, case, head, used)
        except TimeoutError:
            found = f"it took more than {ANSWER_S:.0f} s"
        except (ModelError, UsageError) as error:
            found = error.what
        review, fault = found if isinstance(found, Review) else None, case.fault
        near = [each for each in review.citations if each.file == fault.path] if review and fault else []
        answer = ProbeAnswer(
            id=new_id(12),
            model=self._reviewer.model.name,
            kind=case.fault.kind if case.fault else "",
            verdict=review.verdict if review else "",
            located=fault is not None and any(abs(each.line - fault.line) <= NEAR_LINES for each in near),
            at=self._context.clock.now(),
        )
        said = self._context.redactor.clean(review.summary if review else str(found))
        return ProbeReply(case=case, answer=answer, said=said, usage=sum(used, start=Usage()))

    async def _commit_shown(self, scratch: ScratchRepository, case: ProbeCase) -> Commit:
        # Made in the scratch repository with and without a fault: a reviewer must not tell them apart by that.
        change, fault = case.change, case.fault
        if fault is None:
            return await scratch.commit_of(change.base, await commits.tree_of(scratch.git, change.commit))
        file = await read_file(scratch.git, change.commit, fault.path)
        if file is None:
            raise LookupError(fault.path)
        return await scratch.commit_with(change.base, change.commit, fault.path, file.mode, fault.planted(file.data))

    async def _probe_verdict(
        self, agent: Agent, git: Git, case: ProbeCase, head: Commit, used: list[Usage]
    ) -> Review | str:
        change = case.change

        async def turn(prompt: str) -> TurnResult:
            finish = await agent.turn(self._context.redactor.clean(prompt))
            used.append(finish.usage)
            return finish

        subject = ReviewSubject(
            action=change.action,
            contract=contract_in_force(self._context.store, change.action.id),
            verification=change.verification,
            tests=await base_tests_in_doubt(git, change.base, change.verification),
            diff=await commits.diff_text(git, change.base, head, limit_bytes=DIFF_BYTES),
        )
        reasons = [doubt.text for doubt in change.verification.doubts] or [SAMPLED]
        paths = await commits.changed_paths(git, change.base, head)
        question = ReviewQuestion(event="change", prompt=change_prompt(subject, reasons), work=head, paths=paths)
        return await usable_verdict(turn, question, git=git, base=change.base)

    def _probe_agent(self, model: Model, git: Git, change: LandedChange, budget: Budget) -> Agent:
        context, settings, key = self._context, self._reviewer.model, change.action.key
        fields = {"run": change.run.id, "action": key, "attempt": change.attempt.number, "role": ROLE}
        journal = JournalFile(
            context.journal(PROBES, key), clock=context.clock, fields=fields, redactor=context.redactor
        )
        root = Workspace(git.cwd, context.environ, redactor=context.redactor)
        gate = worker_gate(
            context, change.run.settings.permissions, git.cwd, None, confined=False, tell=approval_logger(journal)
        )
        tools = [
            each
            for each in with_read_cache(builtin_tools(root), root.root)
            if each.category == "file_read" and each.group is None
        ]
        return Agent(
            model=model,
            tools=tuple(map(gate.guard, tools)),
            brief=AgentSpec(
                caller=Caller(role=ROLE, action=key, attempt=change.attempt.number, event="change"),
                system=system_prompt(
                    PROMPTS[ROLE], folders=self._prompts, notice=lambda text: journal.note("notice", text=text)
                ),
                max_requests=MAX_REQUESTS,
                effort=settings.effort_of(ROLE),
                compaction=settings.compaction,
                whole_prompt=True,
            ),
            io=AgentIO(redactor=context.redactor),
            records=AgentRecords(journal=journal, budget=budget),
        )
