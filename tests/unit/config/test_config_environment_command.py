"""What the command of `env.from` may print."""

from scaffold.config.environment_command import _parse_output
from scaffold.core.errors import ScaffoldError
from support.errors import error_of


def test_only_a_line_feed_ends_a_line():
    """BX-10: a value is what stands up to it."""
    for inside in "\u2028\x85\f\v\x1c":
        assert _parse_output(f"A=one{inside}B=two\r\nC=3\n".encode()) == {"A": f"one{inside}B=two", "C": "3"}


def test_no_variable_decides_what_our_own_processes_run_or_where_they_write():
    """BX-10"""
    names = ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR", "TMP", "HOME", "PATH", "SCAFFOLD_HOME", "LD_PRELOAD"]
    refused = [error_of(ScaffoldError, _parse_output, f"{name}=/tmp/x\n".encode()) for name in names]
    assert [name for name, error in zip(names, refused, strict=True) if f"cannot set {name}" not in str(error)] == []
