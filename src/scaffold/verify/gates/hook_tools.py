"""The tools that run a repository's commit hooks: what defines them, and how each is called."""

from collections.abc import Collection

from msgspec import Struct

from scaffold.core.printable_text import join_limited
from scaffold.core.proof.gates import Gate
from scaffold.policy.path.globs import matches
from scaffold.policy.trust_decision import HOOK_FILES
from scaffold.verify.gates.projects.project import Reason


class HookTool(Struct, frozen=True, kw_only=True):
    """What runs the hooks of a repository."""

    name: str
    files: tuple[str, ...]
    """The files that it reads first; a repository uses it if one of them exists."""
    program: str
    command: str
    """Run by /bin/sh at the top of the repository, with the change staged."""
    remedy: str
    """What the user may do if it cannot run here."""
    ignored: tuple[str, ...] = ()
    """Files that its installation makes and git ignores: hooks load them, and empty ones do."""


PRE_COMMIT = HookTool(
    name="pre-commit",
    files=(".pre-commit-config.yaml",),
    program="pre-commit",
    command="pre-commit run --color never",
    remedy="`pre-commit install-hooks` in your checkout prepares its environments",
)
LEFTHOOK = HookTool(
    name="lefthook",
    files=tuple(
        f"{start}lefthook{end}" for start in ("", ".", ".config/") for end in (".yml", ".yaml", ".toml", ".json")
    ),
    program="lefthook",
    command="lefthook run pre-commit --colors off",
    remedy="install lefthook and the programs that it calls",
)
HUSKY = HookTool(
    name="husky",
    files=(".husky/pre-commit",),
    program="sh",
    command="sh -e .husky/pre-commit",
    remedy="install the programs that it calls",
    # Before version 9 each hook loads the first, to log and to start itself again.
    ignored=(".husky/_/husky.sh", ".husky/_/h"),
)
MAX_NAMES = 3
TOOLS = (PRE_COMMIT, LEFTHOOK, HUSKY)
"""Several may be in use at once."""


def tools_in(paths: Collection[str]) -> tuple[tuple[HookTool, str], ...]:
    """Return the tools that a repository with these paths uses, each with the file that says so."""
    found = ((tool, next((file for file in tool.files if file in paths), "")) for tool in TOOLS)
    return tuple((tool, file) for tool, file in found if file)


def notes_of_hooks(paths: Collection[str]) -> tuple[str, ...]:
    """Return a note for the user if there are hooks of husky below the top, where no tool of ours looks for them."""
    below = sorted(path for path in paths if path.endswith(tuple(f"/{file}" for file in HUSKY.files)))
    if not below:
        return ()
    hooks = f"The commit hooks in {join_limited(below, MAX_NAMES)} do not run"
    return (
        f"{hooks}: only those at the top of the repository do; `quality_gates.hooks` takes a command that runs them",
    )


def is_hook_file(path: str) -> bool:
    """Return True if the path, relative to the top, defines hooks: nothing else decides which hooks there are."""
    depth = path.count("/")
    return any(pattern.count("/") == depth and matches(pattern, path) for pattern in HOOK_FILES)


def hook_gate(paths: Collection[str]) -> tuple[Gate, Reason] | None:
    """Return the gate of all hooks in a repository with these paths, and what says so; None without hooks."""
    tools = tools_in(paths)
    if not tools:
        return None
    gate = Gate(kind="hooks", command=" && ".join(tool.command for tool, _ in tools), runner="hooks")
    names = " and ".join(tool.name for tool, _ in tools)
    return gate, Reason(path=tools[0][1], says=f"configures hooks before a commit ({names})")
