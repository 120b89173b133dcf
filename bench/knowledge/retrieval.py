"""How many questions of a set find their answer among the first results: by words, by vectors, and by both."""

import asyncio

from msgspec import Struct

from knowledge.filled import HERE, Filled, opened
from knowledge.question_set import Question, QuestionSet
from scaffold.memory.hybrid import VALID, HybridSearch, search_terms

FIRST = 5


class Recall(Struct, frozen=True):
    """The shares of the questions that find an answer."""

    by_words: float
    by_vectors: float
    hybrid: float


def recall_of(questions: QuestionSet) -> Recall:
    """Return how many of the questions that have an answer find it."""
    with opened(questions.texts) as filled:
        filled.fill(filled.embedded())
        asked = [each for each in questions.questions if each.relevant]
        found = [_finds(filled, each) for each in asked]
    return Recall(*(sum(column) / len(asked) for column in zip(*found, strict=True)))


def _finds(filled: Filled, question: Question) -> tuple[bool, bool, bool]:
    return asyncio.run(_found(filled, question))


async def _found(filled: Filled, question: Question) -> tuple[bool, bool, bool]:
    knowledge, leg = filled.store.knowledge, filled.leg
    words = knowledge.chunks.search(HERE, search_terms(question.query), VALID, most=FIRST)
    (vector,) = await leg.embedder.embed([question.query])
    vectors = leg.vectors.search_of(HERE, leg.embedder.model)
    near = () if vectors is None else vectors.search(vector, most=FIRST)
    both = await HybridSearch(knowledge, leg).find(HERE, question.query, most=FIRST)
    lists = (
        [each.id for each in knowledge.chunks.with_numbers(words)],
        [each.id for each in knowledge.chunks.with_numbers(number for number, _ in near)],
        [each.chunk.id for each in both],
    )
    one, other, third = (not question.relevant.isdisjoint(ids) for ids in lists)
    return one, other, third
