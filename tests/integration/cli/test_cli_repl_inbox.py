"""The inbox in the REPL: what waits is shown and decided without leaving the conversation."""

from datetime import timedelta

import pytest

from scaffold.cli.repl.orchestrator_profile import NOTHING, decide, inbox_text
from scaffold.core.errors import IllegalTransition, UsageError
from scaffold.core.model import InboxItem
from support.harness import act, goal


async def waiting(harness, kind, detail, **fields):
    run = await harness.own(goal("g", act("a")))
    now = harness.context.clock.now()
    item = InboxItem(
        id=f"{kind}-1", run_id=run.id, action_id=harness.action(run, "a").id, kind=kind, text="Which word?",
        detail=detail, created_at=now, **fields,
    )  # fmt: skip
    with harness.store.transaction():
        harness.store.inbox.ask(item)
    return item


async def test_a_question_is_shown_with_its_kind_and_answered(harness):
    """AL-17, BX-13: inline."""
    item = await waiting(harness, "question", {"question": "Which word?", "options": ["one"], "kind": "confirming"})
    shown = await inbox_text(harness.context)
    assert f"question (confirming) {item.id}: a" in shown
    assert "/answer ID TEXT" in shown
    assert decide(harness.context, "answer", [item.id, "the", "first"]) == f"answered {item.id}: Which word?"
    assert harness.store.inbox.get(item.id).answer == "the first"
    assert await inbox_text(harness.context) == NOTHING


@pytest.mark.parametrize(("word", "state"), [("approve", "approved"), ("reject", "rejected")])
async def test_an_approval_is_decided_once_with_its_reason(harness, word, state):
    """AL-22, BX-13: of two who answer, the second is told."""
    item = await waiting(harness, "approval", {"tool": "shell"})
    assert decide(harness.context, word, [item.id, "because"]).startswith(f"{state} {item.id}")
    assert harness.store.inbox.get(item.id).answer == "because"
    assert decide(harness.context, word, [item.id]) == f"approval {item.id} was already {state}"
    other = "reject" if word == "approve" else "approve"
    with pytest.raises(IllegalTransition, match="already"):
        decide(harness.context, other, [item.id])


async def test_an_answer_to_an_expired_question_is_refused_with_what_to_do(harness):
    """AL-17."""
    past = harness.context.clock.now() - timedelta(days=1)
    item = await waiting(harness, "question", {"question": "Which word?"}, expires_at=past)
    with pytest.raises(IllegalTransition) as refused:
        decide(harness.context, "answer", [item.id, "one"])
    assert "scaffold resume" in refused.value.fix


async def test_bad_input_is_an_error_of_the_user(harness):
    await waiting(harness, "question", {"question": "Which word?"})
    for words in (["answer", "question-1"], ["approve", "question-1"], ["reject", "zzz"]):
        with pytest.raises(UsageError):
            decide(harness.context, words[0], words[1:])
