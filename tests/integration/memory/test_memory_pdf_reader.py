"""PDFs are read in a process that may fail: whatever is in a file, the answer is text or a reason."""

import io
import os
import zlib
from functools import cache
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from scaffold.core.errors import UsageError
from scaffold.memory.documents.page_ranges import read_page_ranges
from scaffold.memory.documents.pdf_reader import PdfPart, PdfRequest, read_pdf
from scaffold.memory.documents.reader_sandbox import ReaderPlace, reader_place
from support.pdf_files import FONT, assembled, drawn, pdf_of, stream

pypdf = pytest.importorskip("pypdf", reason="the extra `documents` is not installed")

PAGE = (
    b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>"
)
CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
GOOD = pdf_of(["one walrus", "two", "three"])


@pytest.fixture(scope="session")
def level_home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def own_home(level_home, monkeypatch) -> None:
    """Note the level of this machine's sandbox in a home that only these tests have."""
    monkeypatch.setenv("SCAFFOLD_HOME", str(level_home))


async def read(content: bytes, folder: Path, *, pages="", reader=None, sandboxed=True, **given) -> PdfPart:
    path = folder / "x.pdf"
    path.write_bytes(content)
    file = os.open(path, os.O_RDONLY)
    try:
        async with reader_place() as place:
            used = place if sandboxed else ReaderPlace(folder, None)
            request = PdfRequest(pages=read_page_ranges(pages), **given)
            return await read_pdf(file, "x.pdf", request, used, reader)
    finally:
        os.close(file)


def texts(part: PdfPart) -> list[str]:
    return [page.text for page in part.pages]


@pytest.mark.parametrize("sandboxed", [True, False])
@pytest.mark.parametrize("reader", ["pdfium", "pypdf"])
async def test_both_readers_return_the_pages_that_are_asked_for(tmp_path, reader, sandboxed):
    """RA-9: on a machine without a sandbox, too."""
    part = await read(GOOD, tmp_path, pages="1,3-", reader=reader, sandboxed=sandboxed)
    assert (part.total, [page.number for page in part.pages], texts(part)) == (3, [1, 3], ["one walrus", "three"])


@pytest.mark.parametrize("reader", ["pdfium", "pypdf"])
async def test_pages_without_text_are_told_apart(tmp_path, reader):
    """RA-9: an image needs OCR, another page is empty."""
    part = await read(pdf_of(["text", "", "both"], pictures=[2, 3]), tmp_path, reader=reader)
    assert part.pages[1].problem == snapshot("has no text: it is an image, which needs OCR")
    assert [page.problem for page in part.pages][::2] == ["", ""]


async def test_headings_and_limits(tmp_path):
    part = await read(
        pdf_of(["word " * 100, "b"], outline={"First": 1, "Second": 2}), tmp_path, headings=True, page_chars=40
    )
    assert [(each.page, each.text) for each in part.headings] == [(1, "First"), (2, "Second")]
    assert len(part.pages[0].text) == 40
    assert part.pages[0].problem == "is read up to character 40"
    few = await read(pdf_of(["a", "b", "c"]), tmp_path, most_pages=2)
    assert (few.total, texts(few)) == (3, ["a", "b"])


def encrypted(user: str, owner: str) -> bytes:
    writer, out = pypdf.PdfWriter(), io.BytesIO()
    for page in pypdf.PdfReader(io.BytesIO(GOOD)).pages:
        writer.add_page(page)
    writer.encrypt(user, owner, algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


async def test_a_password_is_asked_for_only_if_one_is_needed(tmp_path):
    """RA-9."""
    with pytest.raises(UsageError, match="encrypted: it needs a password"):
        await read(encrypted("secret", "other"), tmp_path)
    assert texts(await read(encrypted("", "other"), tmp_path))[0] == "one walrus"


@pytest.mark.slow
async def test_what_cannot_be_read_is_said(tmp_path):
    """RA-9."""
    contents = {
        b"": "empty",
        b"hello": "not a PDF",
        b"%PDF-1.7\n": "damaged",
        GOOD[: len(GOOD) // 2]: "damaged",
        b"%PDF-1.7\n" + bytes(range(256)) * 100: "damaged",
    }
    for content, why in contents.items():
        with pytest.raises(UsageError, match=why):
            await read(content, tmp_path)


async def test_a_file_of_two_gigabytes_is_refused_at_once(tmp_path):
    path = tmp_path / "big.pdf"
    path.write_bytes(b"%PDF-1.7\n")
    os.truncate(path, 2_000_000_000)
    file = os.open(path, os.O_RDONLY)
    with pytest.raises(UsageError, match="too large"):
        await read_pdf(file, "big.pdf", PdfRequest(pages=read_page_ranges("")), ReaderPlace(tmp_path, None))
    os.close(file)


@cache
def packed_spaces() -> bytes:
    packer = zlib.compressobj(9)
    return b"".join(packer.compress(b" " * 1_000_000) for _ in range(1_500)) + packer.flush()


def bomb(filters: int) -> bytes:
    packed = packed_spaces()
    for _ in range(filters - 1):
        packed = zlib.compress(packed, 9)
    content = b"<< /Length %d /Filter [%s] >>\nstream\n%s\nendstream" % (
        len(packed),
        b" /FlateDecode" * filters,
        packed,
    )
    kids = b"<< /Type /Pages /Kids [4 0 R 6 0 R] /Count 2 >>"
    return assembled(
        {1: CATALOG, 2: kids, 3: FONT, 4: PAGE % 5, 5: content, 6: PAGE % 7, 7: stream(drawn("behind the bomb"))}
    )


def with_pages(kids: bytes, count: int) -> bytes:
    tree = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count)
    return assembled({1: CATALOG, 2: tree, 3: FONT, 4: PAGE % 5, 5: stream(drawn("the page"))})


def circle() -> bytes:
    form = b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >> "
    page = (PAGE % 5).replace(b"/Font << /F1 3 0 R >>", b"/XObject << /X 6 0 R >>")
    tree = b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>"
    return assembled({1: CATALOG, 2: tree, 4: page, 5: stream(b"/X Do /X Do"), 6: stream(b"/X Do /X Do", form)})


def deep(levels: int) -> bytes:
    trees = {n: b"<< /Type /Pages /Kids [%d 0 R] /Count 1 >>" % (n + 1) for n in range(2, levels)}
    return assembled({1: CATALOG, **trees, levels: b"<< /Type /Page /MediaBox [0 0 1 1] >>"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(lambda: bomb(1), id="bomb"),
        pytest.param(lambda: bomb(2), id="bomb in a bomb"),
        pytest.param(circle, id="forms in a circle"),
        pytest.param(lambda: with_pages(b"2 0 R 2 0 R", 1_000), id="tree in a circle"),
        pytest.param(lambda: deep(5_000), id="deep tree"),
        pytest.param(lambda: with_pages(b"4 0 R " * 300_000, 300_000), id="many pages"),
        pytest.param(lambda: with_pages(b"4 0 R", 1_000_000), id="claimed pages"),
        pytest.param(lambda: with_pages(b"4 0 R", -5), id="negative count"),
        pytest.param(lambda: assembled({1: CATALOG, 2: b"[" * 1_000_000}), id="brackets"),
    ],
)
async def test_hostile_files_end_in_time_with_text_or_a_reason(tmp_path, content):
    """RA-9: the reader dies, not its caller; pages after the one that kills it are read."""
    data = content()
    try:
        part = await read(data, tmp_path, most_pages=20)
    except UsageError as error:
        part, reason = None, error.what
    if part is None:
        assert "cannot be read" in reason
        return
    assert part.pages
    if part.total == 2:
        assert "cannot be read" in part.pages[0].problem
        assert texts(await read(data, tmp_path, pages="2")) == ["behind the bomb"]


async def test_a_reader_sees_neither_the_users_files_nor_a_folder_to_write_to(tmp_path):
    """RA-9, RA-13."""
    async with reader_place() as place:
        if place.sandbox is None:
            pytest.skip("this machine has no sandbox")
        confinement = place.sandbox.confinement
        assert (confinement.writable, confinement.network) == ((), "none")
        assert Path.home().resolve() in confinement.hidden
    assert not place.folder.exists()
