"""The page on configuration names what there is."""

import re
from pathlib import Path

import pytest

from scaffold.config.schema import CHECKS, built_in_settings
from scaffold.host.environment import NEVER_INHERITED
from scaffold.policy.trust import ACTIVE_FILES

PAGE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()


@pytest.mark.parametrize("name", sorted({*CHECKS, *built_in_settings()}))
def test_every_setting_stands_in_the_table_of_settings(name):
    shown = re.sub(r"^approvals\..*", "approvals.CATEGORY", re.sub(r"^tiers\.[a-z]+", "tiers.TIER", name))
    assert any(f"`{shown}`" in line for line in PAGE.splitlines() if line.startswith("| `"))


@pytest.mark.parametrize("name", ACTIVE_FILES)
def test_every_file_that_needs_trust_is_named(name):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", sorted(NEVER_INHERITED))
def test_every_variable_that_never_passes_is_named(name):
    assert f"`{name}`" in PAGE


def test_every_setting_there_is_has_a_value_to_begin_with():
    assert set(built_in_settings()) == set(CHECKS)
