import asyncio
import os

import pytest
from inline_snapshot import snapshot

from scaffold.tools.search.grep_process import SearchQuery, SearchRequest, run_search
from scaffold.tools.search.search_files import search_files
from scaffold.tools.workspace import MAX_ANSWER_CHARS, Deadline, Workspace


@pytest.fixture
def root(tmp_path):
    """A small tree; `needle` occurs in four text files that are searched and in five that are not."""
    files = {
        "a.py": "one\nneedle 1\nthree\nfour\nneedle 2\nsix\n",
        "src/b.py": "needle 3\n",
        "src/deep/c.py": "needle 4\n",
        "src/d.txt": "Needle\nneedle 5\n",
        ".git/config": "needle",
        "node_modules/x.js": "needle",
        "sub/.git": "needle",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "binary").write_bytes(b"needle\0")
    (tmp_path / "link.py").symlink_to("a.py")
    return tmp_path


@pytest.fixture
def search(root):
    return lambda **args: search_files(Workspace(root, {})).run(args)


async def test_matches_are_counted_and_grouped_by_file(search):
    """RA-4."""
    output = await search(pattern=r"needle \d")
    assert output.content == snapshot("""\
total_matches_found 5, matched_files 4
a.py
2: needle 1
5: needle 2
src/b.py
1: needle 3
src/d.txt
2: needle 5
src/deep/c.py
1: needle 4""")


async def test_a_pattern_over_several_lines_is_answered_with_the_reason(search):
    """RA-4: no match is no proof that the text does not occur."""
    answers = [(await search(pattern=pattern)).content for pattern in ("needle 1\nmore", r"needle \d\n")]
    assert answers == snapshot(
        [
            """\
total_matches_found 0, matched_files 0
`pattern` is matched within each line, so a line break never matches; look for one line: `needle 1`.\
""",
            """\
total_matches_found 0, matched_files 0
`pattern` is matched within each line, so a line break never matches; look for one line: `needle \\d`.\
""",
        ]
    )
    for pattern in (r"nothing\\name", r"needle[^\n]"):
        assert "line break" not in (await search(pattern=pattern)).content


async def test_text_that_was_given_as_a_pattern_is_shown_as_one(root, search):
    """RA-4: balanced brackets are no error, and match something else."""
    (root / "a.py").write_text("def save(self, path):\n")
    hint = (await search(pattern="def save(self, path):")).content.splitlines()[-1]
    assert hint == snapshot(
        r"`pattern` is a regular expression; if it is meant as text, it is `def save\(self, path\):`."
    )
    assert "2" not in (await search(pattern=r"def save\(self, path\):")).content.splitlines()[0]
    assert "meant as text" not in (await search(pattern=r"def other\(")).content


async def test_context_lines_are_shown_once_around_matches(search):
    """RA-4."""
    apart = await search(pattern="needle", path="a.py", context_lines=1)
    assert apart.content.splitlines()[2:] == ["1- one", "2: needle 1", "3- three", "4- four", "5: needle 2", "6- six"]
    far = await search(pattern="needle 1|six", path="a.py", context_lines=1)
    assert far.content.splitlines()[2:] == ["1- one", "2: needle 1", "3- three", "--", "5- needle 2", "6: six"]


async def test_path_and_glob_limit_the_search(search):
    """RA-4: globs may contain alternatives, as in shells and ripgrep."""
    files = {
        ("path", "src"): {"src/b.py", "src/d.txt", "src/deep/c.py"},
        ("path", "src/b.py"): {"src/b.py"},
        ("path", "node_modules"): {"node_modules/x.js"},
        ("glob", "*.py"): {"a.py", "src/b.py", "src/deep/c.py"},
        ("glob", "src/*.py"): {"src/b.py"},
        ("glob", "src/**/*.py"): {"src/b.py", "src/deep/c.py"},
        ("glob", "**/?.txt"): {"src/d.txt"},
        ("glob", "src/**"): {"src/b.py", "src/d.txt", "src/deep/c.py"},
        ("glob", "*.rs"): set(),
        ("glob", "*.{py,txt}"): {"a.py", "src/b.py", "src/d.txt", "src/deep/c.py"},
        ("glob", "src/**/*.{py,txt}"): {"src/b.py", "src/d.txt", "src/deep/c.py"},
        ("glob", "{a,b}.{py,{txt,md}}"): {"a.py", "src/b.py"},
        ("glob", "*.{py}"): set(),
        ("glob", "{" + "a,b}{" * 40 + "c,d}"): set(),
    }
    outputs = {case: await search(pattern="needle", **{case[0]: case[1]}) for case in files}
    found = {
        case: {line for line in output.content.splitlines()[1:] if not line[0].isdigit()}
        for case, output in outputs.items()
    }
    assert found == files
    assert [case for case, output in outputs.items() if output.failed] == []


async def test_matches_are_shown_up_to_the_limit_and_all_are_counted(search):
    output = await search(pattern="needle", max_matches=1)
    assert output.content.splitlines() == [
        "total_matches_found 5, matched_files 4",
        "a.py",
        "2: needle 1",
        "... 4 more matches; narrow `pattern`, `path` or `glob`.",
    ]


async def test_many_matches_fit_into_the_answer(root, search):
    for name in range(200):
        (root / f"flood{name}").write_text("x" * 2_000 + "\n")
    output = await search(pattern="x{5}", max_matches=1_000)
    assert len(output.content) < MAX_ANSWER_CHARS + 200
    assert "total_matches_found 200" in output.content
    assert "more matches" in output.content


async def test_many_matches_in_one_file_are_shown_as_far_as_they_fit(root, search):
    (root / "flood").write_text(("x" * 500 + "\n") * 500)
    output = await search(pattern="x{5}", max_matches=1_000)
    lines = output.content.splitlines()
    assert lines[:2] == ["total_matches_found 500, matched_files 1", "flood"]
    shown = len(lines) - 3
    assert 50 < shown < 100
    assert lines[-1].startswith(f"... {500 - shown} more matches")


async def test_an_endless_pattern_is_stopped_without_blocking(root):
    """RA-4: a tool that would never end."""
    # The second line holds the words that every match needs: ripgrep, where it is installed, does not skip the file.
    (root / "long").write_text("a" * 60 + "!\n" + "a" * 40 + "b\n")
    tool, alive = search_files(Workspace(root, {}), time_limit_s=0.4), 0
    endless = ("(a+)+$", "(a{1,50}){1,50}$", "(a|aa)+$", "(a*)*b", "a?" * 40 + "a" * 40 + "b")
    async with asyncio.TaskGroup() as group:
        running = {pattern: group.create_task(tool.run({"pattern": pattern})) for pattern in endless}
        while not any(each.done() for each in running.values()):
            await asyncio.sleep(0.05)
            alive += 1
    answers = {pattern: (each.result().failed, "0.4 s" in each.result().content) for pattern, each in running.items()}
    assert answers == dict.fromkeys(endless, (True, True))
    assert alive > 1, "a search that blocks is over the first time that this task goes on"


@pytest.mark.slow
async def test_a_search_in_a_separate_process_returns_the_same(root):
    (root / os.fsdecode(b"odd-\xff")).write_text("needle 9\n")
    workspace = Workspace(root, {})
    for pattern in (r"n\w+e \d", "needle( 1|x{0,2})", "^.*needle"):
        apart = await search_files(workspace).run({"pattern": pattern, "context_lines": 1, "max_matches": 3})
        here = run_search(SearchRequest(root, root, None, SearchQuery(pattern, None, 1, 3)), Deadline(60))
        assert not apart.failed, apart
        assert apart.content == here
        assert "total_matches_found" in here


async def test_an_invalid_search_is_refused_with_the_reason(search):
    for args, reason in (
        ({"pattern": "("}, "regular expression"),
        ({"pattern": "(" * 5_000 + ")" * 5_000}, "regular expression"),
        ({"pattern": "x{99999999999}"}, "regular expression"),
        ({"pattern": "x", "path": "none"}, "no none"),
        ({"pattern": "x", "path": ".."}, "outside"),
        ({"pattern": "x", "path": ".git"}, "git"),
    ):
        output = await search(**args)
        assert output.failed
        assert reason in output.content


async def test_a_missing_workspace_is_reported(tmp_path):
    output = await search_files(Workspace(tmp_path / "gone", {})).run({"pattern": "x"})
    assert (output.failed, output.content[:12]) == (True, "There is no ")


@pytest.mark.parametrize("pattern", ["[[:alpha:]]", "[a-z&&b]"])
async def test_a_character_class_of_another_syntax_is_refused_silently(search, capfd, pattern):
    """RA-4: it is never searched for with another meaning; standard error belongs to the user."""
    output = await search(pattern=pattern)
    assert output.failed
    assert "Python" in output.content
    assert capfd.readouterr() == ("", "")


async def test_a_name_with_braces_matches_itself(search, root):
    (root / "{a,b}").write_text("needle")
    assert "matched_files 1" in (await search(pattern="needle", glob="{a,b}")).content
