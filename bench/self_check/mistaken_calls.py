"""Mistakes in how a tool is called: names, arguments, JSON, calls in the text, no call at all."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from self_check.intention import Call, Intention, Wish
from self_check.project import Project
from self_check.simple_model import Script
from self_check.tasks import Spoil, changed_files, one_edit, question, refactoring, right_call
from self_check.trial import Trial


def empty_reply(project: Project) -> Iterator[Trial]:
    """Say nothing at all, after the tools have found the answer."""
    wish = Wish(find=r"LIMIT = (\d+)")
    first = ((Intention(Call("read_file", {"path": project.module.path}), wish),),)
    for text in ("", " \n"):
        script = Script(first=first, text=text, is_text=True)
        yield Trial(files=project.files, script=script, expected=project.files, answer=str(project.module.limit))


def call_in_text(project: Project) -> Iterator[Trial]:
    """Write a call into the text, in the forms of several families of models."""
    module, wish = project.module, project.module.more_retries
    right = right_call("edit", module, wish)
    body = {"name": "edit", "arguments": right.call.args}
    for text in (
        json.dumps(body),
        f"```json\n{json.dumps(body, indent=2)}\n```",
        f"I will change it.\n\n```json\n{json.dumps(body)}\n```",
        f"<tool_call>\n{json.dumps(body)}\n</tool_call>",
        json.dumps({"name": "edit", "parameters": right.call.args}),
        json.dumps({"tool": "edit", "args": right.call.args}),
        json.dumps([body]),
        json.dumps({"type": "function", "function": body}),
    ):
        script = Script(wrong=(right,), text=text, is_text=True)
        yield Trial(files=project.files, script=script, expected=changed_files(project, (module, wish)))


def broken_json(project: Project) -> Iterator[Trial]:
    """Write arguments that are no JSON object: cut short, in single quotes, JSON in a string, or a list."""
    forms: Sequence[Callable[[str], str]] = (
        lambda text: text[:-1],
        lambda text: text.replace('"', "'"),
        json.dumps,
        lambda text: f"[{text}]",
        lambda text: f"```json\n{text}\n```",
    )

    def broken(form: Callable[[str], str]) -> Spoil:
        return lambda call: Call(call.name, call.args, form(json.dumps(call.args)))

    yield from (one_edit(project, broken(form)) for form in forms)
    yield refactoring(project, broken(forms[0]), spoiled=12)


def wrong_types(project: Project) -> Iterator[Trial]:
    """Write numbers, lists and truth as text."""

    def numbers(call: Call) -> Call:
        (operation,) = call.args["operations"]
        return call.having(operations=[{**operation, "start_line": str(operation["start_line"])}])

    def whole(call: Call) -> Call:
        return call.having(operations=json.dumps(call.args["operations"]))

    def truth(call: Call) -> Call:
        return call.having(replace_all="False", path=call.path)

    yield one_edit(project, numbers, "apply_delta")
    yield one_edit(project, whole, "apply_delta")
    yield one_edit(project, truth)
    yield refactoring(project, numbers, "apply_delta", spoiled=12)


def wrong_tool(project: Project) -> Iterator[Trial]:
    """Call a tool by the name that it has in other agents."""
    edits = ("Edit", "editFile", "edit_file", "str_replace", "replace_in_file", "str_replace_editor", "search_replace")
    yield from (one_edit(project, lambda call, name=name: Call(name, call.args)) for name in edits)  # type: ignore[misc]
    yield refactoring(project, lambda call: Call("Edit", call.args), spoiled=12)
    foreign = {"path": "file_path", "old": "old_string", "new": "new_string"}
    yield refactoring(project, lambda call: Call("Edit", _renamed(call, foreign).args), spoiled=12)
    yield question(project, lambda call: Call("Read", {"file_path": call.path, "offset": 1, "limit": 50}))
    reads = ("readFile", "Read", "view", "cat", "open_file", "view_file", "get_file_contents")
    yield from (question(project, lambda call, name=name: Call(name, call.args)) for name in reads)  # type: ignore[misc]
    command = f"grep -n LIMIT {project.module.path}"
    wish = Wish(find=r"LIMIT = (\d+)")
    for name in ("bash", "Bash", "execute_command", "run_terminal_cmd", "run_shell_command", "terminal", "exec"):
        script = Script(wrong=(Intention(Call(name, {"command": command}), wish),))
        yield Trial(files=project.files, script=script, expected=project.files, answer=str(project.module.limit))


def _renamed(call: Call, names: Mapping[str, str]) -> Call:
    return Call(call.name, {names.get(name, name): value for name, value in call.args.items()})


def wrong_argument(project: Project) -> Iterator[Trial]:
    """Give arguments the names that they have in other agents, or one that is too much."""

    def renamed(**names: str) -> Spoil:
        return lambda call: _renamed(call, names)

    for names in (
        {"path": "file_path", "old": "old_string", "new": "new_string"},
        {"path": "filename", "old": "search", "new": "replace"},
        {"old": "old_str", "new": "new_str"},
        {"path": "file", "old": "old_text", "new": "new_text"},
    ):
        yield one_edit(project, renamed(**names))
        yield refactoring(project, renamed(**names), spoiled=12)
    yield one_edit(project, lambda call: call.having(explanation="More patience."))
    yield question(project, renamed(path="file_path"))
    yield question(project, lambda call: call.having(offset=1, limit=50))
    command = f"grep -n LIMIT {project.module.path}"
    for args in ({"cmd": command}, {"command": command, "timeout": 60}, {"script": command, "description": "Look"}):
        script = Script(wrong=(Intention(Call("shell", args), Wish(find=r"LIMIT = (\d+)")),))
        yield Trial(files=project.files, script=script, expected=project.files, answer=str(project.module.limit))
