"""Measure, and print one JSON object a line; every ratio is of two things measured in this one run.

`python bench/run.py [--quick] [NAME...]`: `--quick` takes the smallest sizes, only to show that everything runs;
names choose among the benches.
"""

import argparse
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping

from msgspec.json import encode

import action_counts
import agent_hook
import command_start
import git_worktree
import landing
import live
import many_goals
import mcp_servers
import pdf_pages
import plan_lint
import plugin_hook
import policy_decision
import proof
import ralph_agents
import ralph_cache
import ralph_start
import ralph_turns
import sandboxed_command
import store_actions
import store_readiness
import store_writers
import stories
import supervision
import worker_start
from knowledge.rows import rows as knowledge_rows
from row import Row
from self_check.rows import rows as self_check_rows

BENCHES: Mapping[str, Callable[..., Iterator[Row]]] = {
    "action-counts": action_counts.rows,
    "command-start": command_start.rows,
    "git-worktree": git_worktree.rows,
    "knowledge": knowledge_rows,
    "landing": landing.rows,
    "live": live.rows,
    "many-goals": many_goals.rows,
    "mcp-servers": mcp_servers.rows,
    "pdf-pages": pdf_pages.rows,
    "plan-lint": plan_lint.rows,
    "plugin-hook": plugin_hook.rows,
    "agent-hook": agent_hook.rows,
    "policy-decision": policy_decision.rows,
    "proof": proof.rows,
    "ralph-agents": ralph_agents.rows,
    "ralph-cache": ralph_cache.rows,
    "ralph-start": ralph_start.rows,
    "ralph-turns": ralph_turns.rows,
    "sandboxed-command": sandboxed_command.rows,
    "self-check": self_check_rows,
    "store-actions": store_actions.rows,
    "store-readiness": store_readiness.rows,
    "store-writers": store_writers.rows,
    "stories": stories.rows,
    "supervision": supervision.rows,
    "worker-start": worker_start.rows,
}


def main() -> None:
    """Print the rows of the benches that were asked for, of all without a name."""
    parser = argparse.ArgumentParser(description="Measure how fast Scaffold is.")
    parser.add_argument("--quick", action="store_true", help="the smallest sizes, one round")
    parser.add_argument("names", nargs="*", choices=[[], *BENCHES], metavar="NAME", help=", ".join(BENCHES))
    asked = parser.parse_args()
    failed = [name for name in asked.names or BENCHES if not printed(name, quick=asked.quick)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def printed(name: str, *, quick: bool) -> bool:
    """Print the rows of a bench; return False if it failed, which costs the others nothing."""
    try:
        for row in BENCHES[name](quick=quick):
            sys.stdout.write(encode(row).decode() + "\n")
            sys.stdout.flush()
    except Exception:  # noqa: BLE001 - it costs the other benches nothing
        traceback.print_exc()
        return False
    return True


if __name__ == "__main__":
    main()
