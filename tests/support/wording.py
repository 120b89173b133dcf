"""Carry sentences that were changed in `src` since HEAD into the tests and documents that quote them.

`make wording` runs it before pytest rewrites the snapshots. A text is found by what changed in it and a few characters
on both sides, so a quote of a part is found, too; one that is broken over two lines is not.
"""

import ast
import subprocess  # noqa: TID251 - what changed is asked of git itself
import sys
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[2]
AROUND = 12
"""How many characters before and after a change have to be the same."""
QUOTING = ("tests/*.py", "docs/*.md", "README.md")


def texts(code: str) -> list[str]:
    """Return the texts in code, in their order; of f-strings, the parts between the values."""
    constants = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant))
    found = [(node.lineno, node.col_offset, node.value) for node in constants if isinstance(node.value, str)]
    return [text for _, _, text in sorted(found)]


def replaced(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each text that has another one in its place."""
    for kind, old_begin, old_end, new_begin, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "replace" and old_end - old_begin == new_end - new_begin:
            yield from zip(old[old_begin:old_end], new[new_begin:new_end], strict=True)


def substitution(old: str, new: str) -> tuple[str, str]:
    """Return what to look for and what to put there: the change with the same few characters on both sides."""
    same_before = _common(old, new)
    same_after = _common(old[same_before:][::-1], new[same_before:][::-1])
    begin, behind = max(0, same_before - AROUND), min(same_after, AROUND)
    return old[begin : len(old) - same_after + behind], new[begin : len(new) - same_after + behind]


def _common(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def rewrite(text: str, substitutions: Iterable[tuple[str, str]]) -> str:
    """Return a text in which everything is put in its place."""
    for sought, put in substitutions:
        text = text.replace(sought, put)
    return text


def main() -> None:
    """Rewrite the files that quote what changed, and name them."""
    substitutions = []
    for name in _git("diff", "--name-only", "--diff-filter=M", "HEAD", "--", "src/*.py").split():
        pairs = replaced(texts(_git("show", f"HEAD:{name}")), texts((ROOT / name).read_text()))
        substitutions += [pair for pair in (substitution(*pair) for pair in pairs) if len(pair[0].strip()) > AROUND]
    for name in _git("ls-files", "--", *QUOTING).split() if substitutions else ():
        path = ROOT / name
        before = path.read_text()
        if (after := rewrite(before, substitutions)) != before:
            path.write_text(after)
            print(f"rewritten: {name}")


def _git(*args: str) -> str:
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else sys.exit(done.stderr)


if __name__ == "__main__":
    main()
