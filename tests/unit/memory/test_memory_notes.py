"""What may be remembered, which texts are the same or contradict each other, and by which words they are found."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from scaffold.core.errors import UsageError
from scaffold.core.knowledge import MEMORIES, Chunk, ChunkId
from scaffold.memory.hybrid import search_parts, search_terms
from scaffold.memory.markdown import memories_as_markdown, read_memories
from scaffold.memory.notes import Memory, checked, contradict, fingerprint, first_line
from scaffold.policy.secret.redaction import Redactor
from support.fake_clock import FakeClock


def test_contradictions_are_guessed_from_words_and_numbers() -> None:
    """RA-6."""
    rows = [
        ("Redis is on port 6380", "Redis is on port 6379", True),
        ("Run migrations before tests", "Never run migrations before tests", True),
        ("The tests need Redis on port 6379", "The tests need Redis", False),
        ("Step 3 builds the parser", "Step 4 deploys the server", False),
        ("Use tabs", "Redis is on port 6379", False),
        ("", "", False),
    ]
    assert [(one, other, contradict(one, other)) for one, other, _ in rows] == rows
    assert [(one, other, contradict(other, one)) for one, other, _ in rows] == rows


def test_the_same_is_known_by_words_in_order_and_case() -> None:
    """RA-6: names of code differ by case."""
    table = {
        ("Use make.", "use  make"): True,
        ("Use make!", "Use\nmake"): True,
        ("The name is PATH", "The name is Path"): False,
        ("x from a to b", "x from b to a"): False,
    }
    assert {(one, other): fingerprint(one) == fingerprint(other) for one, other in table} == table


@given(st.text(max_size=300))
def test_any_text_is_refused_or_can_be_stored_and_exported(text: str) -> None:
    """RA-6: what is stored has neither NUL nor lone surrogates, and an export reads back the same."""
    try:
        content = checked(text, Redactor())
    except UsageError:
        return
    assert "\0" not in content
    assert checked(content, Redactor()) == content
    now = FakeClock().now()
    chunk = Chunk(
        id=ChunkId("a1"), collection=MEMORIES, text=content, sha256="", source="user", valid_from=now, created_at=now
    )
    (read,) = read_memories(memories_as_markdown([Memory(chunk, "user")]), Path("m.md"))
    assert fingerprint(read.text) == fingerprint(content)


@given(st.text(max_size=300))
def test_any_query_becomes_words_without_operators(text: str) -> None:
    """RA-6."""
    assert all(word.isalnum() or not word.isascii() for word in search_terms(text))
    assert all(1 <= len(part) <= 2 for part in search_parts(text))


def test_scripts_without_spaces_are_looked_for_in_pairs() -> None:
    """RA-6."""
    assert search_parts("データ base 夜") == ("デー", "ータ", "夜")
    assert "straße" in search_terms("Die Straße")


def test_a_long_memory_is_shown_by_its_beginning() -> None:
    """RA-18."""
    assert first_line("a\n b", 9) == "a b"
    assert first_line("a" * 20, 5) == "aaaa…"
