"""Plugins as real processes: what the protocol says, and what becomes of those that break it."""

import asyncio
import contextlib
import os
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.core.tool import ToolOutput
from scaffold.extensions.plugins.loaded import PluginPlace, load_plugins
from scaffold.extensions.plugins.turn_hooks import Discarded
from support.plugins import place, place_plugin, place_program
from support.scenario import wait_until

HOOKS = ("post_user_input", "context_enhance", "pre_llm_send", "post_llm_response", "pre_tool_execute")
TOOL = {"name": "add", "schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "plugins"
    found.mkdir()
    return found


@asynccontextmanager
async def loaded(folder, environ=os.environ):
    """Yield the plugins of a folder and the lines that were told; end them."""
    told = []
    place = PluginPlace(folder=folder, cwd=folder.parent, environ=environ, sandbox=None)
    found = await load_plugins(place, {"session": "s"}, told.append)
    try:
        yield found, told
    finally:
        await found.close()


def states(found):
    return {plugin.file.stem: plugin.state for plugin in found.plugins}


def processes_of(folder):
    """Return the living processes whose command names this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
    return found


async def test_only_executable_files_of_the_user_alone_are_plugins(folder):
    """RA-16: no symbolic links, no hidden files; nobody else may change a plugin."""
    good = place_plugin(folder, "good")
    place(folder, ".hidden", good.read_text())
    place(folder, "notes.txt", "no program", mode=0o644)
    place(folder, "shared", good.read_text(), mode=0o775)
    (folder / "link").symlink_to(good)
    (folder / "folder").mkdir()
    async with loaded(folder) as (found, told):
        assert states(found) == {"good": "running"}
    assert told == snapshot(
        [
            "plugin link does not run: it is a symbolic link; copy the program itself there",
            "plugin shared does not run: it can be changed by others; forbid that (`chmod go-w`)",
        ]
    )


async def test_hooks_run_in_the_order_of_priorities_and_a_stop_ends_the_chain(folder):
    """RA-16: the lower runs first, 500 by default."""
    place_plugin(folder, "a-late", 'answer(request, {"text": params["text"] + " late"})', hooks=HOOKS, priority=900)
    place_plugin(folder, "b-default", 'answer(request, {"text": params["text"] + " default"})', hooks=HOOKS)
    place_plugin(
        folder,
        "c-early",
        'stops = method == "hook/post_llm_response"\n'
        'answer(request, {"action": "stop" if stops else "continue", "text": params["text"] + " early"})',
        hooks=HOOKS,
        priority=1,
    )
    async with loaded(folder) as (found, told):
        assert [plugin.manifest.name for plugin in found.plugins] == ["c-early", "b-default", "a-late"]
        assert await found.hooks.user_input("x") == "x early default late"
        assert await found.hooks.reply("x", {}) == "x early"
    assert told == []


@pytest.mark.parametrize(("action", "refused"), [("stop", True), ("skip", False)])
async def test_a_message_is_discarded_by_stop_and_by_skip(folder, action, refused):
    """RA-16: stop refuses the input, skip drops it."""
    place_plugin(folder, "one", f'answer(request, {{"action": "{action}", "reason": "no"}})', hooks=HOOKS)
    async with loaded(folder) as (found, _):
        assert await found.hooks.user_input("x") == Discarded("one", "no", refused=refused)


async def test_context_accumulates_whatever_the_plugins_say(folder):
    """RA-16: no plugin can stop another one's context."""
    for name, action in (("one", "stop"), ("two", "skip"), ("three", "continue")):
        respond = f'answer(request, {{"action": "{action}", "context": "from {name}"}})'
        place_plugin(folder, name, respond, hooks=["context_enhance"])
    async with loaded(folder) as (found, told):
        context = await found.hooks.context({})
    assert sorted(context.split("\n\n")) == ["from one", "from three", "from two"]
    assert told == []


async def test_a_call_is_stopped_with_the_result_that_the_plugin_gives(folder):
    """RA-16: stop of pre_tool_execute is the call's result; skip is only for the user's input, and told once."""
    respond = (
        'shell = params["tool"] == "shell"\n'
        'answer(request, {"action": "stop", "result": "use make"} if shell else {"action": "skip"})'
    )
    place_plugin(folder, "one", respond, hooks=HOOKS)
    async with loaded(folder) as (found, told):
        assert await found.hooks.before_tool("shell", {}) == ToolOutput("use make", failed=True)
        assert await found.hooks.before_tool("read_file", {}) is None
        assert await found.hooks.before_tool("read_file", {}) is None
    assert told == snapshot(["plugin one: pre_tool_execute: only post_user_input can be skipped"])


async def test_a_tool_has_the_name_of_its_plugin_and_counts_as_one_that_may_change_things(folder):
    """RA-16: `plugin_<name>_<tool>`; what the plugin says of being read-only is not believed."""
    respond = 'answer(request, {"success": params["arguments"]["a"] > 0, "result": "\\x1b[31m" + params["name"]})'
    place_plugin(folder, "one", respond, tools=[{**TOOL, "read_only": True, "annotations": {"readOnlyHint": True}}])
    async with loaded(folder) as (found, _):
        (tool,) = found.tools
        assert (tool.name, tool.category, tool.read_only, tool.sandboxed) == ("plugin_one_add", "plugin", False, False)
        assert await tool.run({"a": 1}) == ToolOutput("\\x1b[31madd")
        assert await tool.run({"a": 0}) == ToolOutput("\\x1b[31madd", failed=True)


async def test_calls_are_serialised_and_an_interrupted_one_confuses_no_later_one(folder):
    """RA-16: one request at a time; after Ctrl-C the next answer is that to the next request."""
    respond = 'time.sleep(0.05)\nanswer(request, {"success": True, "result": str(params["arguments"]["a"])})'
    place_plugin(folder, "one", respond, tools=[TOOL])
    async with loaded(folder) as (found, told):
        (tool,) = found.tools
        interrupted = asyncio.create_task(tool.run({"a": 0}))
        await asyncio.sleep(0.01)
        interrupted.cancel()
        answers = [asyncio.create_task(tool.run({"a": number})) for number in range(1, 6)]
        assert [(await answer).content for answer in answers] == ["1", "2", "3", "4", "5"]
    assert told == []


async def test_the_second_plugin_of_a_name_is_ended(folder):
    """RA-16: duplicates are killed; one that takes the name of another one's file does not take its place."""
    good = place_plugin(folder, "good").read_text()
    for name in ("a-liar.py", "z-liar.py"):
        place(folder, name, good)
    async with loaded(folder) as (found, told):
        assert states(found) == {"good": "running", "a-liar": "rejected", "z-liar": "rejected"}
    assert told == snapshot(
        [
            "plugin good does not run: good.py has this name; a-liar.py cannot have the same",
            "plugin good does not run: good.py has this name; z-liar.py cannot have the same",
        ]
    )


async def test_a_plugin_gets_no_secret_of_our_environment(folder):
    """RA-16, RA-14: neither keys nor the passwords of a proxy."""
    respond = 'answer(request, {"context": " ".join(sorted(os.environ))})'
    place_plugin(folder, "one", respond, hooks=["context_enhance"])
    given = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": "k", "HTTPS_PROXY": "http://me:pw@proxy", "MY_TOKEN": "t"}
    async with loaded(folder, given) as (found, _):
        names = await found.hooks.context({})
    assert "PATH" in names.split()
    assert not {"ANTHROPIC_API_KEY", "HTTPS_PROXY", "MY_TOKEN"} & set(names.split())


BAD_NAMES = ["", "a" * 65, "a_b", "a/b", "a\\b", "a\x1b[31m", "a\nb"]
BAD_MANIFESTS = [
    *({"name": name} for name in BAD_NAMES),
    {},
    {"name": 1},
    {"name": "x", "hooks": ["pre_world_end"]},
    {"name": "x", "hooks": "post_user_input"},
    {"name": "x", "priority": "high"},
    {"name": "x", "tools": [{"name": "a b"}]},
    {"name": "x", "tools": [{"name": ""}]},
    {"name": "x", "tools": [{"name": "a"}, {"name": "a"}]},
    {"name": "x", "tools": [{"name": "a"}] * 51},
    {"name": "x", "tools": [{"name": "a", "schema": {"type": "array"}}]},
    {"name": "x", "tools": [{"name": "a", "schema": {"properties": {"a" * 65: {}}}}]},
    {"name": "x", "tools": [{"name": "a", "schema": {"properties": {str(n): {} for n in range(101)}}}]},
]


async def test_a_plugin_with_an_invalid_manifest_does_not_run_and_costs_one_line(folder):
    """RA-16: names, hooks, tools and schemas are checked; no process stays."""
    for number, manifest in enumerate(BAD_MANIFESTS):
        body = f"answer(read(), {manifest!r})\ntime.sleep(60)\n"
        place_program(folder, f"bad{number:02}", body)
    async with loaded(folder) as (found, told):
        assert set(states(found).values()) == {"rejected"}
        assert len(told) == len(BAD_MANIFESTS)
        assert all(line.isprintable() and " does not run: " in line for line in told), told
    assert processes_of(folder) == []


BROKEN = {
    "dies at once": ("sys.exit(3)", "exit code 3"),
    "dies of a signal": ("os.kill(os.getpid(), 9)", "signal 9"),
    "says why it dies": ("sys.exit('no config\\x1b[2J')", "no config\\x1b[2J"),
    "writes no JSON": ("write(b'hello\\n')", "no JSON-RPC message"),
    "writes a batch": ("write(b'[]\\n')", "no JSON-RPC message"),
    "writes NaN": ('write(b\'{"jsonrpc":"2.0","id":NaN,"result":{}}\\n\')', "no JSON-RPC message"),
    "nests deeply": (
        'write(b\'{"jsonrpc":"2.0","id":1,"result":\' + b\'[\' * 100000 + b\'\\n\')',
        "no JSON-RPC message",
    ),
    "invents numbers": ("answer({'id': 7}, {})", "number 7"),
    "answers twice": ("answer(read(), MANIFEST); answer({'id': 1}, {})", "number 1"),
    "numbers by text": ("answer({'id': '1'}, {})", "without the number"),
    "says both": ('write(b\'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}\\n\')', "exactly one"),
    "writes too long a message": ("write(b' ' * (10 * 2**20 + 1))", "more than 10 MB"),
    "floods its output": (
        'line = b\'{"jsonrpc":"2.0","method":"log"}\\n\' * 9999\nwhile 1: write(line)',
        "without being asked",
    ),
    "floods its errors": ("while 1: os.write(2, b'x' * 65536)", "without being asked"),
    "refuses to begin": ('write(b\'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no\\\\nway"}}\\n\')', "no way"),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", BROKEN)
async def test_a_plugin_that_breaks_the_protocol_costs_one_line(folder, how):
    """RA-16: whatever it does, it is ended with all that it started, and others go on."""
    body, reason = BROKEN[how]
    place_program(folder, "bad", f"MANIFEST = {{'name': 'bad'}}\n{body}\ntime.sleep(60)\n")
    place_plugin(folder, "good", 'answer(request, {"text": "still here"})', hooks=["post_user_input"])
    async with loaded(folder) as (found, told):
        assert await asyncio.to_thread(wait_until, lambda: told)
        assert await found.hooks.user_input("x") == "still here"
        (line,) = told
        assert line.startswith("plugin bad ")
        assert reason in line
        assert line.isprintable()
    assert processes_of(folder) == []


IN_THE_MIDDLE = {
    "hangs": "time.sleep(60)",
    "dies": "sys.exit(1)",
    "sends half a frame": "write(b'{\"jsonrpc\":')\ntime.sleep(60)",
    "answers something else": "answer({'id': 99}, {})",
}


@pytest.mark.parametrize("how", IN_THE_MIDDLE)
async def test_a_plugin_that_fails_in_the_middle_changes_nothing_and_is_asked_no_more(folder, how):
    """RA-16: the timeout is 5 s, here it is shorter; crash detection; the tool of a dead plugin says so."""
    place_plugin(folder, "bad", IN_THE_MIDDLE[how], hooks=HOOKS, tools=[TOOL])
    async with loaded(folder) as (found, told):
        (plugin,), (tool,) = found.plugins, found.tools
        call, waits = plugin.call, [0.3]
        plugin.call = lambda method, params: call(method, params, answer_s=waits.pop() if waits else 3600)
        assert await found.hooks.user_input("x") == "x"
        async with asyncio.timeout(20):
            assert await found.hooks.user_input("x") == "x"
            output = await tool.run({"a": 1})
        assert output.failed
        assert [line.split(":")[0] for line in told] == snapshot(
            ["plugin bad has ended, and the session goes on without it"]
        )
    assert processes_of(folder) == []


async def test_a_plugin_that_reads_nothing_holds_nothing_up(folder):
    """RA-16: a request that it does not read counts as not answered."""
    place_plugin(folder, "bad", hooks=["post_user_input"])
    text = (folder / "bad.py").read_text().replace("while True:", "while time.sleep(60) is None:")
    (folder / "bad.py").write_text(text)
    async with loaded(folder) as (found, told):
        (plugin,) = found.plugins
        result = await plugin.call("hook/post_user_input", {"text": "x" * 9_000_000}, answer_s=0.3)
        assert "did not answer" in result.reason
        assert len(told) == 1
    assert processes_of(folder) == []


async def test_invalid_answers_are_told_once_and_change_nothing(folder):
    """RA-16: an answer of the wrong shape, and an error, leave everything as it was; the plugin goes on."""
    place_plugin(
        folder,
        "odd",
        'if method == "hook/pre_llm_send":\n'
        '    error = {"jsonrpc": "2.0", "id": request["id"], "error": {"message": "not today"}}\n'
        '    write(json.dumps(error).encode() + b"\\n")\n'
        "else:\n"
        '    answer(request, {"action": "explode", "text": 7})',
        hooks=HOOKS,
    )
    async with loaded(folder) as (found, told):
        for _ in range(3):
            assert await found.hooks.user_input("x") == "x"
            assert await found.hooks.system_prompt("be good", {}) == "be good"
        assert states(found) == {"odd": "running"}
    assert ["pre_llm_send" in line for line in told] == [False, True]
    assert "not today" in told[1]


async def test_what_a_plugin_says_is_bounded_and_printable(folder):
    """RA-16: no terminal escapes, no text without end."""
    place_plugin(folder, "long", 'answer(request, {"context": "\\x1b]0;x" + "y" * 1000000})', hooks=HOOKS)
    async with loaded(folder) as (found, _):
        context = await found.hooks.context({})
    assert len(context) < 20_100
    assert "\x1b" not in context


@pytest.mark.slow
async def test_what_a_plugin_started_ends_with_it(folder):
    """RA-16: SIGTERM, then SIGKILL, to all of its processes; also one that ignores both requests to end."""
    place_program(
        folder,
        "family",
        "import signal, subprocess\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)  # {folder}'], start_new_session=True)\n"
        "answer(read(), {'name': 'family'})\n"
        "time.sleep(60)\n",
    )
    async with loaded(folder) as (found, _):
        assert states(found) == {"family": "running"}
        # The second one has only just been started.
        assert await asyncio.to_thread(wait_until, lambda: len(processes_of(folder)) == 2)
    assert processes_of(folder) == []
