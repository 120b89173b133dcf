"""A changed sentence is carried to where it is quoted."""

from support.wording import replaced, rewrite, substitution, texts

OLD = """def refuse(path):
    raise Refused(f"The file {path} cannot be read: ask again later.", "Try again.")
"""
NEW = OLD.replace("cannot be read", "is unreadable")


def test_a_quote_of_the_whole_or_of_a_part_is_rewritten_and_nothing_else():
    substitutions = [substitution(*pair) for pair in replaced(texts(OLD), texts(NEW))]
    assert substitutions == [(" cannot be read: ask again ", " is unreadable: ask again ")]
    quotes = 'assert said == "The file a.py cannot be read: ask again later."\nassert "cannot be read" in other'
    assert rewrite(quotes, substitutions) == quotes.replace("cannot be read: ask", "is unreadable: ask")


def test_texts_that_came_or_went_have_no_successor():
    assert list(replaced(["a", "b"], ["a", "b", "c"])) == []
    assert list(replaced(["a", "b", "c"], ["c"])) == []


def test_a_word_that_is_put_in_has_its_neighbours():
    assert substitution("no such goal", "no such open goal") == ("no such goal", "no such open goal")
    assert substitution("x" * 30 + "ab", "x" * 30 + "b") == ("x" * 12 + "ab", "x" * 12 + "b")
