"""How the answer of a merge agent is read."""

from contextlib import nullcontext
from types import SimpleNamespace

from scaffold.core.errors import ModelError
from scaffold.core.landing.conflict import ConflictExplanation, MergedCode, MergeQuestion, NotMerged
from scaffold.orchestrator.owner.merge_agent import MergeAgent, read_answer

ONE, TWO = ["src/a.py"], ["src/a.py", "b.md"]

SEVERAL = "**MERGED CODE**\n\n`src/a.py`:\n```python\nx\n```\n### b.md\n````\n```\ny\n```\n````"


def test_merged_code_is_read_by_file():
    """AL-13."""
    rows = [
        ("MERGED CODE\n\nsrc/a.py\n```python\nx = 1\n```\n", ONE, {"src/a.py": "x = 1\n"}),
        ("I see.\n\n## MERGED CODE:\n```\nx = 1\n```", ONE, {"src/a.py": "x = 1\n"}),
        (SEVERAL, TWO, {"src/a.py": "x\n", "b.md": "```\ny\n```\n"}),
    ]
    assert [(text, paths, read_answer(text, paths)) for text, paths, _ in rows] == [
        (*asked, MergedCode(files)) for *asked, files in rows
    ]


def test_an_explanation_is_read_as_one():
    """AL-13."""
    why = "Both rename it."
    assert read_answer(f"CONFLICT EXPLANATION\n\n{why}", ONE) == ConflictExplanation(why)


def test_an_answer_that_cannot_be_used_says_why():
    """AL-13: so that the agent can be asked again."""
    rows = [
        ("x = 1", "exactly one of the sections"),
        ("MERGED CODE\n```\nx\n```\nCONFLICT EXPLANATION\nno", "exactly one of the sections"),
        ("MERGED CODE\nx = 1", "no whole block for src/a.py"),
        ("MERGED CODE\nsrc/a.py\n```\nx = 1\n", "no whole block for src/a.py"),
        ("MERGED CODE\nsrc/a.py\n```\nx\n```\nsrc/a.py\n```\ny\n```", "must have the path of another one"),
    ]
    answers = [read_answer(text, ONE) for text, _ in rows]
    assert [
        each for each, (_, why) in zip(answers, rows, strict=True) if not isinstance(each, str) or why not in each
    ] == []


async def test_a_failing_model_is_asked_again():
    """AL-13: an outage says nothing of the conflict."""
    store = SimpleNamespace(
        actions=SimpleNamespace(by_key=lambda *_: SimpleNamespace(id="a", key="a")),
        attempts=SimpleNamespace(for_action=lambda _: (SimpleNamespace(id="one"),)),
        events=SimpleNamespace(has_notice=lambda *_: True),
        transaction=nullcontext,
    )
    context = SimpleNamespace(
        store=store, redactor=SimpleNamespace(clean=str), clock=SimpleNamespace(monotonic=lambda: 0.0)
    )
    settings = SimpleNamespace(tier=SimpleNamespace(timeout_s=9.0), limits=SimpleNamespace(model_wait_s=9.0))
    opened = []

    def open_model(**_):
        opened.append(1)
        raise ModelError("no answer", "try again", transient=True)

    agent = MergeAgent(context, SimpleNamespace(id="r", settings=settings), open_model)
    question = MergeQuestion(action="a", task="", files=())
    for times in (1, 2):
        assert await agent.merge(question, lambda _: "") == NotMerged("no answer")
        assert len(opened) == times
