"""Second reviewers over all runs and repositories of a user."""

from collections.abc import Iterable, Mapping

from scaffold.core.proof.reviewer_record import GivenVerdict, ProbeAnswer, VerdictOutcome
from scaffold.store.driver.columns import format_time, parse_time
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway

PUT = """
INSERT INTO reviewer_outcome (attempt_id, change, model, repository, run_id, action, verdict, human, fate, given_at)
VALUES (:attempt_id, :change, :model, :repository, :run_id, :action, :verdict, :human, :fate, :given_at)
ON CONFLICT (attempt_id, change, model) DO UPDATE SET human = excluded.human, fate = excluded.fate
"""
OUTCOMES = "SELECT * FROM reviewer_outcome ORDER BY given_at, attempt_id"
ADD_PROBE = """
INSERT INTO reviewer_probe (id, model, kind, verdict, located, answered_at)
VALUES (:id, :model, :kind, :verdict, :located, :answered_at) ON CONFLICT (id) DO NOTHING
"""
PROBES = "SELECT * FROM reviewer_probe ORDER BY answered_at, id"
PROBES_OF = "SELECT * FROM reviewer_probe WHERE model = :model ORDER BY answered_at, id"


class Reviewers(TableGateway):
    """Verdicts with their outcomes, a copy of what the databases of the repositories say; answers about probes."""

    def put(self, repository: str, outcomes: Iterable[VerdictOutcome]) -> None:
        """Store verdicts with what is known of them now."""
        self._connection.write_each(
            PUT,
            [
                {
                    "attempt_id": each.given.attempt_id,
                    "change": each.given.change,
                    "model": each.given.model,
                    "repository": repository,
                    "run_id": each.run_id,
                    "action": each.action,
                    "verdict": each.given.verdict,
                    "human": each.human,
                    "fate": each.fate,
                    "given_at": format_time(each.given.at),
                }
                for each in outcomes
            ],
        )

    def outcomes(self) -> tuple[VerdictOutcome, ...]:
        """Return all verdicts, oldest first."""
        return tuple(
            VerdictOutcome(
                run_id=row["run_id"],
                action=row["action"],
                given=GivenVerdict(
                    attempt_id=row["attempt_id"],
                    model=row["model"],
                    verdict=row["verdict"],
                    change=row["change"],
                    at=parse_time(row["given_at"]),
                ),
                human=row["human"],
                fate=row["fate"],
            )
            for row in self._connection.rows(OUTCOMES)
        )

    def add_probe(self, answer: ProbeAnswer) -> None:
        """Store what a reviewer said about one change of a probe."""
        self._connection.write(
            ADD_PROBE,
            id=answer.id,
            model=answer.model,
            kind=answer.kind,
            verdict=answer.verdict,
            located=int(answer.located),
            answered_at=format_time(answer.at),
        )

    def probes(self) -> Mapping[str, tuple[ProbeAnswer, ...]]:
        """Return all answers of each model, oldest first."""
        found: dict[str, list[ProbeAnswer]] = {}
        for row in self._connection.rows(PROBES):
            found.setdefault(row["model"], []).append(_read_answer(row))
        return {model: tuple(answers) for model, answers in found.items()}

    def probes_of(self, model: str) -> tuple[ProbeAnswer, ...]:
        """Return the answers of one model, oldest first."""
        return tuple(map(_read_answer, self._connection.rows(PROBES_OF, model=model)))


def _read_answer(row: Row) -> ProbeAnswer:
    return ProbeAnswer(
        id=row["id"],
        model=row["model"],
        kind=row["kind"],
        verdict=row["verdict"],
        located=bool(row["located"]),
        at=parse_time(row["answered_at"]),
    )
