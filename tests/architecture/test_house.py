"""The house stays easy to find one's way in: `python tests/support/house.py` prints the figures and the places."""

import pytest

from support.house import House, Room, figures, read_house

MOST_FILES = 1_133
MOST_LINES = 162_700
LEAST_COMMENTS = 20
"""Lines with a reason, per thousand."""
MOST_ONE_WORD = 0.01
"""Of all functions."""
MOST_REPEATED = 10
MOST_FOLDABLE = 12
MOST_INLINABLE = 37


@pytest.fixture(scope="module")
def house() -> House:
    return read_house()


def test_size_is_a_budget(house: House) -> None:
    """A feature says in its commit what it made unnecessary; raising a limit needs a reason in docs/design."""
    lines = sum(room.lines for room in house.rooms)
    assert len(house.rooms) <= MOST_FILES
    assert lines <= MOST_LINES
    assert sum(room.comments for room in house.rooms) >= LEAST_COMMENTS * lines / 1000


def test_names_can_be_searched_for(house: House) -> None:
    functions = sum(len(room.functions) for room in house.rooms)
    assert len(list(house.one_word())) <= MOST_ONE_WORD * functions
    assert len(list(house.repeated())) <= MOST_REPEATED


def test_folders_show_subjects(house: House) -> None:
    assert list(house.large_folders()) == []


def test_short_code_stands_where_it_is_used(house: House) -> None:
    assert len(list(house.foldable())) <= MOST_FOLDABLE
    assert len(list(house.inlinable())) <= MOST_INLINABLE


def test_each_figure_counts_what_it_says() -> None:
    """Each list finds a planted place, and nothing beside it."""
    planted = House(
        [
            Room("src/scaffold/a/tools.py", "from scaffold.b.tools import text\n\n\ndef _shown():\n    return text\n"),
            Room(
                "src/scaffold/a/user.py",
                "# why\n\n\ndef f():\n    return _shown_lines()\n\n\ndef _shown_lines():\n    return 1\n",
            ),
            Room("src/scaffold/b/tools.py", "text = 1  # so it is\nother = 2  # noqa: S101\n"),
            *(Room(f"src/scaffold/c/m{number}.py", "") for number in range(21)),
        ]
    )
    assert list(planted.one_word()) == ["src/scaffold/a/tools.py:4 _shown"]
    assert list(planted.repeated()) == ["tools: src/scaffold/a/tools.py src/scaffold/b/tools.py"]
    assert list(planted.foldable()) == ["src/scaffold/b/tools.py (2) -> src/scaffold/a/tools.py"]
    assert list(planted.inlinable()) == ["src/scaffold/a/user.py:8 _shown_lines"]
    assert list(planted.large_folders()) == ["src/scaffold/c: 21"]
    assert [room.comments for room in planted.rooms[:3]] == [0, 1, 1]
    assert figures(planted).endswith("private one-word names: 33.3 % of 3 functions")
