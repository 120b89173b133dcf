"""What an agent's tools for PDFs answer, over real files and a real database."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.policy.permission.call_request import ToolInvocation, permission_request
from scaffold.policy.secret.redaction import Redactor
from scaffold.policy.shell.workspace_paths import WorkspacePaths
from scaffold.session.memory.embedding import MemoryAccess
from scaffold.session.memory.pdf_documents import PdfDocuments
from scaffold.session.memory.pdf_text import pdf_text
from scaffold.store.user_store import UserStore
from scaffold.tools.vector_db import pdf_document_tool, pdf_extract_text
from scaffold.tools.workspace import MAX_ANSWER_CHARS, Workspace
from support.fake_clock import FakeClock
from support.pdf_files import pdf_of

pytest.importorskip("pypdfium2", reason="the extra `documents` is not installed")


@pytest.fixture(scope="session")
def level_home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def own_home(level_home, monkeypatch) -> None:
    """Note the level of this machine's sandbox in a home that only these tests have."""
    monkeypatch.setenv("SCAFFOLD_HOME", str(level_home))


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "work"
    root.mkdir()
    return Workspace(root, {"PATH": os.environ["PATH"]})


@pytest.fixture
def store_pdf(workspace, tmp_path):
    with closing(UserStore.open(tmp_path / "home" / "user.db", clock=FakeClock())) as store:
        access = MemoryAccess(cwd=workspace.root, store=store, redactor=Redactor())
        yield pdf_document_tool(PdfDocuments(access, workspace)).run


async def test_an_answer_has_whole_pages_and_says_how_to_go_on(workspace):
    """RA-9."""
    (workspace.root / "a.pdf").write_bytes(pdf_of([f"page {n} " + "word " * 1_000 for n in range(1, 31)]))
    first = await pdf_text(workspace, {"path": "a.pdf"})
    assert len(first.content) <= MAX_ANSWER_CHARS + 200
    assert "... continue with pages 6-" in first.content
    more = await pdf_text(workspace, {"path": "a.pdf", "pages": "6-", "format": "json"})
    answer = json.loads(more.content)
    assert [page["page"] for page in answer["pages"]] == [6, 7, 8, 9, 10]
    assert (answer["total_pages"], answer["continue_with"]) == (30, "11-")


async def test_pages_without_text_are_one_line(workspace):
    """RA-9."""
    (workspace.root / "scan.pdf").write_bytes(pdf_of(["Title", "", "", ""], pictures=[2, 3]))
    answer = await pdf_text(workspace, {"path": "scan.pdf"})
    assert answer.content.split("\n")[1:] == snapshot(
        [
            "--- page 1 ---",
            "Title",
            "--- pages 2-3 have no text: they are images, which need OCR ---",
            "--- page 4 has no text: it is empty ---",
        ]
    )


async def test_what_cannot_be_read_or_stored_is_said(workspace, store_pdf):
    """RA-9, RA-14."""
    (workspace.root / "a.pdf").write_bytes(pdf_of(["text"]))
    (workspace.root / "a.md").write_text("# Text")
    (workspace.root / ".env").write_text("KEY=1")
    (workspace.root / "out.pdf").symlink_to("/etc/passwd")
    os.mkfifo(workspace.root / "pipe.pdf")
    reasons = {
        "none.pdf": "no file none.pdf",
        "../x.pdf": "outside the workspace",
        ".": "folder",
        "pipe.pdf": "pipe",
        "out.pdf": "outside the workspace",
        ".env": "contains secrets",
        "a.md": "not a PDF",
        "a.pdf 9": "page 9",
        "a.pdf 2-1": "ends before",
    }
    for words, why in reasons.items():
        args = dict(zip(("path", "pages"), words.split(), strict=False))
        for answer in (await pdf_text(workspace, args), await store_pdf(args)):
            assert (answer.failed, why in answer.content) == (True, True), answer


async def test_a_pdf_is_stored_once_and_told_with_what_is_missing(workspace, store_pdf):
    """RA-7, RA-9."""
    (workspace.root / "a.pdf").write_bytes(pdf_of(["walrus", "", "seal"], pictures=[2]))
    first = await store_pdf({"path": "a.pdf", "index": "sea"})
    assert "added as document" in first.content
    assert "in sea: 3 pages, 2 chunks" in first.content
    assert "page 2 has no text" in first.content
    assert "unchanged as document" in (await store_pdf({"path": "a.pdf", "index": "sea"})).content
    assert (await store_pdf({"path": "a.pdf", "index": "long_term_memory"})).failed


def test_the_tools_name_their_path_to_the_policy(workspace):
    """RA-13: rules for paths hold for them, too."""
    for tool in (pdf_extract_text(None), pdf_document_tool(None)):
        call = ToolInvocation(tool=tool.name, category=tool.category, args={"path": ".env"})
        request = permission_request(call, WorkspacePaths.on_disk(workspace.root, workspace.root))
        assert (request.kind, request.subject, request.paths) == ("path", ".env", (".env",))
