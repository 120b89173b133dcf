"""Files found by their names."""

import pytest
from inline_snapshot import snapshot

from scaffold.tools.search.search_files import MAX_SHOWN, find_files
from scaffold.tools.workspace import Workspace


@pytest.fixture
def find(tmp_path):
    """Look for files in a small project; return the lines of the answer."""
    for path in ("a.py", "src/b.py", "src/deep/c.ts", "src/deep/d.tsx", ".git/e.py", "node_modules/x/f.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")

    async def find(pattern, **args):
        return (await find_files(Workspace(tmp_path, {})).run({"pattern": pattern, **args})).content.splitlines()

    return find


async def test_files_are_found_by_name_or_by_path(find):
    """RA-4: folders of installed packages are searched only if they are named."""
    expected = {
        ("*.py", "."): ["a.py", "src/b.py"],
        ("b.py", "."): ["src/b.py"],
        ("src/**/*.{ts,tsx}", "."): ["src/deep/c.ts", "src/deep/d.tsx"],
        ("*", "src/deep"): ["src/deep/c.ts", "src/deep/d.tsx"],
        ("*.py", "node_modules"): ["node_modules/x/f.py"],
        ("*.go", "."): [],
    }
    found = {(pattern, path): await find(pattern, path=path) for pattern, path in expected}
    assert found == {case: [f"{len(files)} found", *files] for case, files in expected.items()}
    assert await find("*.py") == found["*.py", "."]


async def test_a_link_that_leads_in_a_circle_hides_nothing(find, tmp_path):
    """RA-4: nor does one that cannot be followed for another reason."""
    for folder in (tmp_path, tmp_path / "src"):
        (folder / "circle").symlink_to("circle")
    assert await find("*.py") == ["2 found", "a.py", "src/b.py"]


async def test_a_long_list_is_cut(find, tmp_path):
    for number in range(MAX_SHOWN):
        (tmp_path / f"n{number:03}.md").write_text("")
    (tmp_path / "a\nb.md").write_text("")
    lines = await find("*.md")
    assert lines[:2] == [f"{MAX_SHOWN + 1} found", '"a\\nb.md"']
    assert lines[-1] == snapshot("... 1 more; narrow the pattern")


async def test_a_folder_that_is_not_there_or_outside_is_refused(find):
    assert await find("*", path="nowhere") == snapshot(["There is no nowhere; leave `path` out to look everywhere."])
    assert "outside" in (await find("*", path="../"))[0]


async def test_a_search_that_takes_too_long_says_so(tmp_path):
    (tmp_path / "a").write_text("")
    answer = await find_files(Workspace(tmp_path, {}), time_limit_s=0).run({"pattern": "*"})
    assert answer.failed
    assert "took more than 0 s" in answer.content
