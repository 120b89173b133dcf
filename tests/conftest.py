"""What tests of several packages share: a PostgreSQL server that is started when the first test asks for it."""

from collections.abc import Iterator

import pytest

from postgres import private_server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a private server; one for each process of a test run."""
    with private_server() as url:
        yield url
