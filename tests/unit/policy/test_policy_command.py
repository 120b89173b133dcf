import pytest

from scaffold.policy.command import plain_words, written_words


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("git status -s", ("git", "status", "-s")),
        ("git\tlog  'a b'", ("git", "log", "a b")),
        ('g"i"t status', ("git", "status")),
        ("ls *.py ~ {a,b} # x", ("ls", "*.py", "~", "{a,b}", "#", "x")),
        ("", ()),
    ],
)
def test_a_plain_command_is_its_words(command, words):
    assert plain_words(command) == words


@pytest.mark.parametrize(
    "command",
    [
        "git status; rm -rf x",
        "git status | sh",
        "git status & rm x",
        "git status && rm x",
        "git status $(rm x)",
        "git status ${x}",
        "git status `rm x`",
        "git status > x",
        "git status < x",
        "git status\nrm x",
        "git status\r\nrm x",
        "git status\x0brm x",
        "git status \\\nrm",
        "f() x",
        "git 'status",
        "git status\0",
    ],
)
def test_whatever_may_do_more_than_it_says_is_not_plain(command):
    """RA-14: until shells are understood, a rule allows plain commands and nothing else."""
    assert plain_words(command) is None


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("echo x > .env", ".env"),
        ("echo x>>.env", ".env"),
        ("echo x >| .env", ".env"),
        ("echo x &> .env", ".env"),
        ("make 2>.env", ".env"),
        ("cat > '.env' <<EOF\nit's\nEOF", ".env"),
        ("rm -rf .git", ".git"),
        ("cd a && rm -rf ../.git", "../.git"),
        ("FOO=1 sudo /bin/rm .git", ".git"),
        ("if true; then rm .git; fi", ".git"),
        ("true\nrm .git", ".git"),
        ("echo a | tee -a .env", ".env"),
        ("dd if=/dev/zero of=.env", ".env"),
        ("sed -i s/a/b/ .env", ".env"),
        ("perl -pi -e s/a/b/ .env", ".env"),
        ("cp evil .git/hooks/pre-commit", ".git/hooks/pre-commit"),
        ('rm ".e""nv"', ".env"),
    ],
)
def test_targets_of_redirects_and_of_programs_that_write_are_named(command, target):
    """RA-14."""
    assert target in written_words(command)


@pytest.mark.parametrize(
    "command",
    [
        "cat .env",
        ".git/x run",
        "ls; .git/x run",
        "find . -name .git -prune",
        "git add .gitignore",
        "sed -n 1p .env",
        "grep -r x --exclude-dir=.git",
        "ls < .env",
    ],
)
def test_what_only_reads_has_no_targets(command):
    assert written_words(command) == ()


@pytest.mark.parametrize(
    ("command", "target"),
    [
        ("sh -c 'echo x > .env'", ".env"),
        ('/bin/bash -e -lc "tee .env" </dev/null', ".env"),
        ("sh -c \"bash -c 'rm .env'\"", ".env"),
        ("eval 'rm .env'", ".env"),
        ("cd .git && touch config", ".git/config"),
        ("(cd .git; echo x > hooks/pre-commit)", ".git/hooks/pre-commit"),
        ("sh -c 'cd .git && rm config'", ".git/config"),
    ],
)
def test_targets_are_found_in_handed_over_commands_and_below_entered_directories(command, target):
    """RA-13: protected files stay protected where they are named less plainly."""
    assert target in written_words(command)


@pytest.mark.parametrize(
    "command", ["grep -c 'rm .env' log", "sh -x .env", "echo eval", "cd .git && cat config", "sh -c"]
)
def test_words_that_no_shell_reads_are_no_commands(command):
    assert written_words(command) == ()


def test_only_the_word_after_a_redirect_is_its_target():
    assert written_words("cat > out .env") == ("out",)
