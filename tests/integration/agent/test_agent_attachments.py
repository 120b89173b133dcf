import os

import pytest
from inline_snapshot import snapshot

from scaffold.agent.context.attachments import (
    IMAGE_BYTES,
    MAX_ATTACHMENTS,
    READABLE_BYTES,
    TEXT_LIMIT,
    AttachmentPlaces,
    attach,
    dropped_images,
)
from scaffold.core.conversation import Image, Text

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def folder(tmp_path):
    """A working folder with a home beside it."""
    work, home = tmp_path / "work", tmp_path / "home"
    (work / "src").mkdir(parents=True)
    home.mkdir()
    (work / "src" / "a.py").write_text("one\ntwo\nthree\nfour\n")
    (work / "notes").write_text("\ufeffremember\n", "utf-8")
    (work / "my file.txt").write_text("spaced\n")
    (work / "odd:1.txt").write_text("colon\n")
    (home / "todo.md").write_text("at home\n")
    (tmp_path / "up.txt").write_text("above\n")
    return work


def attached(folder, words, *, outside=True, **options):
    places = AttachmentPlaces(cwd=folder, home=folder.parent / "home", top=folder, outside=outside)
    return attach(words, places, **options)


def texts(folder, words):
    """Return the attachments of a text, which must stay unchanged."""
    found = attached(folder, words)
    assert found.notices == ()
    assert found.parts[0] == Text(words)
    return [part.text for part in found.parts[1:]]


def test_a_file_named_in_the_prompt_is_attached(folder):
    """RA-20: with lines, quoted, at the end of a sentence."""
    whole = "Attached: src/a.py\none\ntwo\nthree\nfour\n"
    expected = {
        "explain @src/a.py": whole,
        "@src/a.py: why?": whole,
        "is it (@src/a.py)?": whole,
        "see @src/a.py.": whole,
        "@src/a.py:2-3 please": "Attached: src/a.py:2-3\ntwo\nthree\n",
        "@src/a.py:4.": "Attached: src/a.py:4-4\nfour\n",
        "@src/a.py:3-99": "Attached: src/a.py:3-99\nthree\nfour\n",
        "@notes": "Attached: notes\nremember\n",
        '@"my file.txt" and': "Attached: my file.txt\nspaced\n",
        '@"src/a.py":1-1': "Attached: src/a.py:1-1\none\n",
        "@odd:1.txt": "Attached: odd:1.txt\ncolon\n",
        "@~/todo.md": "Attached: ~/todo.md\nat home\n",
        "@../up.txt": "Attached: ../up.txt\nabove\n",
        "read\n@notes\n": "Attached: notes\nremember\n",
    }
    assert {words: texts(folder, words) for words in expected} == {words: [text] for words, text in expected.items()}


def test_a_link_that_leads_outside_is_not_followed(folder):
    """BX-9: a repository's link may lead to any file of the user."""
    (folder / "out").symlink_to("../home/todo.md")
    (folder / "src" / "up").symlink_to("../../home")
    (folder / "in").symlink_to("src/a.py")
    for name in ("out", "src/up/todo.md", "src/up", f"{folder}/out"):
        found = attached(folder, f"read @{name}")
        assert [part.text for part in found.parts[1:]] == []
        assert found.notices == (f"@{name} is a link that leads outside {folder} and was not attached",)
    assert texts(folder, "@in") == ["Attached: in\none\ntwo\nthree\nfour\n"]


def test_where_nobody_is_there_to_ask_only_the_repository_is_read(folder):
    """BX-9: the words may be those of a program that quotes others."""
    for name in ("../up.txt", "~/todo.md", f"{folder.parent}/up.txt"):
        found = attached(folder, f"read @{name}", outside=False)
        assert len(found.parts) == 1
        assert found.notices[0].startswith(f"@{name} is outside {folder} and was not attached")
    assert len(attached(folder / "src", "@a.py", outside=False).parts) == 2


def test_an_absolute_path_is_attached_and_nothing_twice(folder):
    assert len(texts(folder, f"@{folder}/notes @notes @notes")) == 2


def test_a_folder_is_attached_as_a_listing(folder):
    """RA-20."""
    assert texts(folder, "see @src and @.") == snapshot(
        ["Attached: the names in src\na.py", "Attached: the names in .\nmy file.txt\nnotes\nodd:1.txt\nsrc/"]
    )


def test_addresses_and_decorators_are_left_alone(folder):
    """RA-20."""
    left = [
        "mail ann@example.org or ann@src/a.py",
        "use @property and @functools.lru_cache here",
        "@app.get('/x') fails",
        "@@ -1,2 +1,3 @@",
        "ping @ann, @bob",
        "@",
        'say @""',
        "a lone @ sign",
    ]
    assert [words for words in left if texts(folder, words)] == []


def test_a_missing_file_is_reported(folder):
    """RA-20."""
    found = {words: attached(folder, words) for words in ("@src/b.py?", '@"no such file"', "@src/a.py:9-10")}
    assert [each.parts for each in found.values()] == [(Text(words),) for words in found]
    assert [notice for each in found.values() for notice in each.notices] == snapshot(
        [
            "@src/b.py does not exist and was not attached",
            "@no such file does not exist and was not attached",
            "@src/a.py:9-10 is outside the file, which has 4 lines; it was not attached",
        ]
    )


def test_an_image_is_recognised_by_its_bytes_and_not_by_its_name(folder):
    """RA-20."""
    images = {
        PNG: "image/png",
        b"\xff\xd8\xff\xe0rest": "image/jpeg",
        b"GIF87a rest": "image/gif",
        b"GIF89a rest": "image/gif",
        b"RIFF\x01\x02\x03\x04WEBPrest": "image/webp",
    }
    for data, media_type in images.items():
        (folder / "shot").write_bytes(data)
        found = attached(folder, "what is @shot")
        assert found.parts[1:] == (Text("Attached: shot", "file"), Image(media_type, data))
        assert found.notices == ()


def test_an_image_that_is_unsupported_or_too_large_is_not_attached(folder):
    """RA-20."""
    (folder / "a.png").write_bytes(PNG)
    (folder / "b.png").write_bytes(PNG + b"\0" * IMAGE_BYTES)
    blind = attached(folder, "@a.png", images=False)
    large = attached(folder, "@b.png")
    assert len(blind.parts) == len(large.parts) == 1
    assert "does not accept" in blind.notices[0]
    assert "5,000,000" in large.notices[0]


def test_a_binary_file_is_refused(folder):
    """RA-20."""
    (folder / "binary").write_bytes(b"\0\1\2")
    (folder / "latin").write_bytes("né".encode("latin-1"))
    os.mkfifo(folder / "pipe")
    found = attached(folder, "@binary @latin @pipe @/dev/null")
    assert len(found.parts) == 1
    assert [notice.split()[0] for notice in found.notices] == ["@binary", "@latin", "@pipe", "@/dev/null"]


def test_long_files_are_cut_and_huge_ones_refused(folder):
    (folder / "long.txt").write_text("begin\n" + "x" * 3 * TEXT_LIMIT + "\nend\n")
    (folder / "huge.txt").write_bytes(b"")
    os.truncate(folder / "huge.txt", READABLE_BYTES + 1)
    [text] = texts(folder, "@long.txt")
    assert len(text) < TEXT_LIMIT + 100
    assert text.startswith("Attached: long.txt\nbegin\n")
    assert text.endswith("\nend\n")
    assert attached(folder, "@huge.txt").notices == snapshot(
        ("@huge.txt is too large to attach (10,000,001 bytes); the limit is 10,000,000, for images 5,000,000",)
    )


def test_the_number_of_attachments_is_limited(folder):
    for number in range(MAX_ATTACHMENTS + 2):
        (folder / f"n{number}").write_text(str(number))
    found = attached(folder, " ".join(f"@n{number}" for number in range(MAX_ATTACHMENTS + 2)))
    assert len(found.parts) == MAX_ATTACHMENTS + 1
    assert found.notices == snapshot(("only the first 20 of 22 named files are attached",))


def test_names_that_no_file_system_accepts_are_left_alone(folder):
    assert len(attached(folder, "@a\0b @" + "x" * 5_000 + " @caf\udce9").parts) == 1


def test_images_that_are_dragged_onto_a_terminal_are_attached_in_each_of_its_forms(tmp_path):
    """RA-18: quoted, escaped or a URL; several at once; other files stay names, and other text stays text."""
    shot, plain, odd = tmp_path / "it's a shot é.png", tmp_path / "b.jpg", tmp_path / 'q".png'
    for path in (shot, plain, odd, tmp_path / "notes.txt"):
        path.write_bytes(PNG)
    quoted, escaped = str(shot).replace("'", "'\\''"), str(shot).replace(" ", "\\ ").replace("'", "\\'")
    url = f"file://{tmp_path}/it%27s%20a%20shot%20%C3%A9.png"
    for pasted in (f"'{quoted}'", escaped, url, f" {escaped}\r\n", str(shot)):
        assert dropped_images(pasted) == f'@"{shot}"', pasted
    notes = f"{tmp_path}/notes.txt"
    assert dropped_images(f"{plain} {url}\n{notes}") == f'@"{plain}" @"{shot}" {notes}'
    for pasted in (
        notes,
        f"see {plain}",
        f"{plain} and {plain}",
        str(odd),
        str(tmp_path),
        "'",
        "",
        "/",
        f"/{'x' * 5_000}.png",
    ):
        assert dropped_images(pasted) == "", pasted
    assert [*attached_kinds(dropped_images(url), tmp_path)] == [Image]


def attached_kinds(words, folder):
    """Yield the kinds of what is attached but texts."""
    places = AttachmentPlaces(cwd=folder, home=folder, top=folder, outside=True)
    yield from (type(part) for part in attach(words, places).parts if not isinstance(part, Text))
