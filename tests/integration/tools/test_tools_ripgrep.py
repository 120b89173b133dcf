"""Searching with ripgrep: the real one if it is installed, and a fake one everywhere."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from builders import needs
from scaffold.tools.search.ripgrep import candidate_files
from scaffold.tools.search.search_files import search_files
from scaffold.tools.workspace import Workspace

REAL = shutil.which("rg")
STAND_IN = """#!{python}
import pathlib, sys
words = [flag.removeprefix("--regexp=").encode() for flag in sys.argv if flag.startswith("--regexp=")]
with open({log!r}, "a") as log:
    print(*sys.argv[1:], file=log)
skipped = {{flag[8:].strip("/") for flag in sys.argv if flag.startswith("--glob=!")}}
for path in pathlib.Path(".").rglob("*"):
    if path.is_file() and not path.is_symlink() and not skipped & set(path.parts):
        data = path.read_bytes()
        text = data.decode("utf-16").encode() if data.startswith(b"\\xff\\xfe") else data
        if any(word in text for word in words):
            sys.stdout.buffer.write(b"./" + bytes(path) + b"\\0")
"""
TREE = {
    "a.py": b"one\nneedle 1\nthree\n",
    "a/b.py": b"needle 2\r\n",
    "a.d/c.txt": b"caf\xe9 needle 3\n",
    "wide.txt": "needle 4\n".encode("utf-16"),
    "marked.txt": "needle 5\n".encode("utf-8-sig"),
    ".hidden/x": b"needle 6\n",
    ".gitignore": b"a/\n*.py\n",
    "ignored by nobody.py": b"Needle\nthe ne\xc3\xa9dle\n",
    "binary": b"needle\0",
    ".git/config": b"needle",
    "sub/.git": b"needle",
    "node_modules/x.js": b"needle",
    "empty": b"",
}
PATTERNS = [
    "needle",
    r"needle \d",
    "^needle",
    "need|Need",
    "(?i)needle",
    "n..dle",
    "né",
    "nothing",
    r"\w+ 3$",
    "e{2}dle",
]


@pytest.fixture
def root(root):
    for path, data in TREE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    (root / "link.py").symlink_to("a.py")
    os.mkfifo(root / "pipe")
    return root


@pytest.fixture
def stand_in(tmp_path):
    """A folder with an `rg` that supports only the options we use, and the log of its calls."""
    folder = tmp_path / "bin"
    return put_program(folder, STAND_IN.format(python=sys.executable, log=str(folder / "log")))


def put_program(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "rg").write_text(text)
    (folder / "rg").chmod(0o755)
    return folder


async def both(root, folder, **args):
    """Search without ripgrep and with the one in `folder`."""
    outputs = [await search_files(Workspace(root, {"PATH": each})).run(args) for each in ("", str(folder))]
    return outputs[0].content, outputs[1].content


@pytest.mark.slow
@pytest.mark.parametrize("pattern", PATTERNS)
async def test_a_search_with_ripgrep_returns_the_same(root, stand_in, pattern):
    """RA-4."""
    for more in ({}, {"path": "a"}, {"path": "node_modules"}, {"glob": "*.py"}, {"context_lines": 1}, {"path": "a.py"}):
        without, with_it = await both(root, stand_in, pattern=pattern, **more)
        assert without == with_it
    assert without.startswith("total_matches_found")


@pytest.mark.slow
@needs("rg")
@pytest.mark.parametrize("pattern", PATTERNS)
async def test_a_search_with_the_real_ripgrep_returns_the_same(root, pattern):
    """RA-4."""
    assert REAL is not None
    for more in ({}, {"path": "a"}, {"path": "node_modules"}, {"glob": "*.py"}, {"context_lines": 1}):
        without, with_it = await both(root, Path(REAL).parent, pattern=pattern, **more)
        assert without == with_it


@pytest.mark.parametrize("rg", [pytest.param(REAL, marks=needs("rg")), None])
async def test_only_files_with_the_word_are_opened_in_walk_order(root, stand_in, rg):
    path = Path(rg).parent if rg else stand_in
    found = await candidate_files(Workspace(root, {"PATH": str(path)}), root, re.compile("needle [12]"))
    assert found is not None
    names = [file.relative_to(root).as_posix() for file in found]
    assert names == ["a.py", "marked.txt", "wide.txt", ".hidden/x", "a/b.py", "a.d/c.txt"]


async def test_a_ripgrep_in_the_workspace_is_not_run(root):
    put_program(root / "bin", "#!/bin/sh\nexit 0\n")
    assert await candidate_files(Workspace(root, {"PATH": str(root / "bin")}), root, re.compile("needle")) is None


@pytest.mark.parametrize("program", ["#!/bin/sh\nexit 2\n", "#!/bin/sh\nkill -9 $$\n", "#!/nonexistent\n"])
async def test_a_failing_ripgrep_is_not_used(root, tmp_path, program):
    without, with_it = await both(root, put_program(tmp_path / "bin", program), pattern="needle")
    assert without == with_it
    assert "total_matches_found 6" in without
