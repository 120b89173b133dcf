"""Read recipes, which are targets of make, recipes of just and tasks of go-task: what each runs, and needs before."""

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from scaffold.verify.gates.projects.project_files import TASKFILES, ProjectFiles, as_table

MAX_LINE_CHARS = 2_000
MAX_VALUE_CHARS = 500
"""Of a line with its variables, and of each value of them."""
FAILURE_IGNORED = "-"
"""The sign in tox and recipes before a command whose failure is ignored."""

# Each of these reads a character in one way only: texts of a repository may be made so that others never end.
_TARGET = re.compile(r"@?(?P<names>\w[^:=#\n]*?)\s*:(?![=:])(?P<needs>[^;#|]*)(?:;(?P<command>.*))?")
_VALUE = re.compile(r"^(?P<name>\w++)[ \t]*+[:?]?=[ \t]*+(?P<value>.*)$", re.MULTILINE)
_NAME = re.compile(r"\$[({](\w+)[)}]|\{\{ *\.?(\w+) *\}\}")


class Recipe(Struct, frozen=True):
    """A target or recipe: the line that begins it, what it needs, and its commands whose failure counts."""

    line: int | None
    needs: tuple[str, ...]
    commands: tuple[str, ...]


def recipe_program(path: str) -> str:
    """Return the program that runs the recipes of a file."""
    return "task" if path in TASKFILES else "just" if "just" in path.casefold() else "make"


def read_recipes(files: ProjectFiles, path: str) -> Mapping[str, Recipe]:
    """Return the recipes of a file by name; what belongs to none has the name ""."""
    if path in TASKFILES:
        return dict(_taskfile_recipes(files, path))
    text, is_just = files.text(path), recipe_program(path) == "just"
    values = {"MAKE": "make", "just_executable": "just"}
    values |= {found["name"]: found["value"].partition("#")[0].strip(" \t'\"") for found in _VALUE.finditer(text)}
    recipes, names = dict[str, Recipe](), ("",)
    for number, line in _joined_lines(text):
        if line.startswith(("\t", " ")):
            command = _with_values(line, values).strip().lstrip("@+ ")
            if command and not command.startswith(FAILURE_IGNORED):
                for name in names:
                    held = recipes.get(name, Recipe(None, (), ()))
                    recipes[name] = Recipe(held.line, held.needs, (*held.commands, command))
        elif found := _TARGET.match(line):
            # In a justfile, the words after the first are the target's parameters.
            names = tuple(found["names"].split()[: 1 if is_just else None])
            needs = tuple(word for word in re.split(r"[\s()&]+", found["needs"]) if word)
            inline = (found["command"].strip().lstrip("@+ "),) if found["command"] else ()
            for name in names:
                held = recipes.get(name, Recipe(number, (), ()))
                recipes[name] = Recipe(held.line or number, (*held.needs, *needs), (*held.commands, *inline))
    return recipes


def _joined_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line with its number, together with the lines that continue it."""
    first, joined = 1, ""
    for number, line in enumerate(text.splitlines(), start=1):
        first, joined = (number, line) if not joined else (first, f"{joined} {line}")
        if joined.endswith("\\") and len(joined) < MAX_LINE_CHARS:
            joined = joined[:-1]
            continue
        yield first, joined
        joined = ""


def _with_values(line: str, values: Mapping[str, str]) -> str:
    """Return a line with its simple variables replaced; their values may name others."""
    for _ in range(3):
        line = _NAME.sub(
            lambda found: values.get(found[1] or found[2], found[0])[:MAX_VALUE_CHARS], line[:MAX_LINE_CHARS]
        )
    return line[:MAX_LINE_CHARS]


def _taskfile_recipes(files: ProjectFiles, path: str) -> Iterator[tuple[str, Recipe]]:
    table = files.yaml(path)
    values = {"CLI_ARGS": "", **{str(name): str(value) for name, value in as_table(table.get("vars")).items()}}
    for name, recipe in as_table(table.get("tasks")).items():
        given = as_table(recipe)
        listed = given.get("cmds", given.get("cmd")) if given else recipe
        commands = listed if isinstance(listed, list) else [listed]
        needed = given.get("deps")
        needs = [as_table(each).get("task", each) for each in (needed if isinstance(needed, list) else ())]
        texts = (each if isinstance(each, str) else _task_command(as_table(each)) for each in commands)
        yield (
            str(name),
            Recipe(
                files.line(path, f"{name}:"),
                tuple(map(str, needs)),
                tuple(_with_values(text, values) for text in texts if text),
            ),
        )


def _task_command(entry: Mapping[str, object]) -> str:
    if entry.get("ignore_error") is True:
        return ""
    return f"task {entry['task']}" if "task" in entry else str(entry.get("cmd", ""))
