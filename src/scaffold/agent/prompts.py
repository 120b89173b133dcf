"""System prompts: what workers of each role are told, what ralph itself is told, and in which mode."""

from importlib import resources

from scaffold.agent.instructions import Instructions

ROLES = resources.files("scaffold.agent") / "roles"

BUILT_IN = frozenset({"implementation", "testing", "code_review", "architecture_review", "design_review", "pm_review"})
"""Roles with a prompt of their own; every other role gets the generic one."""


def system_prompt(role: str) -> str:
    """Return the system prompt of a worker with this role; a role nobody knows is named in a generic one."""
    name = role if role in BUILT_IN else "generic"
    parts = [_text("ground"), _text(name)]
    if role.endswith("_review"):
        parts.append(_text("verdict"))
    return "\n\n".join(parts).replace("{role}", role)


def session_prompt(instructions: Instructions | None = None, *, own: str | None = None) -> str:
    """Return ralph's own base prompt, with what the project tells agents; `own` are the user's words in its place."""
    base = _text("session") if own is None else own.strip()
    if instructions is None or not instructions.text:
        return base
    return f"{base}\n\n# What this project tells agents ({instructions.path.name})\n\n{instructions.text}"


def mode_prompt(mode: str) -> str:
    """Return what an agent is told that is in this mode; there must be words for it."""
    return _text(f"mode_{mode}")


def _text(name: str) -> str:
    return ROLES.joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
