"""Patches of any texts: the result is what the patch says, or a refusal, and never anything else."""

from difflib import SequenceMatcher

from hypothesis import given
from hypothesis import strategies as st

from scaffold.policy.path.containment import Refusal
from scaffold.policy.path.patch_text import parse_patch
from scaffold.tools.content.patch_sections import apply_sections

LINES = st.lists(st.sampled_from(["a", "b", "c", "    a", "a ", "", "\t", "@@ x", "*** End Patch", "+a"]), max_size=12)
ENDS = st.sampled_from(["\n", "\r\n"])
MARKERS = ("*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Update File: a", "*** Delete File: b")
PIECES = (
    *("*** Move to: c", "*** End of File", "@@", "@@ a", "@@ -1 +1 @@", "+a", "-a", " a", "", " ", "<<EOF", "EOF"),
    "\r",
)
JUNK = st.lists(st.sampled_from(MARKERS + PIECES), max_size=14).map("\n".join)


def patch_of(before, after, context):
    """Return the sections that turn the lines `before` into `after`, with so many lines around each."""
    written = ["*** Begin Patch", "*** Update File: f"]
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(context):
        written.append("@@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                written += [f" {line}" for line in before[i1:i2]]
            else:
                written += [f"-{line}" for line in before[i1:i2]] + [f"+{line}" for line in after[j1:j2]]
    return "\n".join([*written, "*** End Patch"])


@given(LINES, LINES, st.integers(0, 4), ENDS)
def test_a_patch_gives_the_text_that_it_was_made_from_or_is_refused(before, after, context, end):
    """RA-4: no place is guessed."""
    files = parse_patch(patch_of(before, after, context))
    if before == after:
        assert isinstance(files, Refusal)
        return
    ((file,), text) = files, "".join(line + end for line in before)
    result = apply_sections(text, file.sections)
    if not isinstance(result, Refusal):
        usual = end if before else "\n"
        assert result.text == "".join(line + usual for line in after)
        assert not result.inexact


@given(LINES, LINES, st.integers(1, 4))
def test_white_space_at_the_ends_of_lines_never_changes_what_stays(before, after, context):
    """RA-4: a model that drops it gets the same result as one that does not, apart from the lines that it wrote."""
    before, after = [f"{n}{line}  " for n, line in enumerate(before)], [f"{line}" for line in after]
    kept = [before[n] if n < len(before) and n % 2 else line for n, line in enumerate(after)]
    patch = patch_of(before, kept, context)
    plain = "\n".join(line.rstrip() if line.startswith(" ") and line.strip() else line for line in patch.split("\n"))
    results = []
    for text in (patch, plain):
        files = parse_patch(text)
        outcome = files if isinstance(files, Refusal) else apply_sections("\n".join(before) + "\n", files[0].sections)
        results.append(None if isinstance(outcome, Refusal) else outcome.text)
    assert results[0] == results[1]


@given(JUNK, LINES)
def test_any_text_is_a_patch_or_refused_with_a_reason(text, lines):
    files = parse_patch(text)
    if isinstance(files, Refusal):
        assert files.reason
        return
    for file in files:
        assert all(path.strip() for path in file.paths)
        outcome = apply_sections("\n".join(lines), file.sections)
        assert outcome.reason if isinstance(outcome, Refusal) else outcome.text is not None
