"""The page on configuration agrees with the table of settings and the lists in the code."""

import re
from pathlib import Path

from scaffold.config.schema.table import SETTINGS
from scaffold.config.schema.tier_settings import BUILT_IN_TIERS, FIELDS
from scaffold.config.settings_file import built_in_values
from scaffold.core.run_settings import Tier
from scaffold.host.child_environment import NEVER_INHERITED
from scaffold.policy.trust_decision import ACTIVE_FILES

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
OTHER_DEFAULTS = {"setup": "detected", "tiers.TIER": "by tier", "approvals.CATEGORY": "by category"}
"""What the page says for settings whose default depends on something."""


def documented():
    """Return the meaning, the default and what a project may do, without links, for each documented name."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    without_links = ([re.sub(r"\[(.*?)\]\(.*?\)", r"\1", cell) for cell in row] for row in rows if len(row) == 4)
    return {name.strip("`"): tuple(rest) for names, *rest in without_links for name in names.split(", ")}


def page_name(name):
    return re.sub(r"^approvals\..*", "approvals.CATEGORY", re.sub(r"^tiers\.[a-z]+", "tiers.TIER", name))


def default_text(setting):
    shown = page_name(setting.name)
    special = next((text for name, text in OTHER_DEFAULTS.items() if shown.startswith(name)), None)
    if special or setting.default in {None, ()}:
        return special or "none"
    return f"`{setting.default}`" if isinstance(setting.default, str) else str(setting.default)


def test_each_settings_row_says_what_the_table_says_and_there_is_no_other():
    """AL-28."""
    rows = documented()
    assert set(rows) == set(map(page_name, SETTINGS))
    assert {name: rows[page_name(name)] for name in SETTINGS} == {
        name: (setting.purpose, default_text(setting), setting.project.allows) for name, setting in SETTINGS.items()
    }


def test_the_settings_that_are_written_into_the_repository_are_listed():
    """AL-28."""
    listed = re.search(r"^Settings of a repository are (.*?)\.$", PAGE, re.MULTILINE | re.DOTALL)
    assert listed
    assert re.findall(r"`(.+?)`", listed[1]) == [name for name, setting in SETTINGS.items() if setting.of_repository]


def test_each_default_passes_its_own_parser():
    defaults = {name: setting.default for name, setting in SETTINGS.items() if setting.default is not None}
    assert {name: SETTINGS[name].parse(default) for name, default in defaults.items()} == defaults


def test_each_field_of_a_tier_is_a_setting_with_a_value_in_its_file():
    """AL-1."""
    assert set(FIELDS) == {field for field in Tier.__struct_fields__ if field != "name"}
    rows = {name for name in SETTINGS if name.startswith("tiers.")}
    assert rows == {f"tiers.{tier}.{field}" for tier in BUILT_IN_TIERS for field in FIELDS}
    optional = {
        f"tiers.{tier}.{name}" for tier in BUILT_IN_TIERS for name, row in FIELDS.items() if not row.is_required
    }
    given = {"tiers.architect.fallback", "tiers.scout.question_gates"}
    assert rows - set(built_in_values()) == optional - given


def test_files_that_need_trust_and_variables_that_are_never_inherited_are_listed():
    assert [name for name in (*ACTIVE_FILES, *NEVER_INHERITED) if f"`{name}`" not in PAGE] == []
