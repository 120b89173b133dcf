"""Attempts as rows of the store."""

from scaffold.core.model import Attempt
from scaffold.store.driver.columns import (
    PROCESS,
    SCORE,
    VERIFICATION,
    format_time,
    parse_optional_time,
    parse_time,
    usage_columns,
    usage_of,
)
from scaffold.store.driver.connection import ColumnValue, Row


def attempt_columns(attempt: Attempt) -> dict[str, ColumnValue]:
    """Return the values to insert."""
    return {
        "id": attempt.id,
        "run_id": attempt.run_id,
        "action_id": attempt.action_id,
        "number": attempt.number,
        "fence": attempt.fence,
        "status": attempt.status,
        "phase": attempt.phase,
        "outcome": attempt.outcome,
        "executor": attempt.executor,
        "model": attempt.model,
        "worker": PROCESS.write(attempt.worker),
        "kind": attempt.kind,
        "workspace": attempt.workspace,
        "worktree": attempt.worktree,
        "base_sha": attempt.base_sha,
        "start_sha": attempt.start_sha,
        "head_sha": attempt.head_sha,
        "briefing": attempt.briefing,
        "verification": VERIFICATION.write(attempt.verification),
        "score": SCORE.write(attempt.score),
        "result": attempt.result,
        "edits": attempt.edits,
        **usage_columns(attempt.usage),
        "log_file": attempt.log_file,
        "error": attempt.error,
        "alternative": int(attempt.alternative),
        "fingerprint": attempt.fingerprint,
        "escalation": attempt.escalation or "",
        "queued_at": format_time(attempt.queued_at),
        "started_at": format_time(attempt.started_at),
        "ended_at": format_time(attempt.ended_at),
    }


def attempt_of(row: Row) -> Attempt:
    """Return the attempt in a row."""
    return Attempt(
        id=row["id"],
        run_id=row["run_id"],
        action_id=row["action_id"],
        number=row["number"],
        fence=row["fence"],
        status=row["status"],
        phase=row["phase"],
        outcome=row["outcome"],
        executor=row["executor"],
        model=row["model"],
        worker=PROCESS.read(row["worker"]),
        heartbeat_at=row["heartbeat_at"],
        ends_at=row["ends_at"],
        iteration=row["iteration"],
        waits_for=row["waits_for"],
        kind=row["kind"],
        workspace=row["workspace"],
        worktree=row["worktree"],
        base_sha=row["base_sha"],
        start_sha=row["start_sha"],
        head_sha=row["head_sha"],
        briefing=row["briefing"],
        verification=VERIFICATION.read(row["verification"]),
        score=SCORE.read(row["score"]),
        result=row["result"],
        edits=row["edits"],
        usage=usage_of(row),
        log_file=row["log_file"],
        error=row["error"],
        alternative=bool(row["alternative"]),
        fingerprint=row["fingerprint"],
        escalation=row["escalation"] or None,
        queued_at=parse_time(row["queued_at"]),
        started_at=parse_optional_time(row["started_at"]),
        ended_at=parse_optional_time(row["ended_at"]),
    )
