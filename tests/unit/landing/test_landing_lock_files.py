"""Lock files in conflict: what their tool starts from, and what it has to keep."""

import json

import pytest

from scaffold.core.conflict import FileVersions
from scaffold.landing.conflicts.lock_files import (
    LOCK_FILES,
    LOCK_TOOLS,
    lock_tool,
    require_versions,
    text_to_start_from,
)
from scaffold.landing.conflicts.not_mergeable import NotMergeable

HEAD = "version = 1\n\n"


def cargo(*, root=(), **versions):
    """Return a lock file of a package `shop` that needs what is in `root`."""
    needs = "".join(f'    "{name}",\n' for name in root)
    shop = f'[[package]]\nname = "shop"\nversion = "1.0.0"\ndependencies = [\n{needs}]\n'
    others = [
        f'[[package]]\nname = "{name}"\nversion = "{version}"\n\n'
        for name, found in sorted(versions.items())
        for version in found.split()
    ]
    return (HEAD + "".join(sorted([*others, f"{shop}\n"]))).rstrip("\n") + "\n"


def npm(**versions):
    """Return a lock file of npm."""
    packages = {
        "": {"dependencies": dict.fromkeys(versions, "*")},
        **{f"node_modules/{name}": {"version": version} for name, version in versions.items()},
    }
    return json.dumps({"lockfileVersion": 3, "packages": packages}, indent=2) + "\n"


def of(path, base, ours, theirs):
    return FileVersions(path, base, ours, theirs), lock_tool(path)


def test_every_tool_works_offline_and_is_known_by_the_name_of_its_file():
    """AL-13: in any folder; a file without such a tool is left to the next attempt."""
    assert LOCK_TOOLS.keys() < LOCK_FILES
    assert all("--offline" in tool.argv for tool in LOCK_TOOLS.values())
    assert lock_tool("web/package-lock.json").program == "npm"
    assert lock_tool("yarn.lock") is None


def test_the_tool_starts_from_the_packages_of_both_sides():
    """AL-13: so it finds in the file what no index tells it."""
    base, ours, theirs = cargo(b="1"), cargo(root=["a"], a="1", b="1"), cargo(root=["c"], b="2", c="1")
    assert text_to_start_from(*of("Cargo.lock", base, ours, theirs)) == cargo(root=["a", "c"], a="1", b="2", c="1")
    base, ours, theirs = npm(b="1"), npm(a="1", b="1"), npm(b="2", c="1")
    assert json.loads(text_to_start_from(*of("package-lock.json", base, ours, theirs))) == json.loads(
        npm(a="1", b="2", c="1")
    )


def test_a_package_that_both_sides_change_has_the_changes_of_both():
    """AL-13: so that uv finds that the file fits the manifest, and needs no index."""
    text = HEAD + (
        '[[package]]\nname = "shop"\nsource = { virtual = "." }\ndependencies = [\n    { name = "m" },\n]\n\n'
        '[package.metadata]\nrequires-dist = [{ name = "m" }]\n'
    )

    def having(*names):
        listed = "".join(f'    {{ name = "{name}" }},\n' for name in names)
        asked = f"requires-dist = [\n{listed}]"
        return text.replace('    { name = "m" },\n', listed).replace('requires-dist = [{ name = "m" }]', asked)

    start = text_to_start_from(*of("uv.lock", text, having("a", "m"), having("m", "z")))
    assert start == having("a", "m", "z")


def test_what_both_sides_change_is_as_it_landed_and_what_one_removes_is_gone():
    """AL-13: its tool decides whether that fits."""
    base, ours, theirs = cargo(a="1", b="1", c="1"), cargo(a="2", c="1"), cargo(a="3", b="1")
    assert text_to_start_from(*of("Cargo.lock", base, ours, theirs)) == cargo(a="2")
    base, ours, theirs = npm(a="1", b="1", c="1"), npm(a="2", c="1"), npm(a="3", b="1")
    assert json.loads(text_to_start_from(*of("package-lock.json", base, ours, theirs))) == json.loads(npm(a="2"))


def test_a_file_that_both_sides_add_has_no_packages_before():
    """AL-13: and the layout of what landed stays."""
    ours = npm(a="1").replace("  ", "\t")
    start = text_to_start_from(*of("package-lock.json", "", ours, npm(b="1")))
    assert start.startswith('{\n\t"lockfileVersion"')
    assert {"node_modules/a", "node_modules/b"} < json.loads(start)["packages"].keys()
    assert text_to_start_from(*of("Cargo.lock", "", cargo(a="1"), cargo(b="1"))) == cargo(a="1", b="1")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("package-lock.json", "<<<<<<<"),
        ("package-lock.json", "[]"),
        ("package-lock.json", '{"dependencies": {}}'),
        ("uv.lock", "[[package]"),
    ],
)
def test_a_side_that_is_no_lock_file_is_refused(path, text):
    """AL-13: conflict markers, and files of older formats."""
    good = npm(a="1") if path == "package-lock.json" else cargo(a="1")
    with pytest.raises(NotMergeable):
        text_to_start_from(*of(path, good, good, text))
    with pytest.raises(NotMergeable):
        require_versions(*of(path, good, good, good), text)


BASE, OURS, THEIRS = cargo(a="1", b="1", d="1", e="1"), cargo(a="2", b="1", d="2"), cargo(a="1", b="1", c="1", d="3")


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (cargo(a="2", b="1", c="1", d="2"), ""),
        (cargo(a="2", b="1", c="1", d="2 3"), ""),
        (cargo(a="1", b="1", c="1", d="2"), "a 1, and not 2"),
        (cargo(a="2", b="1", d="2"), "c in no version, and not 1"),
        (cargo(a="2", b="1", c="1", d="4"), "d 4, and not 2, 3"),
        (cargo(a="2", b="1", c="1", d="2", f="1"), "f 1, and not in no version"),
        (cargo(a="2", b="1", c="1", d="2", e="1"), "e 1, and not in no version"),
    ],
    ids=["both", "two versions", "ours is lost", "theirs is lost", "another version", "invented", "came back"],
)
def test_a_version_that_one_side_changed_stays_and_no_other_one_comes(made, problem):
    """AL-13: a regenerated file is not compared by its lines, but by the versions that it decides."""
    if not problem:
        require_versions(*of("Cargo.lock", BASE, OURS, THEIRS), made)
        return
    with pytest.raises(NotMergeable, match=problem):
        require_versions(*of("Cargo.lock", BASE, OURS, THEIRS), made)
