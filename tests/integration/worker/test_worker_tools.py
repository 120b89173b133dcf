"""The tools of a worker: everything in its worktree, and nothing beyond it."""

import re
from pathlib import Path

import pytest

from fakes import RecordingModel, call_entry, cassette_model
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.worker.attempt_records import CandidateReady
from support.harness import act, goal

DELTA = {"operation": "replace", "start_line": 1, "expected": "one", "content": "uno"}


async def worked(harness, *replies, **settings):
    """Run one attempt of a model with these replies; return its outcome, and the requests to the model."""
    run = await harness.own(goal("g", act("a", check="grep -q two a")), **settings)
    attempt = await harness.queue(run, "a")
    model = RecordingModel(cassette_model(*replies))
    ending = await harness.execute(attempt, model)
    return ending, model.requests


def text_of(place):
    return Path(place).read_text()


@pytest.mark.slow
async def test_a_worker_has_files_commands_python_todos_and_a_human_and_no_network(harness):
    """SC-1, RA-4, RA-11, BX-13: no network, no subagents and no messages; it has its own list of todos."""
    turn = (
        ("write_file", {"path": "a", "content": "one\n"}),
        ("append_file", {"path": "a", "content": "two\n"}),
        ("apply_delta", {"path": "a", "operations": [DELTA]}),
        ("python", {"code": "print(open('a').read())"}),
        ("file_info", {"path": "a"}),
        ("TodoWrite", {"todos": [{"content": "check it"}]}),
        ("TodoRead", {}),
    )
    # With `yolo` there would be no questions to a human, and without a sandbox Python needs a rule.
    settings = {"yolo": False, "allow": ("python:*",)}
    ending, requests = await worked(harness, call_entry(1, *turn), CassetteEntry(text="done"), **settings)
    assert isinstance(ending, CandidateReady)
    results = [part for part in requests[1].messages[-1].parts if hasattr(part, "failed")]
    assert [result.name for result in results if result.failed] == []
    assert "uno\ntwo" in results[3].content
    assert [tool.name for tool in requests[0].tools] == [
        *("read_file", "write_file", "edit", "apply_patch", "list_dir"),
        *(
            "glob",
            "search_files",
            "shell",
            "background",
            "python",
            "TodoWrite",
            "ask_human",
            "file_item",
            "remember",
            "recall_memories",
            "request_files",
            "load_tools",
        ),
    ]


@pytest.mark.slow
async def test_long_output_of_a_worker_is_stored_with_its_run(harness):
    """RA-4."""
    long = call_entry(1, ("shell", {"command": "seq 1 30000; echo two > a"}))
    ending, requests = await worked(harness, long, CassetteEntry(text="done"))
    assert isinstance(ending, CandidateReady)
    [result] = [part for part in requests[1].messages[-1].parts if hasattr(part, "failed")]
    place = re.search(rf"{re.escape(str(harness.context.cache))}/runs/.+/outputs/.+\.txt", result.content)
    assert place is not None
    assert "\n15000\n" in text_of(place[0])
