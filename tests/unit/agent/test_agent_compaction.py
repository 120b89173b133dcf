"""RA-10: what is still there after a conversation was compacted many times."""

import random  # noqa: TID251 - seeded

import pytest
from inline_snapshot import snapshot

from scaffold.agent.context.call_summary import ToolEffects
from scaffold.agent.context.compaction import compact_messages
from scaffold.agent.context.conversation_window import Conversation
from scaffold.agent.context.text_size import message_size
from scaffold.core.conversation import AssistantMessage, Text, ToolCall, ToolResult, UserMessage

EFFECTS = ToolEffects(reading=frozenset({"read_file", "search_files"}), writing=frozenset({"edit"}))
LIMIT, ABOVE = 50_000, 80_000
"""Bytes: about those of a window of 32,000 tokens."""
TASK = "Make the export of invoices ten times as fast, without another dependency."
FACTS = [
    "the tax rate is read from the database once per line of an invoice",
    "`render_pdf` embeds the font again on every page",
    "the nightly job holds the lock on `ledger` for 40 minutes",
    "exports above 2 GiB wrap around in the 32-bit offset of the index",
    "customers in Ceuta have no VAT number, and `validate()` rejects them",
    "retries are not idempotent: the key lacks the currency",
    "decimal rounding differs between the preview and the printed invoice",
    "we keep CSV as the interchange format and do not touch the XML path",
    "the cache is shared by tenants, because its key has no tenant in it",
    "`LegacyExporter` is still used by the partner portal",
    "the slow query lacks an index on (tenant_id, issued_at)",
    "we batch 500 invoices per transaction and no more, for the replica's sake",
    "file descriptors leak when a template is missing",
    "the test suite passes only in UTC+1",
    "temporary files go to /var/spool/export, which is on the small disk",
    "the logger formats every record even at level WARNING",
    "PDF/A validation fails for images with an alpha channel",
    "the API truncates names after 64 bytes, in the middle of a character",
    "thread pools are created per request in `dispatch.py`",
    "the checksum is computed over the compressed file, not the original",
]
FILLER = (
    "Let me look at the next file.",
    "I run the tests again to see where we are.",
    "That was expected. On to the next one.",
    "Now I search for the callers.",
)


def step(number, said, dice):
    name, content = dice.choice(
        [
            ("read_file", "export.py: total_lines 900\n" + "some line of code\n" * 150),
            ("search_files", "12 matches\n" + "src/export.py:12: match\n" * 60),
            ("shell", f"exit code 0 after 1.0 s\n{'.' * 800}\n{number} passed in 3.2s"),
            (
                "edit",
                f"export.py changed, lines: +1 -1\n@@ -{number} +{number} @@\n-    old_{number}\n+    new_{number}",
            ),
        ]
    )
    args = {"command": "pytest -q"} if name == "shell" else {"path": "export.py"}
    return [
        AssistantMessage((Text(said), ToolCall(f"c{number}", name, args))),
        UserMessage((ToolResult(f"c{number}", name, content),)),
    ]


def worked(how):
    """Work for 500 turns, of which 20 state a fact; return what is shown at the end, and the number of compactions."""
    dice = random.Random(7)
    stated = dict(zip(sorted(dice.sample(range(450), len(FACTS))), FACTS, strict=True))
    conversation, compactions = Conversation([UserMessage((Text(TASK),))]), 0
    for number in range(500):
        said = how.format(stated[number]) if number in stated else dice.choice(FILLER)
        for message in step(number, said, dice):
            conversation.add(message)
        if conversation.size > ABOVE:
            assert conversation.compact(LIMIT, EFFECTS)
            assert conversation.size <= LIMIT
            compactions += 1
    return "\n".join(
        part.text for each in conversation.shown() for part in each.parts if isinstance(part, Text)
    ), compactions


@pytest.mark.parametrize("how", ["Root cause: {}.", "I see now: {}. Next I check the rest.", "**Decision:** {}"])
def test_what_the_model_stated_survives_ten_compactions(how):
    """RA-10"""
    shown, compactions = worked(how)
    assert compactions >= 10
    assert TASK in shown
    assert sum(fact in shown for fact in FACTS) >= 19


def test_results_that_can_be_had_again_go_before_anything_else():
    """RA-10"""
    talk = [UserMessage((Text(TASK),))]
    for number in range(20):
        content = "export.py: total_lines 900\n" + "some line of code\n" * 150
        talk += [
            AssistantMessage((ToolCall(f"c{number}", "read_file", {"path": "export.py"}),)),
            UserMessage((ToolResult(f"c{number}", "read_file", content),)),
        ]
    whole = sum(map(message_size, talk))
    after = compact_messages(talk, "", whole // 2, EFFECTS)
    assert (after.summary, after.dropped) == ("", 0)
    results = [part for message in after.kept for part in message.parts if isinstance(part, ToolResult)]
    assert [len(part.content) > 2_000 for part in results] == [False] * 17 + [True] * 3
    assert results[0].content.splitlines()[-1] == snapshot(
        "some line o ... 2527 bytes were here; call the tool again to see them"
    )


def test_a_summary_keeps_the_diffs_of_files_and_how_commands_ended():
    """RA-10"""
    dice = random.Random(3)
    talk = [UserMessage((Text(TASK),)), *(each for number in range(200) for each in step(number, "Now.", dice))]
    summary = compact_messages(talk, "", 20_000, EFFECTS).summary
    assert "- change: edit `export.py`: export.py changed, lines: +1 -1" in summary
    assert "+    new_1" in summary
    assert "- tool: shell `pytest -q`: exit code 0 after 1.0 s … 1" in summary
