"""The help texts of the commands."""

import re
import shlex

import click
import pytest
from inline_snapshot import snapshot

from builders import make_run
from scaffold.cli.entry import COMMANDS, VISIBLE, load_command
from scaffold.cli.main import RALPH_COMMANDS


@pytest.fixture
def run(context, plan):
    return make_run(context, plan)


def test_help_shows_the_usage_a_description_and_the_options(scaffold):
    shown = {name: scaffold(name, "--help").out for name in VISIBLE}
    shape = r" \[OPTIONS\].*\n\n  [A-Z]\w+,? (.*\n)*  -h, --help "
    assert [name for name, text in shown.items() if not re.match(f"Usage: scaffold {name}{shape}", text)] == []


def test_help_ends_with_examples_that_the_command_takes(scaffold):
    """SC-19: each example parses; nothing is executed."""
    shown = {name: scaffold(name, "--help").out.partition("\n  Examples:\n")[2] for name in VISIBLE}
    examples = {name: tuple(line.strip() for line in text.splitlines()) for name, text in shown.items()}
    assert examples == {name: COMMANDS[name].examples for name in VISIBLE}
    faults = {line: fault for lines in examples.values() for line in lines if (fault := parse_example(line))}
    assert faults == {}


def parse_example(line: str) -> str:
    """Return why a line of an example is not valid; empty if it is."""
    for part in re.split(r"&&|\||<", re.sub(r'^eval "\$\((.*)\)"$|^cd "\$\((.*)\)"$', r"\1\2", line)):
        program, *words = shlex.split(part)
        if program == "scaffold" or (program == "ralph" and words[0] in RALPH_COMMANDS):
            called, words = load_command(words[0]), words[1:]
        elif program == "ralph":
            called = load_command("ralph")
        else:
            continue
        try:
            called.make_context(program, words, resilient_parsing=False)
        except click.ClickException as error:
            return error.format_message()
    return ""


def test_every_command_works_in_another_folder(context, run, scaffold, monkeypatch, tmp_path):
    """SC-19: -C comes before the command or after it."""
    root = str(context.repository.root)
    for args in (("-C", root, "status", "--json"), ("status", "--json", "-C", root)):
        monkeypatch.chdir(tmp_path)
        assert scaffold(*args).json["run"]["id"] == run.id
    monkeypatch.chdir(tmp_path)
    missing = scaffold("status", "-C", "nowhere")
    assert (missing.code, missing.err.splitlines()[0]) == snapshot(
        (64, "error: Invalid value for '-C': Directory 'nowhere' does not exist.")
    )


def test_every_command_and_subcommand_takes_another_folder():
    def takes(command):
        below = command.commands.values() if isinstance(command, click.Group) else ()
        return any("-C" in parameter.opts for parameter in command.params) and all(map(takes, below))

    assert [name for name in VISIBLE if not takes(load_command(name))] == []


def test_a_slip_names_what_was_meant(repository, scaffold):
    """SC-19: and costs nothing, not even a database."""
    meant = {
        ("statu",): "`status`",
        ("run", "--agnets", "3", "do it"): "`--agents`",
        ("run", "statsu"): "`scaffold status`",
        ("plan", "chek", "plan.yaml"): "`scaffold plan check`",
        ("fix the bug",): "`scaffold run 'fix the bug'`",
    }
    answers = {given: scaffold(*given) for given in meant}
    assert [given for given, answer in answers.items() if meant[given] not in answer.err] == []
    assert {(answer.code, answer.out) for answer in answers.values()} == {(64, "")}
    assert not (repository / ".git" / "scaffold").exists()
