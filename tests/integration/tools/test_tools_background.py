"""Commands in the background, with real processes."""

import asyncio
import os
import re

import pytest
from inline_snapshot import snapshot

from scaffold.host.process_identity import identify
from scaffold.tools.command.background_commands import MAX_RUNNING, BackgroundCommands, BackgroundLimits, background
from scaffold.tools.command.shell import shell
from scaffold.tools.workspace import MAX_ANSWER_CHARS, Workspace


@pytest.fixture
async def agent(tmp_path):
    """Call the two tools by name; what still runs is ended."""
    commands = BackgroundCommands(tmp_path / "outputs", BackgroundLimits(output_bytes=200_000, term_grace_s=0.5))
    workspace = Workspace(tmp_path, {"PATH": os.environ["PATH"]})
    tools = {"shell": shell(workspace, None, commands), "background": background(commands)}

    async def call(name, **args):
        return await tools[name].run(args)

    call.commands = commands
    yield call
    await commands.end_all()


async def started(agent, command):
    answer = await agent("shell", command=command, background=True)
    return re.match(r"bg-\d+", answer.content)[0]


async def until(agent, name, words):
    """Wait until the command has printed the words."""
    async with asyncio.timeout(60):
        while words not in (await agent("background", id=name)).content:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.01)


async def first_number(agent, name):
    """Return the number in the first line that the command prints."""
    await until(agent, name, "--- output\n")
    return int((await agent("background", id=name)).content.partition("--- output\n")[2].splitlines()[0])


async def test_a_command_in_the_background_is_read_while_it_runs_and_awaited(agent, tmp_path):
    """RA-4: its output in order, from any byte on, and in the end its exit code and time."""
    os.mkfifo(tmp_path / "gate")
    name = await started(agent, "echo one; echo two >&2; printf half; cat gate; echo; exit 3")
    await until(agent, name, "two")
    seen = (await agent("background", id=name)).content
    assert re.fullmatch(r"running for [\d.]+ s; next offset 8, 4 bytes more\n--- output\none\ntwo", seen), (
        "the line that is not complete is left out"
    )
    assert re.fullmatch(rf"{name}: running for [\d.]+ s", (await agent("background")).content)
    await asyncio.to_thread((tmp_path / "gate").write_text, "way")
    end = await agent("background", id=name, wait_s=60, offset=8)
    assert re.fullmatch(r"exit code 3 after [\d.]+ s; next offset 16\n--- output\nhalfway", end.content)
    assert not any(path.is_file() for path in (tmp_path / "outputs").iterdir()), "no file stays for others to read"


async def test_a_command_is_stopped_with_sigterm_and_then_with_all_that_it_started(agent):
    """RA-4: what handles SIGTERM may clean up; what ignores it is killed."""
    name = await started(agent, "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done")
    await until(agent, name, "ready")
    end = (await agent("background", id=name, stop=True)).content
    assert end.startswith("stopped: exit code 0 after ")
    assert end.endswith("\nbye")
    name = await started(agent, "trap '' TERM; (trap '' TERM; exec sleep 600) & echo $!; wait")
    child = await first_number(agent, name)
    end = (await agent("background", id=name, stop=True)).content
    assert end.startswith("stopped: it was killed with all that it started; next offset ")
    assert identify(child) is None
    again = (await agent("background", id=name, stop=True)).content
    assert again == end, "a second stop changes nothing"


async def test_all_end_with_the_agent(agent):
    """RA-4."""
    process = await first_number(agent, await started(agent, "echo $$; exec sleep 600"))
    await agent.commands.end_all()
    assert identify(process) is None


async def test_only_so_many_run_at_once(agent):
    for _ in range(MAX_RUNNING):
        await started(agent, "sleep 600")
    refused = await agent("shell", command="true", background=True)
    assert refused.failed
    assert "bg-1, " in refused.content
    await agent("background", id="bg-1", stop=True)
    assert await started(agent, "true") == "bg-9"


async def test_output_beyond_the_limit_is_lost_and_that_is_said(agent):
    name = await started(agent, "yes | head -c 300000")
    end = (await agent("background", id=name, wait_s=60, offset=199_996)).content
    assert end.split("\n")[1:] == snapshot(["output after the first 200000 bytes was not kept", "--- output", "y", "y"])


async def test_a_long_output_is_read_in_pages(agent):
    """RA-4."""
    name = await started(agent, "seq 1 20000")
    await agent("background", id=name, wait_s=60)
    offset, lines = 0, []
    while True:
        page = (await agent("background", id=name, offset=offset)).content
        assert len(page) < MAX_ANSWER_CHARS + 200
        offset = int(re.search(r"next offset (\d+)", page)[1])
        lines += page.partition("--- output\n")[2].splitlines()
        if "bytes more" not in page:
            break
    assert lines == [str(number) for number in range(1, 20_001)]


async def test_a_command_that_cannot_start_says_why(agent):
    name = await started(agent, "exec /nowhere/at/all")
    assert "/nowhere/at/all" in (await agent("background", id=name, wait_s=60)).content
    unknown = await agent("background", id="bg-7")
    assert unknown.failed
    assert "'bg-7'" in unknown.content
    assert (await agent("background")).content.startswith("bg-1: exit code 127 after ")


async def test_without_background_commands_there_is_no_such_argument(tmp_path):
    tool = shell(Workspace(tmp_path, {"PATH": os.environ["PATH"]}))
    assert "background" not in tool.schema["properties"]
