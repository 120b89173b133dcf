"""Examples of each command, which its `--help` ends with."""

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "init": ("scaffold init",),
    "run": (
        'scaffold run "add rate limiting to every endpoint"',
        "scaffold run --spec spec.md --budget-usd 5 --agents 4",
        "scaffold run --plan plan.yaml --yes --detach",
    ),
    "status": ("scaffold status", "scaffold status --watch", "scaffold status RUN --json"),
    "inbox": ("scaffold inbox", "scaffold inbox --all --json"),
    "review": ("scaffold review", "scaffold review --stat", "scaffold review RUN --web"),
    "land": ("scaffold land", "scaffold land --squash", "scaffold land --only ACTION", "scaffold land RUN --pr"),
    "revert": ("scaffold revert ACTION", "scaffold revert ACTION --run RUN"),
    "rebase": ("scaffold rebase", "scaffold rebase RUN && scaffold resume RUN"),
    "stop": ("scaffold stop", "scaffold stop GOAL", "scaffold stop ACTION"),
    "resume": ("scaffold resume", "scaffold resume RUN --budget-usd 10", "scaffold resume --interrupted"),
    "doctor": ("scaffold doctor", "scaffold doctor --json"),
    "runs": ("scaffold runs", "scaffold runs --status paused --status saved", "scaffold runs -n 1 --json"),
    "cost": ("scaffold cost", "scaffold cost RUN --json"),
    "open": ("scaffold open", "scaffold open RUN --json"),
    "queue": ("scaffold queue", "scaffold queue --json"),
    "plan": (
        'scaffold plan "add rate limiting" -o plan.yaml',
        "scaffold plan check plan.yaml",
        "scaffold plan simulate plan.yaml --agents 4",
    ),
    "attach": ("scaffold attach", "scaffold attach RUN --json"),
    "goals": ("scaffold goals", "scaffold goals --json"),
    "tasks": ("scaffold tasks", "scaffold tasks GOAL"),
    "audit": ("scaffold audit", "scaffold audit RUN --json"),
    "agents": ("scaffold agents", "scaffold agents --json"),
    "logs": ("scaffold logs ACTION", "scaffold logs -f"),
    "path": ('cd "$(scaffold path ACTION)"',),
    "send": ('scaffold send ACTION "use sqlite, not files"', "scaffold send ACTION - < notes.md"),
    "diff": ("scaffold diff ACTION", "scaffold diff RUN"),
    "contract": ("scaffold contract ACTION", "scaffold contract ACTION --json"),
    "baseline": ("scaffold baseline", "scaffold baseline reset"),
    "learn": (
        "scaffold learn add 'WHEN tests hang DO look for localhost RESULT they pass' -c tests",
        "scaffold learn tests hang",
        "scaffold learn --evaluate",
    ),
    "memory": (
        "scaffold memory search database tests",
        "scaffold memory add 'The integration tests need Redis on port 6379'",
        "scaffold memory export memories.md",
    ),
    "item": (
        "scaffold item add 'the cache is never emptied' -p shop -l bug",
        "scaffold item ready",
        "scaffold item block ITEM waits for the new server",
    ),
    "approve": ("scaffold approve ID", "scaffold approve ID --for run --hours 2"),
    "reject": ('scaffold reject ID --why "use the file tools"',),
    "answer": ('scaffold answer ID "sqlite"',),
    "retry": ("scaffold retry ACTION", "scaffold retry && scaffold resume"),
    "pause": ("scaffold pause", "scaffold pause GOAL"),
    "cancel": ("scaffold cancel RUN", "scaffold cancel GOAL"),
    "cleanup": ("scaffold cleanup --dry-run", "scaffold cleanup"),
    "service": ("scaffold service", "scaffold service RUN"),
    "salvage": ("scaffold salvage", "scaffold salvage ATTEMPT"),
    "purge": ("scaffold purge --dry-run",),
    "config": (
        "scaffold config",
        "scaffold config budget_usd 5",
        "scaffold config --unset budget_usd",
        "scaffold config --list",
    ),
    "completion": ('eval "$(scaffold completion bash)"', "scaffold completion fish | source"),
    "trust": ("scaffold trust --show", "scaffold trust --yes"),
    "demo": ("scaffold demo", "scaffold demo --dir /tmp/demo"),
    "mcp": ("scaffold mcp", "scaffold mcp --allow-start", "scaffold mcp --http 0"),
    "acp": ("ralph acp", "ralph acp --model anthropic:claude-sonnet-4-5"),
    "login": ("ralph login", "ralph login --headless"),
    "logout": ("ralph logout",),
    "whoami": ("ralph whoami", "ralph whoami --json"),
    "permissions": ("scaffold permissions check -- git push --force",),
    "ralph": ('ralph "fix the failing test"', "ralph -c", "git diff | ralph -p 'review this'"),
}
"""By command; words in capitals stand for names."""


def examples_text(name: str) -> str:
    """Return the end of a command's help; empty if it has no examples."""
    lines = "\n".join(f"  {line}" for line in EXAMPLES.get(name, ()))
    return f"\b\nExamples:\n{lines}" if lines else ""
