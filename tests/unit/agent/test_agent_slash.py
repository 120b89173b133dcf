import pytest

from scaffold.agent.slash import Misunderstood, ShowModels, SwitchModel, model_listing, parse_slash


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/model", ShowModels()),
        ("/model ", ShowModels()),
        ("/MODEL\n", ShowModels()),
        ("/model openai:gpt-5", SwitchModel("openai:gpt-5")),
        ("/model  local:x@http://127.0.0.1:8/v1 ", SwitchModel("local:x@http://127.0.0.1:8/v1")),
        ("model", None),
        (" /model x", None),
        ("/usr/bin is full", None),
        ("/ what", None),
        ("//model", None),
        ("fix /model", None),
        ("", None),
    ],
)
def test_a_line_is_a_command_only_if_it_begins_like_one(line, command):
    """RA-1: `/model` switches."""
    assert parse_slash(line) == command


@pytest.mark.parametrize(
    ("line", "said"), [("/modle x", "/modle"), ("/model a b", "not 2"), ("/model a\n\nb", "not 2")]
)
def test_a_command_that_is_none_says_what_there_is(line, said):
    command = parse_slash(line)
    assert isinstance(command, Misunderstood)
    assert said in command.what
    assert "/model" in command.fix


def test_the_listing_marks_the_model_that_answers():
    """RA-1."""
    assert model_listing("b", ["a", "b"]).split("\n")[:2] == ["* b", "  a"]
