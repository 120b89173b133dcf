"""What an action costs in a run with many goals, over all its processes, against one with few."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from row import Row, row
from scratch_run import ScratchRun

AGENTS = 20
FEW, MANY = (6, 10), (91, 11)
"""How many goals, and how many actions in each."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield the CPU for an action of a run with many goals against that of one with few, checks included."""
    few, many = ((2, 3), (8, 2)) if quick else (FEW, MANY)
    names = [f"goal{goal}/file{action}" for goal in range(many[0]) for action in range(many[1])]
    # The same files in both: checkouts and scans of a worktree cost more where there are more.
    files = dict.fromkeys(names, "old\n")
    yield row(
        f"many-goals-{many[0] * many[1]}-actions-against-{few[0] * few[1]}",
        cpu_ms(*many, files) / (many[0] * many[1]),
        cpu_ms(*few, files) / (few[0] * few[1]),
        unit="ms CPU each",
        goal=5.0 if quick else 1.1,
    )


def cpu_ms(goals: int, actions: int, files: Mapping[str, str]) -> float:
    """Return the CPU in milliseconds of a whole run and all its processes; each action changes a file of its own."""
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        used = run_of_changes(Path(folder), goals, actions, files, agents=AGENTS).finished()
    return (used.ru_utime + used.ru_stime) * 1000


def run_of_changes(folder: Path, goals: int, actions: int, files: Mapping[str, str], *, agents: int) -> ScratchRun:
    """Return a run of so many goals of so many actions, each of which writes a file of its own."""
    plan, replies = [], []
    for goal in range(goals):
        names = [f"goal{goal}/file{action}" for action in range(actions)]
        plan.append(
            {
                "name": f"goal{goal}",
                "goal_state": [f"{name}-done" for name in names],
                "actions": [
                    {
                        "key": name,
                        "effects": [f"{name}-done"],
                        "files": [name],
                        "contract": {"commands": [{"command": f"grep -q new {name}"}]},
                    }
                    for name in names
                ],
            }
        )
        replies += [
            {
                "when": {"action": name, "turn": 1},
                "tool_calls": [{"name": "write_file", "args": {"path": name, "content": "new\n"}}],
            }
            for name in names
        ]
    return ScratchRun(folder, goals=plan, replies=replies, agents=agents, files=files)
