"""The learnings from earlier work in the prompts of an attempt: before its agent begins, and after a failed check."""

from scaffold.core.errors import StoreError
from scaffold.core.learning import LearningMoment
from scaffold.core.model import Attempt
from scaffold.core.plan import full_text
from scaffold.core.proof.contract import Verification
from scaffold.core.states import COUNTED_FAILURES
from scaffold.plan.learning.matching import Situation, matches
from scaffold.plan.learning.selection import prompt_section, select
from scaffold.run.failures.refused_work import summarize_failures
from scaffold.run.failures.stored_fingerprints import attempt_fingerprint, verification_fingerprint
from scaffold.run.learning.told_learnings import tell_unusable, told_stores
from scaffold.store.user_store import UserStore
from scaffold.worker.attempt_context import AttemptContext


def with_learnings(context: AttemptContext, prompt: str) -> str:
    """Return the first prompt of an attempt with the learnings that fit its task, or how the last attempt failed."""
    task = context.task
    last = last_failed_attempt(context)
    parts = (full_text(task.action), task.attempt.briefing, full_text(task.parent) if task.parent else "")
    situation = Situation(
        "\n".join((task.action.key, *parts)),
        context.declaration.files,
        attempt_fingerprint(last) if last is not None else "",
    )
    return _joined(prompt, _learnings(context, "start", situation))


def with_learnings_of_failure(context: AttemptContext, prompt: str, failed: Verification) -> str:
    """Return the prompt that sends failed work back, with the learnings that fit the failure."""
    failure = summarize_failures(failed)
    situation = Situation(failure, context.declaration.files, verification_fingerprint(failed))
    return _joined(prompt, _learnings(context, "failure", situation))


def _joined(prompt: str, section: str) -> str:
    return f"{prompt}\n\n{section}" if section else prompt


def last_failure(context: AttemptContext) -> Verification | None:
    """Return what the last attempt's checks showed; None if none failed."""
    last = last_failed_attempt(context)
    return None if last is None or last.verification is None or last.verification.passed else last.verification


def last_failed_attempt(context: AttemptContext) -> Attempt | None:
    """Return the last attempt of the action that failed; None if none did."""
    attempt = context.task.attempt
    earlier = context.run_context.store.attempts.of_action(attempt.action_id)
    failed = [each for each in earlier if each.number < attempt.number and each.outcome in COUNTED_FAILURES]
    return failed[-1] if failed else None


def _learnings(context: AttemptContext, moment: LearningMoment, situation: Situation) -> str:
    """Return the section with what fits, and record what the attempt was given; empty if nothing fits."""
    run_context, attempt = context.run_context, context.task.attempt
    tokens = context.task.run.settings.learning.tokens
    if not tokens:
        return ""
    with told_stores(run_context, context.task.run) as stores:
        now, known = run_context.clock.now(), run_context.store.learning_uses.of_attempt(attempt.id)
        candidates = [each for each in stores.candidates(situation) if each.is_current(now) and each.id not in known]
        scores = stores.scores(candidates, now)
        decided = run_context.store.learning_uses.decided_in(attempt.workspace)
        chosen = select(matches(candidates, situation), scores, tokens=tokens, decided=decided)
        found = [each.id for each in (*chosen.given, *chosen.withheld)]
        if not found:
            return ""
        with run_context.store.transaction():
            run_context.store.attempts.check(attempt.id, fence=attempt.fence)
            given, withheld = ([each.id for each in some] for some in (chosen.given, chosen.withheld))
            run_context.store.learning_uses.add(attempt.id, moment, given=given, withheld=withheld)
            run_context.store.learnings.trigger(found)
        if stores.user is not None:
            _trigger_in(context, stores.user, found)
    return run_context.redactor.clean(prompt_section(chosen.given, scores, moment))


def _trigger_in(context: AttemptContext, user: UserStore, found: list[str]) -> None:
    try:
        with user.transaction():
            user.learnings.trigger(found)
    except StoreError as error:
        tell_unusable(context.run_context, context.task.run, error)
