"""Asking a human one question, with or without options."""

import pytest

from scaffold.core.errors import HumanDecisionRequired
from scaffold.tools.arguments import argument_problems
from scaffold.tools.human_question import MAX_CHARS, MAX_OPTIONS, HumanQuestion, ask_human


class RecordingHuman:
    """A human who records the questions."""

    def __init__(self):
        self.asked = []

    async def answer(self, question):
        self.asked.append(question)
        return "sqlite"


async def test_the_humans_answer_is_the_result():
    """BX-13."""
    human = RecordingHuman()
    output = await ask_human(human.answer).run({"question": " Which database? ", "options": ["sqlite", "postgres"]})
    assert (output.content, output.failed) == ("sqlite", False)
    assert human.asked == [HumanQuestion(text="Which database?", options=("sqlite", "postgres"))]


async def test_an_invalid_question_is_not_asked():
    invalid = [
        {"question": "  "},
        {"question": "x" * (MAX_CHARS + 1)},
        {"question": "Which?", "options": ["a"] * (MAX_OPTIONS + 1)},
        {"question": "Which?", "options": ["x" * (MAX_CHARS + 1)]},
        {"question": "Which?", "options": ["a"] * 10_000},
        {"question": "Which?", "assumption": "x" * (MAX_CHARS + 1)},
    ]
    human = RecordingHuman()
    assert [args for args in invalid if not (await ask_human(human.answer).run(args)).failed] == []
    assert human.asked == []


async def test_a_question_without_an_answer_says_so():
    async def answer(question):
        raise HumanDecisionRequired(question.text, "Decide.", item="abc")

    with pytest.raises(HumanDecisionRequired):
        await ask_human(answer).run({"question": "Which?"})


def test_options_are_an_optional_list_of_texts_and_the_kind_is_one_of_three():
    """AL-17."""
    tool = ask_human(RecordingHuman().answer)
    assert argument_problems(tool, {"question": "Which?"}) is None
    assert argument_problems(tool, {"question": "Which?", "options": [1]}) is not None
    assert argument_problems(tool, {}) is not None
    assert argument_problems(tool, {"question": "Which?", "kind": "confirming"}) is None
    assert argument_problems(tool, {"question": "Which?", "kind": "rhetorical"}) is not None
