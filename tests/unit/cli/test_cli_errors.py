"""How an error is printed."""

import errno
import os

import click
from inline_snapshot import snapshot

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


def test_what_the_system_refuses_is_no_bug(capfd):
    """AL-28: a folder that cannot be written, and a full disk, are told with what to do."""
    said = {}
    for name, path in (
        ("EROFS", "/x/lock"),
        ("EACCES", "/x/lock"),
        ("ENOSPC", "/x/lock"),
        ("ENOSPC", None),
        ("EIO", "/x"),
    ):
        number = getattr(errno, name)
        assert failing(OSError(number, os.strerror(number), *([path] if path else []))) == 1
        said[name, path] = capfd.readouterr().err.splitlines()[0 if name == "EIO" else slice(2)]
    assert said == snapshot(
        {
            ("EROFS", "/x/lock"): [
                "error: /x/lock cannot be used: Read-only file system",
                "  Check its permissions and whether its file system is read-only, then repeat the command.",
            ],
            ("EACCES", "/x/lock"): [
                "error: /x/lock cannot be used: Permission denied",
                "  Check its permissions and whether its file system is read-only, then repeat the command.",
            ],
            ("ENOSPC", "/x/lock"): ["error: the disk is full (/x/lock)", "  Free some space, then continue."],
            ("ENOSPC", None): ["error: the disk is full", "  Free some space, then continue."],
            ("EIO", "/x"): "error: unexpected OSError: [Errno 5] Input/output error: '/x'",
        }
    )
