-- The definitions of tools of MCP servers that the user has approved, by a hash of each.
CREATE TABLE mcp_approval (
    scope TEXT NOT NULL,
    server TEXT NOT NULL,
    program TEXT NOT NULL,
    tool TEXT NOT NULL,
    digest TEXT NOT NULL,
    decided_at TEXT NOT NULL,
    PRIMARY KEY (scope, server, program, tool)
) STRICT;
