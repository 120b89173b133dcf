"""Which paths are proposed for one that does not exist."""

import pytest
from inline_snapshot import snapshot

from scaffold.tools.content.near_paths import missing_file, missing_folder, near_files, near_folders


@pytest.fixture
def root(tmp_path):
    for path in ("src/shop/store.py", "src/shop/reader.py", "tests/test_store.py", "legacy/store.py", ".git/store.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    return tmp_path


def test_files_with_the_same_name_or_one_like_it_are_proposed(root):
    """RA-4: whatever is in a repository of git is not."""
    best = {
        "src/shop/sotre.py": ("src/shop/store.py", "legacy/store.py"),
        "src/Shop/Store.py": ("src/shop/store.py", "legacy/store.py"),
        "store.py": ("legacy/store.py", "src/shop/store.py"),
        "src/raeder.py": ("src/shop/reader.py",),
        "src/shop/missing.txt": (),
        "": (),
    }
    assert {wanted: near_files(root, wanted)[: len(most) or None] for wanted, most in best.items()} == best


def test_folders_are_proposed_for_folders(root):
    assert near_folders(root, "src/shops") == ("src/shop",)
    assert missing_folder(root, "shop/") == snapshot("There is no folder shop/. Did you mean src/shop?")


def test_an_answer_proposes_at_most_three_paths_in_the_way_they_were_asked_for(root):
    for n in range(9):
        (root / f"{n}").mkdir()
        (root / f"{n}/reader.py").touch()
    assert missing_file(root, "reader.py").count("reader.py") == 4
    absolute = missing_file(root, f"{root}/src/shop/stores.py")
    assert f"Did you mean {root.resolve()}/src/shop/store.py or " in absolute
    assert missing_file(root, "xyz") == snapshot("There is no file xyz; find it with glob or list_dir.")
