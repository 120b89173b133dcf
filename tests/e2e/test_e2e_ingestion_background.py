"""Documents that are stored in the background: what is said of a process that works, ends, fails or is killed."""

import os
import signal
from pathlib import Path

import pytest

from support.scenario import Scenario, wait_until

BOOKS = 8


@pytest.fixture
def scenario(tmp_path):
    scenario = Scenario(tmp_path)
    books = scenario.repo / "books"
    books.mkdir()
    for number in range(BOOKS):
        lines = (f"The pump {number}.{line} is set to {line * 3} bar.\n\n" for line in range(20_000))
        (books / f"book{number}.txt").write_text("".join(lines))
    return scenario


def state(scenario):
    return scenario.json("memory", "documents")


def begin(scenario, *words):
    return scenario.json("memory", "ingest", "--no-vectors", *words, "--detach")


@pytest.mark.slow
def test_documents_are_stored_in_the_background_also_after_a_kill(scenario):
    """RA-9: the command that began it says how to go on; nothing is left of a process that has stored everything."""
    job = begin(scenario, "--index", "library", "books")
    os.kill(job["pid"], signal.SIGKILL)
    assert wait_until(lambda: state(scenario)["background"][0]["state"] == "ended")
    told = " ".join(scenario.scaffold("memory", "documents").stdout.split())
    assert "To go on, repeat there: scaffold memory ingest --index=library --no-vectors books" in told
    again = begin(scenario, "--index", "library", "books")
    assert [each["pid"] for each in state(scenario)["background"]] in ([again["pid"]], [])
    assert wait_until(lambda: not state(scenario)["background"])
    documents = state(scenario)["documents"]
    assert {each["name"]: each["state"] for each in documents} == {
        f"books/book{number}.txt": "read" for number in range(BOOKS)
    }
    assert not any((Path(scenario.environ["SCAFFOLD_HOME"], "data", "ingestion")).iterdir())


@pytest.mark.slow
def test_what_cannot_be_stored_in_the_background_is_said_with_the_place_of_the_reason(scenario):
    """RA-9: until the same command is begun again; options that are wrong begin nothing."""
    wrong = scenario.scaffold("memory", "ingest", "books", "--pages", "x", "--detach")
    assert (wrong.returncode, state(scenario)["background"]) == (64, [])
    secret = scenario.repo / "id_rsa"
    secret.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    begin(scenario, "id_rsa")
    assert wait_until(lambda: [each["state"] for each in state(scenario)["background"]] == ["failed"])
    (job,) = state(scenario)["background"]
    assert "id_rsa" in Path(job["log"]).read_text()
    begin(scenario, "id_rsa")
    assert [each["log"] == job["log"] for each in state(scenario)["background"]] == [False]
