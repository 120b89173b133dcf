import os
from itertools import product

import pytest

from scaffold.agent.toolbox import OTHER_NAMES
from scaffold.git.client.command_line import Git
from scaffold.tools.arguments import argument_problems
from scaffold.tools.catalog import all_tools, builtin_tools
from scaffold.tools.read_cache import is_read_only
from scaffold.tools.todos import Todos
from scaffold.tools.web.http import web_fetch
from scaffold.tools.workspace import Workspace


@pytest.fixture
def tools(tmp_path):
    workspace = Workspace(tmp_path, {"PATH": os.environ["PATH"]})
    folders = {"packages": tmp_path / "packages", "outputs": tmp_path / "outputs"}
    return all_tools(workspace, fetch=web_fetch().run, todos=Todos(), **folders)


def test_all_tools_have_the_names_arguments_and_categories_used_by_cassettes_and_rules(tools):
    """RA-4, RA-5."""
    assert {tool.name: (tool.category, list(tool.schema["properties"])) for tool in tools} == {
        "read_file": ("file_read", ["path", "start_line", "end_line"]),
        "write_file": ("file_write", ["path", "content"]),
        "append_file": ("file_write", ["path", "content"]),
        "edit": ("file_write", ["path", "old", "new", "replace_all"]),
        "apply_delta": ("file_write", ["path", "operations"]),
        "apply_patch": ("file_write", ["input"]),
        "list_dir": ("file_read", ["path"]),
        "glob": ("file_read", ["pattern", "path"]),
        "search_files": ("file_read", ["pattern", "path", "glob", "context_lines", "max_matches"]),
        "file_info": ("file_read", ["path"]),
        "shell": ("shell", ["command", "timeout_s"]),
        "python": ("python", ["code", "timeout_s"]),
        "web_fetch": ("network", ["url", "max_chars"]),
        "pip_list": ("file_read", ["name"]),
        "pip_install": ("network", ["packages"]),
        "TodoWrite": ("memory", ["todos", "action"]),
        "TodoRead": ("memory", ["status", "priority"]),
    }


def test_names_of_other_agents_lead_to_tools_that_exist(tools):
    """RA-4; `subagent` is a tool of the session."""
    assert set(OTHER_NAMES) - {tool.name for tool in tools} == {"subagent"}


def test_the_first_tools_are_the_built_in_ones_unchanged(tools, tmp_path):
    few = builtin_tools(Workspace(tmp_path, {"PATH": os.environ["PATH"]}))
    result = [[(tool.name, tool.description, tool.schema) for tool in each] for each in (few, tools[: len(few)])]
    assert result[0] == result[1]


def test_read_only_tools_are_marked_as_such(tools):
    """RA-19: these may run concurrently."""
    reading = {"read_file", "list_dir", "glob", "search_files", "file_info", "web_fetch", "pip_list", "TodoRead"}
    assert {tool.name for tool in tools if is_read_only(tool)} == reading


async def test_every_tool_documents_its_arguments_and_none_raises_for_unusual_ones(tools):
    for tool, odd in product(tools, ("", "\0", "..", "/", "x" * 5000, "\ud800", "a/" * 3000)):
        if tool.schema["required"]:
            assert f"{tool.name} needs" in (argument_problems(tool, {}) or "")
        args = {name: odd for name in tool.schema["required"] if tool.schema["properties"][name]["type"] == "string"}
        lists = {name: [] for name in tool.schema["required"] if name not in args}
        if not argument_problems(tool, args | lists):
            await tool.run(args | lists)


async def test_a_new_file_that_git_ignores_is_named_with_its_rule(tmp_path):
    """BX-30: by the tool that writes it, with file and line; a tracked file is none."""
    root, home = tmp_path / "repo", tmp_path / "home"
    for path, text in {
        "repo/.gitignore": "# built\n*.log\n!kept.log\n",
        "repo/sub/.gitignore": "gen/\n",
        "repo/sub/gen/tracked": "",
        "home/.config/git/ignore": "lib/\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    for words in (["init", "-q"], ["add", "-f", "."]):
        await Git(root, environ=environ)(*words)
    tools = {tool.name: tool.run for tool in builtin_tools(Workspace(root, environ))}

    async def said(path, tool="write_file", **args):
        return (await tools[tool]({"path": path, "content": "x\n"} | args)).content.partition("Git ignores ")[2]

    assert await said("a.log") == "a.log (`*.log` in .gitignore, line 2): it is not part of what is committed."
    assert await said("sub/gen/x.py", "append_file") == (
        "sub/gen/x.py (`gen/` in sub/.gitignore, line 1): it is not part of what is committed."
    )
    assert (await said("lib/y.py")).startswith(f"lib/y.py (`lib/` in {home}/.config/git/ignore, line 1)")
    assert [await said(path) for path in ("a.log", "kept.log", "sub/gen/tracked", ":(top)z")] == [""] * 4
    patch = "*** Begin Patch\n*** Add File: lib/n.py\n+n\n*** Add File: m.py\n+m\n*** End Patch"
    output = await tools["apply_patch"]({"input": patch})
    assert "Git ignores lib/n.py" in output.content
    assert "Git ignores m.py" not in output.content
    outside = {tool.name: tool.run for tool in builtin_tools(Workspace(tmp_path, environ))}
    assert "created" in (await outside["write_file"]({"path": "q.log", "content": ""})).content
