"""What the verifier bench stores, and the tables of it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from replay.levels import LEVELS, Level
from replay.results import share, table
from replay.trial import Ending


class NotCounted(Struct, frozen=True, kw_only=True, tag="not_counted"):
    """An instance that does not count here."""

    instance: str
    why: str


class OwnRun(Struct, frozen=True, kw_only=True, tag="own_run"):
    """What our own run of the official tests says of a patch, apart from Scaffold."""

    instance: str
    hash: str
    right: bool
    why: str = ""
    """The first tests that do not pass."""


class Judged(Struct, frozen=True, kw_only=True, tag="judged"):
    """A patch, and what Scaffold made of it."""

    instance: str
    hash: str
    level: Level
    recorded: bool | None
    """Whether it is recorded as a solution; None if graders disagree."""
    by: tuple[tuple[str, bool], ...]
    ending: Ending | None
    """None if the patch does not apply."""
    note: str = ""
    own: OwnRun

    @property
    def right(self) -> bool:
        """Whether it counts as a solution: as our own run says, since recorded verdicts are sometimes wrong."""
        return self.own.right

    @property
    def outcome(self) -> str:
        """How it ended: an outcome of a run, or `not_judged` if it does not apply."""
        return self.ending.outcome if self.ending else "not_judged"


Stored = NotCounted | OwnRun | Judged
COLUMNS = (
    *((True, outcome) for outcome in ("proven", "reviewed", "weak", "refused", "not_judged")),
    *((False, outcome) for outcome in ("proven", "reviewed", "weak", "refused", "not_judged")),
)
LANDED = {"proven", "reviewed", "unchanged", "weak"}
HEADER = (
    "project, level",
    "patches",
    *(f"{'right' if right else 'wrong'} {outcome.replace('_', ' ')}" for right, outcome in COLUMNS),
)


def verifier_summary(lines: Sequence[Stored], repos: Mapping[str, str]) -> str:
    """Return the tables, the shares by level, and each disagreement with its reason."""
    judged = [line for line in lines if isinstance(line, Judged) and line.instance in repos]
    counted = {line.instance for line in judged}
    others = [line for line in lines if isinstance(line, NotCounted) and line.instance not in counted]
    parts = [
        table(HEADER, _rows(judged, repos, by_record=True)),
        "The same, by our own run of the official tests:",
        table(HEADER, _rows(judged, repos, by_record=False)),
        *_shares(judged),
        "Recorded verdicts that do not hold here:",
        *_disagreements(judged),
        "Results against the verdict of our own run:",
        *(told(line) for line in judged if line.right != (line.outcome in LANDED)),
        "Instances that do not count here:",
        *(f"{name}: {why}" for name, why in sorted({line.instance: line.why for line in others}.items())),
    ]
    return "\n".join(parts)


def told(line: Judged) -> str:
    """Return one line about a judged patch."""
    ending = line.ending
    record = {True: "right", False: "wrong", None: "disputed"}[line.recorded]
    why = line.note if ending is None else ending.reason or "; ".join(ending.doubts)
    seconds = f"{ending.total_s:.0f} s" if ending else "-"
    words = f"recorded {record}, own run {'right' if line.right else 'wrong'}: {line.outcome}, {seconds}"
    return f"{line.instance} {line.hash[:8]} {line.level:<12} {words}  {' '.join(why.split())[:250]}"


def _rows(judged: Sequence[Judged], repos: Mapping[str, str], *, by_record: bool) -> Iterator[Sequence[object]]:
    for level in LEVELS:
        of_level = [line for line in judged if line.level == level]
        names = sorted({repos[line.instance] for line in of_level})
        for name in names:
            yield _row(f"{name}, {level}", [each for each in of_level if repos[each.instance] == name], by_record)
        if len(names) > 1:
            yield _row(f"all, {level}", of_level, by_record)


def _row(name: str, lines: Sequence[Judged], by_record: bool) -> Sequence[object]:
    count = Counter((line.recorded if by_record else line.right, line.outcome) for line in lines)
    return (name, len(lines), *(count[column] for column in COLUMNS))


def _shares(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield, by level, how many right patches landed, how many as proven, and how many wrong ones as proven."""
    for level in LEVELS:
        lines = [line for line in judged if line.level == level and line.outcome != "not_judged"]
        right, wrong = [each for each in lines if each.right], [each for each in lines if not each.right]
        if lines:
            yield (
                f"{level}, by our own run, of those judged: right ones landed "
                f"{share(_count(right, LANDED), len(right))}, "
                f"proven {share(_count(right, {'proven'}), len(right))}; "
                f"wrong ones landed as proven {share(_count(wrong, {'proven'}), len(wrong))}, "
                f"weak {share(_count(wrong, {'weak'}), len(wrong))}, "
                f"refused {share(_count(wrong, {'refused'}), len(wrong))}"
            )


def _count(lines: Iterable[Judged], outcomes: set[str]) -> int:
    return sum(line.outcome in outcomes for line in lines)


def _disagreements(judged: Sequence[Judged]) -> Iterator[str]:
    told_already: set[str] = set()
    for line in judged:
        if line.recorded != line.right and line.hash not in told_already:
            told_already.add(line.hash)
            record = {True: "right", False: "wrong", None: "disputed"}[line.recorded]
            graders = ", ".join(sorted({who for who, _ in line.by}))
            why = f"fails {line.own.why}" if line.own.why else "passes all of them"
            yield f"{line.instance} {line.hash[:8]}: recorded as {record} by {graders}; our own run: it {why}"
