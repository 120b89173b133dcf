"""Where prompts of roles come from: the project's in trusted folders only, then the user's."""

import os
from pathlib import Path

import pytest

from scaffold.config.folder_trust import prompt_folders
from scaffold.host.user_dirs import user_dirs


@pytest.fixture
def users(repository):
    folder = user_dirs(os.environ).config / "prompts"
    folder.mkdir(parents=True)
    return str(folder)


@pytest.fixture
def projects(repository):
    folder = repository / ".scaffold" / "prompts"
    folder.mkdir(parents=True)
    return str(folder)


def folders(start, **how):
    return prompt_folders(start, os.environ, **how)


def test_a_project_is_heard_before_its_user_once_its_folder_is_trusted(repository, users, projects, scaffold):
    """SC-6: built-in, then the user's, then the project's, the latter in trusted folders only."""
    notices = []
    assert folders(repository, notice=notices.append) == (users,)
    assert notices == [".scaffold/prompts ignored: folder not trusted; `scaffold trust` trusts it."]
    assert folders(repository, trust_once=True) == (projects, users)
    assert scaffold("trust").code == 0
    assert folders(repository) == (projects, users)


def test_folders_that_are_not_there_are_left_out(repository):
    """SC-6."""
    assert folders(repository, trust_once=True) == ()


def test_a_project_brings_no_folder_from_somewhere_else(repository, users, tmp_path_factory):
    """SC-6: a link in a repository would have others' files shown to a model."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (repository / ".scaffold").mkdir(exist_ok=True)
    (repository / ".scaffold" / "prompts").symlink_to(elsewhere)
    notices = []
    assert folders(repository, trust_once=True, notice=notices.append) == (users,)
    assert "leads out of the folder" in notices[0]


def test_prompts_of_a_folder_are_found_from_within_it(repository, projects):
    """SC-6."""
    below = Path(repository) / "deep" / "er"
    below.mkdir(parents=True)
    assert folders(below, trust_once=True) == (projects,)
