"""Record what was measured: `make bench > results`, then `python bench/record.py results [--reason WHY]`.

Notes what `make bench` printed, all of it or a part, with the date and the machine in `baseline.json`, and writes the
tables of `docs/speed.md`; without results only the tables. A row that lost more than a tenth of its bar is refused,
unless `--reason` says why that is wanted.
"""

import argparse
import re
import string
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, structs
from msgspec.json import decode

from baseline import Baseline, CausesRecord, Recorded, is_worse, read_baseline, this_machine, write_baseline
from row import Row

SPEED = Path(__file__).parents[1] / "docs" / "speed.md"
TABLE = "<!-- {0}: written by bench/record.py -->\n{1}\n<!-- end of {0} -->"
SHOWN = ("process", "git", "transaction", "statement", "module", "file", "opened", "synced", "written kB")
"""The causes in the table, if they were counted."""


class Result(Struct, frozen=True):
    """A line of `make bench`: a row, or the causes of a subject."""

    bench: str = ""
    subject: str = ""
    causes: Mapping[str, float] = {}


def main() -> None:
    """Record the results, or say which rows are not recorded."""
    parser = argparse.ArgumentParser(description="Record what `make bench` printed; write the tables.")
    parser.add_argument("results", nargs="*", type=Path, help="files of what was printed")
    parser.add_argument("--reason", default="", help="why rows may be worse than recorded")
    asked = parser.parse_args()
    lines = [line for path in asked.results for line in path.read_text().splitlines() if line.startswith("{")]
    baseline = with_results(read_baseline(), lines, reason=asked.reason, date=time.strftime("%Y-%m-%d", time.gmtime()))
    write_baseline(baseline)
    SPEED.write_text(with_tables(SPEED.read_text(), baseline))


def with_results(baseline: Baseline, lines: Iterable[str], *, reason: str, date: str) -> Baseline:
    """Return the baseline with the results; SystemExit names the rows that may not be recorded."""
    rows, causes, worse = dict(baseline.rows), dict(baseline.causes), list[str]()
    for line in lines:
        result = decode(line, type=Result)
        if result.subject:
            first = causes.get(result.subject) or CausesRecord(first=result.causes, first_date=date)
            causes[result.subject] = structs.replace(first, last=result.causes, last_date=date)
            continue
        row, before = decode(line, type=Row), rows.get(result.bench)
        if before and is_worse(row, before) and not reason:
            worse.append(f"  {row.bench}: {row.ratio:g}, recorded as {before.bar:g}")
        rows[row.bench] = _with_row(before, row, reason=reason, date=date)
    if worse:
        sys.exit("nothing is recorded; these rows lost more than a tenth, give a --reason:\n" + "\n".join(worse))
    return Baseline(rows=rows, causes=causes)


def _with_row(before: Recorded | None, row: Row, *, reason: str, date: str) -> Recorded:
    lost = before is not None and is_worse(row, before)
    return Recorded(
        **{name: getattr(row, name) for name in ("ratio", "value", "unit", "reference", "goal")},
        date=date,
        machine=this_machine(),
        bar=row.ratio if lost or before is None else min(before.bar, row.ratio),
        reason=reason if lost else before.reason if before else "",
    )


def with_tables(text: str, baseline: Baseline) -> str:
    """Return the text of a document with its tables as the baseline has them."""
    for name, table in (("rows", _rows(baseline)), ("causes", _causes(baseline))):
        pattern = re.escape(TABLE).replace(r"\{0\}", name).replace(r"\{1\}", "(?:.*?)")
        text = re.sub(pattern, lambda _, name=name, table=table: TABLE.format(name, table), text, flags=re.DOTALL)  # type: ignore[misc]
    return text


def _rows(baseline: Baseline) -> str:
    machines = sorted({each.machine for each in baseline.rows.values()})
    letters = dict(zip(machines, string.ascii_uppercase, strict=False))
    lines = [
        "| row | value | reference | unit | ratio [goal] | measured | reason of a loss |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in sorted(baseline.rows.items()):
        ratio = f"{row.ratio:g} [{row.goal:g}]" + ("" if row.ratio <= row.goal else " **missed**")
        when = f"{row.date}, {letters[row.machine]}"
        lines.append(f"| `{name}` | {row.value:g} | {row.reference:g} | {row.unit} | {ratio} | {when} | {row.reason} |")
    return "\n".join([*lines, "", *(f"{letter}: {machine}." for machine, letter in letters.items())])


def _causes(baseline: Baseline) -> str:
    lines = [
        f"| {name}, {date} | {' | '.join(f'{counts[cause]:g}' if cause in counts else '' for cause in SHOWN)} |"
        for name, each in sorted(baseline.causes.items())
        for date, counts in ((f"first, {each.first_date}", each.first), (f"last, {each.last_date}", each.last))
    ]
    return "\n".join([f"| subject | {' | '.join(SHOWN)} |", f"|---|{'---|' * len(SHOWN)}", *lines])


if __name__ == "__main__":
    main()
