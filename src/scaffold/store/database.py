"""A repository's store: one database, one table gateway per subject; the caller owns the transactions."""

from contextlib import AbstractContextManager
from pathlib import Path

from scaffold.host.startup import importing
from scaffold.store.driver.columns import TimeSource
from scaffold.store.driver.connection import Connection, DatabaseDriver
from scaffold.store.driver.gateway import BaseStore
from scaffold.store.driver.location import StoreLocation
from scaffold.store.driver.schema import MIGRATIONS, SchemaSource, open_connection
from scaffold.store.driver.signature import ForeignUse
from scaffold.store.driver.sqlite import IN_MEMORY, SqliteDriver
from scaffold.store.knowledge.tables import KnowledgeTables
from scaffold.store.learnings import Learnings, LearningUses
from scaffold.store.messages import Messages
from scaffold.store.reservations import Bookings, BudgetAccounts, Reservations
from scaffold.store.run.agent_questions import Assumptions, FileGrants, KeptReplies, KeptTurns, TurnMessages
from scaffold.store.run.attempts import Attempts
from scaffold.store.run.current_activities import Activities
from scaffold.store.run.event_log import Events
from scaffold.store.run.inbox_items import Inbox
from scaffold.store.run.landings import BranchMoves, Intents, MergeQueues
from scaffold.store.run.plan.actions import Actions
from scaffold.store.run.plan.facts import Facts
from scaffold.store.run.plan.goals import Goals, Requirements
from scaffold.store.run.plan.planning_turns import PlanningTurns
from scaffold.store.run.plan.scheduling import Scheduling
from scaffold.store.run.proof_records import Baselines, ReviewComments, ReviewVerdicts, SealedContracts
from scaffold.store.run.runs import ControlRequests, Runs
from scaffold.store.run.story_records import RefusedEditsOfStories, StoryHistories
from scaffold.store.work_items import WorkItems

IN_USE = "SELECT 'is executing run ' || id AS activity, owner FROM run WHERE owner IS NOT NULL ORDER BY position"


def open_driver(location: StoreLocation, *, create: bool, timeout_s: float, outage_s: float = 0.0) -> DatabaseDriver:
    """Open the database at `location`; raise StoreError if it is missing, unless `create`.

    `timeout_s` is how long a write waits for another process's transaction, `outage_s` how long each read and each
    transaction waits, and blocks, for a server that is away.
    """
    if isinstance(location, Path):
        return SqliteDriver(location, create=create, timeout_s=timeout_s)
    with importing():  # psycopg takes longer to import than all of `scaffold status` may
        from scaffold.store.driver.postgres import PostgresDriver
    return PostgresDriver(location, timeout_s=timeout_s, outage_s=outage_s)


class Store(BaseStore):
    """The state of a repository's runs."""

    def __init__(self, connection: Connection, clock: TimeSource) -> None:
        super().__init__(connection)
        self.events = Events(connection, clock)
        self.runs = Runs(connection, clock, self.events)
        self.facts = Facts(connection, clock, self.events)
        self.goals = Goals(connection, clock, self.events, self.facts)
        self.actions = Actions(connection, clock, self.events, self.facts)
        self.attempts = Attempts(connection, clock, self.events)
        self.seals = SealedContracts(connection, clock, self.events)
        self.file_grants = FileGrants(connection, clock, self.events)
        self.baselines = Baselines(connection, clock)
        self.turns = PlanningTurns(connection, clock, self.events)
        self.control_requests = ControlRequests(connection, clock)
        self.intents = Intents(connection, clock)
        self.merge_queues = MergeQueues(connection, clock)
        self.scheduling = Scheduling(connection, clock, self.events)
        self.branch_moves = BranchMoves(connection, clock)
        self.assumptions = Assumptions(connection, clock, self.events)
        self.review_verdicts = ReviewVerdicts(connection, clock)
        self.review_comments = ReviewComments(connection, clock)
        self.inbox = Inbox(connection, clock, self.events, self.actions)
        self.activities = Activities(connection, clock)
        self.requirements = Requirements(connection, clock)
        self.story_histories = StoryHistories(connection, clock)
        self.refused_edits = RefusedEditsOfStories(connection, clock)
        kept_messages = TurnMessages(connection, clock)
        self.kept_turns = KeptTurns(connection, clock, kept_messages)
        self.paid_replies = KeptReplies(connection, clock, kept_messages)
        self.knowledge = KnowledgeTables(connection, clock)
        self.learnings = Learnings(connection, clock, self.knowledge)
        self.learning_uses = LearningUses(connection, clock)
        self.work_items = WorkItems(connection, clock)
        self.messages = Messages(connection, clock)
        self.reservations = Reservations(connection, clock)
        self.accounts = BudgetAccounts(connection, clock)
        self.bookings = Bookings(connection, clock)

    @classmethod
    def open(
        cls,
        location: StoreLocation,
        *,
        clock: TimeSource,
        create: bool = True,
        timeout_s: float = 10.0,
        outage_s: float = 0.0,
        migrations: Path = MIGRATIONS,
        foreign: ForeignUse = "refuse",
    ) -> "Store":
        """Open the database at `location` and migrate its schema; with `create`, a missing one is created.

        `timeout_s` is how long a write waits for another process's transaction, `outage_s` how long each step waits,
        and blocks this process, for a server that is away. Raises StoreError and changes nothing
        if the database is missing (without `create`), inaccessible, corrupt, foreign, too new, or of an older version
        and in use by a run. With `create` it must be writable; without, a read-only database can be opened, and its
        transactions raise StoreError. `foreign` says what becomes of one that another user made: ForeignState, unless
        it is only shown, or adopted.
        """
        driver = open_driver(location, create=create, timeout_s=timeout_s, outage_s=outage_s)
        schema = SchemaSource(migrations, IN_USE, None if location == IN_MEMORY else location, foreign)
        return cls(open_connection(driver, schema, clock, create=create), clock)

    def snapshot(self) -> AbstractContextManager[None]:
        """Return a block whose reads fit together: they show the data as it was at the first of them.

        Other processes can write meanwhile. Raises RuntimeError if a transaction is open, and for writes in the block.
        """
        return self._connection.snapshot()

    def erase(self) -> None:
        """Delete all stored data on a server for good; does nothing for a file, which its owner deletes."""
        self._connection.driver.erase()
