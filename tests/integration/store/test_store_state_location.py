"""The location of the state: a file in the git directory, or a schema that only this repository uses."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from scaffold.core.errors import StoreError, UsageError
from scaffold.store.driver.location import (
    DATABASE_URL,
    PostgresLocation,
    StoreLocation,
    database_path,
    existing_state_location,
    state_location,
)

URL = "postgresql://ada@localhost/work"
ON_SERVER = {DATABASE_URL: URL}


@pytest.fixture
def common_dir(tmp_path: Path) -> Path:
    return tmp_path / "My Shop!" / ".git"


def test_without_a_server_the_state_is_a_file(common_dir: Path) -> None:
    for environ in ({}, {DATABASE_URL: ""}):
        assert state_location(common_dir, environ) == database_path(common_dir)
        assert existing_state_location(common_dir, environ) is None
    database_path(common_dir).parent.mkdir(parents=True)
    database_path(common_dir).touch()
    assert existing_state_location(common_dir, {}) == database_path(common_dir)


def test_a_schema_name_is_chosen_once(common_dir: Path, tmp_path: Path) -> None:
    """OR-8: repositories share a server, never a schema, not even if they have the same name."""
    assert existing_state_location(common_dir, ON_SERVER) is None
    assert not common_dir.exists()
    place = state_location(common_dir, ON_SERVER)
    assert isinstance(place, PostgresLocation)
    assert place.url == URL
    assert place.schema.startswith("scaffold_my_shop_")
    assert state_location(common_dir, ON_SERVER) == existing_state_location(common_dir, ON_SERVER) == place
    assert [entry.name for entry in (common_dir / "scaffold").iterdir()] == ["schema"]
    assert state_location(tmp_path / "other" / "My Shop!" / ".git", ON_SERVER).schema != place.schema


def test_one_of_many_concurrent_choices_of_a_name_wins(tmp_path: Path) -> None:
    at_once = Barrier(4)

    def choose(common_dir: Path) -> StoreLocation:
        at_once.wait(timeout=60)
        return state_location(common_dir, ON_SERVER)

    with ThreadPoolExecutor(4) as pool:
        for number in range(20):
            places = set(pool.map(choose, [tmp_path / str(number) / ".git"] * 4))
            assert len(places) == 1


def test_a_name_that_was_tampered_with_or_cannot_be_written_is_an_error(common_dir: Path, tmp_path: Path) -> None:
    path = common_dir / "scaffold" / "schema"
    path.parent.mkdir(parents=True)
    for content in ("", "shop; DROP SCHEMA public", "\udcff"):
        path.write_bytes(content.encode(errors="surrogateescape"))
        with pytest.raises(StoreError, match="schema") as caught:
            state_location(common_dir, ON_SERVER)
        assert "backup" in caught.value.fix
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="schema"):
        state_location(tmp_path / "file" / ".git", ON_SERVER)


def test_an_invalid_address_is_a_usage_error_that_does_not_show_it(common_dir: Path) -> None:
    for url in ("mysql://localhost/work", "state.db", "localhost", "postgresql://["):
        with pytest.raises(UsageError, match=DATABASE_URL) as caught:
            existing_state_location(common_dir, {DATABASE_URL: url})
        assert url not in caught.value.what


@pytest.mark.parametrize("name", ["scaffold", "scaffold/state.db", "scaffold/logs", "scaffold/worktree.lock"])
@pytest.mark.parametrize("environ", [{}, ON_SERVER])
def test_a_link_in_the_state_of_a_received_repository_is_refused(
    common_dir: Path, tmp_path: Path, name: str, environ: dict[str, str]
) -> None:
    """BX-9: the state would be written where it leads."""
    (common_dir / name).parent.mkdir(parents=True)
    (common_dir / name).symlink_to(tmp_path / "elsewhere")
    for locate in (state_location, existing_state_location):
        with pytest.raises(StoreError, match="is a symbolic link, which is not followed"):
            locate(common_dir, environ)


def test_a_pipe_in_the_state_of_a_received_repository_is_refused(common_dir: Path) -> None:
    """BX-9: whoever reads it would wait for ever."""
    (common_dir / "scaffold").mkdir(parents=True)
    os.mkfifo(common_dir / "scaffold" / "schema")
    for locate in (state_location, existing_state_location):
        with pytest.raises(StoreError, match="is a named pipe or a device"):
            locate(common_dir, ON_SERVER)
