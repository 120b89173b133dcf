"""System prompts: of workers by role, of ralph's own sessions, and of modes."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from scaffold.agent.instruction_files import Instructions
from scaffold.core.plan import is_review_role
from scaffold.host.contained_path import MISSING, ContainedPath

PROMPT_VERSION = 9
"""Raised with each change of a prompt or of a built-in tool's description, so that results can be compared by it."""

PROMPT_FOLDER = Path(__file__).parent / "roles"

# Worker roles with a built-in prompt; every other worker gets the generic one.
BUILT_IN_ROLES = frozenset(
    {"implementation", "testing", "code_review", "architecture_review", "design_review", "pm_review"}
)
# Roles that plan, define contracts or score work; the rules for workers do not apply to them.
NON_WORKER_ROLES = frozenset({"planner", "supervisor", "drafter", "critic", "second_reviewer", "merger", "learner"})
MAX_BYTES = 64 * 1024
MAX_SHORT_INSTRUCTIONS = 1_000
"""Longer ones of a project, in characters, a small model has to read itself."""
# Longest role that may name a prompt file, in bytes, and longest role shown in a prompt, in characters.
MAX_ROLE_NAME = 100

_FILE_NAME = re.compile(r"\w[\w.-]*")

Notice = Callable[[str], None]


def ignore_notice(text: str, /) -> None:
    """Do nothing."""


def system_prompt(role: str, *, folders: Sequence[str] = (), notice: Notice = ignore_notice) -> str:
    """Return the system prompt for a role.

    The first `ROLE.md` in `folders` replaces the built-in text of the role, but never the rules of all workers nor the
    verdict format. `notice` is called with a message about each file that cannot be used.
    """
    if role in NON_WORKER_ROLES:
        return custom_prompt(role, folders, notice) or _prompt_text(role)
    return worker_prompt(role, reviews=is_review_role(role), folders=folders, notice=notice)


def worker_prompt(
    role: str,
    *,
    reviews: bool,
    folders: Sequence[str] = (),
    notice: Notice = ignore_notice,
    given: str = "",
    short: bool = False,
) -> str:
    """Return a worker's system prompt; `reviews` if it only judges, `given` is the user's own text for the role.

    `short` is for a small model.
    """
    built_in = "" if short else _prompt_text(role if role in BUILT_IN_ROLES else "generic")
    own = custom_prompt(role, folders, notice) or given or built_in
    # A planner invents roles: one line of limited length cannot add instructions of its own.
    shown = "".join(each if each.isprintable() else " " for each in role)
    shown = shown if len(shown) <= MAX_ROLE_NAME else f"{shown[:MAX_ROLE_NAME]}..."
    end = "" if short and not reviews else _prompt_text("verdict" if reviews else "method")
    return "\n\n".join(filter(None, (step_prompt_rules(short=short), own.replace("{role}", shown), end)))


def auditor_prompt(folders: Sequence[str] = (), notice: Notice = ignore_notice) -> str:
    """Return the system prompt of a worker that audits requirements, as `system_prompt` does."""
    own = custom_prompt("auditor", folders, notice)
    return "\n\n".join([_prompt_text("worker_base"), *([own] if own else []), _prompt_text("auditor")])


def step_prompt_rules(*, short: bool = False) -> str:
    """Return the system prompt of a step of a story: the rules of all workers; what to do in it is in its prompt."""
    return _prompt_text("worker_small" if short else "worker_base")


def session_prompt(
    instructions: Sequence[Instructions] = (), *, own: str | None = None, more: str = "", short: bool = False
) -> str:
    """Return ralph's base prompt (or the user's `own`) with the project's instructions, and `more` before these.

    `short` is for a small model.
    """
    built_in = "session_small" if short else "session"
    base = _prompt_text(built_in).replace("{method}", _prompt_text("method")) if own is None else own.strip()
    return with_instructions("\n\n".join(filter(None, (base, more))), instructions, short=short)


def with_instructions(prompt: str, instructions: Sequence[Instructions], *, short: bool = False) -> str:
    """Return a prompt with the project's instructions at its end, the most specific last.

    `short` only names long ones.
    """
    sections = [
        f"Before you change anything, read the instructions of this project: {each.name}"
        if short and len(each.text) > MAX_SHORT_INSTRUCTIONS
        else f"# Instructions of this project ({each.name})\n\n{each.text}"
        for each in instructions
        if each.text
    ]
    return "\n\n".join([prompt, *sections])


def summary_writer_prompt(words: int, focus: str = "") -> str:
    """Return the system prompt for a summary of dropped messages, of at most so many words, about a `focus` first."""
    asked = f"\n\nThe user asks for this above all: {focus}" if focus else ""
    return _prompt_text("summary").replace("{words}", str(words)) + asked


def skills_prompt(listed: str) -> str:
    """Return the part of a system prompt about skills; `listed` has a line for each."""
    return _prompt_text("skills").replace("{skills}", listed)


def orchestrator_prompt() -> str:
    """Return the system prompt of the agent that develops plans with the user."""
    return _prompt_text("orchestrator")


def mode_prompt(mode: str) -> str:
    """Return the prompt of a mode; it must have one."""
    return _prompt_text(f"mode_{mode}")


def _prompt_text(name: str) -> str:
    return PROMPT_FOLDER.joinpath(f"{name}.md").read_text(encoding="utf-8").strip()


def custom_prompt(role: str, folders: Sequence[str], notice: Notice) -> str | None:
    """Return the first usable prompt for the role in the folders; None if there is none."""
    if _FILE_NAME.fullmatch(role) is None or len(role.encode()) > MAX_ROLE_NAME:
        return None
    for folder in folders:
        path = ContainedPath(Path(folder), f"{role}.md")
        # Links out of the folder are not followed: others may have made them to expose a file to the model.
        content, text = path.followed().read(MAX_BYTES), ""
        why = content if isinstance(content, str) else "it is empty"
        try:
            text = "" if isinstance(content, str) else content.decode("utf-8-sig").replace("\r\n", "\n").strip()
        except UnicodeDecodeError:
            why = "it is not UTF-8"
        if text:
            return text
        if why != MISSING:
            notice(f"The prompt {path} is not used: {why}.")
    return None
