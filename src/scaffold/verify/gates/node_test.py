"""Node's own test runner: what it reports in TAP, into a file of ours, asked for by the environment."""

import re
from collections.abc import Iterator

from scaffold.core.gates import TestOutcome
from scaffold.verify.gates.family import Bench, Ended, Family, Order
from scaffold.verify.gates.jest import BETWEEN
from scaffold.verify.gates.reading import Reading, concluded, content, in_trouble, named

REPORT = "report.tap"
DEPTH = 4
"""Spaces by which tests within a test stand further in."""

_POINT = re.compile(r"(?P<indent> *)(?P<bad>not )?ok \d+ - (?P<name>.*?)(?: # (?P<mark>[A-Z]{4})\b.*)?")
_BEGINS = re.compile(r"(?P<indent> *)# Subtest: (?P<name>.*)")
_PLAN = re.compile(r"1\.\.\d+")


def asked(command: str, bench: Bench) -> Order:
    """Return the command, whose runner writes its report into our folder; it always runs the whole."""
    path = str(bench.folder / REPORT).replace("\\", "\\\\").replace('"', '\\"')
    options = f'--test-reporter=tap "--test-reporter-destination={path}"'
    return Order(command=command, variables={"NODE_OPTIONS": options})


def read(ended: Ended) -> Reading:
    """Return what a run showed that came to its end by itself."""
    data = content(ended.bench.folder / REPORT)
    if isinstance(data, str):
        return in_trouble("error", f"The runner left no report: {data}; it ended with {ended.exit_code}.")
    text = data.decode(errors="replace")
    if _PLAN.search(text) is None:
        return in_trouble("error", f"The runner's report stops in the middle; it ended with {ended.exit_code}.")
    return concluded(dict(_told_apart(_points(text))), ended.exit_code, whole=ended.bench.whole)


def _points(report: str) -> Iterator[tuple[str, TestOutcome]]:
    """Yield every test with its outcome, after those within it; what is told of a failure may look like anything."""
    above: list[str] = []
    aside = ""
    for line in report.splitlines():
        if aside:
            aside = "" if line == f"{aside}..." else aside
        elif line.strip() == "---":
            aside = line.removesuffix("---")
        elif begins := _BEGINS.fullmatch(line):
            depth = len(begins["indent"]) // DEPTH
            above[depth:] = [begins["name"]]
        elif point := _POINT.fullmatch(line):
            depth = len(point["indent"]) // DEPTH
            name = BETWEEN.join((*above[:depth], point["name"]))
            yield named(name), "skipped" if point["mark"] else "failed" if point["bad"] else "passed"


def _told_apart(points: Iterator[tuple[str, TestOutcome]]) -> Iterator[tuple[str, TestOutcome]]:
    """Yield the tests, those of one name numbered: files are not told."""
    seen: dict[str, int] = {}
    for name, outcome in points:
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name} ({seen[name]})"), outcome


NODE = Family(asked=asked, read=read)
