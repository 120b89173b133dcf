"""Second reviewers over all runs and repositories of a user."""

from collections.abc import Iterable, Mapping

from scaffold.core.proof.reviewer_record import GivenVerdict, ProbeAnswer, VerdictOutcome
from scaffold.store.driver.columns import format_time, parse_time, read_struct, struct_columns
from scaffold.store.driver.connection import Row
from scaffold.store.driver.gateway import TableGateway

# A verdict never changes; what became of it may.
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
        for each in outcomes:
            verdict = struct_columns(each.given, given_at=format_time(each.given.at))
            self._connection.write(PUT, repository=repository, **struct_columns(each), **verdict)

    def outcomes(self) -> tuple[VerdictOutcome, ...]:
        """Return all verdicts, oldest first."""
        rows = self._connection.rows(OUTCOMES)
        given = (read_struct(GivenVerdict, row, at=parse_time(row["given_at"])) for row in rows)
        return tuple(read_struct(VerdictOutcome, row, given=each) for row, each in zip(rows, given, strict=True))

    def add_probe(self, answer: ProbeAnswer) -> None:
        """Store what a reviewer said about one change of a probe."""
        self._connection.write(ADD_PROBE, **struct_columns(answer, answered_at=format_time(answer.at)))

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
    return read_struct(ProbeAnswer, row, at=parse_time(row["answered_at"]))
