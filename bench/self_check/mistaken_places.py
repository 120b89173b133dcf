"""Mistakes about where something is, and what is there: paths, text, lines."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import structs

from self_check.intention import Call, Intention, Wish, patch
from self_check.project import Project
from self_check.simple_model import Habits, Script
from self_check.tasks import TOOLS, changed_files, one_edit, question, reading_of, refactoring, right_call, with_texts
from self_check.trial import Trial


def _at_other_paths(project: Project, other: Callable[[str], str]) -> Iterator[Trial]:
    def spoil(call: Call) -> Call:
        return call.at(other(call.path))

    yield from (one_edit(project, spoil, tool) for tool in TOOLS)
    yield refactoring(project, spoil)
    yield question(project, spoil)


def wrong_name(project: Project) -> Iterator[Trial]:
    """Misspell a path: a letter too many, one too few, or two in the wrong order."""

    def misspelt(path: str) -> str:
        folder, _, name = path.rpartition("/")
        at = project.rng.randrange(1, len(name) - 4)
        kinds = (
            name[:at] + name[at] + name[at:],
            name[:at] + name[at + 1 :],
            name[:at] + name[at + 1] + name[at] + name[at + 2 :],
        )
        wrong = next((each for each in project.rng.sample(kinds, 3) if each != name), kinds[0])
        return f"{folder}/{wrong}"

    yield from _at_other_paths(project, misspelt)


def wrong_folder(project: Project) -> Iterator[Trial]:
    """Look for a file where it is not: at the top, below a folder that does not exist, or one that does."""
    places = ("{}", "app/{}", "src/main/{}", "tests/{}", "{}".join((project.module.folder.split("/")[0] + "/", "")))
    place = project.rng.choice(places)
    yield from _at_other_paths(project, lambda path: place.format(path.rpartition("/")[2]))
    yield one_edit(project, lambda call: call.at(place.format(call.path.rpartition("/")[2].replace("e", "ee"))))


def wrong_case(project: Project) -> Iterator[Trial]:
    """Write a path in another case."""
    change = project.rng.choice((str.title, str.upper, str.swapcase))
    yield from _at_other_paths(
        project, lambda path: f"{path.rpartition('/')[0]}/{change(path.rpartition('/')[2][:-3])}.py"
    )


def path_outside(project: Project) -> Iterator[Trial]:
    """Write an absolute path of another machine."""
    root = project.rng.choice(("/workspace", "/home/user/project", "/repo", "/app", "/testbed"))
    yield from _at_other_paths(project, lambda path: f"{root}/{path}")


def stale_text(project: Project) -> Iterator[Trial]:
    """Rely on a file that the user has changed since it was read: elsewhere in it, or the very line."""
    module = project.module
    wish = Wish(key=r"retries = \d+", put="retries = 9")
    for tool in TOOLS:
        for old, new in (
            (f"LIMIT = {module.limit}", "LIMIT = 1\nMORE = 2"),
            (f"retries = {module.retries}", "retries = 44  # slow"),
        ):
            users = module.text.replace(old, new)
            right = re.sub(wish.key, wish.put, users)

            def write(path: str = module.path, text: str = users) -> None:
                Path(path).write_text(text)  # the trial's folder is the current one

            script = Script(first=((reading_of(module),),), wrong=(right_call(tool, module, wish),), meanwhile=write)
            yield Trial(files=project.files, script=script, expected={**project.files, module.path: right})
    yield from _stale_wholes(project)


def _stale_wholes(project: Project) -> Iterator[Trial]:
    """Write a whole file, or a line by its number alone, as it was before the user changed the line, or put one above.

    Nothing in these calls says what the file should contain now.
    """
    module, wish = project.module, project.module.more_retries
    line = f"retries = {module.retries}"
    place = wish.place_in(module.lines()) or 0
    operation = {"operation": "replace", "start_line": place, "content": wish.changed(module.lines()[place])}
    for call, new in (
        (Call("write_file", {"path": module.path, "content": module.text.replace(line, wish.put)}), f"{line}  # slow"),
        (Call("apply_delta", {"path": module.path, "operations": [operation]}), f"found = 0\n        {line}"),
    ):
        users = module.text.replace(line, new)

        def write(path: str = module.path, text: str = users) -> None:
            Path(path).write_text(text)

        script = Script(first=((reading_of(module),),), wrong=(Intention(call, wish),), meanwhile=write)
        expected = {**project.files, module.path: users.replace(line, wish.put)}
        yield Trial(files=project.files, script=script, expected=expected)


def moved_file(project: Project) -> Iterator[Trial]:
    """Rely on a file that the user has moved since it was read, to another folder or another name."""
    module, wish = project.module, project.module.more_retries
    for tool in TOOLS:
        for place in (f"{module.folder}/inner/{module.name}.py", f"{module.folder}/{module.name}_v2.py"):

            def move(old: str = module.path, new: str = place) -> None:
                Path(new).parent.mkdir(exist_ok=True)
                Path(old).rename(new)

            script = Script(first=((reading_of(module),),), wrong=(right_call(tool, module, wish),), meanwhile=move)
            expected = dict(changed_files(project, (module, wish)))
            expected[place] = expected.pop(module.path)
            yield Trial(files=project.files, script=script, expected=expected)


def missing_context(project: Project) -> Iterator[Trial]:
    """Name text that occurs twice in the file."""
    module, wish = project.module, project.module.longer_timeout
    line = "timeout = 30"
    calls = (
        Call("edit", {"path": module.path, "old": line, "new": "timeout = 60"}),
        Call("apply_patch", {"input": patch(module.path, [], "            timeout = 30", wish)}),
    )
    for call in calls:
        for read in (False, True):
            files = project.files
            if call.name == "apply_patch":
                files[module.path] = files[module.path].replace(
                    "    timeout = 30\n    with", "            timeout = 30\n    with"
                )
            first = ((reading_of(module),),) if read else ()
            head, _, tail = files[module.path].partition("def save")
            right = f"{head}def save{tail.replace('timeout = 30', 'timeout = 60', 1)}"
            script = Script(first=first, wrong=(Intention(call, wish),))
            yield Trial(files=files, script=script, expected={**files, module.path: right})


def misquoted_line(project: Project) -> Iterator[Trial]:
    """Name a long text of which one line is from memory: near its beginning, or far from it."""
    module, wish = project.module, project.module.more_retries
    longer = structs.replace(module, more=14)
    files = {**project.files, module.path: longer.text}
    right = right_call("edit", longer, wish)
    lines = longer.text.splitlines()
    for number in (2, len(lines) - 5):
        wrong = [line if n != number else f"{line} + 0 " for n, line in enumerate(lines)]
        call = right.call.having(old="\n".join(wrong), new="\n".join(map(wish.changed, wrong)))
        expected = {**files, module.path: longer.text.replace(f"retries = {module.retries}", wish.put)}
        yield Trial(files=files, script=Script(wrong=(right.by(call),)), expected=expected)


def wrong_indent(project: Project) -> Iterator[Trial]:
    """Write tabs for spaces, too few spaces, or spaces at the end of a line."""

    def tabs(call: Call) -> Call:
        return with_texts(call, lambda text: re.sub(r"^(\s*[ +-]?)(?: {4})+", _tabbed, text, flags=re.MULTILINE))

    def trailing(call: Call) -> Call:
        return with_texts(call, lambda text: re.sub(r"(retries = \d)$", r"\1  ", text, flags=re.MULTILINE))

    def narrow(call: Call) -> Call:
        return with_texts(call, lambda text: text.replace("        retries", "      retries"))

    yield from (one_edit(project, spoil, tool) for tool in TOOLS for spoil in (tabs, narrow))
    yield one_edit(project, trailing, "edit")


def _tabbed(found: re.Match[str]) -> str:
    return found[0].replace("    ", "\t")


def pasted_numbers(project: Project) -> Iterator[Trial]:
    """Copy lines with the numbers that `read_file` shows, also in what is to replace them."""
    module, wish = project.module, project.module.more_retries
    habits = Habits(numbered=True)
    for around in (0, 1, 2):
        lines = {
            n: text for n, text in module.lines().items() if re.search(r"retries = |def write|return \(path", text)
        }
        numbers = sorted(lines)[: around + 1] if around else [wish.place_in(lines) or 0]
        old = "\n".join(f"{n}\t{lines[n]}" for n in numbers)
        new = "\n".join(f"{n}\t{wish.changed(lines[n])}" for n in numbers)
        call = Call("edit", {"path": module.path, "old": old, "new": new})
        if wish.changed(old) != old:
            yield one_edit(project, lambda _, call=call: call, read=True, habits=habits)  # type: ignore[misc]
    place = wish.place_in(module.lines()) or 0
    line = module.lines()[place]
    operation = {
        "operation": "replace",
        "start_line": place,
        "expected": f"{place}\t{line}",
        "content": wish.changed(line),
    }
    delta = Call("apply_delta", {"path": module.path, "operations": [operation]})
    yield one_edit(project, lambda _: delta, read=True, habits=habits)


def wrong_line_number(project: Project) -> Iterator[Trial]:
    """Expect the right lines at a wrong number."""

    def shifted(call: Call) -> Call:
        (operation,) = call.args["operations"]
        by = project.rng.choice((-3, -1, 1, 40))
        return call.having(operations=[{**operation, "start_line": operation["start_line"] + by}])

    yield one_edit(project, shifted, "apply_delta")
    yield one_edit(project, shifted, "apply_delta", read=True)
    yield refactoring(project, shifted, "apply_delta")
    yield _counted_from_before_the_reply(project)


def _counted_from_before_the_reply(project: Project) -> Trial:
    """Make two changes of one file in one reply, both by the numbers from before it."""
    module, wish = project.module, project.module.more_retries
    place = wish.place_in(module.lines()) or 0
    operations = (
        {"operation": "insert", "start_line": 1, "content": "# one\n# two"},
        {"operation": "replace", "start_line": place, "content": wish.changed(module.lines()[place])},
    )
    calls = [Call("apply_delta", {"path": module.path, "operations": [each]}) for each in operations]
    script = Script(first=((reading_of(module),),), wrong=[Intention(call, Wish()) for call in calls])
    right = "# one\n# two\n" + changed_files(project, (module, wish))[module.path]
    return Trial(files=project.files, script=script, expected={**project.files, module.path: right})


def wrong_pattern(project: Project) -> Iterator[Trial]:
    """Search for text as if it were no regular expression, or for several lines at once."""
    module = project.module
    place = module.other_name.place_in(module.lines())
    wish = Wish(find=rf"\b({place}): +def save")
    for pattern in (
        "def save(self, path):",
        "save(self",
        r"class \w+:\n    def save",
        "def save(self, path):\n        if path:",
    ):
        args = {"pattern": pattern, "path": module.path}
        wrong = (Intention(Call("search_files", args), wish),)
        yield Trial(files=project.files, script=Script(wrong=wrong), expected=project.files, answer=str(place))


def wrong_patch(project: Project) -> Iterator[Trial]:
    """Write a patch whose context is from memory."""
    module, wish = project.module, project.module.more_retries
    line = f"        retries = {module.retries}"
    for above in (
        ["    def write(self, path):"],
        ["    def write(self, path: str, timeout: int) -> tuple:"],
        ["    def write(self, path, timeout):", '        """Write it."""'],
    ):
        call = Call("apply_patch", {"input": patch(module.path, above, line, wish)})
        yield one_edit(project, lambda _, call=call: call)  # type: ignore[misc]
    anchored = patch(module.path, [], line, wish).replace("@@\n", "@@ class Wrong:\n")
    yield one_edit(project, lambda _: Call("apply_patch", {"input": anchored}))


def unread_file(project: Project) -> Iterator[Trial]:
    """Write a whole file, or change lines by number, without a look at what is there."""
    module, wish = project.module, project.module.more_retries
    for text, goal in (("LIMIT = 5\n", Wish()), (f"def write():\n    {wish.put}\n", wish)):
        script = Script(wrong=(Intention(Call("write_file", {"path": module.path, "content": text}), goal),))
        right = changed_files(project, (module, wish))[module.path] if goal.key else text
        yield Trial(files=project.files, script=script, expected={**project.files, module.path: right})

    def blind(call: Call) -> Call:
        (operation,) = call.args["operations"]
        return call.having(operations=[{name: operation[name] for name in ("operation", "start_line", "content")}])

    yield one_edit(project, blind, "apply_delta")
    yield refactoring(project, blind, "apply_delta", spoiled=12)
