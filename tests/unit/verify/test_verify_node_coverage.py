"""What Node's coverage says of lines, from reports that anything may have written."""

import json

from scaffold.verify.observation.node_coverage import (
    NodeLines,
    SourceLines,
    code_lines,
    lines_seen,
    loaded_files,
    read_reports,
)

TEXT = "const a = 1;\nfunction f() {\n  return a;\n}\nf();\n"


def script(url, *functions):
    """Return a script of a report; each function is its ranges."""
    ranges = [
        [{"startOffset": start, "endOffset": end, "count": count} for start, end, count in each] for each in functions
    ]
    return {"url": url, "functions": [{"ranges": each, "functionName": ""} for each in ranges], "scriptId": "1"}


def written(folder, *reports):
    for number, report in enumerate(reports):
        text = report if isinstance(report, str) else json.dumps({"result": report, "timestamp": 1})
        (folder / f"{number}.json").write_text(text)
    return read_reports(folder)


def test_a_line_was_executed_if_the_smallest_part_around_it_was(tmp_path):
    """BX-5: a script of another length is not the file."""
    for functions, seen in [
        (
            [[(0, 47, 1)], [(13, 41, 1)]],
            NodeLines(executed=frozenset({1, 3, 5}), in_functions=frozenset({3}), loaded=True),
        ),
        (
            [[(0, 47, 1)], [(13, 41, 0)]],
            NodeLines(executed=frozenset({1, 5}), in_functions=frozenset({3}), loaded=True),
        ),
        ([[(0, 47, 1), (0, 12, 0)]], NodeLines(executed=frozenset({3, 5}), loaded=True)),
        ([[(0, 60, 1)]], NodeLines(transformed=True)),
        ([], NodeLines(transformed=True)),
        ([[]], NodeLines(transformed=True)),
    ]:
        reports = written(tmp_path, [script("file:///top/a%20b.js", *functions), script("node:fs", [(0, 9, 1)])])
        assert lines_seen(reports, {"/top/a b.js": SourceLines(TEXT, (1, 3, 5))}) == {"/top/a b.js": seen}
        assert loaded_files(reports) == {"/top/a b.js"}


def test_processes_add_to_each_other(tmp_path):
    one, two = ([script("file:///a.js", [(0, 47, 1)], [(13, 41, count)])] for count in (0, 1))
    found = lines_seen(written(tmp_path, one, two), {"/a.js": SourceLines(TEXT, (3,)), "/b.js": SourceLines("", (1,))})
    assert found == {
        "/a.js": NodeLines(executed=frozenset({3}), in_functions=frozenset({3}), loaded=True),
        "/b.js": NodeLines(),
    }


def test_reports_that_make_no_sense_are_left_out(tmp_path):
    (tmp_path / "x.json").symlink_to("/etc/passwd")
    senseless = ["", "{", "[]", '{"result": 1}', '{"result": [{"url": 1, "functions": []}]}']
    assert written(tmp_path, *senseless) == ()


def test_code_is_told_from_lines_that_do_nothing():
    text = (
        "#!/usr/bin/env node\nimport a from 'a';\nexport { b } from './b';\n// c\n/*\n * d\n */\n\n});\nconst e = 1;\n"
        "export const f = () => {\n  importAll();\n"
    )
    assert code_lines(text, range(100)) == (10, 11, 12)
