"""Every promise in docs/promises.md names tests that name the promise; not all of them are skipped everywhere."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"\| ([A-Z]{2}-\d+[a-z]?) \| (\S.*?) \| (\S.*?) \|")
PROOF = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
FUNCTION = r'^ *(?:async )?def {}\(.*?\)(?: -> [^\n]+?)?:\n(?: +r?"""(?P<docstring>.*?)""")?'
"""A function of this name; to parse whole files takes seconds."""
SKIPPED = re.compile(r"mark\.(skip|xfail)\b|skipif\((True|1)\b")
"""What no environment executes, or whose failure nobody sees; a condition is another matter."""
MARKS = re.compile(r"^pytestmark = .*?\n\n", re.MULTILINE | re.DOTALL)
HEADER = ("| ID | promise | proof |", "|---|---|---|")


def broken_promises(text: str, root: Path) -> list[str]:
    """List the errors of a table of promises whose tests are below `root`; one line each."""
    table = [line for line in text.splitlines() if line.startswith("|")]
    if tuple(table[:2]) != HEADER:
        return [f"the table must begin with {HEADER[0]} and {HEADER[1]}"]
    found, seen = [], set()
    for line in table[2:]:
        row = ROW.fullmatch(line)
        if row is None:
            found.append(f"not a row: {line}")
            continue
        promise, proofs = row[1], row[3].split(", ")
        if promise in seen:
            found.append(f"{promise}: twice")
        seen.add(promise)
        wrong = [f"{promise}: {why}" for proof in proofs if (why := broken_proof(promise, proof, root))]
        if not wrong and all(is_skipped_everywhere(proof, root) for proof in proofs):
            wrong = [f"{promise}: all its tests are skipped everywhere"]
        found += wrong
    return found


def broken_proof(promise: str, proof: str, root: Path) -> str | None:
    """Return why `proof` does not prove `promise`, None if it does."""
    address = PROOF.fullmatch(proof)
    if address is None:
        return f"{proof} is not an address like `tests/unit/plan/test_plan_lint.py::test_a_cycle_is_named`"
    path, name = root / address[1], address[2]
    if not path.is_file():
        return f"{address[1]} does not exist"
    found = function_of(path, name)
    if found is None or not name.startswith("test_"):
        return f"{address[1]} has no {name}"
    if not re.search(rf"\b{promise}\b", found["docstring"] or ""):
        return f"the docstring of {name} does not name {promise}"
    return None


def is_skipped_everywhere(proof: str, root: Path) -> bool:
    """Return whether no environment executes the test of a proof that is not broken."""
    address = PROOF.fullmatch(proof)
    path = root / address[1] if address else root
    found = function_of(path, address[2]) if address else None
    if found is None:
        return True
    text = text_of(path)
    decorators = text[: found.start()].rpartition("\n\n\n")[2]
    marks = "".join(each[0] for each in MARKS.finditer(text))
    return bool(SKIPPED.search(decorators + marks)) or text[found.end() :].lstrip().startswith("pytest.skip(")


def function_of(path: Path, name: str) -> re.Match[str] | None:
    """Return the head of a function, with its docstring; None if the file has no such function."""
    return re.search(FUNCTION.format(name), text_of(path), re.MULTILINE | re.DOTALL)


@cache
def text_of(path: Path) -> str:
    """Return the text of a file, which may prove many promises."""
    return path.read_text(encoding="utf-8")


def test_every_promise_names_a_test_that_names_it() -> None:
    assert broken_promises((ROOT / "docs" / "promises.md").read_text(), ROOT) == []


GOOD = "| SC-2 | An absent assertion is false. | `tests/unit/test_world.py::test_absent_is_false` |"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    test = tmp_path / "tests" / "unit" / "test_world.py"
    test.parent.mkdir(parents=True)
    one = 'async def {0}():\n    """SC-2, SC-30: what no fact shows is false."""\n'
    may_be, never = "@pytest.mark.skipif(not HERE, reason='x')\n", '@pytest.mark.skip(reason="x")\n'
    gives_up = f"{one.format('test_gives_up')}    pytest.skip()\n"
    parts = (may_be + one.format("test_absent_is_false"), never + one.format("test_skipped"), gives_up)
    test.write_text("import pytest\n\n\n" + "\n\n".join(parts))
    test.with_name("test_sea.py").write_text(
        f"pytestmark = [pytest.mark.skip]\n\n\n{one.format('test_absent_is_false')}"
    )
    return tmp_path


WRONG = {
    GOOD.replace("SC-2", "SC-3"): "does not name SC-3",
    GOOD.replace("SC-2 ", "SC-20 "): "does not name SC-20",
    GOOD.replace("test_absent", "test_present"): "has no test_present_is_false",
    GOOD.replace("test_world", "test_moon"): "tests/unit/test_moon.py does not exist",
    GOOD.replace("`", ""): "is not an address",
    GOOD.removesuffix(" |") + ", `tests/unit/test_sun.py::test_it_shines` |": "test_sun.py does not exist",
    GOOD + "\n" + GOOD: "SC-2: twice",
    "| soon | something | some day |": "not a row",
    GOOD.replace("test_absent_is_false", "test_skipped"): "all its tests are skipped everywhere",
    GOOD.replace("test_absent_is_false", "test_gives_up"): "all its tests are skipped everywhere",
    GOOD.replace("test_world", "test_sea"): "all its tests are skipped everywhere",
}


def test_broken_promises_are_reported_and_a_kept_one_is_accepted(root: Path) -> None:
    found = {row: broken_promises("\n".join([*HEADER, row]), root) for row in [GOOD, *WRONG]}
    assert found.pop(GOOD) == []
    assert [(each, said) for each, said in found.items() if len(said) != 1 or WRONG[each] not in said[0]] == []
    assert broken_promises("# Promises\n", root)
