import json
import os
import sys
from itertools import accumulate

import pytest
from inline_snapshot import snapshot

from scaffold.tools.arguments import argument_problems
from scaffold.tools.command.user_tools import MAX_PARALLEL_LOADS, UserToolEnv, load_user_tools
from scaffold.tools.workspace import Workspace


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "töols"
    folder.mkdir()
    return folder


@pytest.fixture
def load(root, folder, tmp_path):
    bench = UserToolEnv(Workspace(root, {"PATH": os.environ["PATH"]}), packages=tmp_path / "packages", load_time_s=2)

    async def load(taken=(), **files):
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        made = await load_user_tools(bench, folder, taken=taken)
        return {tool.name: tool for tool in made.tools}, made.notices

    return load


CROWDED = """
import time
with open({log!r}, "a") as log:
    print("in", file=log, flush=True)
    time.sleep(0.3)
    print("out", file=log, flush=True)
"""


@pytest.mark.slow
async def test_the_number_of_files_loaded_at_once_is_limited(root, folder, tmp_path):
    log = tmp_path / "log"
    for n in range(3 * MAX_PARALLEL_LOADS):
        (folder / f"file{n}.py").write_text(CROWDED.format(log=str(log)))
    await load_user_tools(UserToolEnv(Workspace(root, {"PATH": os.environ["PATH"]})), folder, taken=())
    steps = [1 if word == "in" else -1 for word in log.read_text().split()]
    assert len(steps) == 6 * MAX_PARALLEL_LOADS
    assert max(accumulate(steps)) <= MAX_PARALLEL_LOADS


FORECAST = '''
"""Weather."""
from __future__ import annotations
import os
from typing import Literal, Optional
from os.path import join

def forecast(city: str, days: int = 1, unit: Literal["C", "F"] = "C", tags: Optional[list[str]] = None,
             *, exact: bool = False, scale: float = 1.0, more: dict | None = None) -> dict:
    """Tell the weather
    of a city.

    Args:
        city: Its name.
        days (int): How many.
    """
    print("asking", city)
    return {"city": city, "days": days, "at": os.getcwd(), "tags": tags}

async def later(text: str) -> str:
    """Say it later.

    :param text: What is said.
    """
    return text

def _hidden(x: int) -> int:
    """Not a tool."""

class Thing:
    """Not a function."""
'''


async def test_a_typed_and_documented_function_becomes_a_tool(load, root):
    """RA-4."""
    tools, notices = await load(forecast=FORECAST)
    assert list(tools) == ["forecast", "later"]
    assert notices == ()
    tool = tools["forecast"]
    assert tool.description == snapshot("Tell the weather of a city.")
    assert tool.category == "python"
    assert tool.schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its name."},
            "days": {"type": "integer", "description": "How many."},
            "unit": {"type": "string", "enum": ["C", "F"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "exact": {"type": "boolean"},
            "scale": {"type": "number"},
            "more": {"type": "object"},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    args = {"city": "Köln", "tags": ["a"]}
    assert argument_problems(tool, args) is None
    output = await tool.run(args)
    result, *printed = output.content.splitlines()
    assert json.loads(result) == {"city": "Köln", "days": 1, "at": str(root), "tags": ["a"]}
    assert printed == ["--- printed", "asking Köln"]
    assert tools["later"].schema["properties"]["text"]["description"] == "What is said."
    assert (await tools["later"].run({"text": "ö"})).content == "ö"


async def test_nothing_of_a_tool_file_is_imported_into_our_process(load, tmp_path):
    code = f"import os\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\n"
    text = f"{code}def f() -> int:\n    'Give.'\n    return 1\n"
    tools, _ = await load(handmade_probe=text)
    assert "handmade_probe" not in sys.modules
    assert (tmp_path / "pid").read_text() != str(os.getpid())
    assert (await tools["f"].run({})).content == "1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(:\n", "loading failed (SyntaxError"),
        ("1 / 0\n", "loading failed (ZeroDivisionError"),
        ("import nothing_like_this\n", "loading failed (ModuleNotFoundError"),
        ("raise SystemExit\n", "do not exit at import"),
        ("import os; os._exit(3)\n", "loading failed (exit code 3 after"),
        ("while True: pass\n", "more than 2 s"),
        ("def f(x: int): return 1\n", "f has no docstring"),
        ("def f(x):\n    'Do.'\n", "has no type annotation for `x`"),
        ("def f(x: complex):\n    'Do.'\n", "type <class 'complex'>"),
        ("def f(x: 'Nowhere'):\n    'Do.'\n", "'Nowhere' is not defined"),
        ("def f(*x: int):\n    'Do.'\n", "name each parameter"),
        ("def shell(x: int):\n    'Do.'\n", "already a tool `shell`"),
        ("def good(x: int):\n    'Do.'\n", "already a tool `good`"),
        ("def größe(x: int):\n    'Do.'\n", "is not a valid tool name"),
    ],
)
async def test_a_broken_file_is_reported_and_does_not_affect_the_others(load, folder, text, said):
    """RA-4."""
    tools, notices = await load(taken={"shell"}, a="def good() -> int:\n    'Good.'\n    return 1\n", broken=text)
    assert list(tools) == ["good"]
    assert len(notices) == 1
    assert notices[0].startswith(f"{folder / 'broken.py'}: ")
    assert said in notices[0]


async def test_a_call_that_raises_is_a_failed_result_with_its_traceback(load):
    tools, _ = await load(a="def f(x: int) -> int:\n    'Divide.'\n    return 1 // x\n")
    output = await tools["f"].run({"x": 0})
    assert output.failed
    assert "ZeroDivisionError" in output.content
    assert "return 1 // x" in output.content
    assert (await tools["f"].run({"x": 1})).content == "1"


async def test_a_file_may_import_its_neighbours_and_installed_packages(load, folder, tmp_path):
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "extra.py").write_text("x = 3")
    (folder / "_shared.py").write_text("y = 4")
    tools, notices = await load(
        a="import extra, _shared\ndef f() -> int:\n    'Add.'\n    return extra.x + _shared.y\n"
    )
    assert notices == ()
    assert (await tools["f"].run({})).content == "7"


async def test_without_a_folder_there_are_no_tools(root, tmp_path):
    made = await load_user_tools(UserToolEnv(Workspace(root, {})), tmp_path / "none", taken=())
    assert made.tools == made.notices == ()


async def test_a_generator_function_is_no_tool(load):
    """RA-4: its answer would be the name of a generator."""
    yields = (
        'def many() -> list:\n    """Count."""\n    yield 1\n',
        'async def many() -> list:\n    """Count."""\n    yield 1\n',
    )
    for text in yields:
        tools, notices = await load(count=text)
        assert tools == {}
        assert "many yields; return a list" in notices[0]
