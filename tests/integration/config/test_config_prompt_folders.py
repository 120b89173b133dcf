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


def test_a_trusted_projects_folder_comes_before_the_users(repository, users, projects, scaffold):
    """SC-6: built-in, then the user's, then the project's, the latter in trusted folders only."""
    notices = []
    assert prompt_folders(repository, notice=notices.append) == (users,)
    assert notices == snapshot([".scaffold/prompts ignored: folder not trusted; `scaffold trust` trusts it."])
    assert prompt_folders(repository, trust_once=True) == (projects, users)
    assert scaffold("trust", "--yes").code == 0
    assert prompt_folders(repository) == (projects, users)


def test_a_projects_folder_cannot_be_a_link_to_another_place(repository, users, tmp_path_factory):
    """SC-6: a link in a repository would expose other files to a model."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (repository / ".scaffold").mkdir(exist_ok=True)
    (repository / ".scaffold" / "prompts").symlink_to(elsewhere)
    notices = []
    assert prompt_folders(repository, trust_once=True, notice=notices.append) == (users,)
    assert len(notices) == 1


def test_the_folder_is_found_from_a_subfolder_of_the_project(repository, projects):
    """SC-6: and one that is missing is left out."""
    below = Path(repository) / "deep" / "er"
    below.mkdir(parents=True)
    assert prompt_folders(below, trust_once=True) == (projects,)
