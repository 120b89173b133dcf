"""The user's own database: data that belongs to no repository and is shared by all processes of the user."""

from collections.abc import Callable, Mapping
from pathlib import Path

from scaffold.core.conversation import Message
from scaffold.core.ids import ConversationId
from scaffold.core.model import ProcessIdentity, Usage
from scaffold.core.ports import NO_USAGE
from scaffold.store.driver.columns import TimeSource
from scaffold.store.driver.connection import Connection
from scaffold.store.driver.gateway import BaseStore, TableGateway
from scaffold.store.driver.schema import SchemaSource, open_connection
from scaffold.store.driver.sqlite import SqliteDriver
from scaffold.store.knowledge.tables import KnowledgeTables
from scaffold.store.learnings import Learnings
from scaffold.store.messages import Messages
from scaffold.store.reservations import BudgetAccounts, Reservations
from scaffold.store.user.conversations import Conversations, SeenFileVersions
from scaffold.store.user.endpoint_throttles import EndpointThrottles
from scaffold.store.user.logins import Logins
from scaffold.store.user.notification_outbox import Outbox
from scaffold.store.user.second_reviewers import Reviewers
from scaffold.store.user.subagents import Subagents
from scaffold.store.user.trust_decisions import FolderTrusts, McpApprovals

MIGRATIONS = Path(__file__).with_name("user_migrations")
SESSIONS = "sessions"
"""The message scope shared by all sessions of a user."""
IN_USE = """
SELECT 'is using conversation ' || id AS activity, owner FROM conversation WHERE owner IS NOT NULL ORDER BY id
"""
REMEMBER_REPOSITORY = """
INSERT INTO repository (common_dir, root, used_at) VALUES (:common_dir, :root, :at)
ON CONFLICT (common_dir) DO UPDATE SET root = excluded.root, used_at = excluded.used_at
"""
REPOSITORY_ROOTS = "SELECT root FROM repository ORDER BY used_at DESC, common_dir"
FORGET_REPOSITORY = "DELETE FROM repository WHERE common_dir = :common_dir"


def user_database(data: Path) -> Path:
    """Return the database's path in the user's data directory."""
    return data / "user.db"


class Repositories(TableGateway):
    """The repositories in which the user has had a run, by their git directory: worktrees count as one."""

    def remember(self, common_dir: Path, root: Path) -> None:
        """Store that the user works in this repository; `root` is the top folder of the checkout."""
        self._connection.write(REMEMBER_REPOSITORY, common_dir=str(common_dir), root=str(root), at=self._now_text())

    def roots(self) -> tuple[Path, ...]:
        """Return the checkout of each repository, the one used last first; it may have been removed since."""
        return tuple(Path(row["root"]) for row in self._connection.rows(REPOSITORY_ROOTS))

    def forget(self, common_dir: Path) -> None:
        """Remove a repository from the list."""
        self._connection.write(FORGET_REPOSITORY, common_dir=str(common_dir))


class UserStore(BaseStore):
    """The data of one user."""

    def __init__(self, connection: Connection, clock: TimeSource) -> None:
        super().__init__(connection)
        self.conversations = Conversations(connection, clock)
        self.reservations = Reservations(connection, clock)
        self.accounts = BudgetAccounts(connection, clock)
        self.endpoints = EndpointThrottles(connection)
        self.messages = Messages(connection, clock)
        self.subagents = Subagents(connection, clock)
        self.seen_files = SeenFileVersions(connection, clock)
        self.trust = FolderTrusts(connection, clock)
        self.logins = Logins(connection, clock)
        self.mcp_approvals = McpApprovals(connection, clock)
        self.knowledge = KnowledgeTables(connection, clock)
        self.learnings = Learnings(connection, clock, self.knowledge)
        self.reviewers = Reviewers(connection, clock)
        self.repositories = Repositories(connection, clock)
        self.outbox = Outbox(connection, clock)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        clock: TimeSource,
        create: bool = True,
        timeout_s: float = 10.0,
        migrations: Path = MIGRATIONS,
    ) -> "UserStore":
        """Open the database at `path`, as `Store.open` does; the file and its directory are private to the user.

        Raises StoreError, and changes nothing, if the database is missing (without `create`), inaccessible, corrupt,
        foreign, too new, or of an older version while a process uses a conversation.
        """
        # Private: it has the conversations of the user, and tokens.
        driver = SqliteDriver(path, create=create, timeout_s=timeout_s, private=True)
        return cls(open_connection(driver, SchemaSource(migrations, IN_USE), clock, create=create), clock)


class ConversationHistory:
    """Stores each message of one conversation as it is added. Implements `core.ports.History`.

    Added messages survive the process. Raises ConversationBusy once another process has claimed the conversation.
    """

    def __init__(
        self,
        store: UserStore,
        conversation_id: ConversationId,
        me: ProcessIdentity,
        *,
        seen: Callable[[], Mapping[str, str | None]] = dict,
    ) -> None:
        """Take a conversation that the process `me` has claimed.

        `seen` returns what changed since the last call in what it knows of files, as `store.seen_files.keep` takes it:
        that is stored with the message that contains the results, or with a compaction.
        """
        self._store = store
        self._id = conversation_id
        self._me = me
        self._seen = seen

    def add(self, message: Message, usage: Usage = NO_USAGE) -> None:
        """Store the next message and its usage; both are durable when this returns."""
        with self._store.transaction():
            self._store.conversations.add(self._id, message, usage, me=self._me)
            self._store.seen_files.keep(self._id, self._seen())

    def draft(self, message: Message) -> None:
        """Store what is the next message if the process dies now; durable when this returns."""
        with self._store.transaction():
            self._store.conversations.draft(self._id, message, me=self._me)

    def spend(self, usage: Usage) -> None:
        """Store usage that no message came of; durable when this returns."""
        with self._store.transaction():
            self._store.conversations.spend(self._id, usage, me=self._me)

    def compact(self, kept: int, summary: str) -> None:
        """Replace all but the last `kept` messages with `summary` from now on; the stored messages stay."""
        with self._store.transaction():
            self._store.conversations.compact(self._id, kept, summary, me=self._me)
            self._store.seen_files.keep(self._id, self._seen())
