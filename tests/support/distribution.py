"""The sdist and the wheel of a release: built, the wheel from the sdist, and checked for what they contain.

python tests/support/distribution.py FOLDER     # builds both into FOLDER; exits with 1 and the findings if any
"""

import subprocess  # noqa: TID251 - runs without our code, as the build does
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parents[2]
NEEDED = (
    "scaffold/py.typed",
    "scaffold/pages/report.css",
    "scaffold/web/static/htmx.min.js",
    "scaffold/llm/registry/prices.json",
    "scaffold/agent/roles/planner.md",
    "scaffold/cli/demo_files/cassette.yaml",
    "scaffold/cli/demo_files/project/README.md.txt",
)
"""Files that are no code and that the product needs: examples of each kind, so that the comparison is not empty."""
MOST_LINES = 10
"""How many files are named for one fault; a whole environment in the sdist would be thousands."""


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist of this checkout and, from nothing but it, the wheel; return both."""
    [sdist] = _build("sdist", ROOT, folder)
    with tempfile.TemporaryDirectory() as unpacked:
        subprocess.run(["tar", "-xzf", sdist, "-C", unpacked], check=True)  # Python 3.11.2 has no safe `extractall`
        [source] = Path(unpacked).iterdir()
        [wheel] = _build("wheel", source, folder)
    return sdist, wheel


def _build(target: str, source: Path, folder: Path) -> list[Path]:
    before = set(folder.glob("*"))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder.resolve())],
        cwd=source,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return sorted(set(folder.glob("*")) - before)


def tracked(*paths: str) -> set[str]:
    """Return the files of this checkout that git tracks, or would if they were added, relative to it."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *paths],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}


def findings(sdist: Path, wheel: Path) -> list[str]:
    """List what is wrong with a release's files; empty if nothing is."""
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames() if not archive.getmember(name).isdir()}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
        [described] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        entries = next(archive.read(each) for each in archive.namelist() if each.endswith("/entry_points.txt")).decode()
        metadata = archive.read(described)
    source = {name.removeprefix("src/") for name in tracked("src")}
    return [
        *_difference("the wheel", in_wheel, source),
        *_difference("the sdist", in_sdist - {"PKG-INFO"}, tracked()),
        *(f"the wheel lacks {name}" for name in NEEDED if name not in in_wheel),
        *(f"the wheel lacks migrations in {name}" for name in _without_sql(in_wheel)),
        *(f"the wheel lacks the command {each}" for each in ("ralph", "scaffold") if f"{each} = " not in entries),
        *_wrong_metadata(metadata),
    ]


def _difference(name: str, found: set[str], wanted: set[str]) -> list[str]:
    return [
        *_limited([f"{name} lacks {path}" for path in sorted(wanted - found)]),
        *_limited([f"{name} has {path}, which is not part of it" for path in sorted(found - wanted)]),
    ]


def _limited(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], f"... and {len(lines) - MOST_LINES} more"]


def _without_sql(in_wheel: set[str]) -> list[str]:
    folders = ("scaffold/store/migrations/", "scaffold/store/user_migrations/")
    return [each for each in folders if not any(name.startswith(each) and name.endswith(".sql") for name in in_wheel)]


def _wrong_metadata(metadata: bytes) -> list[str]:
    """List what an index would refuse, as `twine check` does."""
    try:
        read = Metadata.from_email(metadata, validate=True)
    except ExceptionGroup as problems:
        return [f"metadata: {each}" for each in problems.exceptions]
    described = read.description_content_type == "text/markdown" and read.description
    return [] if described else ["metadata: no description in Markdown"]


def main() -> int:
    """Build into the folder that is named, report, and return the exit code."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    built = build(folder)
    wrong = findings(*built)
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    print("\n".join(str(path) for path in built))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
