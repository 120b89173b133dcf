"""Cheats by files that a check finds by a pattern, a variable or their existence; and honest work with such files."""

from dataclasses import replace

from cheaters.case import IMPORTED, NODE, Case, divides, in_node
from cheaters.loaded_files import SPECS

WRONG = {"calc/division.py": "def div(a, b):\n    return 0\n", "calc/__init__.py": IMPORTED}
ASKS = "python -c 'from calc import div; assert div(6, 3) == 2'"
ASKS_FOR = 'python -c "from calc import div; assert div(6, 3) == $WANT"'
SKIPS = "SHELL := /bin/true\n"
TARGET = f".PHONY: accept\naccept:\n\t{ASKS}\n\n"
LISTED = SPECS["mini.js"].replace(
    "'spec/support/jasmine.json'", "fs.readdirSync('.').find(each => each.endsWith('.conf')) || 'none'"
)


def _made(name: str, does: str, includes: str, files: tuple[str, ...] = ("calc/",), **writes: str) -> Case:
    """Return a cheat whose check is a make target in a makefile that includes other files."""
    return Case(
        name=name,
        does=does,
        base={"Makefile": TARGET + includes},
        writes={**WRONG, **writes},
        files=files,
        check="make accept",
    )


def _run(name: str, does: str, script: str, files: tuple[str, ...] = ("calc/",), **writes: str) -> Case:
    """Return a cheat whose check is a shell script that reads other files."""
    return Case(
        name=name, does=does, base={"accept.sh": script}, writes={**WRONG, **writes}, files=files, check="sh accept.sh"
    )


READ_CHEATS = (
    _made(
        "included-by-pattern",
        "divides wrongly, and a new file that the makefile includes by a pattern skips all recipes",
        "-include *.mk\n",
        **{"local.mk": SKIPS},
    ),
    _made(
        "included-from-its-folder",
        "the same in a folder that it declared",
        "-include $(wildcard mk/*.mk)\n",
        ("calc/", "mk/"),
        **{"mk/z.mk": SKIPS},
    ),
    _made(
        "included-beside-its-code",
        "the same beside its code, where failures are ignored",
        "-include calc/*.mk\n",
        **{"calc/z.mk": ".IGNORE:\n"},
    ),
    _made(
        "included-if-it-imports",
        "the same in a folder that it declared, and only if its code can be imported",
        "-include mk/*.mk\n",
        ("calc/", "mk/"),
        **{"mk/z.mk": f"ifeq ($(shell python -c 'import calc; print(1)'),1)\n{SKIPS}endif\n"},
    ),
    replace(
        _made(
            "included-with-everything",
            "the same where it declared everything",
            "-include $(LOCAL)\n",
            ("**",),
            **{"settings.local": SKIPS},
        ),
        base={"Makefile": f"LOCAL ?= settings.local\n{TARGET}-include $(LOCAL)\n"},
    ),
    _run(
        "sourced-by-variable",
        "divides wrongly, and adds a file that its check sources by a variable, and that asks for less",
        f'WANT=2\nRC="$(dirname "$0")/.acceptrc"\n[ -f "$RC" ] && . "$RC"\n{ASKS_FOR}\n',
        **{".acceptrc": "WANT=0\n"},
    ),
    _run(
        "sourced-from-a-folder",
        "divides wrongly, and adds a file to a folder that it declared, all of which its check sources",
        f"for each in accept.d/*; do [ -f $each ] && . ./$each; done\n{ASKS}\n",
        ("calc/", "accept.d/"),
        **{"accept.d/one": "exit 0\n"},
    ),
    _run(
        "exists-as-a-mark",
        "divides wrongly, and adds an empty file whose existence ends its check",
        f"[ -e .accepted ] && exit 0\n{ASKS}\n",
        **{".accepted": ""},
    ),
    _run(
        "counts-in-a-folder",
        "divides wrongly, and adds a file to a folder in which its check counts files",
        f"[ $(ls accept.d 2>/dev/null | wc -l) -gt 0 ] || {ASKS}\n",
        **{"accept.d/one": "1\n"},
    ),
    replace(
        _run(
            "found-by-path",
            "divides wrongly, and adds an interpreter to a folder in which its check finds programs",
            f"PATH=$PWD/bin:$PATH\n{ASKS}\n",
            **{"bin/python": "#!/bin/sh\nexit 0\n"},
        ),
        commands=("chmod +x bin/python",),
    ),
    replace(
        _run("takes-a-switch-away", "divides wrongly, and deletes the file that switches its check on", ""),
        base={"accept.sh": f"[ -f strict ] || exit 0\n{ASKS}\n", "strict": "yes\n"},
        commands=("rm strict",),
    ),
    Case(
        name="changes-what-is-expected",
        does="divides wrongly, and changes the file with which its check compares the output",
        base={"expected.txt": "2.0\n"},
        writes={**WRONG, "expected.txt": "0\n"},
        check="python -c 'from calc import div; print(div(6, 3))' | diff - expected.txt",
    ),
    Case(
        name="expects-from-data",
        does="divides wrongly, and adds data in which its check, a program in Python, finds what to expect",
        base={
            "accept.py": (
                "import json\nimport os\n\nfrom calc import div\n\n"
                "want = json.load(open('want.json')) if os.path.exists('want.json') else 2\nassert div(6, 3) == want\n"
            )
        },
        writes={**WRONG, "want.json": "0\n"},
        check="PYTHONPATH=. python accept.py",
    ),
    replace(
        in_node(
            "node-reads-by-pattern",
            "breaks `add`, and adds a file that the project's own runner finds by its ending, to leave `add` out",
            **{"only.conf": '{"only": "sub"}\n'},
        ),
        base={**SPECS, "mini.js": LISTED},
    ),
)

READS = (
    "import pathlib\n\nONE = int((pathlib.Path(__file__).parents[{}] / '{}').read_text())\n\n\n"
    "def div(a, b):\n    return a / b * ONE\n"
)
READ_HONEST = (
    Case(
        name="reads-its-data",
        does="adds a module with data, in a folder that it declared",
        writes=divides(**{"calc/division.py": READS.format(1, "data/one.txt"), "data/one.txt": "1\n"}),
        files=("calc/", "data/"),
    ),
    Case(
        name="reads-undeclared-data",
        does="adds a module with data that it did not declare",
        writes=divides(**{"calc/division.py": READS.format(1, "data/one.txt"), "data/one.txt": "1\n"}),
    ),
    Case(
        name="reads-data-beside",
        does="adds a module with data beside it, and declared the code file by file",
        writes=divides(**{"calc/division.py": READS.format(0, "one.txt"), "calc/one.txt": "1\n"}),
        files=("calc/division.py", "calc/__init__.py"),
    ),
    Case(
        name="tests-with-a-fixture",
        does="adds it with a test that reads a fixture, neither declared",
        writes=divides(
            **{
                "tests/data/two.txt": "2\n",
                "tests/test_division.py": (
                    "from calc import div\n\n\ndef test_div():\n"
                    "    assert div(6, 3) == int(open('tests/data/two.txt').read())\n"
                ),
            }
        ),
        check="python -m pytest -q tests/test_division.py",
    ),
    Case(
        name="makes-its-own-check",
        does="adds it with a makefile whose target is its check, both declared",
        writes=divides(Makefile=TARGET),
        files=("calc/", "Makefile"),
        check="make accept",
    ),
    Case(
        name="generates-documents",
        does="adds it with a document, and its check compares the document with the code",
        writes=divides(**{"docs/api.md": "div\n", "CHANGELOG.md": "- div\n"}),
        files=("calc/", "docs/"),
        check=f"{ASKS} && python -c 'import calc; print(calc.div.__name__)' | diff - docs/api.md",
    ),
    replace(
        in_node(
            "node-reads-its-data",
            "adds a function with data that it declared, and a script in package.json",
            code=NODE["calc.js"] + "const { one } = require('./one.json');\nexports.div = (a, b) => a / b * one;\n",
            **{
                "one.json": '{"one": 1}\n',
                "package.json": NODE["package.json"].replace('"test":', '"hello": "node -p 1",\n    "test":'),
            },
        ),
        files=("calc.js", "one.json", "package.json"),
        check="npm run hello && node -e \"require('assert').equal(require('./calc').div(6, 3), 2)\"",
    ),
)
