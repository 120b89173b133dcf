"""The repository itself: locks that pin everything and name no index, and documents of a readable length."""

import re
import subprocess  # noqa: TID251 - what git tracks is asked of git itself, without the tree's own process code
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
INDEXES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("deb", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("anaconda", "org"),
        ("static", "crates", "io"),
        ("proxy", "golang", "org"),
        ("rubygems", "org"),
    )
]
INDEX = re.compile(
    "|".join(map(re.escape, INDEXES)) + r"|^-{1,2}(i|index-url|extra-index-url|find-links)\b", re.MULTILINE
)
PINNED = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[\w,-]+\])?==(?P<version>\S+)(?: ; (?P<marker>[^\\]+?))?"
    r"(?: \\\n    --hash=sha256:[0-9a-f]{64})+"
)
MAKEFILE_PATH = re.compile(r"(?<![\w./-])(?:\.ci|bench|docs|examples|requirements|src|tests)/[\w./-]*\w")


def tracked() -> list[Path]:
    """Return the files git tracks, and those it would if they were added."""
    answer = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if answer.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in answer.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def pins(text: str) -> dict[str, str]:
    """Read a lock: name to version; ValueError for a line that is not a requirement pinned with its hashes."""
    entries = [entry for entry in re.split(r"\n(?! )", text) if entry.strip() and not entry.startswith("#")]
    rows = {entry: PINNED.fullmatch(entry.rstrip()) for entry in entries}
    loose = [entry.splitlines()[0] for entry, row in rows.items() if row is None]
    if loose:
        raise ValueError(f"not pinned with hashes: {loose}")
    return {canonicalize_name(row["name"]): row["version"] for row in rows.values() if row}


def out_of_step(wanted: list[str], lock: dict[str, str]) -> list[str]:
    """List the requirements that a lock does not satisfy."""
    return [
        line
        for line in wanted
        if (version := lock.get(canonicalize_name((need := Requirement(line)).name))) is None
        or not need.specifier.contains(version)
    ]


def lock(name: str) -> dict[str, str]:
    """Read one of our locks."""
    return pins((ROOT / "requirements" / f"{name}.txt").read_text())


def declared() -> tuple[list[str], list[str]]:
    """Return the dependencies of pyproject.toml: at run time, and for development."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return project["project"]["dependencies"], project["dependency-groups"]["dev"]


def test_no_file_names_a_package_index() -> None:
    named = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in tracked()
        if (found := INDEX.search(path.read_text(encoding="utf-8", errors="replace")))
    ]
    assert named == []


def test_a_named_index_is_found() -> None:
    lines = [*(f"# from https://{host}/simple" for host in INDEXES), "-i x", "--index-url x"]
    assert [line for line in lines if not INDEX.search(f"click==8.5.1\n{line}\n")] == []


def test_the_locks_satisfy_the_projects_dependencies() -> None:
    run, dev = declared()
    assert out_of_step(run, lock("run")) == []
    assert out_of_step([*run, *dev], lock("dev")) == []
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["memory"]
    assert out_of_step([*run, *extra], lock("memory")) == []


def test_development_and_run_time_locks_agree() -> None:
    assert lock("run").items() <= lock("dev").items()
    assert lock("run").items() <= lock("memory").items()


def test_a_requirement_without_a_hash_is_refused() -> None:
    good = f"click==8.5.1 \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'1' * 64}\n"
    assert pins(good) == {"click": "8.5.1"}
    for loose in ("rich==15.0.0", "rich>=14 \\\n    --hash=sha256:" + "0" * 64, "-e .", "rich==15.0.0 \\"):
        with pytest.raises(ValueError, match=re.escape(loose.splitlines()[0])):
            pins(f"{good}{loose}\n")


def test_an_outdated_lock_is_found() -> None:
    assert out_of_step(["click>=8.2", "PyYAML>=6", "rich"], {"click": "8.1.0", "pyyaml": "6.0.3"}) == [
        "click>=8.2",
        "rich",
    ]


def test_the_map_and_the_decisions_stay_short() -> None:
    limits = {ROOT / "AGENTS.md": 100} | dict.fromkeys((ROOT / "docs" / "design").glob("[0-9]*.md"), 60)
    assert len(limits) > 1
    long = {path.name: count for path, limit in limits.items() if (count := len(path.read_text().splitlines())) > limit}
    assert long == {}


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = sorted(path.name.split("-")[0] for path in (ROOT / "docs" / "design").glob("[0-9]*.md"))
    assert numbers == [f"{number:03}" for number in range(1, len(numbers) + 1)]


def test_every_decision_is_in_the_index_with_its_title() -> None:
    folder = ROOT / "docs" / "design"
    rows = re.findall(r"^\| \[(.+?)\]\((.+?)\) \| .+ \|$", (folder / "README.md").read_text(), re.MULTILINE)
    titles = {path.name: path.read_text().partition("\n")[0] for path in folder.glob("[0-9]*.md")}
    assert dict(sorted((name, f"# {title}") for title, name in rows)) == dict(sorted(titles.items()))


def test_paths_named_in_the_makefile_exist() -> None:
    named = set(MAKEFILE_PATH.findall((ROOT / "Makefile").read_text()))
    assert {"bench/run.py", "requirements/memory.txt", "requirements/dev.txt"} <= named
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_decisions_are_titled_with_their_number() -> None:
    untitled = [
        path.name
        for path in (ROOT / "docs" / "design").glob("[0-9]*.md")
        if not re.match(rf"# {path.name[:3]} [A-Z]", path.read_text())
    ]
    assert untitled == []
