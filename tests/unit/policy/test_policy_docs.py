"""The permissions page describes what the code does."""

import re
from pathlib import Path

from scaffold.policy.path.protected_areas import AREA_GLOBS, AREA_TYPES, AREA_WORDS
from scaffold.policy.path.protected_files import PROTECTED_FILES
from scaffold.policy.permission.call_decision import READ_ONLY_MODES
from scaffold.policy.permission.call_request import category_of
from scaffold.policy.rule.ruleset import DEFAULT_DECISIONS
from scaffold.policy.rule.tool_rules import parse_rule
from scaffold.policy.secret.unreadable_files import ENV_TEMPLATES, SECRET_FILES
from scaffold.policy.shell.reading.readonly_arguments import ARGUMENT_PARSERS
from scaffold.policy.shell.reading.readonly_commands import READ_ONLY_COMMANDS
from scaffold.policy.shell.reading.readonly_git import SUBCOMMANDS

GUIDE = (Path(__file__).parents[3] / "docs" / "permissions.md").read_text()


def section(title):
    return GUIDE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def lists(text):
    """Return the words in backticks of each paragraph that contains nothing else."""
    paragraphs = [paragraph for paragraph in text.split("\n\n") if re.fullmatch(r"(`[^`]+`\s*)+", paragraph)]
    return [re.findall(r"`([^`]+)`", paragraph) for paragraph in paragraphs]


def test_each_list_in_the_documentation_matches_the_code():
    """RA-14, AL-18: protected files, secrets, areas and what only reads are listed in the docs."""
    expected = {
        "Commands known to be read-only": [sorted({*READ_ONLY_COMMANDS, *ARGUMENT_PARSERS, "cd"}), sorted(SUBCOMMANDS)],
        "Protected files": [list(PROTECTED_FILES)],
        "Secrets": [list(SECRET_FILES)],
        "Protected areas": [list(AREA_GLOBS), list(AREA_WORDS)],
    }
    assert {title: lists(section(title)) for title in expected} == expected


def test_templates_and_types_are_named():
    """RA-14, AL-18."""
    assert [name for name in ENV_TEMPLATES if f"`{name}`" not in section("Secrets")] == []
    assert [name for name in AREA_TYPES if f"`{name}`" not in section("Protected areas")] == []
    assert [mode for mode in READ_ONLY_MODES if f"`{mode}`" not in section("The order")] == []


def test_all_categories_are_listed_with_their_defaults():
    """RA-13."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", section("Categories"), re.MULTILINE)
    assert {category: decision for category, decision, _ in rows} == dict(DEFAULT_DECISIONS)
    tools = {tool: category for category, _, text in rows for tool in re.findall(r"`(\w+)`", text)}
    assert {tool: category_of(tool) for tool in tools} == tools


def test_every_example_rule_is_valid():
    """RA-13."""
    shown = re.findall(r"`([a-z_]+:[^`]+)`", section("Rules"))
    assert len(shown) >= 8
    assert [str(parse_rule(rule)) for rule in shown] == shown
