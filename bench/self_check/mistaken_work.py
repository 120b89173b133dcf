"""Mistakes in how work is done: repeated calls, huge output and files, a lost folder, a test that fails."""

from collections.abc import Iterator

from self_check.intention import Call, Intention, Wish
from self_check.project import CHECK, Project
from self_check.simple_model import Habits, Script
from self_check.tasks import TOOLS, changed_files, right_call, with_texts
from self_check.trial import Trial


def repeated_call(project: Project) -> Iterator[Trial]:
    """Make the same failing call again, until the answer is another one."""
    module, wish = project.module, project.module.more_retries
    for tool in TOOLS:
        wrong = right_call(tool, module, wish)
        spoiled = with_texts(wrong.call, lambda text: text.replace("        retries", "      retries"))
        same = (wrong.by(spoiled),)
        script = Script(first=(same,), wrong=same, habits=Habits(stubborn=True))
        yield Trial(files=project.files, script=script, expected=changed_files(project, (module, wish)))


def huge_output(project: Project) -> Iterator[Trial]:
    """Run a command that prints far too much; what is looked for is anywhere in it."""
    code = f"E{project.rng.randrange(1000, 9999)}"
    for at in (0.1, 0.45, 0.55, 0.9, 0.9999):
        lines = 12_000
        script_text = (
            f"for n in range({lines}):\n"
            f"    print('ERROR code={code}' if n == {int(lines * at)} else f'step {{n}} of the build is done')\n"
            "raise SystemExit(1)\n"
        )
        files = {**project.files, "build.py": script_text}
        wish = Wish(find=r"ERROR code=(E\d+)")
        script = Script(wrong=(Intention(Call("shell", {"command": "python3 build.py"}), wish),))
        yield Trial(files=files, script=script, expected=files, answer=code)


def lost_folder(project: Project) -> Iterator[Trial]:
    """Call `cd` on its own, and then a command that relies on it."""
    module = project.module
    check = CHECK.format(folder=".", name=module.name, title=module.name.title(), wanted=module.retries)
    files = {**project.files, f"{module.folder}/check.py": check}
    for command in ("python3 check.py", "sh -c 'python3 check.py'"):
        first = ((Intention(Call("shell", {"command": f"cd {module.folder}"}), Wish()),),)
        wrong = (Intention(Call("shell", {"command": command}), Wish(find=r"code=(\w+)")),)
        script = Script(first=first, wrong=wrong)
        yield Trial(files=files, script=script, expected=files, answer=f"OK{module.retries}")


def huge_file(project: Project) -> Iterator[Trial]:
    """Read a file of 60,000 lines as a whole, for one of them."""
    for at in (100, 31_234, 59_990):
        text = "".join(f"setting_{n} = 1\n" for n in range(60_000))
        files = {**project.files, "data/settings.ini": text}
        wish = Wish(key=rf"setting_{at} = 1$", put=f"setting_{at} = 2")
        script = Script(wrong=(Intention(Call("read_file", {"path": "data/settings.ini"}), wish),))
        changed = text.replace(f"setting_{at} = 1\n", f"setting_{at} = 2\n")
        yield Trial(files=files, script=script, expected={**files, "data/settings.ini": changed})


def failing_test(project: Project) -> Iterator[Trial]:
    """Mend what a failing test shows, with a wrong path, text or tool."""
    module = project.module
    check = CHECK.format(folder=module.folder, name=module.name, title=module.name.title(), wanted=module.retries + 1)
    files = {**project.files, "tests/check.py": check}
    expected = {**files, module.path: changed_files(project, (module, module.more_retries))[module.path]}
    first = ((Intention(Call("shell", {"command": "python3 tests/check.py"}), Wish()),),)
    for spoil in (
        lambda call: call.at(module.path.rpartition("/")[2]),
        lambda call: with_texts(call, lambda text: text.strip().replace(" = ", "=")),
        lambda call: Call("Edit", call.args),
    ):
        right = right_call("edit", module, module.more_retries)
        script = Script(first=first, wrong=(right.by(spoil(right.call)),))
        yield Trial(files=files, script=script, expected=expected)
