"""Learnings: chunks of a collection of their own, and what a chunk does not have. In both databases."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from scaffold.core.ids import AttemptId
from scaffold.core.knowledge import LEARNINGS, OF_ATTEMPT, Chunk, ChunkId, ChunkState
from scaffold.core.learning import Learning, LearningMoment, LearningSource, LearningUse, Triple
from scaffold.core.states import COUNTED_FAILURES, AttemptOutcome
from scaffold.store.driver.columns import OBJECT, TimeSource, parse_time, read_struct, struct_columns
from scaffold.store.driver.connection import Connection, Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.knowledge.tables import KnowledgeTables

ADD_USE = """
INSERT INTO learning_use (attempt_id, learning_id, given, moment, at)
VALUES (:attempt_id, :learning_id, :given, :moment, :at)
ON CONFLICT (attempt_id, learning_id) DO NOTHING
"""
CARRY = """
INSERT INTO learning_use (attempt_id, learning_id, given, moment, at)
SELECT :to_id, learning_id, given, moment, at FROM learning_use WHERE attempt_id = :from_id
ON CONFLICT (attempt_id, learning_id) DO NOTHING
"""
USED_IN = "SELECT learning_id FROM learning_use WHERE attempt_id = :attempt_id ORDER BY learning_id"
# A step's end says nothing of the work, and its compound is one piece of work. What the user has undone did not help.
USES = """
SELECT learning_use.*, attempt.run_id, attempt.outcome, EXISTS (
    SELECT 1 FROM branch_move WHERE branch_move.purpose = 'revert' AND branch_move.status = 'done'
                              AND branch_move.run_id = attempt.run_id AND branch_move.head_sha = attempt.head_sha
) AS reverted
FROM learning_use JOIN attempt ON attempt.id = learning_use.attempt_id
"""
IN_ORDER = " ORDER BY learning_use.at, learning_use.attempt_id"
OF_LEARNING = f"{USES} WHERE learning_use.learning_id = :id AND attempt.kind <> 'step'{IN_ORDER}"
OF_WORKSPACE = """
SELECT learning_use.learning_id, learning_use.given
FROM learning_use JOIN attempt ON attempt.id = learning_use.attempt_id
WHERE attempt.workspace = :name AND attempt.workspace <> '' ORDER BY learning_use.at DESC, learning_use.attempt_id DESC
"""
SUCCESS: frozenset[AttemptOutcome] = frozenset({"landed", "recorded"})
ADD = """
INSERT INTO learning (id, scope, module, preference, outcome, commit_sha, log, fingerprint, contradicts, triggers,
                      triggered_at)
VALUES (:id, :scope, :module, :preference, :outcome, :commit_sha, :log, :fingerprint, :contradicts, :triggers,
        :triggered_at)
ON CONFLICT (id) DO UPDATE SET scope = excluded.scope, module = excluded.module, preference = excluded.preference,
    outcome = excluded.outcome, commit_sha = excluded.commit_sha, log = excluded.log,
    contradicts = excluded.contradicts
"""
FOUND = """
SELECT learning.*, chunk.text, chunk.meta, chunk.source, chunk.state, chunk.superseded_by, chunk.created_at,
       chunk.valid_from
FROM learning JOIN chunk ON chunk.id = learning.id
"""
OLDEST_FIRST = " ORDER BY chunk.created_at, chunk.id"
GET = f"{FOUND} WHERE learning.id = :id"
BY_PREFIX = f"{FOUND} WHERE substr(learning.id, 1, length(:text)) = :text ORDER BY learning.id"
SAME = f"""{FOUND} WHERE chunk.collection = :collection AND substr(chunk.text, 1, length(:start)) = :start
AND chunk.state <> 'superseded' ORDER BY learning.id"""
ALL = f"{FOUND}{OLDEST_FIRST}"
WITH_CONCEPT = f"""{FOUND} JOIN chunk_meta ON chunk_meta.chunk_id = learning.id
WHERE chunk_meta.name = :name{OLDEST_FIRST}"""
WITH_FINGERPRINT = f"{FOUND} WHERE fingerprint = :fingerprint AND fingerprint <> '' ORDER BY learning.id"
PREFERENCES = f"{FOUND} WHERE preference = 1{OLDEST_FIRST}"
CONCEPTS = """
SELECT chunk_meta.name, learning.id FROM learning JOIN chunk_meta ON chunk_meta.chunk_id = learning.id
WHERE substr(chunk_meta.name, 1, 1) = :mark ORDER BY chunk_meta.name, learning.id
"""
TRIGGER = "UPDATE learning SET triggers = triggers + 1, triggered_at = :at WHERE id = :id"
CONCEPT = "#"
"""The first character of the fields of `meta` that are the concepts of a learning; their value is empty."""
SOURCES: Mapping[LearningSource, str] = {"human": "user", "agent": "agent"}
"""The source of a chunk that was drawn from no attempt."""


class LearningUses(TableGateway):
    """The learnings of attempts. What counts as help is computed from how attempts ended, never stored."""

    def add(
        self, attempt_id: AttemptId, moment: LearningMoment, *, given: Iterable[str], withheld: Iterable[str]
    ) -> None:
        """Record what an attempt was given, and what it goes without; the first decision about a learning stays."""
        shared = {"attempt_id": attempt_id, "moment": moment, "at": self._now_text()}
        rows = [{**shared, "learning_id": each, "given": 1} for each in given]
        rows += [{**shared, "learning_id": each, "given": 0} for each in withheld]
        self._connection.write_each(ADD_USE, rows)

    def carry(self, earlier: AttemptId, later: AttemptId) -> None:
        """Record for an attempt that continues an earlier one what that was given."""
        self._connection.write(CARRY, from_id=earlier, to_id=later)

    def for_attempt(self, attempt_id: AttemptId) -> frozenset[str]:
        """Return the ids of the learnings that were given to the attempt, or withheld from it."""
        rows = self._connection.rows(USED_IN, attempt_id=attempt_id)
        return frozenset(row["learning_id"] for row in rows)

    def decided_in(self, workspace: str) -> Mapping[str, bool]:
        """Return which learnings were first given (True) or withheld in a shared worktree; its work is one."""
        return {row["learning_id"]: bool(row["given"]) for row in self._connection.rows(OF_WORKSPACE, name=workspace)}

    def for_learnings(self, learning_ids: Sequence[str]) -> tuple[LearningUse, ...]:
        """Return the uses of these learnings, oldest first for each; those of steps are left out."""
        uses = []
        for row in (row for each in learning_ids for row in self._connection.rows(OF_LEARNING, id=each)):
            # An attempt that ended for another reason, e.g. cancelled, says nothing of its learnings.
            helped = False if row["outcome"] in COUNTED_FAILURES else None
            if row["outcome"] in SUCCESS:
                helped = not row["reverted"]
            uses.append(read_struct(LearningUse, row, learning=row["learning_id"], run=row["run_id"], helped=helped))
        return tuple(uses)


class Learnings(TableGateway):
    """The learnings of one database. Their text, state and time of validity are those of their chunk."""

    def __init__(self, connection: Connection, clock: TimeSource, knowledge: KnowledgeTables) -> None:
        super().__init__(connection, clock)
        self._knowledge = knowledge

    def put(self, learning: Learning) -> None:
        """Store a learning; one with the same id gets its text, scope, concepts and evidence.

        A former text is deleted for good; then `knowledge.empty_log`, outside of the transaction.
        """
        chunk, former = _learning_chunk(learning), self._knowledge.chunks.get(ChunkId(learning.id))
        if former is None:
            self._knowledge.collections.ensure(LEARNINGS)
            self._knowledge.chunks.add([chunk])
        else:
            names = ("text", "title", "sha256", "meta", "valid_from")
            after = structs.replace(former, **{name: getattr(chunk, name) for name in names})
            is_reworded = (former.text, former.title) != (chunk.text, chunk.title)
            (self._knowledge.replace if is_reworded else self._knowledge.chunks.change)(after)
        self._connection.write(ADD, **struct_columns(learning, commit_sha=learning.commit))

    def supersede(self, learning_id: str, *, by: str) -> None:
        """Replace this learning by another one; it is kept, but no longer given."""
        chunk = self._knowledge.chunks.get(ChunkId(learning_id))
        if chunk is not None:
            until = self._clock.now()
            after = structs.replace(chunk, state="superseded", valid_until=until, superseded_by=ChunkId(by))
            self._knowledge.chunks.change(after)

    def trigger(self, learning_ids: Iterable[str]) -> None:
        """Count that the learnings were found for an attempt; those of another database are left alone."""
        at = self._now_text()
        self._connection.write_each(TRIGGER, [{"id": each, "at": at} for each in learning_ids])

    def get(self, learning_id: str) -> Learning | None:
        """Return the learning; None if there is none."""
        row = self._connection.row(GET, id=learning_id)
        return None if row is None else _read_learning(row)

    def for_chunks(self, chunks: Iterable[ChunkId]) -> Iterator[Learning]:
        """Yield the learnings whose chunks these are, in that order."""
        ids = {f"id{place}": each for place, each in enumerate(chunks)}
        if not ids:
            return iter(())  # PostgreSQL takes no empty list
        names = ", ".join(f":{name}" for name in ids)
        found = {each.id: each for each in self._select_learnings(f"{FOUND} WHERE learning.id IN ({names})", **ids)}
        return (found[each] for each in ids.values() if each in found)

    def by_prefix(self, text: str) -> tuple[Learning, ...]:
        """Return the learnings whose id starts with `text`."""
        return self._select_learnings(BY_PREFIX, text=text)

    def same(self, triple: Triple) -> Learning | None:
        """Return a learning with this condition and advice that is not superseded; None if there is none."""
        start = _triple_text(Triple(triple.condition, triple.advice))
        found = self._select_learnings(SAME, collection=LEARNINGS, start=start)
        return found[0] if found else None

    def all(self) -> tuple[Learning, ...]:
        """Return all learnings, oldest first."""
        return self._select_learnings(ALL)

    def with_concept(self, concept: str) -> tuple[Learning, ...]:
        """Return the learnings about a concept, oldest first."""
        return self._select_learnings(WITH_CONCEPT, name=f"{CONCEPT}{concept}")

    def preferences(self) -> tuple[Learning, ...]:
        """Return what the user prefers, oldest first."""
        return self._select_learnings(PREFERENCES)

    def for_failure(self, fingerprint: str) -> tuple[Learning, ...]:
        """Return the learnings that came from a failure with this fingerprint."""
        return self._select_learnings(WITH_FINGERPRINT, fingerprint=fingerprint)

    def concepts(self) -> dict[str, tuple[str, ...]]:
        """Return each concept with the ids of its learnings."""
        found: dict[str, tuple[str, ...]] = {}
        for row in self._connection.rows(CONCEPTS, mark=CONCEPT):
            name = row["name"].removeprefix(CONCEPT)
            found[name] = (*found.get(name, ()), row["id"])
        return found

    def _select_learnings(self, statement: str, **values: str) -> tuple[Learning, ...]:
        return tuple(map(_read_learning, self._connection.rows(statement, **values)))


def _triple_text(triple: Triple) -> str:
    # One line for each part, so that they can be told apart again.
    return "\n".join(structs.astuple(triple))


def _learning_chunk(learning: Learning) -> Chunk:
    text = _triple_text(learning.triple)
    state: ChunkState = "unconfirmed" if learning.unconfirmed else "active"
    return Chunk(
        id=ChunkId(learning.id),
        collection=LEARNINGS,
        text=text,
        title=" ".join(filter(None, (learning.module, *learning.concepts))),
        # Which learnings say the same is decided by `same`; an edit may make two of them alike.
        sha256=hashlib.sha256(f"{learning.id}\n{text}".encode()).hexdigest(),
        source=f"{OF_ATTEMPT}{learning.attempt}" if learning.attempt else SOURCES[learning.source],
        meta={f"{CONCEPT}{each}": "" for each in learning.concepts},
        state="superseded" if learning.superseded_by else state,
        valid_from=learning.changed_at,
        valid_until=learning.changed_at if learning.superseded_by else None,
        superseded_by=ChunkId(learning.superseded_by) if learning.superseded_by else None,
        created_at=learning.created_at,
    )


def _read_learning(row: Row) -> Learning:
    attempt = row["source"].removeprefix(OF_ATTEMPT) if row["source"].startswith(OF_ATTEMPT) else ""
    names = sorted(OBJECT.read(row["meta"]))
    return read_struct(
        Learning,
        row,
        triple=Triple(*row["text"].split("\n", 2)),
        concepts=tuple(name.removeprefix(CONCEPT) for name in names if name.startswith(CONCEPT)),
        commit=row["commit_sha"],
        source="agent" if attempt or row["source"] == SOURCES["agent"] else "human",
        attempt=attempt,
        unconfirmed=row["state"] == "unconfirmed",
        superseded_by=row["superseded_by"] or "",
        changed_at=parse_time(row["valid_from"]),
    )
