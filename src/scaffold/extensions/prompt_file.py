"""Skills, roles and commands from the contents of their files."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from scaffold.core.extension_set import PromptCommand, Role, Skill
from scaffold.core.printable_text import one_line, printable, short_line
from scaffold.host.startup import importing

MAX_HEAD_CHARS = 20_000
_HEAD = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_PLAIN = re.compile(r"([A-Za-z][\w-]*):[ \t]+(\S.*)")
MAX_DESCRIPTION_CHARS = 1_024
MAX_NAME_CHARS = 64
MAX_PROMPT_CHARS = 30_000  # of a role or a command: roles are stored with each run
MOST = 200  # skills, roles, or commands of a session
# What roles call a model -> the size that is configured for it.
MODELS = {"haiku": "small", "sonnet": "medium", "opus": "large", "inherit": ""}
_NAME = re.compile(r"[\w][\w.-]*", re.ASCII)
_COMMAND_NAME = re.compile(r"[a-z][a-z0-9_-]*", re.IGNORECASE)


class PromptFile(Struct, frozen=True):
    """A file's front matter, empty if it has none, and its text."""

    head: Mapping[str, Any]
    text: str
    problem: str = ""
    """Why the front matter cannot be read; empty if it can."""

    def words(self, name: str, limit: int) -> str:
        """Return a member as one line; empty if it is not text."""
        value = self.head.get(name)
        return short_line(one_line(value).strip(), limit) if isinstance(value, str) else ""

    def names(self, name: str) -> tuple[str, ...] | None:
        """Return a member that is a list, or a text with commas or blanks; None if it is not given."""
        value = self.head.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            # A pattern in brackets, as in `Bash(git log, git diff)`, may contain blanks and commas.
            return tuple(re.findall(r"[^\s,(]+(?:\([^)]*\))?", value))
        return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


class FoundFile(Struct, frozen=True, kw_only=True):
    """A file of the user or of the project, nearest first."""

    source: str
    """As people name it."""
    content: bytes
    name: str
    """What it is called if it does not say."""
    file: str = ""
    """Its path: relative to the project, or absolute."""


Entry = TypeVar("Entry", Skill, Role, PromptCommand)


def parse_skills(files: Iterable[FoundFile]) -> tuple[tuple[Skill, ...], tuple[str, ...]]:
    """Return the skills, and a line about each that has no effect."""
    return _parse_named("skill", files, _parse_skill, lambda each: each.file)


def parse_roles(files: Iterable[FoundFile]) -> tuple[tuple[Role, ...], tuple[str, ...]]:
    """Return the roles, and a line about each that has no effect."""
    return _parse_named("role", files, _parse_role, lambda each: each.source)


def parse_commands(files: Iterable[FoundFile]) -> tuple[tuple[PromptCommand, ...], tuple[str, ...]]:
    """Return the commands, and a line about each that has no effect."""
    return _parse_named("command", files, _parse_command, lambda each: each.source)


def _parse_named(
    kind: str, files: Iterable[FoundFile], parse: Callable[[FoundFile], Entry | str], place: Callable[[Entry], str]
) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    # The files come nearest first, so the first of a name counts.
    found: dict[str, Entry] = {}
    notices: list[str] = []
    left_out = 0
    for file in files:
        if len(found) >= MOST:
            left_out += 1
            continue
        entry = parse(file)
        if isinstance(entry, str):
            notices.append(f"{file.source} has no effect: {entry}")
        elif entry.name in found:
            notices.append(f"{file.source} has no effect: {place(found[entry.name])} is the {kind} {entry.name}")
        else:
            found[entry.name] = entry
    if left_out:
        notices.append(f"{left_out} more {kind}s have no effect: {MOST} are the most")
    return tuple(found.values()), tuple(notices)


def _parse_skill(file: FoundFile) -> Skill | str:
    parsed = read_prompt_file(file.content)
    name = parsed.words("name", MAX_NAME_CHARS) or file.name
    description = parsed.words("description", MAX_DESCRIPTION_CHARS)
    if parsed.problem or not _NAME.fullmatch(name):
        return parsed.problem or f"`{short_line(one_line(name), MAX_NAME_CHARS)}` is not a valid skill name"
    if not description:
        return "its front matter has no `description`"
    return Skill(name=name, description=description, file=file.file, allowed_tools=parsed.names("allowed-tools") or ())


def _parse_role(file: FoundFile) -> Role | str:
    parsed = read_prompt_file(file.content)
    name = parsed.words("name", MAX_NAME_CHARS) or file.name
    if parsed.problem or not _NAME.fullmatch(name):
        return parsed.problem or f"`{short_line(one_line(name), MAX_NAME_CHARS)}` is not a valid role name"
    if not (description := parsed.words("description", MAX_DESCRIPTION_CHARS)):
        return "its front matter has no `description`"
    if not parsed.text:
        return "it has no instructions"
    model = parsed.words("model", 200)
    return Role(
        name=name,
        description=description,
        prompt=parsed.text[:MAX_PROMPT_CHARS],
        source=file.source,
        tools=parsed.names("tools"),
        model=MODELS.get(model, model),
    )


def _parse_command(file: FoundFile) -> PromptCommand | str:
    parsed = read_prompt_file(file.content)
    name = file.name.lower()
    if parsed.problem or not _COMMAND_NAME.fullmatch(name):
        return parsed.problem or f"`{short_line(one_line(name), MAX_NAME_CHARS)}` is not a valid command name"
    if not parsed.text:
        return "it is empty"
    first = next((line.strip("# ") for line in parsed.text.splitlines() if line.strip("# ")), "")
    hint = parsed.head.get("argument-hint")
    # `[file]` is a list in YAML.
    shown = f"[{' '.join(map(str, hint))}]" if isinstance(hint, list) else parsed.words("argument-hint", 60)
    return PromptCommand(
        name=name,
        description=parsed.words("description", 200) or short_line(first, 80),
        hint=short_line(one_line(shown), 60),
        text=parsed.text[:MAX_PROMPT_CHARS],
        source=file.source,
    )


def read_prompt_file(content: bytes) -> PromptFile:
    """Return a file as its parts."""
    text = content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    found = _HEAD.match(text)
    if found is None:
        problem = "its front matter has no end" if text.startswith("---\n") else ""
        return PromptFile({}, printable(text).strip(), problem)
    body = printable(text[found.end() :]).strip()
    if len(found[1]) > MAX_HEAD_CHARS:
        return PromptFile(_plain_lines(found[1][:MAX_HEAD_CHARS]), body)
    with importing():  # most sessions find no such file
        from scaffold.plan.text.parse_tree import read_yaml
    try:
        head = read_yaml(found[1])
    except (ValueError, TypeError):
        # `description: use it when: ...` is not YAML, but common.
        head = _plain_lines(found[1])
        return PromptFile(head, body, "" if head else "its front matter is not valid YAML")
    if head is None:
        return PromptFile({}, body)
    if not isinstance(head, dict):
        return PromptFile({}, body, "its front matter is not a mapping")
    return PromptFile(head, body)


def _plain_lines(text: str) -> dict[str, str]:
    # Values stay as they are written: they are not YAML.
    return {found[1]: found[2].strip().strip("\"'") for line in text.splitlines() if (found := _PLAIN.fullmatch(line))}
