"""System prompts: the ground rules every worker gets, and what its role adds."""

from importlib import resources

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


def _text(name: str) -> str:
    return ROLES.joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
