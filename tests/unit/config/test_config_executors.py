"""Who works in a run, by the user's configuration."""

from pathlib import Path

import pytest

from scaffold.config.run.executor_choice import executor_settings
from scaffold.config.settings import Settings, default_values, load_settings, merge_project_settings
from scaffold.config.settings_file import parse_settings
from scaffold.core.errors import UsageError
from scaffold.core.executor_settings import ExecutorSettings
from scaffold.executors.catalog import known_programs

FILE = Path("config.yaml")


def chosen(text: str) -> ExecutorSettings:
    return executor_settings(Settings({**default_values(), **parse_settings(text, FILE)}))


def test_our_own_agents_work_unless_the_user_says_otherwise():
    """AL-20"""
    assert chosen("") == ExecutorSettings()
    assert chosen("executors: {default: native}") == ExecutorSettings()


def test_an_executor_is_chosen_by_role_and_tier_and_any_program_that_speaks_acp_has_a_name():
    """AL-20, AL-24"""
    found = chosen("""
executors:
  default: claude
  roles: {code_review: codex, testing: native}
  tiers: {scout: mine, quick: "acp:other --acp"}
  mine: {command: ~/bin/mine, args: [--acp, -v, -v], minimum: "1.2"}
""")

    assert found.default == "claude"
    assert found.roles == {"code_review": "codex", "testing": "native"}
    assert found.tiers == {"scout": "mine", "quick": "acp:other --acp"}
    assert found.programs["mine"].command == ("~/bin/mine", "--acp", "-v", "-v")
    assert found.programs["mine"].protocol == "acp"
    assert found.programs["mine"].minimum == "1.2"


def test_a_known_program_keeps_what_the_user_does_not_say():
    """BX-19: a key goes to a program only if the user names it."""
    found = chosen("""
executors:
  gemini: {command: /opt/gemini, credentials: ~/.other, env: [GEMINI_API_KEY], hosts: ["127.0.0.1:8080"]}
""").programs["gemini"]
    known = known_programs["gemini"]

    assert found.command == ("/opt/gemini", "--acp")
    assert found.credentials == "~/.other"
    assert found.env == (*known.env, "GEMINI_API_KEY")
    assert found.hosts == (*known.hosts, "127.0.0.1:8080")
    assert found.keys == known.keys


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("executors: {default: clade}", "config.yaml:1: there is no executor `clade`"),
        ("executors: {roles: {testing: clade}}", "config.yaml:1: there is no executor `clade`"),
        ("executors: {default: 7}", "must be `native`, the name of a program"),
        ("executors: {default: 'acp:'}", "must be `native`, the name of a program"),
        ("executors: {roles: {cook: claude}}", "there is no setting `executors.roles.cook`"),
        ("executors: {mine: {minimum: 1.2}}", "`executors.mine` has no `command`"),
        ("executors: {claude: {comand: x}}", "there is no setting `executors.claude.comand`"),
        ("executors: {claude: x}", "there is no setting `executors.claude`"),
        ("executors: {claude: {args: x}}", "must be a list of arguments"),
        ("executors: {claude: {env: [GIT_DIR]}}", "would make commands work on something else"),
        ("executors: {claude: {credentials: here}}", "must be a folder such as"),
        ("executors: {claude: {minimum: new}}", "must be a version"),
        ("executors: {native: {command: x}}", "there is no setting `executors.native`"),
    ],
)
def test_a_mistake_is_an_error_that_names_the_line(text, message):
    with pytest.raises(UsageError) as caught:
        chosen(text)

    assert message in caught.value.what
    assert "config.yaml:1" in caught.value.what


def test_a_project_starts_no_program():
    """BX-19: only the user's own configuration names what runs with their logins."""
    asked = parse_settings("executors: {default: claude, claude: {command: ./evil}}", Path(".scaffold.yaml"))

    merged, ignored = merge_project_settings(default_values(), asked)

    assert merged == default_values()
    assert {each.setting for each in ignored} == set(asked)
    assert {each.reason for each in ignored} == {"only your own configuration may set it"}


def test_a_setting_of_a_program_can_be_given_by_its_dotted_name():
    settings = load_settings(None, {}, {"executors.claude.minimum": 2.1})

    assert executor_settings(settings).programs["claude"].minimum == "2.1"
