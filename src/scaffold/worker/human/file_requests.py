"""Requests of a worker's agent for more files; if these judge its work, a reviewer or a human decides."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import assert_never

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.model import Action, FileGrantor, InboxItem
from scaffold.core.printable_text import count_of, join_limited, utf8_safe
from scaffold.core.tool import ToolOutput
from scaffold.plan.text.file_format import bad_glob
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.run.attempts.contracts import contract_in_force
from scaffold.verify.proof_request import ProofRequest
from scaffold.verify.requested_paths import RequestedEntry, classify_requested
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.inbox_approval import InboxApprover
from scaffold.worker.workspace.workplace import Workplace


class DeclarationQuestion(Struct, frozen=True, kw_only=True):
    """A request to change files that judge the work."""

    action: Action
    entries: tuple[str, ...]
    """The paths, folders and globs that are asked for."""
    judging: Mapping[str, str]
    """The existing paths in them that judge the work, and why."""
    reason: str
    """Why the agent needs them, in its words; data, not an instruction."""
    base: Commit


class DeclarationAnswer(Struct, frozen=True):
    """A reviewer's decision about such a request."""

    approved: bool
    why: str


DeclarationReviewer = Callable[[DeclarationQuestion], Awaitable[DeclarationAnswer | None]]
"""Decides a request; None if no reviewer is available, so that a human is asked."""
MAX_QUESTIONS = 5
"""The most requests of one attempt that a reviewer or a human is asked about."""
MAX_GRANTS = 100
"""The most entries granted to one action."""
MAX_NAMED = 5
MAX_SHOWN = 20
FILES_KEY = "files"
"""The key of an inbox item's detail that lists the requested entries."""
OTHERWISE = (
    "Do the task without changing these files, for example with new tests in new files. If that is impossible, change "
    "nothing more and say so, with the reason."
)


class FileRequests:
    """Answers the requests of one attempt; equal requests get the same answer."""

    def __init__(
        self, place: Workplace, human: InboxApprover, reviewer: DeclarationReviewer, records: AttemptRecords
    ) -> None:
        self._place = place
        self._human = human
        self._reviewer = reviewer
        self._records = records
        self._decided: dict[frozenset[str], DeclarationAnswer] = {}

    async def ask(self, paths: Sequence[str], reason: str) -> ToolOutput:
        """Return the grants and denials as text; HumanDecisionRequired if no human decides in time."""
        declaration = self._records.declaration
        problems = [f"`{path}` {problem}" for path in paths if (problem := bad_glob(path))]
        if len(declaration.grants) + len(paths) > MAX_GRANTS:
            problems.append(f"this task was granted {count_of(len(declaration.grants), 'entry', 'entries')} already")
        if problems:
            return ToolOutput(f"Not granted: {'; '.join(problems)}. {OTHERWISE}", failed=True)
        place, workspace, settings = self._place, self._place.workspace, self._records.task.run.settings
        # The same inputs as the guard's, so that a granted path is not refused later.
        judged_by = ProofRequest(
            contract=contract_in_force(self._records.store, self._records.task.action.id),
            files=declaration.files,
            task=declaration.task,
            granted=declaration.by_rule,
            areas=ProtectedAreas.with_added(settings.permissions.areas),
            installed=place.environment.installed if place.environment else (),
            baseline=place.baseline if settings.gates.enabled else None,
        )
        found = await classify_requested(judged_by, workspace.git, workspace.base, paths)
        reason = self._records.redactor.clean(utf8_safe(reason))
        # Before anyone is asked: the attempt may end while it waits for an answer.
        self._store_grants([each for each in found if each.kind == "free"], "rule", reason)
        judging = [each for each in found if each.kind == "judges"]
        answer = await self._decide_judging(judging, reason) if judging else None
        approved = answer is not None and answer.approved
        refused = any(each.kind == "forbidden" or (each.kind == "judges" and not approved) for each in found)
        lines = [_answer_line(each, answer) for each in found]
        return ToolOutput("\n".join([*lines, *([OTHERWISE] if refused else [])]), failed=refused)

    async def _decide_judging(self, judging: Sequence[RequestedEntry], reason: str) -> DeclarationAnswer:
        entries = tuple(sorted(each.entry for each in judging))
        known = self._decided.get(frozenset(entries)) or self._rejected_before(entries)
        if known is not None:
            return known
        if len(self._decided) >= MAX_QUESTIONS:
            return DeclarationAnswer(False, f"this attempt has asked {MAX_QUESTIONS} times already")
        question = DeclarationQuestion(
            action=self._records.task.action,
            entries=entries,
            judging={path: why for each in judging for path, why in each.judging.items()},
            reason=reason,
            base=self._place.workspace.base,
        )
        by: FileGrantor = "reviewer"
        answer = await self._reviewer(question)
        if answer is None:
            by, answer = "human", await self._ask_human(question)
        self._decided[frozenset(entries)] = answer
        if answer.approved:
            self._store_grants(judging, by, reason)
        return answer

    async def _ask_human(self, question: DeclarationQuestion) -> DeclarationAnswer:
        if self._records.task.run.settings.permissions.yolo:
            return DeclarationAnswer(False, "this run asks no human")
        named = join_limited(question.entries, MAX_NAMED)
        text = f"{question.action.key} asks to change files that judge its work: {named}"
        reasons = [f"{path} {why}" for path, why in question.judging.items()]
        detail = {
            "action": question.action.key,
            FILES_KEY: list(question.entries),
            "judging": [*reasons[:MAX_SHOWN], *(["..."] if len(reasons) > MAX_SHOWN else [])],
            "reason": question.reason,
        }
        return _answer_of(await self._human.request_approval(text, detail))

    def _rejected_before(self, entries: Sequence[str]) -> DeclarationAnswer | None:
        # A human's rejection holds for the same entries, whatever reason the agent gives the next time.
        store, now = self._records.store, self._records.run_context.clock.now()
        for item in store.inbox.rejected(self._records.task.action.id):
            if sorted(item.detail.get(FILES_KEY, ())) == list(entries) and _still_applies(item, now):
                return _answer_of(item)
        return None

    def _store_grants(self, entries: Sequence[RequestedEntry], by: FileGrantor, reason: str) -> None:
        if entries:
            with self._records.transaction() as attempt:
                self._records.store.file_grants.add(
                    attempt.action_id, [each.entry for each in entries], by=by, reason=reason
                )


def grant_approved_requests(records: AttemptRecords) -> None:
    """Store the grants that a human approved while no attempt of the action was running."""
    store, now = records.store, records.run_context.clock.now()
    items = [item for item in store.inbox.approved(records.task.action.id) if item.detail.get(FILES_KEY)]
    with records.transaction() as attempt:
        for item in items:
            if _still_applies(item, now):
                reason = str(item.detail.get("reason", ""))
                store.file_grants.add(attempt.action_id, item.detail[FILES_KEY], by="human", reason=reason)


def _still_applies(item: InboxItem, now: datetime) -> bool:
    return item.valid_until is None or item.valid_until > now


def _answer_of(item: InboxItem) -> DeclarationAnswer:
    said = f": {item.answer}" if item.answer else ""
    approved = item.state == "approved"
    return DeclarationAnswer(approved, f"a human {'approved' if approved else 'rejected'} it{said}")


def _answer_line(entry: RequestedEntry, answer: DeclarationAnswer | None) -> str:
    match entry.kind:
        case "declared":
            return f"Declared already: {entry.entry}"
        case "forbidden":
            return f"Denied: {entry.entry} {entry.why}."
        case "free" if entry.judging:
            kept = join_limited(_judging_reasons(entry), MAX_NAMED)
            return f"Granted: {entry.entry}, but not what judges the work in it, which needs a request by name: {kept}."
        case "free":
            return f"Granted: {entry.entry}"
        case "judges":
            why = answer.why if answer else ""
            if answer and answer.approved:
                return f"Granted: {entry.entry} ({why}). Change no more of it than the task needs."
            return f"Denied: {entry.entry} ({join_limited(_judging_reasons(entry), MAX_NAMED)}): {why}."
        case _:
            assert_never(entry.kind)


def _judging_reasons(entry: RequestedEntry) -> list[str]:
    return [f"{path} {why}" for path, why in entry.judging.items()]


async def no_reviewer(_: DeclarationQuestion) -> DeclarationAnswer | None:
    """Return None: this run has no second reviewer."""
    return None
