"""What the user has agreed to: configuration files of folders, tools of MCP servers."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from scaffold.store.driver.columns import JsonColumn, parse_time
from scaffold.store.driver.gateway import TableGateway

GRANT = """
INSERT INTO folder_trust (identity, fingerprint, files, decided_at) VALUES (:identity, :fingerprint, :files, :at)
ON CONFLICT (identity, fingerprint) DO UPDATE SET decided_at = excluded.decided_at
"""

GRANTS = "SELECT files, decided_at FROM folder_trust WHERE identity = :identity ORDER BY decided_at, fingerprint"

REVOKE = "DELETE FROM folder_trust WHERE identity = :identity"

DIGESTS = JsonColumn[Mapping[str, str]](dict[str, str])


class TrustGrant(Struct, frozen=True):
    """An approval: the digest of each approved file, by name, and the time."""

    files: Mapping[str, str]
    decided_at: datetime


class FolderTrusts(TableGateway):
    """Approvals by the identity of a repository, or of a folder outside a repository."""

    def agree(self, identity: str, fingerprint: str, files: Mapping[str, str]) -> None:
        """Store the approval of these files; approving them again makes it the latest."""
        at = self._now_text()
        written = DIGESTS.write(files)
        self._connection.write(GRANT, identity=identity, fingerprint=fingerprint, files=written, at=at)

    def agreed(self, identity: str) -> tuple[TrustGrant, ...]:
        """Return the approvals, oldest first."""
        rows = self._connection.rows(GRANTS, identity=identity)
        return tuple(TrustGrant(DIGESTS.read(row["files"]), parse_time(row["decided_at"])) for row in rows)

    def revoke(self, identity: str) -> int:
        """Delete all approvals of this identity and return how many there were."""
        known = len(self._connection.rows(GRANTS, identity=identity))
        self._connection.write(REVOKE, identity=identity)
        return known


APPROVED = "SELECT tool, digest FROM mcp_approval WHERE scope = :scope AND program = :program ORDER BY decided_at"

APPROVE = """
INSERT INTO mcp_approval (scope, server, program, tool, digest, decided_at)
VALUES (:scope, :server, :program, :tool, :digest, :at)
ON CONFLICT (scope, server, program, tool) DO UPDATE SET digest = excluded.digest, decided_at = excluded.decided_at
"""


class McpApprovals(TableGateway):
    """Approvals by server; one with another program or address is another server, one with another name is not."""

    def known(self, scope: str, program: str) -> Mapping[str, str]:
        """Return the digest of each approved tool, the latest one; empty if the server was never used."""
        rows = self._connection.rows(APPROVED, scope=scope, program=program)
        return {row["tool"]: row["digest"] for row in rows}

    def approve(self, scope: str, server: str, program: str, digests: Mapping[str, str]) -> None:
        """Store approvals; one of the same tool replaces the earlier one."""
        at = self._now_text()
        for tool, digest in digests.items():
            self._connection.write(
                APPROVE, scope=scope, server=server, program=program, tool=tool, digest=digest, at=at
            )
