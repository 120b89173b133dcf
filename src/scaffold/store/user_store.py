"""The user's own database: data that belongs to no repository and is shared by all processes of the user."""

from pathlib import Path

from scaffold.store.driver.columns import TimeSource
from scaffold.store.driver.connection import Connection
from scaffold.store.driver.gateway import BaseStore
from scaffold.store.driver.schema import SchemaSource, open_connection
from scaffold.store.driver.sqlite import SqliteDriver
from scaffold.store.knowledge.tables import KnowledgeTables
from scaffold.store.learnings import Learnings
from scaffold.store.messages import Messages
from scaffold.store.reservations import BudgetAccounts, Reservations
from scaffold.store.user.conversations import Conversations
from scaffold.store.user.endpoint_throttles import EndpointThrottles
from scaffold.store.user.logins import Logins
from scaffold.store.user.mcp_approvals import McpApprovals
from scaffold.store.user.second_reviewers import Reviewers
from scaffold.store.user.seen_files import SeenFileVersions
from scaffold.store.user.subagents import Subagents
from scaffold.store.user.trusted_files import FolderTrusts

MIGRATIONS = Path(__file__).with_name("user_migrations")
SESSIONS = "sessions"
"""The message scope shared by all sessions of a user."""
IN_USE = """
SELECT 'is using conversation ' || id AS activity, owner FROM conversation WHERE owner IS NOT NULL ORDER BY id
"""


def user_database(data: Path) -> Path:
    """Return the database's path in the user's data directory."""
    return data / "user.db"


class UserStore(BaseStore):
    """The data of one user."""

    def __init__(self, connection: Connection, clock: TimeSource) -> None:
        super().__init__(connection)
        self.conversations = Conversations(connection, clock)
        self.reservations = Reservations(connection, clock)
        self.accounts = BudgetAccounts(connection)
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
        driver = SqliteDriver(path, create=create, timeout_s=timeout_s, private=True)
        return cls(open_connection(driver, SchemaSource(migrations, IN_USE), clock, create=create), clock)
