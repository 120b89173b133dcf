import json
from datetime import UTC, datetime

from fakes import ECHO, JournalList, agent, call_entry, cassette_model
from scaffold.agent.journal import JournalFile, approval_logger
from scaffold.host.contained_path import ContainedPath
from scaffold.llm.cassette_model import CassetteEntry
from scaffold.policy.permission.approval_gate import ApprovalGate
from scaffold.policy.rule.ruleset import RuleSet
from scaffold.policy.shell.command_policy import ShellCommandPolicy
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from support.fake_clock import FakeClock


def test_a_journal_is_one_object_per_line_with_time_type_and_common_fields(tmp_path):
    clock = FakeClock(datetime(2024, 5, 1, 12, tzinfo=UTC))
    path = tmp_path / "logs" / "store.jsonl"
    journal = JournalFile(
        ContainedPath(tmp_path, "logs/store.jsonl"), clock=clock, fields={"action": "store", "attempt": 2}
    )
    journal.note("prompt", text="two\nlines ö")
    clock.advance(1.5)
    journal.note("tool_call", id="call-1-1", name="shell", args={"command": "ls"})
    first, second = [json.loads(line) for line in path.read_text().splitlines()]
    assert first == {
        "ts": "2024-05-01T12:00:00Z",
        "type": "prompt",
        "action": "store",
        "attempt": 2,
        "text": "two\nlines ö",
    }
    assert second["ts"] == "2024-05-01T12:00:01.500000Z"
    assert second["args"] == {"command": "ls"}


def test_two_journals_share_a_file_without_losing_lines(tmp_path):
    path = tmp_path / "store.jsonl"
    for attempt in (1, 2):
        JournalFile(ContainedPath(tmp_path, path.name), clock=FakeClock(), fields={"attempt": attempt}).note(
            "notice", text="begun"
        )
    assert [json.loads(line)["attempt"] for line in path.read_text().splitlines()] == [1, 2]


async def test_a_decision_of_the_approval_gate_is_an_entry(tmp_path):
    """RA-13: approvals are written down."""
    journal = JournalList()
    gate = ApprovalGate(
        RuleSet(),
        workspace=WorkspacePaths.on_disk(tmp_path, tmp_path),
        clock=FakeClock(),
        tell=approval_logger(journal),
        shell=ShellCommandPolicy,
    )
    model = cassette_model(call_entry(1, ("echo", {"text": "a"})), CassetteEntry(text="so be it"))
    await agent(model, gate.guard(ECHO), journal=journal).turn("go")
    kinds = [entry["type"] for entry in journal.entries]
    assert kinds == ["prompt", "tool_call", "usage", "approval", "tool_result", "text", "usage"]
    approval = journal.entries[3]
    assert {key: approval[key] for key in ("tool", "category", "decision", "rule")} == {
        "tool": "echo",
        "category": "file_write",
        "decision": "deny",
        "rule": "category",
    }
    assert approval["reason"]
