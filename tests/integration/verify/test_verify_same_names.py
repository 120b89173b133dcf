"""Real runners: two tests of one name stay two, names that vary are matched, and forced colours hide nothing."""

import os
import sys
from pathlib import Path

import pytest

from builders import needs
from integration.verify.builders import PYTEST, write_files
from scaffold.core.proof.gates import Gate
from scaffold.host.child_environment import child_environment
from scaffold.host.process.command_runner import run_command
from scaffold.verify.check_readiness import NotReady

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

COLOURS = "CARGO_TERM_COLOR=always FORCE_COLOR=1 PY_COLORS=1"
UNITTEST = f"{sys.executable} -m unittest"
BROKEN_JS = "require('fs').readFileSync('data.txt', 'utf8').includes({}) "
JS_HEADER = "const assert = require('assert');\n"
VITEST_HEADER = "import assert from 'assert'; import fs from 'fs'; const require = () => fs;\n"
NODE_HEADER = f"{JS_HEADER}const it = require('node:test');\n"
JS_TEST = f"it({{}}, () => assert.ok(!{BROKEN_JS}));\n"
BROKEN_PY = "{!r} in open('data.txt').read()"
SUITE = """\
import unittest


class Works(unittest.TestCase):
    def __init__(self, name="test_it", letter="a"):
        super().__init__(name)
        self.letter = letter

    def test_it(self):
        self.assertNotIn(self.letter, open("data.txt").read())


def load_tests(loader, tests, pattern):
    return unittest.TestSuite([Works(letter="a"), Works(letter="b")])
"""
PARTS = """\
import unittest


class Works(unittest.TestCase):
    def test_it(self):
        for letter in "ab":
            with self.subTest(letter=letter):
                self.assertNotIn(letter, open("data.txt").read())

    def test_other(self):
        pass
"""
CONFTEST = """\
import pytest


class Case(pytest.Item):
    def __init__(self, *, letter, **kwargs):
        super().__init__(**kwargs)
        self.letter = letter

    def runtest(self):
        assert self.letter not in open("data.txt").read()


class File(pytest.File):
    def collect(self):
        for letter in self.path.read_text().split():
            yield Case.from_parent(self, name="case", letter=letter)


def pytest_collect_file(parent, file_path):
    if file_path.suffix == ".case":
        return File.from_parent(parent, path=file_path)
"""
OBJECTS = """\
import pytest


class Case:
    def __init__(self, letter):
        self.letter = letter


@pytest.mark.parametrize("case", [Case("a"), Case("b")], ids=repr)
def test_it(case):
    assert case.letter not in open("data.txt").read()


def test_other():
    pass
"""
GO_TEST = """\
package {package}

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestIt(t *testing.T) {{
	fmt.Print("progress...")
	for _, letter := range []string{{{letters}}} {{
		t.Run(fmt.Sprint("at ", time.Now().UnixNano()), func(t *testing.T) {{
			text, _ := os.ReadFile("{top}data.txt")
			if strings.Contains(string(text), letter) {{
				t.Error("broken")
			}}
		}})
	}}
}}

func TestOther(t *testing.T) {{}}
"""
GO_MODULE = "module example.com/m\n\ngo 1.19\n"
RUST_TEST = """\
#[test]
fn it() {{
    std::process::Command::new("echo").arg("test it ... ok").status().unwrap();
    assert!(!std::fs::read_to_string("data.txt").unwrap().contains("{}"));
}}
"""
CARGO = '[package]\nname = "m"\nversion = "0.1.0"\nedition = "2021"\n'
FILES = {
    "unittest, one method twice": ("unittest", UNITTEST, {"test_it.py": SUITE}),
    "unittest, subtests": ("unittest", UNITTEST, {"test_it.py": PARTS}),
    "pytest, subtests": ("pytest", PYTEST, {"test_it.py": PARTS}),
    "pytest, items of a plugin": (
        "pytest",
        PYTEST,
        {"conftest.py": CONFTEST, "it.case": "a b\n", "test_it.py": "def test_other():\n    pass\n"},
    ),
    "pytest, names with addresses": ("pytest", PYTEST, {"test_it.py": OBJECTS}),
    "node, two files": (
        "node",
        "node --test",
        {f"test/{each}.test.js": NODE_HEADER + JS_TEST.format("'works'", f"'{each}'") for each in "ab"},
    ),
    "node, twice in a file": (
        "node",
        "node --test",
        {"test/it.test.js": NODE_HEADER + "".join(JS_TEST.format("'works'", f"'{each}'") for each in "ab")},
    ),
    "node, names with times": (
        "node",
        "node --test",
        {"test/it.test.js": NODE_HEADER + "".join(JS_TEST.format("`at ${Date.now()}`", f"'{each}'") for each in "ab")},
    ),
    **{
        f"{runner}, {what}": (
            runner,
            f"{runner}{' --globals' if runner == 'vitest' else ''}",
            {
                "package.json": "{}",
                "test/it.test.js": (VITEST_HEADER if runner == "vitest" else JS_HEADER)
                + "".join(JS_TEST.format(title, f"'{each}'") for each in "ab")
                + "it('other', () => {});\n",
            },
        )
        for runner in ("mocha", "jest", "vitest")
        for what, title in (("twice in a file", "'works'"), ("names with times", "`at ${process.hrtime.bigint()}`"))
    },
    "go, names with times and unfinished lines": (
        "go",
        "go test ./...",
        {"go.mod": GO_MODULE, "a_test.go": GO_TEST.format(package="m", letters='"a", "b"', top="")},
    ),
    "go, two packages": (
        "go",
        "go test ./...",
        {
            "go.mod": GO_MODULE,
            **{f"{each}/{each}_test.go": GO_TEST.format(package=each, letters=f'"{each}"', top="../") for each in "ab"},
        },
    ),
    "cargo, two programs and one thread": (
        "cargo",
        f"HOME={Path.home()} RUST_TEST_THREADS=1 cargo test --offline",
        {
            "Cargo.toml": CARGO,
            "src/lib.rs": "#[test]\nfn other() {}\n",
            **{f"tests/{each}.rs": RUST_TEST.format(each) for each in "ab"},
        },
    ),
}  # fmt: skip
PROGRAMS = {"mocha": "npm", "jest": "npm", "vitest": "npm"}


async def _installed(runner, folder):
    """Return the program of a runner that npm has installed."""
    write_files(folder, {"package.json": '{"name": "tools", "version": "1.0.0"}\n'})
    words = ["npm", "install", "--no-audit", "--no-fund", "--save-dev", runner]
    npm = await run_command(words, cwd=folder, env=child_environment(os.environ), timeout_s=100)
    if npm.exit_code != 0:
        pytest.skip(f"`{' '.join(words)}` failed with exit code {npm.exit_code}")
    return str(folder / "node_modules" / ".bin" / runner)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=needs(PROGRAMS.get(runner, runner)) if runner not in {"pytest", "unittest"} else ())
        for case, (runner, *_) in FILES.items()
    ],
)
async def test_work_that_mends_one_test_and_breaks_another_of_its_name_is_refused(candidates, tmp_path, case):
    """BX-4, AL-10: and honest work is not, nor are its names missed; whatever colours are forced."""
    runner, command, files = FILES[case]
    if runner in PROGRAMS:
        command = command.replace(runner, await _installed(runner, tmp_path / "tools"), 1)
    gate = Gate(kind="test", command=f"{COLOURS} {command}", runner=runner, timeout_s=200)
    await candidates.begin({".gitignore": "target/\nCargo.lock\n__pycache__/\n", "data.txt": "a\n", **files}, gate)
    assert not isinstance(candidates.captured, NotReady), candidates.captured
    outcomes = candidates.captured.baseline.runs[0].outcomes
    assert {"passed", "failed"} <= set(outcomes.values()), outcomes
    honest = await candidates.after({"data.txt": "a\n\n"}, files=("data.txt",))
    assert (honest.blocks, honest.base_tests) == (False, {}), honest.detail
    assert bool(honest.varying) == ("names with" in case or runner == "go"), honest.varying
    swapped = await candidates.after({"data.txt": "b\n"}, files=("data.txt",))
    assert swapped.verdict == "new_failure", (outcomes, swapped.tests)
    mended = await candidates.after({"data.txt": "c\n"}, files=("data.txt",))
    assert (mended.blocks, mended.counts.get("new_failure", 0)) == (False, 0), mended.detail
