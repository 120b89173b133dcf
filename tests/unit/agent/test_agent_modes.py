import pytest

from scaffold.agent.modes import MODES, Modes, mode_words, parse_mode, switch_mode
from scaffold.core.errors import UsageProblem
from scaffold.tools.arguments import misfit


def test_there_are_five_modes_and_each_but_the_default_has_words_of_its_own():
    """RA-5."""
    assert MODES == ("default", "plan", "explore", "debug", "review")
    words = {mode: mode_words(mode) for mode in MODES}
    assert words.pop("default") == ""
    assert all(text.startswith(f"You are in {mode} mode: ") for mode, text in words.items())


async def test_an_agent_changes_its_own_mode():
    """RA-5."""
    kept = []
    modes = Modes("plan", kept.append)
    tool = switch_mode(modes)
    output = await tool.run({"mode": "debug"})
    assert (output.content, output.failed) == ("The mode is debug now (it was plan).", False)
    assert (modes.current, kept, tool.category) == ("debug", ["debug"], "memory")


async def test_a_mode_it_is_in_already_is_not_kept_again():
    kept = []
    assert not (await switch_mode(Modes("debug", kept.append)).run({"mode": "debug"})).failed
    assert kept == []


@pytest.mark.parametrize("word", ["Plan", " plan "])
def test_a_mode_is_known_however_it_is_written(word):
    modes = Modes()
    assert modes.switch(word) is None
    assert modes.current == parse_mode(word) == "plan"


@pytest.mark.parametrize("word", ["", "planning", "../plan", "mode_plan"])
def test_a_mode_nobody_knows_is_refused_with_those_there_are(word):
    """RA-5."""
    modes = Modes("review")
    refusal = modes.switch(word)
    assert refusal is not None
    assert "default, plan, explore, debug, review" in refusal.reason
    assert modes.current == "review"
    assert "one of default, plan" in (misfit(switch_mode(modes), {"mode": word}) or "")
    with pytest.raises(UsageProblem) as caught:
        parse_mode(word)
    assert "default, plan, explore, debug, review" in caught.value.fix


def test_what_cannot_be_kept_does_not_count():
    def refuse(mode):
        raise OSError("disk full")

    modes = Modes("plan", refuse)
    with pytest.raises(OSError, match="disk full"):
        modes.switch("debug")
    assert modes.current == "plan"
