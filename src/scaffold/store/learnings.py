"""Learnings, found by their words. Used by both databases: of a repository, and of the user for all repositories."""

from collections.abc import Iterable, Sequence

from scaffold.core.learning import Learning, Triple
from scaffold.store.driver.columns import format_time, parse_optional_time, parse_time
from scaffold.store.driver.connection import Row
from scaffold.store.driver.full_text import any_of
from scaffold.store.driver.gateway import TableGateway

ADD = """
INSERT INTO learning (id, condition, advice, result, scope, module, preference, outcome, commit_sha, log, fingerprint,
                      source, attempt_id, contradicts, superseded_by, triggers, triggered_at, created_at, changed_at)
VALUES (:id, :condition, :advice, :result, :scope, :module, :preference, :outcome, :commit_sha, :log, :fingerprint,
        :source, :attempt_id, :contradicts, :superseded_by, :triggers, :triggered_at, :created_at, :changed_at)
ON CONFLICT (id) DO UPDATE SET condition = excluded.condition, advice = excluded.advice, result = excluded.result,
    scope = excluded.scope, module = excluded.module, preference = excluded.preference, outcome = excluded.outcome,
    commit_sha = excluded.commit_sha, log = excluded.log, contradicts = excluded.contradicts,
    changed_at = excluded.changed_at
"""
ADD_CONCEPT = "INSERT INTO learning_concept (learning_id, concept) VALUES (:id, :concept)"
FORGET_CONCEPTS = "DELETE FROM learning_concept WHERE learning_id = :id"
ADD_TEXT = "INSERT INTO learning_text (id, words) VALUES (:id, :words)"
FORGET_TEXT = "DELETE FROM learning_text WHERE id = :id"
FORGET = "DELETE FROM learning WHERE id = :id"
GET = "SELECT * FROM learning WHERE id = :id"
BY_PREFIX = "SELECT * FROM learning WHERE substr(id, 1, length(:text)) = :text ORDER BY id"
SAME = "SELECT * FROM learning WHERE condition = :condition AND advice = :advice AND superseded_by = '' ORDER BY id"
ALL = "SELECT * FROM learning ORDER BY created_at, id"
WITH_CONCEPT = """
SELECT learning.* FROM learning JOIN learning_concept ON learning_concept.learning_id = learning.id
WHERE concept = :concept ORDER BY created_at, id
"""
WITH_FINGERPRINT = "SELECT * FROM learning WHERE fingerprint = :fingerprint AND fingerprint <> '' ORDER BY id"
PREFERENCES = "SELECT * FROM learning WHERE preference = 1 ORDER BY created_at, id"
CONCEPTS = "SELECT learning_id, concept FROM learning_concept ORDER BY concept, learning_id"
CONCEPTS_OF = "SELECT concept FROM learning_concept WHERE learning_id = :id ORDER BY concept"
TRIGGER = "UPDATE learning SET triggers = triggers + 1, triggered_at = :at WHERE id = :id"
SUPERSEDE = "UPDATE learning SET superseded_by = :by WHERE id = :id"
MOST_FOUND = 50


class Learnings(TableGateway):
    """The learnings of one database."""

    def put(self, learning: Learning) -> None:
        """Store a learning; one with the same id gets its text, scope, concepts and evidence."""
        triple = learning.triple
        self._connection.write(
            ADD,
            id=learning.id,
            condition=triple.condition,
            advice=triple.advice,
            result=triple.result,
            scope=learning.scope,
            module=learning.module,
            preference=int(learning.preference),
            outcome=learning.outcome,
            commit_sha=learning.commit,
            log=learning.log,
            fingerprint=learning.fingerprint,
            source=learning.source,
            attempt_id=learning.attempt,
            contradicts=learning.contradicts,
            superseded_by=learning.superseded_by,
            triggers=learning.triggers,
            triggered_at=format_time(learning.triggered_at),
            created_at=format_time(learning.created_at),
            changed_at=format_time(learning.changed_at),
        )
        self._connection.write(FORGET_CONCEPTS, id=learning.id)
        self._connection.write_each(ADD_CONCEPT, [{"id": learning.id, "concept": each} for each in learning.concepts])
        words = " ".join((triple.condition, triple.advice, triple.result, learning.module, *learning.concepts))
        self._connection.write(FORGET_TEXT, id=learning.id)
        self._connection.write(ADD_TEXT, id=learning.id, words=words)

    def forget(self, learning_id: str) -> None:
        """Delete a learning with its text; which attempts had it stays known by its id."""
        for statement in (FORGET_TEXT, FORGET_CONCEPTS, FORGET):
            self._connection.write(statement, id=learning_id)

    def supersede(self, learning_id: str, *, by: str) -> None:
        """Let another learning take the place of this one; it stays, and is given no more."""
        self._connection.write(SUPERSEDE, id=learning_id, by=by)

    def trigger(self, learning_ids: Iterable[str]) -> None:
        """Count that the learnings were found for an attempt; those of another database are left alone."""
        at = format_time(self._clock.now())
        self._connection.write_each(TRIGGER, [{"id": each, "at": at} for each in learning_ids])

    def get(self, learning_id: str) -> Learning | None:
        """Return the learning; None if there is none."""
        row = self._connection.row(GET, id=learning_id)
        return None if row is None else self._learning(row)

    def by_prefix(self, text: str) -> tuple[Learning, ...]:
        """Return the learnings whose id starts with `text`."""
        return self._list(self._connection.rows(BY_PREFIX, text=text))

    def same(self, triple: Triple) -> Learning | None:
        """Return a learning with this condition and advice that counts; None if there is none."""
        rows = self._connection.rows(SAME, condition=triple.condition, advice=triple.advice)
        return self._learning(rows[0]) if rows else None

    def all(self) -> tuple[Learning, ...]:
        """Return all learnings, oldest first."""
        return self._list(self._connection.rows(ALL))

    def with_concept(self, concept: str) -> tuple[Learning, ...]:
        """Return the learnings about a concept, oldest first."""
        return self._list(self._connection.rows(WITH_CONCEPT, concept=concept))

    def preferences(self) -> tuple[Learning, ...]:
        """Return what the user prefers, oldest first."""
        return self._list(self._connection.rows(PREFERENCES))

    def of_failure(self, fingerprint: str) -> tuple[Learning, ...]:
        """Return the learnings that came from a failure with this fingerprint."""
        return self._list(self._connection.rows(WITH_FINGERPRINT, fingerprint=fingerprint))

    def concepts(self) -> dict[str, tuple[str, ...]]:
        """Return each concept with the ids of its learnings."""
        found: dict[str, tuple[str, ...]] = {}
        for row in self._connection.rows(CONCEPTS):
            found[row["concept"]] = (*found.get(row["concept"], ()), row["learning_id"])
        return found

    def search(self, words: Sequence[str], most: int = MOST_FOUND) -> tuple[Learning, ...]:
        """Return the learnings with any of the words, the best first; empty without words."""
        query = any_of(words)
        if not query:
            return ()
        statement = self._connection.driver.text_search("learning_text")
        found = (self.get(row["id"]) for row in self._connection.rows(statement, query=query, most=most))
        return tuple(each for each in found if each is not None)

    def _list(self, rows: Iterable[Row]) -> tuple[Learning, ...]:
        return tuple(map(self._learning, rows))

    def _learning(self, row: Row) -> Learning:
        return Learning(
            id=row["id"],
            triple=Triple(row["condition"], row["advice"], row["result"]),
            scope=row["scope"],
            module=row["module"],
            preference=bool(row["preference"]),
            concepts=tuple(each["concept"] for each in self._connection.rows(CONCEPTS_OF, id=row["id"])),
            outcome=row["outcome"],
            commit=row["commit_sha"],
            log=row["log"],
            fingerprint=row["fingerprint"],
            source=row["source"],
            attempt=row["attempt_id"],
            contradicts=row["contradicts"],
            superseded_by=row["superseded_by"],
            triggers=row["triggers"],
            triggered_at=parse_optional_time(row["triggered_at"]),
            created_at=parse_time(row["created_at"]),
            changed_at=parse_time(row["changed_at"]),
        )
