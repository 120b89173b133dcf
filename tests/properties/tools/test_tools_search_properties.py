import re

from hypothesis import given
from hypothesis import strategies as st

from scaffold.tools.search.ripgrep import required_literals

PIECES = st.sampled_from(
    [
        *"ab.|()[]*+?{}\\^$ -1ö",
        *("ab", "(?:", "(?!", "[^", "{2}", "{,1}", r"\d", r"\b", r"\.", r"\(", r"\]", "(?i)", "(?i:", "(?#"),
    ]
)
PATTERNS = st.lists(PIECES, min_size=1, max_size=10).map("".join)


@given(PATTERNS, st.data())
def test_no_line_matches_without_one_of_the_required_words(pattern, data):
    """RA-4: files that ripgrep leaves out contain no match."""
    try:
        compiled = re.compile(pattern)
    except (re.error, FutureWarning):
        return  # most pieces in a row are no pattern; `assume` would count against the test's health
    words = required_literals(compiled)
    line = data.draw(st.one_of(st.from_regex(compiled), st.text("ab. -1ö(]{}", max_size=8)))
    if words is not None and compiled.search(line):
        assert any(word in line for word in words)
