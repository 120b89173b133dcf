"""Folders with prompts of roles: the project's if it is trusted, then the user's."""

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.config.folder_trust import prompt_folders
from scaffold.host.user_dirs import user_dirs


@pytest.fixture
def users(repository):
    folder = user_dirs().config / "prompts"
    folder.mkdir(parents=True)
    return str(folder)


@pytest.fixture
def projects(repository):
    folder = repository / ".scaffold" / "prompts"
    folder.mkdir(parents=True)
    return str(folder)


def folders(start, **how):
    return prompt_folders(start, **how)


def test_a_trusted_projects_folder_comes_before_the_users(repository, users, projects, scaffold):
    """SC-6: built-in, then the user's, then the project's, the latter in trusted folders only."""
    notices = []
    assert folders(repository, notice=notices.append) == (users,)
    assert notices == snapshot([".scaffold/prompts ignored: folder not trusted; `scaffold trust` trusts it."])
    assert folders(repository, trust_once=True) == (projects, users)
    assert scaffold("trust", "--yes").code == 0
    assert folders(repository) == (projects, users)


def test_missing_folders_are_left_out(repository):
    """SC-6."""
    assert folders(repository, trust_once=True) == ()


def test_a_projects_folder_cannot_be_a_link_to_another_place(repository, users, tmp_path_factory):
    """SC-6: a link in a repository would expose other files to a model."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (repository / ".scaffold").mkdir(exist_ok=True)
    (repository / ".scaffold" / "prompts").symlink_to(elsewhere)
    notices = []
    assert folders(repository, trust_once=True, notice=notices.append) == (users,)
    assert "points outside the folder" in notices[0]


def test_the_folder_is_found_from_a_subfolder_of_the_project(repository, projects):
    """SC-6."""
    below = Path(repository) / "deep" / "er"
    below.mkdir(parents=True)
    assert folders(below, trust_once=True) == (projects,)
