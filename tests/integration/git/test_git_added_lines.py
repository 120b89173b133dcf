"""The lines that a change adds."""

from pathlib import Path

from scaffold.git import refs
from scaffold.git.added_lines import added_lines


def write(repo: Path, files: dict[str, str | None]) -> None:
    for name, text in files.items():
        path = repo / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text)


async def committed(harness, files: dict[str, str | None]):
    """Commit the files; None removes one."""
    write(harness.repo, files)
    await harness.sh("git add --all; git commit -qm change")
    return await refs.resolve(harness.context.git, "HEAD")


async def test_lines_that_are_new_or_changed_are_numbered_by_file(harness):
    """BX-5: nothing in a file's contents is taken for a header, and no name is misread."""
    base = await committed(
        harness,
        {
            "a.py": "one\ntwo\nthree\nfour",
            "only deleted.py": "one\ntwo\n",
            "old.py": "".join(f"line {number}\n" for number in range(40)),
            "gone.py": "x\n",
            "same.py": "x\n",
        },
    )
    head = await committed(
        harness,
        {
            "a.py": "zero\none\nTWO\n+++ b/evil.py\n@@ -1 +1,9 @@\nthree\nfour\nfive",
            "only deleted.py": "two\n",
            "sub/a b ü.py": "p\nq\n",
            "old.py": None,
            "new.py": "".join(f"line {number}\n" for number in range(40)) + "more\n",
            "gone.py": None,
            "data.txt": "x\n",
            "page.mjs": "\n",
        },
    )
    assert await added_lines(harness.context.git, base, head, (".py", ".mjs")) == {
        "a.py": (1, 3, 4, 5, 7, 8),
        "new.py": (41,),
        "sub/a b ü.py": (1, 2),
        "page.mjs": (1,),
    }
    assert await added_lines(harness.context.git, base, base, (".py",)) == {}


async def test_attributes_of_the_repository_hide_no_lines(harness):
    """BX-5: neither `-diff`, in whatever folder, nor a NUL makes code a binary file."""
    base = await committed(harness, {"calc/a.py": "one\n", "b.js": "one\n"})
    hidden = {".gitattributes": "*.py -diff\n", "calc/.gitattributes": "* binary\n"}
    head = await committed(harness, {**hidden, "calc/a.py": "two\n", "b.js": "// \0\ntwo\n"})
    assert await added_lines(harness.context.git, base, head, (".py", ".js")) == {"calc/a.py": (1,), "b.js": (1, 2)}
