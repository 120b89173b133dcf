"""`config`: settings in layers, each value with its origin; a file that is changed keeps comments and layout."""

import os
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from msgspec import structs

from builders import git
from scaffold.cli.commands.setup.config import parse_value
from scaffold.config.schema.table import SETTINGS
from scaffold.config.settings import load_settings, user_config_file
from scaffold.config.settings_file import SettingValue
from scaffold.core.errors import UsageError
from scaffold.core.run_settings import BUILDER, Tier

FILE = """\
# mine
model: anthropic:big  # the good one
tiers:
  # how hard to try
  builder:
    agents: 4
budget_usd: 2.5
"""


@pytest.fixture
def file(home) -> Path:
    path = user_config_file()
    path.parent.mkdir(parents=True)
    return path


TIER_FIELDS = (
    *("tokens", "agents", "model", "fallback", "threshold", "iterations", "questions", "timeout_min"),
    *("question_gates", "decompose", "task_models", "review", "review_share"),
)
TIERS = {
    "quick": (60_000, 1, "small", None, 0, 3, 0, 5, False, False, False, "none", None),
    "scout": (60_000, 2, "small", None, 5, 3, 0, 5, True, True, False, "none", None),
    "builder": (100_000, 3, "medium", None, 7, 5, 2, 15, False, True, True, "second", None),
    "architect": (140_000, 5, "large", "medium", 8, 7, None, 30, False, True, True, "human", None),
}


def test_built_in_values_are_those_of_the_tiers(home):
    """AL-1: the tiers' agents, models, thresholds, iterations, questions and minutes."""
    found = {name: load_settings(None, os.environ, {"tier": name}).tier() for name in TIERS}
    assert {name: tuple(getattr(each, field) for field in TIER_FIELDS) for name, each in found.items()} == TIERS
    assert {"name", *TIER_FIELDS} == {field.name for field in structs.fields(Tier)}
    assert found["builder"] == BUILDER
    assert load_settings(None, os.environ, {}).values["tier"] == SettingValue("auto", "built-in")


def test_later_layers_win_and_every_value_names_its_origin(file, monkeypatch):
    """AL-28: built-in, the user's file, the environment, flags."""
    file.write_text(FILE)
    settings = load_settings(None, os.environ, {})
    assert settings.values["model"] == SettingValue("anthropic:big", f"{file}:2")
    assert settings.values["tiers.builder.agents"] == SettingValue(4, f"{file}:6")
    assert settings.values["tiers.scout.agents"] == SettingValue(2, "built-in")
    assert settings.money("budget_usd") == 2.5

    monkeypatch.setenv("SCAFFOLD_MODEL", "openai:other")
    assert load_settings(None, os.environ, {}).values["model"] == SettingValue("openai:other", "SCAFFOLD_MODEL")

    flags = {"model": "codex:third", "budget_usd": 1.0, "agents": None}
    settings = load_settings(None, os.environ, flags)
    assert settings.values["model"] == SettingValue("codex:third", "--model")
    assert settings.values["budget_usd"] == SettingValue(1.0, "--budget-usd")
    assert settings.tier().agents == 4


def test_an_invalid_value_is_reported_once_in_two_lines(home, scaffold):
    values = {"permissions.allow": "rm", "sandbox.hosts": "a b", "environment": "A=B", "agents": "many"}
    answers = {key: scaffold("config", key, value) for key, value in values.items()}
    assert {answer.code for answer in answers.values()} == {64}
    assert [key for key, answer in answers.items() if answer.err.count(values[key]) != 1] == []
    assert {answer.err.count("\n") for answer in answers.values()} == {2}


def test_a_section_of_comments_sets_nothing_and_can_be_filled(file, scaffold):
    file.write_text("sandbox:\n  # mode: require\ntier: scout\n")
    assert scaffold("config", "tier").out == f"tier                            scout  ({file}:3)\n"
    assert scaffold("config", "sandbox.mode", "off").code == 0
    assert load_settings(None, os.environ, {}).text("sandbox.mode") == "off"


def test_setup_is_turned_off_by_a_word_or_a_list_of_one(file):
    """AL-10: as the documentation has it, `setup: off` for none."""
    for written in ("off", "'off'", "[off]", "['off']"):
        file.write_text(f"setup: {written}\n")
        assert load_settings(None, os.environ, {}).texts("setup") == ("off",), written


def test_untrusted_project_files_are_ignored_with_a_notice(repository, scaffold):
    (repository / ".scaffold.yaml").write_text("model: anthropic:theirs\n")
    (repository / ".scaffold").mkdir()
    (repository / ".scaffold" / "config.local.yaml").write_text("not: [even: yaml\n")
    answer = scaffold("config", "--json")
    assert answer.json["values"]["model"] == {"value": None, "origin": "built-in"}
    assert answer.json["ignored"] == snapshot(
        [
            {"path": ".scaffold.yaml", "setting": None, "origin": "ignored: folder not trusted"},
            {"path": ".scaffold/config.local.yaml", "setting": None, "origin": "ignored: folder not trusted"},
        ]
    )
    note = scaffold("config").err
    assert note.startswith("note: .scaffold.yaml and .scaffold/config.local.yaml ignored: folder not trusted; ")
    assert "`scaffold trust`" in note


FAULTS = {
    "modle: x": (1, "`modle`", "`model`"),
    "model: anthropic:x\ntiers:\n  bilder: {agents: 2}": (3, "`bilder`", "`builder`"),
    "tiers:\n  scout:\n    agent: 2": (3, "`tiers.scout.agent`", "`tiers.scout.agents`"),
    "agents: many": (1, "`agents`", "'many'"),
    "agents: true": (1, "`agents`", "True"),
    "agents: 21": (1, "`agents`", "1 to 20", "21"),
    "budget_usd: -1": (1, "`budget_usd`", "-1"),
    "budget_usd: .nan": (1, "`budget_usd`", "nan"),
    "tier: huge": (1, "`huge`", "`tiers/huge.yaml`"),
    "tier: Bilder": (1, "`tier`", "`builder`", "'Bilder'"),
    "tier: bilder": (1, "`bilder`", "`builder`"),
    "models: {planer: large}": (1, "`models.planer`", "`models.planner`"),
    "models:\n  critic: huge": (2, "`huge`", "anthropic:NAME"),
    "models: {critic: [large, 5]}": (1, "`5`", "anthropic:NAME"),
    "tiers: {builder: {fallback: medium}}": (1, "`medium`"),
    "tiers: {builder: {timeout_min: 1e300}}": (1, "10,080", "1e300"),
    "tiers: {builder: {questions: -1}}": (1, "0 to 1,000", "`unlimited`", "-1"),
    "model: 5": (1, "`model`", "5"),
    "model: nonsense": (1, "`nonsense`", "anthropic:NAME"),
    "tiers:\n  scout: {timeout_min: 0}": (2, "`tiers.scout.timeout_min`", "0"),
    "tiers: 3": (1, "`tiers`", "`scaffold config`"),
    "- model": (1, "list", "key: value"),
    "? [a]\n: b": (1, "key", "key: value"),
    "model: codex:a\nmodel: codex:b": (2, "`model`", "twice"),
    "model: }": (1, "YAML"),
    "permissions:\n  deny:\n    - shell:git push\n    - rubbish": (4, "`rubbish`", "TOOL:PATTERN"),
    "permissions: {allow: shell:ls}": (1, "`permissions.allow`", "TOOL:PATTERN", "shell:ls"),
    "permissions:\n  allow:\n    - shell: ls": (3, "`permissions.allow`", "in quotes"),
    "sandbox:\n  hosts: [a.example, 'http://b']": (2, "`http://b`"),
    "sandbox: {hosts: ['a.example:99999']}": (1, "`a.example:99999`"),
    "sandbox: {network: all}": (1, "none, loopback, hosts", "'all'"),
    "environment: [A-B]": (1, "`A-B`"),
    "environment: [GIT_DIR]": (1, "`GIT_DIR`"),
    "setup: make deps": (1, "`setup`", "`off`", "make deps"),
    "setup: [make deps, off]": (1, "`setup`", "`off`"),
    "inbox: {wait_s: 0}": (1, "`inbox.wait_s`", "0"),
}
"""Faulty files: the line that is named, and what its error names."""


def test_an_error_is_reported_with_file_and_line(file, scaffold):
    wrong = {}
    for text, (line, *named) in FAULTS.items():
        file.write_text(text)
        code, _, err = scaffold("config")
        is_right = code == 64 and err.startswith(f"error: {file}:{line}:") and err.count("\n") == 2
        if not is_right or not all(word in err for word in named):
            wrong[text] = err
    assert wrong == {}


def test_lists_are_merged_without_duplicates(file):
    """RA-13: the user's own rules."""
    file.write_text(
        "permissions:\n  deny:\n    - shell:git push  # never\n    - shell:git push\nenvironment: [A, NO]\n"
    )
    settings = load_settings(None, os.environ, {})
    assert settings.texts("permissions.deny") == ("shell:git push",)
    assert settings.values["permissions.deny"].origin == f"{file}:2"
    assert settings.texts("environment") == ("A", "NO")
    assert settings.texts("permissions.allow") == ()


def test_flags_override_the_tier_and_are_reported_as_they_were_typed(home):
    settings = load_settings(None, os.environ, {"sandbox.mode": "require", "agents": 7})
    assert settings.tier().agents == 7
    assert settings.values["sandbox.mode"] == SettingValue("require", "--sandbox")


def test_an_empty_file_or_value_sets_nothing(file):
    file.write_text("# nothing yet\n")
    assert load_settings(None, os.environ, {}).values["tier"].origin == "built-in"
    file.write_text("model:\nbudget_usd: null\n")
    assert load_settings(None, os.environ, {}).text("model") is None


def test_setting_a_value_keeps_everything_else_unchanged(file, scaffold):
    file.write_text(FILE)
    answer = scaffold("config", "model", "openai:next")
    assert answer.code == 0
    assert answer.out == f"model                           openai:next  ({file}:2)\n"
    assert file.read_text() == FILE.replace("anthropic:big ", '"openai:next" ')


def test_a_typed_value_is_parsed_as_the_setting_needs(home):
    assert parse_value("agents", "4") == 4
    assert parse_value("budget_usd", "4.5") == 4.5
    assert parse_value("model", "codex:4") == "codex:4"
    with pytest.raises(UsageError, match=r"'4\.5'"):
        parse_value("agents", "4.5")


def test_a_list_is_typed_with_commas_or_as_json(home):
    assert parse_value("environment", "A, B,A") == ("A", "B")
    assert parse_value("environment", "") == ()
    assert parse_value("permissions.allow", '["shell:echo a,b"]') == ("shell:echo a,b",)
    with pytest.raises(UsageError, match="JSON"):
        parse_value("environment", "[A")
    with pytest.raises(UsageError, match="GIT_DIR"):
        parse_value("environment", "GIT_DIR")


def test_an_unknown_key_is_refused_before_anything_is_written(file, scaffold):
    answer = scaffold("config", "modell", "codex:a")
    assert answer.code == 64
    assert "`model`" in answer.err
    assert not file.exists()


def test_a_file_that_cannot_be_read_or_written_is_named(file, scaffold):
    file.write_bytes(b"model: caf\xe9")
    undecodable = scaffold("config")
    file.unlink()
    file.mkdir()
    for answer in (undecodable, scaffold("config"), scaffold("config", "tier", "scout")):
        assert (answer.code, str(file) in answer.err) == (64, True)


def test_a_setting_is_removed_and_the_rest_of_the_file_stays(file, scaffold):
    """AL-28: what held before applies again."""
    file.write_text(FILE)
    answer = scaffold("config", "--unset", "tiers.builder.agents")
    assert answer.code == 0
    assert str(file) in answer.err
    assert file.read_text() == snapshot("# mine\nmodel: anthropic:big  # the good one\nbudget_usd: 2.5\n")
    assert "was not set" in scaffold("config", "--unset", "tiers.builder.agents").err
    for name in ("model", "budget_usd"):
        assert scaffold("config", "--unset", name).code == 0
    assert load_settings(None, os.environ, {}).values["budget_usd"].origin == "built-in"


def test_how_often_screens_are_drawn_is_set_in_seconds(file, scaffold):
    """AL-28: `refresh`, as often as ten times a second and more; a number that no screen could keep is refused."""
    assert load_settings(None, os.environ, {}).number("refresh") == 1
    for wrong in ("0", "-1", "often", "off"):
        assert (scaffold("config", "refresh", wrong).code, file.exists()) == (64, False)
    assert scaffold("config", "refresh", "0.1").code == 0
    assert load_settings(None, os.environ, {}).number("refresh") == 0.1


def test_contradictions_change_nothing(file, scaffold):
    file.write_text(FILE)
    for args in ("--unset", "--unset budget_usd 5", "--edit budget_usd", "--edit --list", "--unset no.such"):
        assert scaffold("config", *args.split()).code == 64, args
    assert file.read_text() == FILE


def test_the_file_is_edited_with_the_users_editor_and_checked(file, scaffold, monkeypatch):
    monkeypatch.setenv("VISUAL", "sh -c 'echo agents: many >> \"$0\"'")
    wrong = scaffold("config", "--edit")
    assert wrong.code == 64
    assert str(file) in wrong.err
    file.write_text("")
    monkeypatch.setenv("VISUAL", "sh -c 'echo budget_usd: 3 >> \"$0\"'")
    assert f"{file} is valid" in scaffold("config", "--edit").err
    assert load_settings(None, os.environ, {}).money("budget_usd") == 3


def test_the_purpose_of_every_setting_is_listed(file, scaffold):
    lines = scaffold("config", "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == list(SETTINGS)
    assert all(len(line.split()) > 1 for line in lines)
    assert list(scaffold("config", "--list", "budget_usd", "--json").json["settings"]) == ["budget_usd"]


def last_line(answer):
    """Return what `config` says of the value that it wrote."""
    return answer.err.splitlines()[0]


def test_a_setting_is_written_where_it_belongs(file, repository, scaffold, monkeypatch):
    """AL-28: what is about one repository into it, where a project may say it; the rest into the user's own file."""
    ours, local = repository / ".scaffold.yaml", repository / ".scaffold" / "config.local.yaml"
    ours.write_text("# ours\n")
    assert scaffold("trust", "--yes").code == 0
    (repository / "below").mkdir()
    monkeypatch.chdir(repository / "below")
    for args, path in (
        (("quality_gates.test", "make test"), ours),
        (("quality_gates.lint", "off"), local),  # no project may say so
        (("budget_usd", "3"), file),
        (("budget_usd", "2", "--project"), ours),
        (("setup", "make deps", "--user"), file),
        (("terminal", "plain", "--local"), local),
    ):
        answer = scaffold("config", *args)
        assert (answer.code, last_line(answer)) == (0, f"{args[0]} is set in {path}")
        assert f"({path}:" in answer.out
    assert ours.read_text() == '# ours\nquality_gates:\n  test: "make test"\nbudget_usd: 2\n'
    assert git(repository, "status", "--porcelain") == "?? .scaffold.yaml"
    shown = scaffold("config", "--local").out
    assert shown == f"quality_gates.lint  off  ({local}:2)\nterminal            plain  ({local}:3)\n"
    assert f"`setup` is the same in all repositories ({file}:2)" in scaffold("doctor").out
    for name, path in (("quality_gates.lint", local), ("budget_usd", file), ("setup", None)):
        assert last_line(scaffold("config", "--unset", name)).startswith(
            f"{name} is no longer set in {path}" if path else f"{name} was not set in {ours}; {file}:1 sets it"
        )


def test_a_value_that_a_stronger_layer_hides_is_not_said_to_be_set(file, repository, scaffold, monkeypatch):
    """AL-28: the message names what hides it."""
    monkeypatch.setenv("SCAFFOLD_MODEL", "openai:other")
    assert scaffold("trust", "--yes").code == 0
    scaffold("config", "quality_gates.lint", "off")
    scaffold("config", "agents", "2", "--project")
    for args, by in (
        (("model", "openai:mine"), "SCAFFOLD_MODEL sets it to openai:other"),
        (("quality_gates.lint", "ruff check"), f"{repository}/.scaffold/config.local.yaml:2 sets it to off"),
        (("agents", "9"), f"{repository}/.scaffold.yaml:1 sets it to 2"),
    ):
        answer = scaffold("config", *args)
        assert (answer.code, last_line(answer).partition(", but ")[2]) == (0, f"has no effect: {by}")


def test_a_folder_stays_trusted_as_users_change_it_and_nothing_else_makes_it_trusted(repository, scaffold):
    """AL-28, BX-9: a value in a folder that is not trusted is said to have no effect."""
    hidden = "has no effect: folder not trusted"
    assert hidden in last_line(scaffold("config", "setup", "make deps"))
    assert scaffold("trust", "--yes").code == 0
    assert "setup is set in" in scaffold("config", "setup", "make all").err
    (repository / ".scaffold.yaml").write_text("setup: [curl evil]\n")
    for place in ((), ("--local",)):
        answer = scaffold("config", "quality_gates.test", "make test", *place)
        assert f"{hidden}; .scaffold.yaml changed" in last_line(answer)
    assert scaffold("config", "setup").out.split() == ["setup", "none", "(built-in)"]
    assert scaffold("trust", "--yes").code == 0
    assert "is set in" in scaffold("config", "quality_gates.test", "make tests", "--local").err


def test_a_value_that_its_file_may_not_hold_or_that_fits_nothing_is_not_written(
    file, repository, scaffold, tmp_path, monkeypatch
):
    """AL-28, AL-24: nothing is written."""
    (tmp_path / "elsewhere.yaml").write_text("# theirs\n")
    (repository / ".scaffold.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    for args, said in {
        "publish pr --project": "only your own configuration may set it",
        "agents 9 --project": "a project cannot raise it beyond 3",
        "model local:x@http://evil/v1 --local": "may give the address of a model",
        "agents 2 --project --user": "--user, --project and --local",
        "setup make": "a symbolic link",
        "executors.default clade": "there is no executor `clade`",
        "executors.tiers.bilder claude": "`builder`",
        "executors.roles.planer claude": "`executors.roles.planner`",
        "executors.claude.comand x": "`executors.claude.command`",
    }.items():
        answer = scaffold("config", *args.split())
        assert (answer.code, said in answer.err) == (64, True), answer.err
    monkeypatch.chdir(tmp_path)
    assert "is in none" in scaffold("config", "quality_gates.test", "make test").err
    assert not file.exists()
    assert (tmp_path / "elsewhere.yaml").read_text() == "# theirs\n"
    assert not (repository / ".scaffold").exists()


def test_names_of_plugins_and_servers_that_are_not_there_are_said(home, scaffold):
    """AL-28: a slip would show only once a run misses the tools; the value is set, for what is added later."""
    folder = user_config_file().parent
    (folder / "plugins").mkdir(parents=True)
    (folder / "plugins" / "lint.py").write_text("#!/bin/sh\n")
    (folder / "plugins" / "lint.py").chmod(0o755)
    (folder / "mcp.json").write_text('{"mcpServers": {"docs": {"command": "true"}}}')
    for key, name in (("plugins.workers", "lint.py"), ("mcp.workers", "docs")):
        assert "names what is not there" not in scaffold("config", key, name).err
        answer = scaffold("config", key, f"{name}, lnit")
        assert answer.code == 0
        assert f"names what is not there: lnit (there is {name})" in " ".join(answer.err.split())
