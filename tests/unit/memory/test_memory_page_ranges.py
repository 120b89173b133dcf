"""Pages as people write them."""

from hypothesis import given
from hypothesis import strategies as st

from scaffold.core.errors import UsageError
from scaffold.memory.documents.page_ranges import ALL_PAGES, read_page_ranges
from scaffold.memory.documents.parts import MISSING_CHARS, with_problem
from scaffold.memory.documents.pdf_reader import PdfPage
from support.errors import error_of

NUMBERS = st.integers(min_value=1, max_value=30)
PARTS = st.one_of(
    NUMBERS.map(str),
    st.tuples(NUMBERS, NUMBERS).map(lambda two: f"{min(two)}-{max(two)}"),
    NUMBERS.map(lambda first: f"{first}-"),
    NUMBERS.map(lambda last: f"-{last}"),
)


def test_pages_are_read_as_they_are_written():
    """RA-9."""
    rows = [
        ("", "1-"),
        ("7", "7"),
        ("1-3,7", "1-3,7"),
        (" 7 , 1 - 3 ", "1-3,7"),
        ("5-,2", "2,5-"),
        ("-3,4", "1-4"),
        ("1-", "1-"),
    ]
    found = {text: read_page_ranges(text) for text, _ in rows}
    assert {text: str(pages) for text, pages in found.items()} == dict(rows)
    assert [text for text, pages in found.items() if pages.is_all] == ["", "1-"]


def test_what_names_no_pages_is_said():
    texts = ["x", "-", "0", "3-1", "1--2", "1-2-3", "²", "1;2", ",", "9999999999", ",".join("1" * 300)]
    found = [(text, error_of(UsageError, read_page_ranges, text)) for text in texts]
    assert [text for text, error in found if error is None or "1-3,7" not in error.fix] == []


@given(parts=st.lists(PARTS, min_size=1, max_size=6), total=NUMBERS, done=st.integers(0, 31))
def test_ranges_have_the_same_pages_as_the_parts(parts, total, done):
    def numbers(text):
        first, dash, last = text.partition("-")
        return set(range(int(first or 1), (int(last) if last else total if dash else int(first)) + 1))

    named = {page for part in parts for page in numbers(part) if page <= total}
    pages = read_page_ranges(",".join(parts))
    assert pages.count(total) == len(named)
    assert pages.after(done).count(total) == len([page for page in named if page > done])
    assert ALL_PAGES.after(done).count(total) == max(total - done, 0)


def test_pages_with_a_problem_are_kept_as_ranges_of_limited_length():
    missing = {}
    for number in (1, 2, 3, 7, 9, 10):
        missing = with_problem(missing, PdfPage(number=number, problem="is empty"))
    missing = with_problem(missing, PdfPage(number=11, text="fine"))
    assert missing == {"is empty": "1-3,7,9-10"}
    for number in range(20, 5_000, 2):
        missing = with_problem(missing, PdfPage(number=number, problem="is empty"))
    assert missing["is empty"].endswith("..."), "no page after the last that is named is lost without a sign"
    assert len(missing["is empty"]) <= MISSING_CHARS + 4
