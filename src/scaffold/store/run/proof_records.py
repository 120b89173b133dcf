"""What proofs rest on: sealed contracts, results and baselines of gates, verdicts of reviewers, comments of humans."""

import hashlib

from msgspec import structs

from scaffold.core.change_approval import ReviewComment
from scaffold.core.errors import IllegalTransition, StoreError
from scaffold.core.events import ContractSealed
from scaffold.core.ids import ActionId, Commit, RunId, TreeId
from scaffold.core.proof.contract import Contract, ContractPhase, SealedContract
from scaffold.core.proof.gates import Baseline, CheckEnvironment, Gate, GateRun
from scaffold.core.proof.reviewer_record import GivenVerdict
from scaffold.store.driver.columns import VERIFICATION, JsonColumn, format_time, parse_time, read_struct, struct_columns
from scaffold.store.driver.connection import ColumnValue, Row
from scaffold.store.driver.gateway import TableGateway
from scaffold.store.row_errors import illegal_transition
from scaffold.store.run.event_log import RunTableGateway

ADD_VERDICT = """
INSERT INTO review_verdict (run_id, action_id, attempt_id, change, model, verdict, given_at)
VALUES (:run_id, :action_id, :attempt_id, :change, :model, :verdict, :given_at)
ON CONFLICT (attempt_id, change, model) DO NOTHING
"""
VERDICTS_OF_ACTION = "SELECT * FROM review_verdict WHERE action_id = :action_id ORDER BY given_at, change"
ADD_COMMENT = """
INSERT INTO review_comment (id, run_id, action_id, attempt_id, number, base_sha, commit_sha, fingerprint, path,
                            first_line, last_line, before, quoted, text, author, sent_as, created_at, sent_at)
VALUES (:id, :run_id, :action_id, :attempt_id,
        (SELECT COALESCE(MAX(number), 0) + 1 FROM review_comment WHERE action_id = :action_id), :base_sha, :commit_sha,
        :fingerprint, :path, :first_line, :last_line, :before, :quoted, :text, :author, '', :created_at, NULL)
RETURNING *
"""
COMMENTS_OF_ACTION = "SELECT * FROM review_comment WHERE action_id = :action_id ORDER BY number"
COMMENTS_OF_RUN = "SELECT * FROM review_comment WHERE run_id = :run_id ORDER BY created_at, action_id, number"
MARK_SENT = """
UPDATE review_comment SET sent_as = :sent_as, sent_at = :now WHERE id = :id AND sent_as = '' RETURNING id
"""
JUDGED_ACTIONS = "SELECT DISTINCT action_id FROM review_verdict WHERE run_id = :run_id ORDER BY action_id"
SAVE_RUN = """
INSERT INTO gate_run (tree_sha, folder, command, environment, body, created_at)
VALUES (:tree_sha, :folder, :command, :environment, :body, :at)
ON CONFLICT (tree_sha, folder, command, environment) DO UPDATE
SET body = excluded.body, created_at = excluded.created_at
"""
FIND_RUN = """
SELECT body FROM gate_run
WHERE tree_sha = :tree_sha AND folder = :folder AND command = :command AND environment = :environment
"""
DELETE_RUN = """
DELETE FROM gate_run
WHERE tree_sha = :tree_sha AND folder = :folder AND command = :command AND environment = :environment
"""
SAVE_BASELINE = """
INSERT INTO baseline (run_id, tree_sha, environment, gates, created_at)
VALUES (:run_id, :tree_sha, :environment, :gates, :at)
ON CONFLICT (run_id) DO UPDATE
SET tree_sha = excluded.tree_sha, environment = excluded.environment, gates = excluded.gates,
    created_at = excluded.created_at
"""
BASELINE_OF_RUN = "SELECT baseline.*, run.base_sha FROM baseline JOIN run ON run.id = run_id WHERE run_id = :run_id"
DELETE_BASELINE = "DELETE FROM baseline WHERE run_id = :run_id"
LANDED_SETTLING_TESTS = """
SELECT verification FROM attempt WHERE run_id = :run_id AND outcome = 'landed' AND settles_tests = 1
"""
RUN = JsonColumn[GateRun](GateRun)
GATES = JsonColumn[tuple[Gate, ...]](tuple[Gate, ...])
ENVIRONMENT = JsonColumn[CheckEnvironment](CheckEnvironment)
ACTION = "SELECT run_id, key FROM action WHERE id = :id"
ADD_SEAL = """
INSERT INTO sealed_contract (action_id, phase, body, sha256, created_at)
VALUES (:action_id, :phase, :body, :digest, :at)
ON CONFLICT (action_id, phase) DO NOTHING
"""
SET_ACTION_CONTRACT = "UPDATE action SET contract = :body WHERE id = :action_id"
SEALS_OF_ACTION = "SELECT * FROM sealed_contract WHERE action_id = :action_id ORDER BY phase"
CONTRACT_JSON = JsonColumn[Contract](Contract)


class ReviewComments(TableGateway):
    """The comments on each action's changes; none is ever deleted."""

    def add(self, comment: ReviewComment) -> ReviewComment:
        """Store a draft and return it with its number."""
        (row,) = self._connection.write_returning(ADD_COMMENT, **struct_columns(comment))
        return read_struct(ReviewComment, row)

    def for_action(self, action_id: ActionId) -> tuple[ReviewComment, ...]:
        """Return the comments on an action's changes by number, drafts and discarded ones, too."""
        return tuple(
            read_struct(ReviewComment, row) for row in self._connection.rows(COMMENTS_OF_ACTION, action_id=action_id)
        )

    def for_run(self, run_id: RunId) -> tuple[ReviewComment, ...]:
        """Return the comments on all changes of a run, oldest first."""
        return tuple(read_struct(ReviewComment, row) for row in self._connection.rows(COMMENTS_OF_RUN, run_id=run_id))

    def drafts(self, action_id: ActionId) -> tuple[ReviewComment, ...]:
        """Return the comments that wait to be sent, by number."""
        return tuple(each for each in self.for_action(action_id) if not each.sent_as)

    def mark_sent(self, comment: ReviewComment, sent_as: str) -> None:
        """Store how a draft was sent; raises IllegalTransition if it is none any more."""
        if not self._connection.write_returning(MARK_SENT, id=comment.id, sent_as=sent_as, now=self._now_text()):
            raise IllegalTransition(
                f"comment {comment.number} is no draft any more", "`scaffold review ACTION` shows what became of it."
            )


class ReviewVerdicts(TableGateway):
    """One verdict for each change of an attempt and each reviewer."""

    def add(self, run_id: RunId, action_id: ActionId, given: GivenVerdict) -> None:
        """Store a verdict; the first one about a change stays."""
        columns = struct_columns(given, given_at=format_time(given.at))
        self._connection.write(ADD_VERDICT, run_id=run_id, action_id=action_id, **columns)

    def for_action(self, action_id: ActionId) -> tuple[GivenVerdict, ...]:
        """Return the verdicts about the changes of an action, oldest first."""
        rows = self._connection.rows(VERDICTS_OF_ACTION, action_id=action_id)
        return tuple(read_struct(GivenVerdict, row, at=parse_time(row["given_at"])) for row in rows)

    def actions(self, run_id: RunId) -> tuple[ActionId, ...]:
        """Return the actions of a run whose changes were judged."""
        return tuple(row["action_id"] for row in self._connection.rows(JUDGED_ACTIONS, run_id=run_id))


class Baselines(TableGateway):
    """Results of gates and checks, stored for reuse with the same tree, command and environment.

    A result belongs to the tree, whatever commit has it: its `commit` is the one it was asked for.
    """

    def keep(self, run: GateRun, tree: TreeId) -> None:
        """Store a result on the tree; replaces an older one."""
        key = _result_key(run.gate, tree, run.environment)
        self._connection.write(SAVE_RUN, **key, body=RUN.write(run), at=self._now_text())

    def find(self, gate: Gate, tree: TreeId, environment: str) -> GateRun | None:
        """Return the gate's result on the tree in that environment; None if it was never run."""
        row = self._connection.row(FIND_RUN, **_result_key(gate, tree, environment))
        found = None if row is None else RUN.read(row["body"])
        # Whether a gate only warns, and its timeout, may have changed since; its results have not.
        return structs.replace(found, gate=gate) if found and found.gate.runner == gate.runner else None

    def hold(self, run_id: RunId, baseline: Baseline, tree: TreeId) -> None:
        """Set the run's baseline, whose base has this tree, and store its gate results."""
        for run in baseline.runs:
            self.keep(run, tree)
        self._connection.write(
            SAVE_BASELINE,
            run_id=run_id,
            tree_sha=tree,
            environment=ENVIRONMENT.write(baseline.environment),
            gates=GATES.write(tuple(run.gate for run in baseline.runs)),
            at=self._now_text(),
        )

    def for_run(self, run_id: RunId) -> Baseline | None:
        """Return the run's baseline; None if it was not captured yet, or was dropped."""
        row = self._connection.row(BASELINE_OF_RUN, run_id=run_id)
        if row is None:
            return None
        environment = ENVIRONMENT.read(row["environment"])
        found = [self.find(gate, row["tree_sha"], environment.fingerprint) for gate in GATES.read(row["gates"])]
        # A result may have been dropped with another run's baseline; then this one has to be captured again.
        if None in found:
            return None
        # Another run may have found it at another commit, which need not exist any more.
        base = Commit(row["base_sha"])
        return Baseline(environment=environment, runs=tuple(structs.replace(run, commit=base) for run in found if run))

    def settled_tests(self, run_id: RunId) -> frozenset[str]:
        """Return the names of the tests that landed work of the run removed, replaced or moved, as it was judged then.

        The baseline is from before the run, so they are missing in each later proof as well.
        """
        rows = self._connection.rows(LANDED_SETTLING_TESTS, run_id=run_id)
        landed = [VERIFICATION.read(row["verification"]) for row in rows]
        return frozenset(name for each in landed if each is not None for name in each.settled_tests)

    def drop(self, run_id: RunId, *, results: bool) -> None:
        """Delete the run's baseline, so that it is captured again when needed.

        Other runs on the same tree share the gate results, which are deleted only with `results`.
        """
        row = self._connection.row(BASELINE_OF_RUN, run_id=run_id)
        if row is not None and results:
            environment = ENVIRONMENT.read(row["environment"])
            for gate in GATES.read(row["gates"]):
                self._connection.write(DELETE_RUN, **_result_key(gate, row["tree_sha"], environment.fingerprint))
        self._connection.write(DELETE_BASELINE, run_id=run_id)


class SealedContracts(RunTableGateway):
    """At most one draft and one final contract per action; a sealed contract never changes."""

    def add(self, action_id: ActionId, phase: ContractPhase, contract: Contract) -> SealedContract:
        """Seal a contract and make it the action's current one; safe to repeat.

        Raises IllegalTransition if a different contract is sealed for that phase.
        """
        body = CONTRACT_JSON.write(contract) or ""
        digest = _body_digest(body)
        existing = next((seal for seal in self.for_action(action_id) if seal.phase == phase), None)
        if existing is not None:
            if existing.sha256 != digest:
                raise illegal_transition("contract", action_id, f"sealed as {existing.sha256[:12]}", digest[:12])
            return existing
        row = self._connection.require_row(ACTION, "action", action_id)
        at = self._now_text()
        self._connection.write(ADD_SEAL, action_id=action_id, phase=phase, body=body, digest=digest, at=at)
        self._connection.write(SET_ACTION_CONTRACT, action_id=action_id, body=body)
        checks = len(contract.commands) + len(contract.must_exist + contract.must_not_exist + contract.must_not_change)
        self._events.append(row["run_id"], ContractSealed(row["key"], phase, digest, checks))
        return SealedContract(phase=phase, contract=contract, sha256=digest)

    def in_force(self, action_id: ActionId) -> SealedContract | None:
        """Return the action's final contract, else its draft; None if it was given in the plan and not sealed.

        Raises StoreError if it differs from what was sealed.
        """
        rows = self._connection.rows(SEALS_OF_ACTION, action_id=action_id)
        if not rows:
            return None
        # Sorted by phase: `draft` comes before `final`.
        seal = _read_seal(rows[-1])
        # The stored text: what a newer version would write for the same contract may have more fields.
        if _body_digest(rows[-1]["body"]) != seal.sha256:
            what = f"the {seal.phase} contract of action {action_id!r} does not match its seal {seal.sha256[:12]}"
            raise StoreError(what, "The database was changed by another program. Start a new run for this work.")
        return seal

    def for_action(self, action_id: ActionId) -> tuple[SealedContract, ...]:
        """Return the action's sealed contracts, the draft first; empty if its contract was given in the plan."""
        return tuple(map(_read_seal, self._connection.rows(SEALS_OF_ACTION, action_id=action_id)))


def _body_digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _read_seal(row: Row) -> SealedContract:
    return SealedContract(phase=row["phase"], contract=CONTRACT_JSON.read(row["body"]), sha256=row["sha256"])


def _result_key(gate: Gate, tree: TreeId, environment: str) -> dict[str, ColumnValue]:
    return {"tree_sha": tree, "folder": gate.folder, "command": gate.command, "environment": environment}
