from hypothesis import assume, given
from hypothesis import strategies as st

from scaffold.policy.path.containment import Refusal
from scaffold.tools.content.line_edits import EditResult, apply_edits, parse_edits
from scaffold.tools.content.text_encoding import split_lines

LINES = st.lists(st.text("ab \t", max_size=4), max_size=8)


@st.composite
def edits(draw):
    """A text and operations on disjoint spans of it, in any order."""
    lines = draw(LINES)
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = "".join(line + end for line in lines)
    if lines and lines[-1] and draw(st.booleans()):
        text = text.removesuffix(end)
    cuts = sorted(draw(st.sets(st.integers(0, len(lines)), max_size=6)))
    spans = list(zip(cuts[::2], cuts[1::2], strict=False))
    assume(spans)
    news = [draw(LINES) for _ in spans]
    return text, lines, list(draw(st.permutations(list(zip(spans, news, strict=True)))))


def operation(lines, span, new):
    content = "".join(f"{line}\n" for line in new)
    expected = "".join(f"{line}\n" for line in lines[span[0] : span[1]])
    return {
        "operation": "replace",
        "start_line": span[0] + 1,
        "end_line": span[1],
        "content": content,
        "expected": expected,
    }


@given(edits())
def test_the_result_and_its_diff_equal_replacing_from_the_end(edit):
    """RA-4."""
    text, lines, parts = edit
    changes = parse_edits([operation(lines, span, new) for span, new in parts])
    assert not isinstance(changes, Refusal)
    result = apply_edits(text, changes)
    assert isinstance(result, EditResult), result
    wanted = list(lines)
    for (start, end), new in sorted(parts, key=lambda part: part[0], reverse=True):
        wanted[start:end] = new
    assert split_lines(result.text) == wanted
    if wanted and wanted[-1]:
        assert result.text.endswith("\n") == (text.endswith("\n") or not text)
    assert replayed(result.diff, lines) == wanted


def replayed(diff, lines):
    """Return the new lines by a diff of the old ones."""
    new: list[str] = []
    at = 0
    for row in diff:
        if row.startswith("@@"):
            start = int(row.split()[1][1:].split(",")[0]) - 1
            new += lines[at:start]
            at = start
            assert int(row.split()[2][1:].split(",")[0]) - 1 == len(new)
        elif row[0] == "+":
            new.append(row[1:])
        else:
            assert lines[at] == row[1:]
            at += 1
            new += [row[1:]] if row[0] == " " else []
    return new + lines[at:]
