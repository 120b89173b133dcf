"""How an error is printed."""

import errno
import os

import click
import pytest

from scaffold.cli.main import print_error, run_command


def test_no_error_controls_the_terminal(capfd):
    """RA-18: its text can be a server's."""
    assert print_error("it says \x1b]0;owned\x07", "Ask \u202eagain.", 1) == 1
    assert capfd.readouterr().err == "error: it says \\x1b]0;owned\\x07\n  Ask \\x202eagain.\n"


def failing(error):
    """Return the exit code of a command that ends with an error."""

    @click.command()
    def command():
        raise error

    return run_command(command, [], prog="scaffold")


@pytest.mark.parametrize(
    ("number", "path", "said"),
    [
        (errno.EROFS, "/x/lock", "error: /x/lock cannot be used: Read-only file system\n  Check its permissions"),
        (errno.EACCES, "/x/lock", "error: /x/lock cannot be used: Permission denied\n  Check its permissions"),
        (errno.ENOSPC, "/x/lock", "error: the disk is full (/x/lock)\n  Free some space"),
        (errno.ENOSPC, None, "error: the disk is full\n  Free some space"),
        (errno.EIO, "/x/lock", "error: unexpected OSError: [Errno 5]"),
    ],
)
def test_what_the_system_refuses_is_no_bug(number, path, said, capfd):
    """AL-28: a folder that cannot be written, and a full disk, are told with what to do."""
    assert failing(OSError(number, os.strerror(number), *([path] if path else []))) == 1
    assert capfd.readouterr().err.startswith(said)
