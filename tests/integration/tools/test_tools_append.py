import codecs
import os
import resource

import pytest

from scaffold.tools.file.append import append_file
from scaffold.tools.workspace import Workspace


@pytest.fixture
def append(root):
    return lambda path, content: append_file(Workspace(root, {})).run({"path": path, "content": content})


async def test_text_is_appended_and_the_rest_is_unchanged(root, append):
    """RA-4."""
    (root / "a").write_bytes(b"one\r\ntwo\n")
    output = await append("a", "three\r\nfour")
    assert (root / "a").read_bytes() == b"one\r\ntwo\nthree\r\nfour"
    assert output.content == "a appended: 11 bytes, 2 lines; it has 20 bytes now."


async def test_line_endings_and_encoding_are_those_of_the_file(root, append):
    """RA-4: a model is shown no carriage returns, so it sends none."""
    for mark, codec in ((b"", "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        (root / "a").write_bytes(mark + "öl\r\n".encode(codec))
        await append("a", "€\nthree\r\n")
        assert (root / "a").read_bytes() == mark + "öl\r\n€\r\nthree\r\n".encode(codec)


async def test_a_missing_file_is_created_with_its_folders(root, append):
    output = await append("new/deep/a", "one\n")
    assert (root / "new" / "deep" / "a").read_text() == "one\n"
    assert not output.failed
    assert "no end" not in output.content


async def test_a_last_line_without_a_newline_is_reported(root, append):
    (root / "a").write_text("one")
    output = await append("a", "two")
    assert (root / "a").read_text() == "onetwo"
    assert "no newline" in output.content


async def test_the_file_keeps_its_inode_mode_and_hard_links(root, append):
    (root / "a").write_text("one\n")
    (root / "a").chmod(0o750)
    os.link(root / "a", root / "b")
    await append("a", "two\n")
    assert (root / "b").read_text() == "one\ntwo\n"
    assert (root / "a").stat().st_mode & 0o777 == 0o750


async def test_a_character_cut_by_the_sniffing_limit_does_not_make_the_file_latin_1(root, append):
    text = "x" + "ö" * 10_000
    (root / "a").write_text(text)
    await append("a", "€")
    assert (root / "a").read_text() == text + "€"


@pytest.fixture
def small_files():
    """A limit of 1 MB for the files this process writes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_text_that_does_not_fit_is_not_appended_in_part(root, append, small_files):
    (root / "a").write_text("one\n")
    output = await append("a", "x" * 2_000_000)
    assert output.failed
    assert "too large" in output.content
    assert (root / "a").read_text() == "one\n"


async def test_an_unsuitable_file_is_refused_and_not_changed(root, append):
    (root / "folder").mkdir()
    (root / "binary").write_bytes(b"\0\1")
    (root / "latin").write_bytes(b"caf\xe9\n")
    (root / "later").write_bytes(b"x" * 10_000 + b"caf\xe9\n")
    (root / "declared").write_bytes(b"# coding: latin-1\n")
    (root.parent / "secret").write_text("mine")
    (root / "link").symlink_to("../secret")
    os.mkfifo(root / "pipe")
    refused = {
        ("folder", "x"): "is a folder",
        ("binary", "x"): "binary",
        ("latin", "é"): "is not known",
        ("later", "é"): "is not known",
        ("declared", "€"): "iso-8859-1 cannot encode",
        ("link", "x"): "outside the workspace",
        ("pipe", "x"): "a pipe",
        (".git/config", "x"): "belongs to git",
        ("half", "\ud800"): "surrogate",
    }
    for (path, content), reason in refused.items():
        output = await append(path, content)
        assert output.failed, path
        assert reason in output.content, path
    assert (root / "binary").read_bytes() == b"\0\1"
    assert (root / "latin").read_bytes() == b"caf\xe9\n"
    assert (root.parent / "secret").read_text() == "mine"
