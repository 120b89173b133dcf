"""How an error is printed."""

from scaffold.cli.main import print_error


def test_no_error_controls_the_terminal(capfd):
    """RA-18: its text can be a server's."""
    assert print_error("it says \x1b]0;owned\x07", "Ask \u202eagain.", 1) == 1
    assert capfd.readouterr().err == "error: it says \\x1b]0;owned\\x07\n  Ask \\x202eagain.\n"
