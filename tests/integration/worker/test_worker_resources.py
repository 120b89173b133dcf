"""What an attempt has for itself, where the disk takes no note of it."""

from scaffold.run.resources.attempt_resources import resource_notes
from scaffold.run.resources.held_resources import PORTS, held_resources
from support.harness import act, goal


async def test_a_note_that_cannot_be_written_ends_no_attempt(harness):
    """BX-10: the sockets decide, not the note."""
    run = await harness.own(goal("g", act("a")))
    notes = resource_notes(harness.context.run_folder(run.id))
    notes.parent.mkdir(parents=True, exist_ok=True)
    notes.write_text("a file in its place, as on a disk without room")
    with held_resources(harness.context, run.id, "a", noted=True) as found:
        assert len(found.ports) == PORTS
