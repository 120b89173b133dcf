"""`land`: what its options say, and what of a model's text goes into a pull request."""

import pytest

from scaffold.cli.commands.taking.land import land
from scaffold.cli.render.pull_request import _code
from scaffold.core.errors import UsageError


def test_two_ways_to_take_the_work_exclude_each_other():
    """AL-14: so that `--ff --pr` never pushes what was not meant to be pushed."""
    with pytest.raises(UsageError, match="--ff and --pr exclude each other"):
        land.main(["--ff", "--pr"], standalone_mode=False)


@pytest.mark.parametrize("text", ["Fixes #12", "@team", "<img src=x>", "`x` @team", "``@a``", "\u202ea\n# b"])
def test_what_a_model_wrote_has_no_effect_as_markdown(text):
    """AL-14: no mention, no keyword and no tag is live."""
    shown = _code(text)
    assert shown[0] == shown[-1] == "`"
    assert not {"`", "\n", "\u202e"} & {*shown[1:-1]}
