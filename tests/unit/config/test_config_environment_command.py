"""What the command of `env.from` may print."""

import pytest

from scaffold.config.environment_command import _parsed
from scaffold.core.errors import ScaffoldError


@pytest.mark.parametrize("inside", ["\u2028", "\x85", "\f", "\v", "\x1c"])
def test_only_a_line_feed_ends_a_line(inside):
    """BX-10: a value is what stands up to it."""
    assert _parsed(f"A=one{inside}B=two\r\nC=3\n".encode()) == {"A": f"one{inside}B=two", "C": "3"}


@pytest.mark.parametrize(
    "name", ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR", "TMP", "HOME", "PATH", "SCAFFOLD_HOME", "LD_PRELOAD"]
)
def test_no_variable_decides_what_our_own_processes_run_or_where_they_write(name):
    """BX-10"""
    with pytest.raises(ScaffoldError, match=f"cannot set {name}"):
        _parsed(f"{name}=/tmp/x\n".encode())
