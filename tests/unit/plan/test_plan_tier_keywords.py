"""The tier that the words of a request call for."""

from hypothesis import given
from hypothesis import strategies as st

from scaffold.plan.analysis.tier_keywords import DEFAULT_TIER, KEYWORDS, LEAST_CONFIDENCE, guess_tier

WORDS = sorted({word for words in KEYWORDS.values() for word in words})


def test_each_word_of_the_table_calls_for_its_tier():
    """AL-2: one keyword table."""
    found = {word: guess_tier([f"Please {word.upper()} it"]) for word in WORDS}
    assert {word: (each.tier, each.words, each.confidence >= 0.9) for word, each in found.items()} == {
        word: (tier, (word,), True) for tier, words in KEYWORDS.items() for word in words
    }


def test_architect_wins_a_conflict_then_quick_and_only_whole_words_count():
    """AL-2."""
    tiers = {
        "add a login page": "builder",
        "refactoring commentary, authored by checkers": "builder",
        "refactor the store, then find what is left": "architect",
        "rename the schema": "architect",
        "find the typo in docs and readme": "quick",
        "rename the docs folder": "quick",
        "": "builder",
        "\0\n": "builder",
        "名前を変える": "builder",
    }
    assert {text: guess_tier([text]).tier for text in tiers} == tiers


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6))
def test_other_words_never_overturn_the_order_of_the_table(words):
    """AL-2: on a conflict architect wins, then quick, however many words name another tier."""
    expected = next(tier for tier, keywords in KEYWORDS.items() if set(words) & set(keywords))
    assert guess_tier([" ".join(words)]).tier == expected


def test_a_keyword_that_is_lost_in_a_long_request_decides_nothing():
    """AL-2: below 0.6 it is builder, and it is said which tier it would have been."""
    found = guess_tier([f"{'word ' * 30} check {'word ' * 30}"])
    assert (found.tier, found.leaning, found.words) == ("builder", "scout", ("check",))
    assert found.confidence < LEAST_CONFIDENCE


def test_the_titles_of_tasks_are_read_together():
    """AL-2: a list of tasks has the tier of most of its work."""
    features = [f"Add the page number {number} of the shop" for number in range(10)]
    assert guess_tier([*features, "Rename a file"]).tier == "builder"
    assert guess_tier(["Migrate the schema", "Rewrite it", "Add a page"]).tier == "architect"


@given(
    st.lists(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=8)), max_size=12).map(" ".join), max_size=5)
)
def test_any_request_has_a_tier_of_the_table_and_a_confidence(texts):
    """AL-2: never a tier outside of the table, and never certain."""
    found = guess_tier(texts)
    assert found.tier in {*KEYWORDS, DEFAULT_TIER}
    assert 0 <= found.confidence < 1
    assert (found.tier == DEFAULT_TIER) or (found.confidence >= LEAST_CONFIDENCE and found.words)
    assert bool(found.leaning) == (bool(found.words) and found.tier == DEFAULT_TIER)
