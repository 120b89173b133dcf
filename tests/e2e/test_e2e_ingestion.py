"""Documents by the real commands: stored, found with their pages, and taken up again after a kill."""

import asyncio
import json
import subprocess
from contextlib import closing

import pytest

from model_server.server import serve
from model_server.turn import Call, Turn
from scaffold.core.knowledge import DOCUMENTS
from scaffold.host.clock import SystemClock
from scaffold.memory.documents.library import DocumentLibrary
from scaffold.memory.memories import MemoryDatabases
from scaffold.store.database import Store
from scaffold.store.driver.location import database_path
from support.crash_points import CrashPoint
from support.pdf_files import pdf_of
from support.scenario import COMMAND_S

pytest.importorskip("pypdfium2", reason="the extra `documents` is not installed")
pytestmark = pytest.mark.slow

PAGES = 520
"""One more than are read at once: stored in two parts."""


def manual(word: str, pages: int = PAGES) -> bytes:
    texts = [
        f"Section {number}\nThe {word} pump {number} is set to {number * 3} bar." for number in range(1, pages + 1)
    ]
    return pdf_of(texts, pictures=[7], outline={"Basics": 1, "Pumps": 100})


def memory(scenario, *words):
    return scenario.json("memory", *words)


def found(scenario, query):
    """Return pages and texts that fit a query, by words alone: the model takes long to load."""
    with closing(Store.open(database_path(scenario.repo / ".git"), clock=SystemClock(), foreign="show")) as store:
        databases = MemoryDatabases(store, None, scenario.home / "cache", by_meaning=False)
        passages = asyncio.run(DocumentLibrary(databases).find(DOCUMENTS, query, most=20))
    return [(each.hit.chunk.span.page, each.hit.chunk.text) for each in passages]


def test_a_manual_is_answered_with_page_numbers_and_forgotten(scenario):
    """RA-9."""
    path = scenario.repo / "docs" / "manual.pdf"
    path.parent.mkdir()
    path.write_bytes(manual("blue"))
    first = scenario.scaffold("memory", "ingest", "--no-vectors", "docs", code=0)
    assert f"docs/manual.pdf: added: {PAGES} pages, {PAGES} chunks" in first.stdout
    again = scenario.scaffold("memory", "ingest", "--no-vectors", "docs/manual.pdf")
    assert "docs/manual.pdf: unchanged" in again.stdout
    search = scenario.scaffold("memory", "search", "--index", "documents", "blue pump 417")
    assert search.stdout.startswith("docs/manual.pdf:417  Pumps\n")
    (best, *_) = memory(scenario, "search", "--index", "documents", "blue pump 417")["passages"]
    assert (best["name"], best["page"], best["title"]) == ("docs/manual.pdf", 417, "Pumps")
    assert "1,251 bar" in best["text"] or "1251 bar" in best["text"]
    assert "docs/manual.pdf" in scenario.scaffold("ralph", "/memory documents").stdout
    assert "docs/manual.pdf:33 " in scenario.scaffold("ralph", "/memory documents blue pump 33").stdout
    scenario.scaffold("memory", "forget-document", "docs/manual.pdf", code=0)
    assert memory(scenario, "documents")["documents"] == []
    for file in (each for each in scenario.repo.rglob("*") if each.is_file() and each != path):
        assert b"bar" not in file.read_bytes() or b"blue pump" not in file.read_bytes(), file


def test_a_kill_at_any_commit_is_made_good_by_the_same_command(scenario):
    """RA-9: of a new document and of a new version, nothing is lost, stored twice, or found of both versions."""
    path = scenario.repo / "manual.pdf"
    versions = [("blue", manual("blue")), ("red", manual("red"))]
    assert scenario.scaffold("memory", "ingest", "--no-vectors", "--index", "other", __file__).returncode == 0, (
        "the databases exist"
    )
    killed = 0
    for number in range(2, 40, 3):
        word, content = versions[number % 2]
        path.write_bytes(content)
        crash = CrashPoint(scenario, number)
        with crash.armed():
            done = scenario.scaffold("memory", "ingest", "--no-vectors", "manual.pdf")
        killed += done.returncode == -9
        assert len({text.split()[3] for _, text in found(scenario, "pump 77")}) <= 1, "one version at a time"
        scenario.scaffold("memory", "ingest", "--no-vectors", "manual.pdf", code=0)
        (stored,) = [each for each in memory(scenario, "documents")["documents"] if each["index"] == "documents"]
        assert (stored["state"], stored["position"], stored["chunks"]) == ("read", PAGES, PAGES)
        (page, text), *_ = found(scenario, f"{word} pump 77")
        assert (page, word in text) == (77, True)
        if len(crash.passed()) < number:
            break
    assert killed >= 3


def test_two_processes_store_the_same_file_once(scenario):
    """RA-9."""
    (scenario.repo / "manual.pdf").write_bytes(manual("blue", 1_600))
    command = scenario.command("memory", "ingest", "--no-vectors", "manual.pdf")
    both = [
        subprocess.Popen(
            command, cwd=scenario.repo, env=scenario.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    for each in both:
        _, err = each.communicate(timeout=COMMAND_S)
        assert each.returncode == 0, err
    (stored,) = memory(scenario, "documents")["documents"]
    assert (stored["state"], stored["position"], stored["chunks"]) == ("read", 1_600, 1_600)


def test_what_cannot_be_stored_is_said_file_by_file(scenario):
    """RA-9: with exit code 64, and the others are stored."""
    for name, content in {"a.pdf": b"no", "b.md": b"# Walrus\n\nIt sleeps.", "c.txt": b"\0", ".env": b"KEY=1"}.items():
        (scenario.repo / name).write_bytes(content)
    done = scenario.scaffold("memory", "ingest", "--no-vectors", "a.pdf", "b.md", "c.txt", ".env", code=64)
    for line in (
        "b.md: added: 1 chunk",
        "a.pdf: not stored: a.pdf is not a PDF",
        "c.txt is not a text",
        "contains secrets",
    ):
        assert line in done.stdout
    alone = scenario.scaffold("memory", "ingest", "--no-vectors", "--pages", "x", "b.md")
    assert (alone.returncode, alone.stdout) == (64, "")
    scenario.scaffold("memory", "search", "--index", "nothing", "x", code=64)


async def test_an_agent_reads_a_pdf_by_pages(scenario):
    """RA-9."""
    (scenario.repo / "manual.pdf").write_bytes(manual("blue", 30))
    (scenario.repo / "secrets.pem").write_bytes(manual("blue", 1))
    calls = (
        Call("pdf_extract_text", {"path": "manual.pdf", "pages": "6-8"}),
        Call("pdf_extract_text", {"path": "manual.pdf", "pages": "30-", "format": "json"}),
        Call("pdf_extract_text", {"path": "../manual.pdf"}),
        Call("pdf_extract_text", {"path": "secrets.pem"}),
    )
    async with serve("anthropic", [Turn(calls=calls), Turn(text="ok")]) as server:
        process = await scenario.spawn(
            "ralph", "what does the manual say?", "--model", server.model, environ=server.environ
        )
        _, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        answers = json.dumps(server.requests[1].json)
    assert "total_pages 30, pages 6-8" in answers
    assert "--- page 7 ---" in answers
    assert "The blue pump 8 is set to 24 bar." in answers
    assert "The blue pump 30" in answers
    assert "outside the workspace" in answers
    assert answers.count("pump 1 is") == 0, "no secret file"
