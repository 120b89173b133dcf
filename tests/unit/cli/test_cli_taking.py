"""`land`: what its options say, and what of a model's text goes into a pull request."""

import pytest
from inline_snapshot import snapshot

from scaffold.cli.entry import load_command
from scaffold.cli.render.changes.pull_request import _code_block, _code_span
from scaffold.core.errors import UsageError
from scaffold.landing.taking.github_pull_request import local_path


def test_two_ways_to_take_the_work_exclude_each_other():
    """AL-14: so that `--ff --pr` never pushes what was not meant to be pushed."""
    with pytest.raises(UsageError) as caught:
        load_command("land").main(["--ff", "--pr"], standalone_mode=False)
    assert caught.value.what == snapshot("--ff and --pr exclude each other")


def test_what_a_model_wrote_has_no_effect_as_markdown():
    """AL-14: no mention, no keyword and no tag is live."""
    for text in ("Fixes #12", "@team", "<img src=x>", "`x` @team", "``@a``", "\u202ea\n# b"):
        shown = _code_span(text)
        assert shown[0] == shown[-1] == "`"
        assert not {"`", "\n", "\u202e"} & {*shown[1:-1]}


def test_what_the_user_asked_for_has_no_effect_as_markdown():
    """AL-14: it is one block of code, whatever fences are in it."""
    for text in ("@team fixes #1", "```\n@team\n```", "a\n````x\n<b>", "~~~\n@a", "\u202ea"):
        first, *inner, last = _code_block(text).split("\n")
        fence = first.removesuffix("text")
        assert (set(fence), last, "\u202e" in "".join(inner)) == ({"`"}, fence, False)
        assert not any(fence in line for line in inner)


def test_a_push_address_is_a_folder_or_another_machine_as_git_decides():
    """TR-1: a push runs the hooks of a repository on this machine."""
    table = {
        "sub/remote.git": "sub/remote.git",
        "./a:b": "./a:b",
        "file:///tmp/a%20b": "/tmp/a b",
        "git@example.org:ada/shop.git": None,
        "https://example.org/ada/shop": None,
    }
    assert {address: local_path(address) for address in table} == table
