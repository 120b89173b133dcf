"""Skills: a line for each in the prompt, and the tool that reads one. Roles: which tools an agent keeps."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from scaffold.agent.prompts import skills_prompt
from scaffold.core.extension_set import Extensions, Role, Skill
from scaffold.core.printable_text import join_limited, short_line
from scaffold.core.tool import Tool, ToolOutput
from scaffold.host.startup import importing
from scaffold.tools.arguments import object_schema

LINE_CHARS = 250
MAX_LIST_CHARS = 12_000  # of all lines about skills in a prompt, about 3,000 tokens
MAX_NAMES_CHARS = 2_000
MAX_SKILL_BYTES = 1_000_000
MAX_LISTED_FILES = 30


class SkillPlace(Struct, frozen=True):
    """Where the skills of an agent are."""

    extensions: Extensions
    project: Path
    """Where the files beside the project's skills are for the agent."""

    def folder(self, skill: Skill) -> Path:
        """Return the folder of a skill, as the agent sees it."""
        return (self.project / skill.file).parent


def skills_section(skills: Sequence[Skill]) -> str:
    """Return the part of a system prompt about skills; empty without any."""
    return skills_prompt(listed_skills(skills)) if skills else ""


def listed_skills(skills: Sequence[Skill]) -> str:
    """Return a line for each skill; when there is no more room, the names of the rest."""
    lines: list[str] = []
    size = 0
    for at, skill in enumerate(skills):
        line = f"- {skill.name}: {short_line(skill.description, LINE_CHARS)}"
        size += len(line) + 1
        if size > MAX_LIST_CHARS:
            rest = ", ".join(each.name for each in skills[at:])
            lines.append(f"- and, without room for more than their names: {short_line(rest, MAX_NAMES_CHARS)}")
            break
        lines.append(line)
    return "\n".join(lines)


def skill_tools(place: SkillPlace) -> tuple[Tool, ...]:
    """Return the tool that reads a skill; none without skills."""
    skills = {skill.name: skill for skill in place.extensions.skills}

    async def run(args: Mapping[str, Any]) -> ToolOutput:
        skill = skills.get(args["name"])
        if skill is None:
            return ToolOutput(f"There is no skill {args['name']!r}; there are {', '.join(skills)}.", failed=True)
        return _load_skill(skill, place)

    tool = Tool(
        name="load_skill",
        description="Read a skill: instructions for a kind of work, listed in your instructions by name.",
        schema=object_schema({"name": {"type": "string"}}),
        category="memory",
        run=run,
        read_only=True,
    )
    return (tool,) if skills else ()


def skill_folders(place: SkillPlace) -> tuple[Path, ...]:
    """Return the folders of skills outside of the workspace, for which the agent needs to read more than that."""
    return tuple(place.folder(skill) for skill in place.extensions.skills)


def _load_skill(skill: Skill, place: SkillPlace) -> ToolOutput:
    extensions = place.extensions
    file = Path(extensions.folder, skill.file)
    try:
        # A named pipe would wait for a writer.
        content = file.read_bytes()[:MAX_SKILL_BYTES] if file.is_file() else None
    except OSError:
        content = None
    if content is None:
        return ToolOutput(f"The skill {skill.name} cannot be read: {file} is gone. Tell the user.", failed=True)
    ours = not skill.file.startswith("/")
    if ours and extensions.digests.get(skill.file) != hashlib.sha256(content).hexdigest():
        why = f"{skill.file} is not the file that the user trusts; they trust it by `scaffold trust`"
        return ToolOutput(f"The skill {skill.name} is not read: {why}. Work without it, and tell them.", failed=True)
    with importing():
        from scaffold.extensions.prompt_file import read_prompt_file
    text = read_prompt_file(content).text
    folder = place.folder(skill)
    files: list[str] = []
    with suppress(OSError):
        files = sorted(f"{each.name}/" if each.is_dir() else each.name for each in folder.iterdir())[:MAX_LISTED_FILES]
    notes = [f"Its folder is {folder}, with {join_limited(files, MAX_LISTED_FILES)}."] if files else []
    if skill.allowed_tools:
        notes.append(f"It means to use {join_limited(skill.allowed_tools, MAX_LISTED_FILES)}; it permits nothing.")
    return ToolOutput("\n\n".join(filter(None, (f"# Skill {skill.name}", "\n".join(notes), text))))


def kept_tools(tools: Sequence[Tool], role: Role | None) -> tuple[Tool, ...]:
    """Return the tools that the role names, offered from the start; all as they are if it names none."""
    if role is None or role.tools is None:
        return tuple(tools)
    with importing():
        from scaffold.extensions.hooks.call_translation import our_tools
    kept = our_tools(role.tools, [tool.name for tool in tools])
    in_families = (tool.group if tool.group and tool.group.family else None for tool in tools)
    pairs = zip(tools, in_families, strict=True)
    return tuple(structs.replace(tool, group=group) for tool, group in pairs if tool.name in kept)
