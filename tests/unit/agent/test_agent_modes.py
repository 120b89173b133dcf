import pytest
from inline_snapshot import snapshot

from scaffold.agent.modes import MODES, CurrentMode, mode_instructions, parse_mode, switch_mode_tool
from scaffold.core.errors import UsageError
from scaffold.tools.arguments import argument_problems


def test_there_are_five_modes_and_each_but_the_default_has_its_own_prompt():
    """RA-5."""
    assert MODES == ("default", "plan", "explore", "debug", "review")
    words = {mode: mode_instructions(mode) for mode in MODES}
    assert words.pop("default") == ""
    assert all(text.startswith(f"You are in {mode} mode: ") for mode, text in words.items())


async def test_an_agent_can_change_its_mode_which_is_stored_once():
    """RA-5."""
    kept = []
    modes = CurrentMode("plan", kept.append)
    tool = switch_mode_tool(modes)
    output = await tool.run({"mode": "debug"})
    assert (output.content, output.failed) == snapshot(("The mode is now debug (it was plan).", False))
    assert not (await tool.run({"mode": "debug"})).failed
    assert (modes.current, kept, tool.category) == ("debug", ["debug"], "memory")


def test_mode_names_are_matched_in_any_spelling():
    for word in ("Plan", " plan "):
        modes = CurrentMode()
        assert modes.switch(word) is None
        assert modes.current == parse_mode(word) == "plan"


def test_an_unknown_mode_is_refused_with_the_known_ones():
    """RA-5."""
    words = ["", "planning", "../plan", "mode_plan"]
    modes, known = CurrentMode("review"), ", ".join(MODES)
    for word in words:
        refusal = modes.switch(word)
        assert refusal is not None
        assert known in refusal.reason
        assert known in (argument_problems(switch_mode_tool(modes), {"mode": word}) or "")
        with pytest.raises(UsageError) as caught:
            parse_mode(word)
        assert known in caught.value.fix
    assert modes.current == "review"


def test_a_mode_that_cannot_be_stored_does_not_take_effect():
    def refuse(mode):
        raise OSError("disk full")

    modes = CurrentMode("plan", refuse)
    with pytest.raises(OSError, match="disk full"):
        modes.switch("debug")
    assert modes.current == "plan"
