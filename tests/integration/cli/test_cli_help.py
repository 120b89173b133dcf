"""The help texts of the commands that read."""

import re
import shlex

import click
import pytest
from inline_snapshot import snapshot

from builders import make_run
from scaffold.cli.examples import EXAMPLES
from scaffold.cli.lazy_commands import VISIBLE, load_command
from scaffold.cli.main import RALPH_COMMANDS

READING_COMMANDS = {
    "status": "[OPTIONS] [RUN]",
    "goals": "[OPTIONS]",
    "tasks": "[OPTIONS] [GOAL]",
    "logs": "[OPTIONS] [ACTION]",
    "diff": "[OPTIONS] [ACTION|RUN]",
    "contract": "[OPTIONS] ACTION",
    "plan": "[OPTIONS] TASK | COMMAND [ARGS]...",
    "config": "[OPTIONS] [SETTING] [VALUE]",
    "runs": "[OPTIONS]",
    "queue": "[OPTIONS] [RUN]",
    "init": "[OPTIONS]",
    "doctor": "[OPTIONS]",
}


@pytest.fixture
def run(context, plan):
    return make_run(context, plan)


@pytest.mark.parametrize(("name", "arguments"), READING_COMMANDS.items())
def test_help_shows_the_usage_a_description_and_the_options(name, arguments, scaffold):
    usage, _, description, *rest = scaffold(name, "--help").out.splitlines()
    assert usage == f"Usage: scaffold {name} {arguments}"
    assert re.match(r"  [A-Z]\w+ ", description)
    assert any(line.startswith("  -h, --help ") for line in rest)


@pytest.mark.parametrize("name", VISIBLE)
def test_help_ends_with_examples_that_the_command_takes(name, scaffold):
    """SC-19: each example parses; nothing is executed."""
    _, _, shown = scaffold(name, "--help").out.partition("\n  Examples:\n")
    assert [line.strip() for line in shown.splitlines()] == list(EXAMPLES[name])
    for line in EXAMPLES[name]:
        for part in re.split(r"&&|\||<", re.sub(r'^eval "\$\((.*)\)"$|^cd "\$\((.*)\)"$', r"\1\2", line)):
            program, *words = shlex.split(part)
            if program == "scaffold" or (program == "ralph" and words[0] in RALPH_COMMANDS):
                called, words = load_command(words[0]), words[1:]
            elif program == "ralph":
                called = load_command("ralph")
            else:
                continue
            called.make_context(program, words, resilient_parsing=False)


@pytest.mark.parametrize("before", [True, False])
def test_every_command_works_in_another_folder(before, context, run, scaffold, monkeypatch, tmp_path):
    """SC-19: -C comes before the command or after it."""
    root = str(context.repository.root)
    monkeypatch.chdir(tmp_path)
    args = ("-C", root, "status", "--json") if before else ("status", "--json", "-C", root)
    assert scaffold(*args).json["run"]["id"] == run.id
    monkeypatch.chdir(tmp_path)
    missing = scaffold("status", "-C", "nowhere")
    assert (missing.code, missing.err.splitlines()[0]) == snapshot(
        (
            64,
            "error: Invalid value for '-C': Directory 'nowhere' does not exist.",
        )
    )


@pytest.mark.parametrize("name", VISIBLE)
def test_every_command_and_subcommand_takes_another_folder(name):
    def takes(command):
        below = command.commands.values() if isinstance(command, click.Group) else ()
        return any("-C" in parameter.opts for parameter in command.params) and all(map(takes, below))

    assert takes(load_command(name))


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (("statu",), "Did you mean `status`?"),
        (("run", "--agnets", "3", "do it"), "Did you mean `--agents`?"),
        (("run", "statsu"), "Did you mean `scaffold status`?"),
        (("plan", "chek", "plan.yaml"), "Did you mean `scaffold plan check`?"),
        (("fix the bug",), "`scaffold run 'fix the bug'`"),
    ],
)
def test_a_slip_names_what_was_meant(given, meant, repository, scaffold):
    """SC-19: and costs nothing, not even a database."""
    answer = scaffold(*given)
    assert (answer.code, answer.out) == (64, "")
    assert meant in answer.err
    assert not (repository / ".git" / "scaffold").exists()
