"""The tasks in which mistakes are made: one change, a refactoring of twelve files, a question."""

from collections.abc import Callable, Mapping

from self_check.intention import Call, Intention, Wish, change_call
from self_check.project import Module, Project
from self_check.simple_model import Habits, Script
from self_check.trial import Trial

Spoil = Callable[[Call], Call]
"""Makes the mistake in a right call."""
TOOLS = ("edit", "apply_delta", "apply_patch")
PLAIN = Habits()
SPOILED = 4
"""Of the twelve calls of a refactoring, how many are wrong where not all are."""


def changed_files(project: Project, *changes: tuple[Module, Wish]) -> Mapping[str, str]:
    """Return the files of a project after these changes."""
    files = project.files
    for module, wish in changes:
        lines = module.lines()
        place = wish.place_in(lines)
        assert place is not None
        changed = {**lines, place: wish.changed(lines[place])}
        files[module.path] = "\n".join(changed.values()) + "\n"
    return files


def right_call(tool: str, module: Module, wish: Wish) -> Intention:
    """Return the intention to make a change with a tool, as it should be."""
    call = change_call(tool, module.path, module.lines(), wish)
    assert call is not None
    return Intention(call, wish)


def reading_of(module: Module) -> Intention:
    """Return the intention to read a module."""
    return Intention(Call("read_file", {"path": module.path}), Wish())


def one_edit(
    project: Project, spoil: Spoil, tool: str = "edit", *, read: bool = False, habits: Habits = PLAIN
) -> Trial:
    """Return a trial with one change, made wrongly; `read`: after the file was read."""
    module = project.module
    right = right_call(tool, module, module.more_retries)
    script = Script(first=((reading_of(module),),) if read else (), wrong=(right.by(spoil(right.call)),), habits=habits)
    return Trial(files=project.files, script=script, expected=changed_files(project, (module, module.more_retries)))


def refactoring(project: Project, spoil: Spoil, tool: str = "edit", *, spoiled: int = SPOILED) -> Trial:
    """Return a trial with a change of all twelve modules in one reply, some of it wrong."""
    rights = [right_call(tool, module, module.other_name) for module in project.modules]
    calls = [each.by(spoil(each.call)) if at < spoiled else each for at, each in enumerate(rights)]
    expected = changed_files(project, *((module, module.other_name) for module in project.modules))
    return Trial(files=project.files, script=Script(wrong=calls), expected=expected)


def question(project: Project, spoil: Spoil) -> Trial:
    """Return a trial that asks for a number in a file."""
    wish = Wish(find=r"LIMIT = (\d+)")
    wrong = (Intention(spoil(Call("read_file", {"path": project.module.path})), wish),)
    return Trial(
        files=project.files, script=Script(wrong=wrong), expected=project.files, answer=str(project.module.limit)
    )


def with_texts(call: Call, change: Callable[[str], str]) -> Call:
    """Return a call with other texts of what is there now."""
    if call.name == "apply_delta":
        (operation,) = call.args["operations"]
        return call.having(operations=[{**operation, "expected": change(operation["expected"])}])
    name = "input" if call.name == "apply_patch" else "old"
    return call.having(**{name: change(call.args[name])})
