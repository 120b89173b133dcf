"""Redaction of any text and any secrets."""

from hypothesis import given
from hypothesis import strategies as st

from scaffold.policy.secret.redaction import MIN_SECRET_CHARS, SECRET_PATTERNS, Redactor

LITERALS = [shape.literal for shape in SECRET_PATTERNS]
PIECES = st.sampled_from(
    [*LITERALS, "A1b2C3d4" * 6, "a" * 40, "[redacted:", "K]", "[redacted:K]", "@h", ":", " ", "\n", "=", "://u:", "."]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=5), st.sampled_from("ab-_]/+"))).map("".join)
VALUES = st.dictionaries(
    st.sampled_from(["K", "L", "a b", "redacted"]), st.one_of(st.text(min_size=1, max_size=30), TEXTS), max_size=3
)


@given(VALUES, TEXTS)
def test_redaction_is_idempotent(values, text):
    """BX-9: and the second time returns the same object."""
    redactor = Redactor(values)
    cleaned = redactor.clean(text)
    assert redactor.clean(cleaned) is cleaned


@given(st.text(alphabet="abAB12_-/+", min_size=MIN_SECRET_CHARS, max_size=40), TEXTS, TEXTS)
def test_a_known_value_never_remains(value, before, after):
    """BX-9: outside of marks, whatever is around it."""
    cleaned = Redactor({"K": value}).clean(f"{before}{value}{after}")
    rest = cleaned.replace("[redacted:K]", "\0")
    for shape in SECRET_PATTERNS:
        rest = rest.replace(f"[redacted:{shape.name}]", "\0")
    assert value not in rest


@given(st.text(alphabet="abcdefghij ()\n\t.,;"))
def test_prose_is_returned_as_the_same_object(text):
    """BX-9: nothing is copied where nothing is secret."""
    assert Redactor({"K": "canary-1234"}).clean(text) is text


@given(st.sampled_from(LITERALS), st.text(max_size=12), st.text(max_size=12))
def test_adversarial_text_is_processed_quickly(literal, before, after):
    """BX-9: a hundred kilobytes of the beginning of a shape; a backtracking expression would never end."""
    text = (before + literal + after) * (100_000 // len(before + literal + after))
    assert len(Redactor({"K": "canary-1234"}).clean(text)) > 0
