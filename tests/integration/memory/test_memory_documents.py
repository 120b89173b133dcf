"""Documents in a real database: stored part by part, replaced, taken up again, and searched."""

import asyncio
import os
import threading
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import IndexFull, StoreError, UsageError
from scaffold.core.knowledge import DOCUMENTS, CollectionName
from scaffold.memory.chunking.text_pieces import PieceSize
from scaffold.memory.documents.ingestion import Ingestion
from scaffold.memory.documents.library import DocumentLibrary
from scaffold.memory.documents.page_ranges import read_page_ranges
from scaffold.memory.documents.parts import DocumentReader, ReadingOptions
from scaffold.memory.documents.reader_sandbox import ReaderPlace
from scaffold.memory.documents.source_files import documents_below, opened_file
from scaffold.memory.memories import MemoryDatabases
from scaffold.policy.secret.redaction import Redactor
from scaffold.store.database import Store
from support.fake_clock import FakeClock
from support.pdf_files import pdf_of

SMALL = ReadingOptions(size=PieceSize(100))
WORDS = "The walrus sleeps near harbour number {0}, and mast {0} is blue. "


class Killed(Exception):
    """What stands for a kill: it comes after a part is stored."""


def manual(pages: int, version: str = "") -> bytes:
    return pdf_of([f"Section {number}{version}\n{WORDS.format(number) * 4}" for number in range(1, pages + 1)])


@pytest.fixture
def library(store: Store, tmp_path: Path) -> DocumentLibrary:
    return DocumentLibrary(MemoryDatabases(store, None, tmp_path / "cache", by_meaning=False))


def ignore(progress) -> None:
    """Take no note."""


@asynccontextmanager
async def ingestion(library, folder: Path, *, index=DOCUMENTS, on_progress=ignore, redactor=None):
    reader = DocumentReader(ReaderPlace(folder, None), redactor or Redactor())
    database = library.database("project")
    yield Ingestion(database, CollectionName(index), reader, clock=FakeClock(), on_progress=on_progress)


async def add(library, path: Path, options=SMALL, **given):
    async with ingestion(library, path.parent, **given) as ingesting:
        with opened_file(path, path.name) as opened:
            return await ingesting.add(opened, options)


async def found(library, query: str, index=DOCUMENTS) -> list[str]:
    return [each.place for each in await library.find(CollectionName(index), query, most=5)]


def text_of(lines: int, word: str = "walrus") -> str:
    return "\n\n".join(f"The {word} number {line} lives in harbour {line} since that year." for line in range(lines))


async def test_a_text_is_found_at_once_left_as_it_is_and_replaced_when_it_has_changed(library, tmp_path):
    """RA-9: the old chunks are found until the new ones are complete."""
    path = tmp_path / "notes.txt"
    path.write_text(text_of(30))
    first = await add(library, path)
    assert (first.outcome, first.document.state, first.chunks) == ("added", "read", 30)
    assert await found(library, "walrus 17") == ["notes.txt"] * 5
    again = await add(library, path)
    assert (again.outcome, again.document.id) == ("unchanged", first.document.id)
    path.write_text(text_of(2_000, "seal"))
    with pytest.raises(Killed):
        await add(library, path, on_progress=kill_after(2))
    assert len(await found(library, "walrus 17")) == 5, "the former version"
    assert await found(library, "seal") == [], "the new one is not complete"
    assert sorted(each.document.state for each in library.all()) == ["read", "reading"]
    done = await add(library, path)
    assert (done.outcome, done.resumed, done.chunks) == ("replaced", True, 2_000)
    assert (await found(library, "walrus"), len(await found(library, "seal"))) == ([], 5)
    assert [each.document.id for each in library.all()] == [done.document.id]


def kill_after(parts: int):
    count = iter(range(1, parts + 1))

    def kill(progress) -> None:
        if next(count) == parts:
            raise Killed

    return kill


async def test_a_version_that_was_begun_gives_way_to_a_newer_one(library, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text(text_of(2_000))
    with pytest.raises(Killed):
        await add(library, path, on_progress=kill_after(1))
    (begun,) = library.all()
    assert (begun.document.state, begun.chunks) == ("reading", 500)
    assert len(await found(library, "walrus")) == 5, "the first version of a document is found while it is read"
    path.write_text(text_of(10, "seal"))
    assert (await add(library, path)).outcome == "added"
    assert await found(library, "walrus") == []


async def test_secrets_are_redacted_before_they_are_stored(library, store, tmp_path):
    """RA-9."""
    path = tmp_path / "notes.txt"
    path.write_text("The walrus signs with AKIAIOSFODNN7EXAMPLA in the harbour.\n" + "The password is opensesame77.")
    await add(library, path, redactor=Redactor({"DOOR": "opensesame77"}))
    stored = " ".join(row["text"] for row in store._connection.rows("SELECT text FROM chunk"))
    assert "walrus signs" in stored
    assert "AKIAIOSFODNN7EXAMPLA" not in stored
    assert "opensesame77" not in stored


async def test_a_full_index_is_said_before_anything_is_stored_where_that_is_known(library, store, tmp_path):
    """RA-7, RA-9."""
    path = tmp_path / "notes.txt"
    path.write_text(text_of(400))
    with store.transaction():
        store.knowledge.collections.ensure(CollectionName("few"), capacity=300)
    with pytest.raises(IndexFull, match=r"few .* 300 .*notes\.txt") as caught:
        await add(library, path, index="few")
    assert "forget-document" in caught.value.fix
    assert library.all() == []
    path.write_text(text_of(250))
    assert (await add(library, path, index="few")).chunks == 250
    path.write_text(text_of(300, "seal"))
    assert (await add(library, path, index="few")).chunks == 300, "the former version makes room"


async def test_a_full_disk_leaves_a_document_that_can_be_taken_up_again(library, store, tmp_path):
    """RA-9."""
    path = tmp_path / "notes.txt"
    path.write_text(text_of(2_000))

    def fill(progress) -> None:
        pages = store._connection.rows("PRAGMA page_count")[0][0]
        store._connection.rows(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StoreError, match="disk is full"):
        await add(library, path, on_progress=fill)
    (stored,) = library.all()
    assert stored.document.state == "reading"
    store._connection.rows("PRAGMA max_page_count = 1000000")
    done = await add(library, path)
    assert (done.resumed, done.chunks, done.document.state) == (True, 2_000, "read")


async def test_two_processes_that_read_the_same_file_store_it_once(library, store, tmp_path):
    """RA-9: each goes on from where the other one is."""
    path = tmp_path / "notes.txt"
    path.write_text(text_of(2_500))
    others = []

    def let_another_one_work(progress) -> None:
        if len(others) < 2:
            others.append(progress.document.position)
            store_another_part(path)

    done = await add(library, path, on_progress=let_another_one_work)
    assert (done.chunks, done.document.state) == (2_500, "read")
    assert [each.document.id for each in library.all()] == [done.document.id]
    numbers = [row["start_char"] for row in store._connection.rows("SELECT start_char FROM chunk ORDER BY seq")]
    assert numbers == sorted(set(numbers))


def store_another_part(path: Path) -> None:
    """Store another part as another process would, over a connection of its own."""

    async def work() -> None:
        with closing(Store.open(path.parent / "git" / "state.db", clock=FakeClock())) as other:
            library = DocumentLibrary(MemoryDatabases(other, None, path.parent, by_meaning=False))
            with pytest.raises(Killed):
                await add(library, path, on_progress=kill_after(1))

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join()


async def test_a_forgotten_document_is_gone_with_its_text(library, store, tmp_path):
    """RA-9: text, words and vectors."""
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text(text_of(20))
        await add(library, tmp_path / name)
    assert library.forget(library.named("one.txt"))
    assert set(await found(library, "walrus harbour")) == {"two.txt"}
    assert store._connection.rows("SELECT COUNT(*) AS n FROM chunk")[0]["n"] == 20
    with pytest.raises(UsageError, match=r"one\.txt"):
        library.named("one.txt")


async def test_what_is_no_text_is_said_and_leaves_nothing(library, tmp_path):
    contents = {b"": "empty", b" \n\t": "empty", b"a\0b": "not a text", b"x" * 20_000_001: "too large"}
    for content, why in contents.items():
        (tmp_path / "x.txt").write_bytes(content)
        with pytest.raises(UsageError, match=why):
            await add(library, tmp_path / "x.txt")
    assert library.all() == []


def test_pipes_devices_folders_and_secrets_are_not_opened(tmp_path):
    """RA-14."""
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / ".env").write_text("KEY=value")
    (tmp_path / "link.txt").symlink_to(tmp_path / ".env")
    for path, why in (
        (tmp_path / "pipe.txt", "is a pipe"),
        (Path("/dev/zero"), "device"),
        (tmp_path, "regular file"),
        (tmp_path / "link.txt", "contains secrets"),
        (tmp_path / "none.txt", "cannot be read"),
    ):
        with pytest.raises(UsageError, match=why), opened_file(path, path.name):
            pass


async def test_of_a_folder_only_texts_that_git_knows_are_documents(tmp_path):
    folder = tmp_path / "plain"
    for name in ("a.md", "sub/b.py", "sub/picture.png", ".hidden/c.md", "node_modules/d.md", "id_rsa", "link.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("text")
    (folder / "link.md").unlink()
    (folder / "link.md").symlink_to("a.md")
    assert await documents_below(folder) == [folder / "a.md", folder / "sub" / "b.py"]


@pytest.mark.slow
async def test_pages_of_a_pdf_are_found_with_their_number_and_taken_up_where_they_were(library, tmp_path):
    """RA-9."""
    pytest.importorskip("pypdfium2", reason="the extra `documents` is not installed")
    path = tmp_path / "manual.pdf"
    path.write_bytes(manual(1_100))
    positions = []

    def stop(progress) -> None:
        positions.append(progress.document.position)
        raise Killed

    while True:
        try:
            done = await add(library, path, on_progress=stop)
            break
        except Killed:
            assert (await found(library, f"Section {positions[-1]}"))[0] == f"manual.pdf:{positions[-1]}"
    assert positions == sorted(set(positions))
    assert (positions[-1], done.document.length, done.document.missing) == (1_100, 1_100, {})
    rows = library.database("project")._connection.rows("SELECT page, text FROM chunk WHERE text LIKE '%Section%'")
    assert sorted(row["page"] for row in rows) == [*range(1, 1_101)], "no page was read twice"
    assert (await found(library, "Section 733 mast 733"))[0] == "manual.pdf:733"
    part = await add(library, path, ReadingOptions(pages=read_page_ranges("5,7-8")))
    assert part.outcome == "added", "some pages are another document"
    assert part.document.position == 8


async def test_a_changed_pdf_is_replaced_and_scans_are_told_as_such(library, tmp_path):
    """RA-9."""
    pytest.importorskip("pypdfium2", reason="the extra `documents` is not installed")
    path = tmp_path / "manual.pdf"
    path.write_bytes(manual(3))
    await add(library, path)
    path.write_bytes(pdf_of(["new walrus", "", "", "text", ""], pictures=[2, 3, 4]))
    done = await add(library, path)
    assert done.outcome == "replaced"
    assert done.document.missing == snapshot(
        {"has no text: it is an image, which needs OCR": "2-3", "has no text: it is empty": "5"}
    )
    assert (await found(library, "harbour"), await found(library, "new walrus")) == ([], ["manual.pdf:1"])
