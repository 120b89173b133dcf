"""Add learnings from earlier work to the prompts of an attempt: at its start, and after a failed check."""

from scaffold.core.errors import StoreError
from scaffold.core.learning import LearningMoment
from scaffold.core.model import Attempt
from scaffold.core.plan import full_text
from scaffold.core.proof.contract import Verification
from scaffold.core.states import COUNTED_FAILURES
from scaffold.plan.learning.matching import Situation, matches
from scaffold.plan.learning.selection import prompt_section, select
from scaffold.run.failures.ladder import attempt_fingerprint, verification_fingerprint
from scaffold.run.failures.refused_work import summarize_failures
from scaffold.run.learning.told_learnings import tell_unusable, told_stores
from scaffold.worker.attempt_records import AttemptRecords


def with_learnings(records: AttemptRecords, prompt: str) -> str:
    """Return the first prompt of an attempt with the learnings that fit its task, or how the last attempt failed."""
    task = records.task
    last = last_failed_attempt(records)
    parts = (full_text(task.action), task.attempt.briefing, full_text(task.parent) if task.parent else "")
    situation = Situation(
        "\n".join((task.action.key, *parts)),
        records.declaration.files,
        attempt_fingerprint(last) if last is not None else "",
    )
    return _with_section(prompt, _learnings_section(records, "start", situation))


def with_learnings_of_failure(records: AttemptRecords, prompt: str, failed: Verification) -> str:
    """Return the prompt that sends failed work back, with the learnings that fit the failure."""
    failure = summarize_failures(failed)
    situation = Situation(failure, records.declaration.files, verification_fingerprint(failed))
    return _with_section(prompt, _learnings_section(records, "failure", situation))


def _with_section(prompt: str, section: str) -> str:
    return f"{prompt}\n\n{section}" if section else prompt


def last_failure(records: AttemptRecords) -> Verification | None:
    """Return the last failed attempt's verification; None if no attempt failed its checks."""
    last = last_failed_attempt(records)
    return None if last is None or last.verification is None or last.verification.passed else last.verification


def last_failed_attempt(records: AttemptRecords) -> Attempt | None:
    """Return the last attempt of the action that failed; None if none did."""
    attempt = records.task.attempt
    earlier = records.store.attempts.for_action(attempt.action_id)
    failed = [each for each in earlier if each.number < attempt.number and each.outcome in COUNTED_FAILURES]
    return failed[-1] if failed else None


def _learnings_section(records: AttemptRecords, moment: LearningMoment, situation: Situation) -> str:
    # What the attempt was given is recorded in the transaction that selects it, so that its effect can be measured.
    run_context, attempt = records.run_context, records.task.attempt
    tokens = records.task.run.settings.learning.tokens
    if not tokens:
        return ""
    with told_stores(run_context, records.task.run) as stores:
        now, known = run_context.clock.now(), run_context.store.learning_uses.for_attempt(attempt.id)
        candidates = [each for each in stores.candidates(situation) if each.is_current(now) and each.id not in known]
        scores = stores.scores(candidates, now)
        decided = run_context.store.learning_uses.decided_in(attempt.workspace)
        chosen = select(matches(candidates, situation), scores, tokens=tokens, decided=decided)
        found = [each.id for each in (*chosen.given, *chosen.withheld)]
        if not found:
            return ""
        with records.transaction():
            given, withheld = ([each.id for each in some] for some in (chosen.given, chosen.withheld))
            run_context.store.learning_uses.add(attempt.id, moment, given=given, withheld=withheld)
            run_context.store.learnings.trigger(found)
        if stores.user is not None:
            try:
                with stores.user.transaction():
                    stores.user.learnings.trigger(found)
            except StoreError as error:
                tell_unusable(run_context, records.task.run, error)
    return run_context.redactor.clean(prompt_section(chosen.given, scores, moment))
