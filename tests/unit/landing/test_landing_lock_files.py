"""Lock files in conflict: what their tool starts from, and what it has to keep."""

import json

import pytest

from scaffold.core.landing.conflict import FileVersions
from scaffold.landing.conflicts.lock_files import LOCK_TOOLS, lock_tool, require_versions, text_to_start_from
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from scaffold.verify.paths.conventions import LOCK_FILES
from support.errors import error_of

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


def test_a_side_that_is_no_lock_file_is_refused():
    """AL-13: conflict markers, files of older formats, and values of another form, which an agent wrote by hand."""
    rows = [
        ("package-lock.json", "<<<<<<<"),
        ("package-lock.json", "[]"),
        ("package-lock.json", '{"dependencies": {}}'),
        ("uv.lock", "[[package]"),
        ("uv.lock", 'package = ["x"]\n'),
        ("uv.lock", 'package = "x"\n'),
        ("uv.lock", '[[package]]\nversion = "1"\n'),
        ("Cargo.lock", '[[package]]\nname = ["x"]\n'),
        ("Cargo.lock", '[[package]]\nname = "x"\nversion = 1\n'),
        ("package-lock.json", '{"packages": ["x"]}'),
        ("package-lock.json", '{"packages": {"node_modules/x": "1"}}'),
        ("package-lock.json", '{"packages": {"node_modules/x": {"name": ["x"]}}}'),
    ]
    for path, text in rows:
        good = npm(a="1") if path == "package-lock.json" else cargo(a="1")
        assert error_of(NotMergeable, text_to_start_from, *of(path, good, good, text)), (path, text)
        assert error_of(NotMergeable, require_versions, *of(path, good, good, good), text), (path, text)


BASE, OURS, THEIRS = cargo(a="1", b="1", d="1", e="1"), cargo(a="2", b="1", d="2"), cargo(a="1", b="1", c="1", d="3")


def test_a_version_that_a_side_added_stays_and_no_other_one_comes():
    """AL-13: a regenerated file is not compared by its lines, but by the versions that it decides."""
    rows = [
        (cargo(a="2", b="1", c="1", d="2 3"), ""),
        (cargo(a="1 2", b="1", c="1", d="1 2 3"), "d 1, 2, 3, and not 2, 3"),
        (cargo(a="2", b="1", c="1", d="2"), "d 2, and not 2, 3"),
        (cargo(a="2", b="1", c="1"), "d in no version, and not 2, 3"),
        (cargo(a="1", b="1", c="1", d="2 3"), "a 1, and not 2"),
        (cargo(a="2", b="1", d="2 3"), "c in no version, and not 1"),
        (cargo(a="2", b="1", c="1", d="4"), "d 4, and not 2, 3"),
        (cargo(a="2", b="1", c="1", d="2 3", f="1"), "f 1, and not in no version"),
        (cargo(a="2", b="1", c="1", d="2 3", e="1"), "e 1, and not in no version"),
    ]
    sides = of("Cargo.lock", BASE, OURS, THEIRS)
    found = [(made, problem, error_of(NotMergeable, require_versions, *sides, made)) for made, problem in rows]
    assert [
        (made, str(error)) for made, problem, error in found if (problem not in str(error) if problem else error)
    ] == []


def test_versions_that_sides_add_beside_others_all_stay():
    """AL-13: each version counts by itself, not the set that a side has."""
    sides = of("Cargo.lock", cargo(a="1"), cargo(a="1 2"), cargo(a="1 3"))
    require_versions(*sides, cargo(a="1 2 3"))
    with pytest.raises(NotMergeable, match="a 1, and not 1, 2, 3"):
        require_versions(*sides, cargo(a="1"))


def entry(version="1", **fields):
    """Return the entry of a package of npm."""
    return json.dumps({"packages": {"node_modules/a": {"version": version, **fields}}})


def test_a_version_is_what_the_sides_say_that_it_is():
    """AL-13: no tool takes it from elsewhere, or drops what shows that it is the same."""
    rows = [
        ({"resolved": "x"}, {"resolved": "x"}, {"resolved": "x"}, {"resolved": "y"}, '"y", and not "x"'),
        ({}, {"integrity": "x"}, {}, {}, 'integrity none, and not "x"'),
        ({}, {"integrity": "x"}, {}, {"integrity": "x"}, ""),
        ({}, {"resolved": "x"}, {"integrity": "y"}, {"resolved": "x", "integrity": "y"}, ""),
        ({}, {"version": "2"}, {"integrity": "x"}, {"version": "2", "integrity": "x"}, '"x", and not none'),
        ({}, {"version": "2", "integrity": "x"}, {}, {"version": "2", "integrity": "x"}, ""),
    ]
    for *each, made, problem in rows:
        sides = of("package-lock.json", *(entry(**fields) for fields in each))
        error = error_of(NotMergeable, require_versions, *sides, entry(**made))
        assert problem in str(error) if problem else error is None, made


def test_the_source_of_a_package_in_toml_counts_too():
    """AL-13: for cargo and uv."""
    good = cargo(a="1").replace('name = "a"\n', 'name = "a"\nsource = "registry+good"\n')
    with pytest.raises(NotMergeable, match='a 1 with source "git\\+evil"'):
        require_versions(*of("Cargo.lock", good, good, good), good.replace("registry+good", "git+evil"))


def test_entries_of_different_versions_are_not_combined():
    """AL-13: a hash belongs to one version; a package of the repository itself has none."""
    rows = [
        ({"version": "2"}, {"integrity": "of 1"}, {"version": "2"}),
        ({"integrity": "of 1"}, {"version": "2"}, {"version": "2"}),
        ({"version": "2", "integrity": "2"}, {"version": "3", "resolved": "3"}, {"version": "2", "integrity": "2"}),
        ({"resolved": "x"}, {"integrity": "y"}, {"resolved": "x", "integrity": "y"}),
        ({"version": "2"}, {"dev": True}, {"version": "2", "dev": True}),
    ]
    for ours, theirs, start in rows:
        found = text_to_start_from(*of("package-lock.json", entry(), entry(**ours), entry(**theirs)))
        assert json.loads(found) == json.loads(entry(**start))
