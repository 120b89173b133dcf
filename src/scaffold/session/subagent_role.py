"""The role of a subagent: its instructions, and the tools that it keeps."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from scaffold.agent.instruction_files import find_instructions
from scaffold.agent.prompts import session_prompt
from scaffold.agent.skills import kept_tools, skills_section
from scaffold.config.settings import resolve_model_name
from scaffold.core.errors import UsageError
from scaffold.core.extension_set import Role
from scaffold.core.tool import Tool
from scaffold.session.options import SessionOptions


def system_prompt(options: SessionOptions, tell: Callable[[str], object]) -> str:
    """Return the system prompt of a session: its base, its skills, its role, and the instructions of the project."""
    role = options.role
    own = f"# Your role: {role.name}\n\n{role.prompt}" if role else ""
    more = "\n\n".join(filter(None, (skills_section(options.extensions.skills), own)))
    instructions = find_instructions(options.cwd, home=options.home)
    for each in instructions:
        if each.notice:
            tell(each.notice)
    return session_prompt(instructions, own=options.system_prompt, more=more)


def tools_of_session(tools: Iterable[Tool], role: Role | None) -> tuple[Tool, ...]:
    """Return the tools that an agent with this role keeps."""
    given = tuple(tools)
    return given if role is None else kept_tools(given, role)


def model_of_role(role: Role | None, cwd: Path, tell: Callable[[str], object]) -> str | None:
    """Return the model string of a role; None for the session's own, also if the role's size has no model."""
    if role is None or not role.model:
        return None
    try:
        return resolve_model_name(role.model, os.environ, cwd)
    except UsageError as error:
        tell(f"the role {role.name} works with this session's model: {error.what}")
        return None
