"""Notes of stories that are completed, and open again."""

import pytest

from scaffold.run.shared_notes import file_notes

RUN, STORY, NAME = "r1", "US-1", "scratch_US-1.md"


@pytest.fixture
def places(harness):
    """Where the notes are while the story is open, and once it is completed."""
    top = harness.context.projections.path
    top.mkdir(exist_ok=True)
    return top / NAME, top / "archive" / RUN / NAME


def texts(places):
    return [place.read_text() if place.exists() else None for place in places]


async def test_notes_of_a_completed_story_move_to_the_archive_of_its_run_and_back(harness, places):
    """DR-7: nothing happens twice, nor where there are none."""
    await file_notes(harness.context, RUN, STORY, completed=True)
    assert texts(places) == [None, None]
    places[0].write_text("found\n")
    for _ in range(2):
        await file_notes(harness.context, RUN, STORY, completed=True)
        assert texts(places) == [None, "found\n"]
    for _ in range(2):
        await file_notes(harness.context, RUN, STORY, completed=False)
        assert texts(places) == ["found\n", None]


@pytest.mark.parametrize("completed", [True, False], ids=["archived", "open"])
async def test_notes_that_are_in_both_places_become_one_text(harness, places, completed):
    """DR-7: those of the archive are older; a kill between the two writes adds nothing twice."""
    places[0].write_text("newer\n")
    places[1].parent.mkdir(parents=True)
    places[1].write_text("older\n")
    source, target = places if completed else places[::-1]
    left = source.read_text()
    for _ in range(2):
        await file_notes(harness.context, RUN, STORY, completed=completed)
        assert (source.exists(), target.read_text()) == (False, "older\nnewer\n")
        source.write_text(left)  # as a process that was killed between the two writes leaves it
