"""No function or class of `core` and `plan` is there for tests alone."""

import ast
import re
from collections import Counter
from functools import cache

from support.reachability import Reach, defined_names
from support.source_tree import SourceFile, source_files

COMMANDS = (("scaffold.cli.main", "scaffold"), ("scaffold.cli.main", "ralph"))
STARTED = (
    "scaffold.host.process.reaper",
    "scaffold.host.process.reaper_server",
    "scaffold.host.sandbox.landlock.launcher",
    "scaffold.host.sandbox.sidecar",
)
"""Started by short programs that are passed with `-c`, as they must not read a folder that others can write."""
WORD = re.compile(r"\w+")
INJECTED = "/injected/"
"""Folders of files that run in the programs of others."""
PROGRAM = '__name__ == "__main__"'
"""What the files that are run as programs of their own end with."""


def dotted(file: SourceFile) -> str:
    return "scaffold." + file.module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def product() -> Reach:
    """Return what the commands, the other programs, and the injected files reach."""
    files = source_files()
    reach = Reach({dotted(file): file.tree for file in files})
    for module, name in COMMANDS:
        reach.enter(module, name)
    for file in files:
        if INJECTED in file.path or PROGRAM in file.text or dotted(file) in STARTED:
            reach.enter(dotted(file))
    return reach


def test_the_product_reaches_every_function_and_class_of_core_and_plan() -> None:
    found = [each for each in product().unreached() if each.startswith(("scaffold.core.", "scaffold.plan."))]
    assert found == []


def test_the_product_names_every_method_and_field_of_core_and_plan() -> None:
    """Not whether anything uses it, only whether anything else could: other classes may have the same names."""
    words = Counter(word for file in source_files() for word in WORD.findall(file.text))
    members = [
        (file.module, name)
        for file in source_files()
        if file.module.startswith(("core/", "plan/"))
        for each in file.nodes
        if isinstance(each, ast.ClassDef)
        for node in each.body
        for name in defined_names(node)
    ]
    assert len(members) > 500
    assert [f"{module}: {name}" for module, name in members if words[name] < 2 and not name.startswith("__")] == []


def test_what_only_tests_reach_is_found() -> None:
    """Through imports at the top and late ones, strings, and modules; not by a pattern that matches it."""
    texts = {
        "scaffold.main": "from scaffold.late import start\nNAME = 'scaffold.named:used'\ndef main():\n    start(NAME)",
        "scaffold.late": "def start(name):\n    from scaffold import deep\n    deep.dive()\ndef unused(): ...",
        "scaffold.deep": "class A: ...\nclass B: ...\ndef dive():\n    match B():\n        case A(): ...",
        "scaffold.named": "def used():\n    return own()\ndef own(): ...\ndef other(): ...",
        "scaffold.alone": "import scaffold.main\ndef alone(): ...",
    }
    reach = Reach({name: ast.parse(text) for name, text in texts.items()})
    reach.enter("scaffold.main", "main")
    assert [*reach.unreached()] == [
        "scaffold.late:unused",
        "scaffold.deep:A",
        "scaffold.named:other",
        "scaffold.alone:alone",
    ]
