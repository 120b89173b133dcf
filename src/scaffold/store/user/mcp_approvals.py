"""The definitions of tools of MCP servers that the user has approved."""

from collections.abc import Mapping

from scaffold.store.driver.columns import format_time
from scaffold.store.driver.gateway import TableGateway

APPROVED = "SELECT tool, digest FROM mcp_approval WHERE scope = :scope AND server = :server AND program = :program"
APPROVE = """
INSERT INTO mcp_approval (scope, server, program, tool, digest, decided_at)
VALUES (:scope, :server, :program, :tool, :digest, :at)
ON CONFLICT (scope, server, program, tool) DO UPDATE SET digest = excluded.digest, decided_at = excluded.decided_at
"""


class McpApprovals(TableGateway):
    """Approvals by server; one with another program or address is another server."""

    def known(self, scope: str, server: str, program: str) -> Mapping[str, str]:
        """Return the digest of each approved tool; empty if the server was never used."""
        rows = self._connection.rows(APPROVED, scope=scope, server=server, program=program)
        return {row["tool"]: row["digest"] for row in rows}

    def approve(self, scope: str, server: str, program: str, digests: Mapping[str, str]) -> None:
        """Store approvals; one of the same tool replaces the earlier one."""
        at = format_time(self._clock.now())
        for tool, digest in digests.items():
            self._connection.write(
                APPROVE, scope=scope, server=server, program=program, tool=tool, digest=digest, at=at
            )
