"""The text of a task: fields of their own, and one text of all of them."""

from inline_snapshot import snapshot

from scaffold.core.plan import ActionSpec, TaskText, full_text, headline, text_fields

WHOLE = TaskText(
    title="A cart",
    description="Keep what is bought.",
    acceptance=("it keeps two", "it forgets none"),
    verification_intent="adding twice gives two",
    type="FEATURE",
    notes="See cart.py.",
)


def test_the_full_text_has_every_field_as_a_paragraph():
    """AL-3: what agents are told."""
    assert full_text(WHOLE).split("\n\n") == snapshot(
        [
            "A cart",
            "Keep what is bought.",
            "Accepted when:\n- it keeps two\n- it forgets none",
            "To be verified: adding twice gives two",
            "Notes: See cart.py.",
        ]
    )
    assert full_text(TaskText(title="A cart", description="A cart ")) == "A cart"
    assert full_text(TaskText()) == ""


def test_the_headline_is_the_title_or_the_first_line():
    lines = {WHOLE: "A cart", TaskText(description=" Keep it.\nAll of it."): "Keep it.", TaskText(): ""}
    assert {task: headline(task) for task in lines} == lines


def test_a_description_defaults_to_the_title_or_the_key():
    assert ActionSpec(key="a").stored_description == "a"
    assert ActionSpec(key="a", title="A cart").stored_description == "A cart"
    assert ActionSpec(key="a", title="A cart", description="Keep it.").stored_description == "Keep it."


def test_the_text_makes_another_struct_with_the_same_text():
    spec = ActionSpec(key="a", **text_fields(WHOLE))
    assert TaskText(**text_fields(spec)) == WHOLE
