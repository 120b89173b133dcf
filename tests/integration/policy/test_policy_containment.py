import os

import pytest

from scaffold.policy.path.containment import Refusal, resolve_inside


@pytest.fixture
def root(tmp_path):
    """A workspace `work` beside a folder `work-else` outside it."""
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").touch()
    (root / ".git").mkdir()
    (tmp_path / "work-else").mkdir()
    (tmp_path / "work-else" / "secret").touch()
    (root / "inward").symlink_to("src")
    (root / "outward").symlink_to("../work-else")
    (root / "secret").symlink_to("../work-else/secret")
    (root / "dangling").symlink_to("../work-else/new")
    (root / "history").symlink_to(".git")
    (root / "loop").symlink_to("loop")
    return root


def test_paths_inside_are_resolved(root):
    expected = {
        ".": ".",
        "src/a.py": "src/a.py",
        "src/../src/a.py": "src/a.py",
        "inward/a.py": "src/a.py",
        "inward/new/deep.py": "src/new/deep.py",
        "new/folder/file": "new/folder/file",
        ".gitignore": ".gitignore",
        ".github/x.git": ".github/x.git",
        "~": "~",
    }
    assert {path: resolve_inside(root, path) for path in expected} == {
        path: root / place for path, place in expected.items()
    }


def test_for_a_path_of_another_machine_the_same_one_inside_is_proposed(root):
    """RA-4: only a proposal, and never for a path that climbs out on purpose."""
    rows = [
        ("/workspace/src/a.py", "src/a.py"),
        ("/src/a.py", "src/a.py"),
        ("/home/user/work/src", "src"),
        ("/etc/passwd", ""),
        ("/", ""),
        ("/workspace/.git/config", ""),
        ("/tmp/../work-else/src/a.py", ""),
        ("../elsewhere/src/a.py", ""),
    ]
    for path, inside in rows:
        refused = resolve_inside(root, path)
        assert isinstance(refused, Refusal), path
        assert refused.reason.endswith(
            f"is outside the workspace; did you mean {inside}?"
            if inside
            else "only paths inside it may be used, relative to it."
        ), path


def test_a_root_behind_a_link_is_the_same_root(root, tmp_path):
    assert resolve_inside(root, str(root / "src")) == root / "src"
    (tmp_path / "alias").symlink_to(root)
    assert resolve_inside(tmp_path / "alias", "src/a.py") == root / "src" / "a.py"
    assert resolve_inside(tmp_path / "alias", str(tmp_path / "alias" / "src")) == root / "src"


def test_paths_outside_or_into_git_are_refused_with_the_reason(root):
    expected = {
        "": "empty",
        "a\0b": "NUL",
        "..": "outside",
        "../work-else/secret": "outside",
        "src/../../work-else": "outside",
        "/etc/passwd": "outside",
        "outward/secret": "outside",
        "outward/new": "outside",
        "secret": "outside",
        "dangling": "outside",
        "inward/../../work-else": "outside",
        "loop/x": "cannot be resolved",
        "\ud800": "cannot be resolved",
        ".git": "belongs to git",
        ".git/hooks/pre-commit": "belongs to git",
        ".GIT/config": "belongs to git",
        "src/vendored/.git/config": "belongs to git",
        "history/config": "belongs to git",
    }
    found = {path: resolve_inside(root, path) for path in expected}
    assert [path for path, refusal in found.items() if not isinstance(refusal, Refusal)] == []
    assert [path for path, reason in expected.items() if reason not in found[path].reason] == []


def test_an_absolute_path_to_a_sibling_with_our_name_as_prefix_is_refused(root):
    assert isinstance(resolve_inside(root, os.fspath(root) + "-else/secret"), Refusal)
