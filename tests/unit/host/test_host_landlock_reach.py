"""What the rules of a Landlock domain allow, computed from the marked paths."""

from hypothesis import given
from hypothesis import strategies as st

from scaffold.host.sandbox.landlock.domain import CHANGING, READ_DIR, READING, access_rules, path_tree
from scaffold.host.sandbox.landlock.launcher import Arguments

TREE = {
    "/": ["etc", "home", "usr"],
    "/etc": ["hosts", "shadow"],
    "/home": ["me"],
    "/home/me": [".ssh", "work", "notes"],
    "/home/me/work": [".env", ".git", "README", "src"],
    "/home/me/work/src": ["deep"],
}


def rules(*words):
    marks = Arguments(list(words)).marks
    return dict(access_rules(path_tree(marks), lambda path: TREE.get(path, [])))


def rights_of(path, found):
    """Return what the rules allow at a path: rights add up along the way to it."""
    rights = 0
    for place, allowed in found.items():
        if path == place or path.startswith(place.rstrip("/") + "/"):
            rights |= allowed
    return rights


def test_without_marks_everything_is_readable():
    assert rules() == {"/": READING}


def test_files_beside_a_hidden_one_are_readable():
    found = rules("hidden:/etc/shadow")
    assert found == {"/": READ_DIR, "/etc/hosts": READING, "/home": READING, "/usr": READING}


def test_a_folder_with_a_sealed_entry_allows_changes_but_no_new_entries():
    """BX-9: beside `.git` every file can be changed, but none can be created."""
    found = rules("writable:/home/me/work", "sealed:/home/me/work/.git")
    assert rights_of("/home/me/work/src/deep", found) == CHANGING
    assert rights_of("/home/me/work/README", found) == CHANGING
    assert rights_of("/home/me/work/.git", found) == READING
    assert rights_of("/home/me/work", found) == READ_DIR
    assert rights_of("/home/me/work/new", found) == READ_DIR


def test_a_folder_is_restricted_also_for_a_sealed_path_that_does_not_exist():
    found = rules("writable:/home/me/work", "sealed:/home/me/work/.mcp.json")
    assert rights_of("/home/me/work/.mcp.json", found) == READING
    assert rights_of("/home/me/work/src", found) == CHANGING
    assert rights_of("/home/me/work", found) == READ_DIR


def test_a_folder_without_sealed_entries_is_unrestricted():
    assert rules("writable:/home/me/work", "sealed:/etc/hosts")["/home/me/work"] == CHANGING


def test_the_deeper_of_two_marks_wins():
    found = rules("hidden:/home", "shown:/home/me", "hidden:/home/me/.ssh", "writable:/home/me/work")
    assert rights_of("/home/me/notes", found) == READING
    assert rights_of("/home/me/.ssh/id", found) == READ_DIR
    assert rights_of("/home/me/work/src", found) == CHANGING
    assert rights_of("/home/you", found) == READ_DIR


def test_nothing_below_a_sealed_path_can_be_changed_and_a_hidden_file_stays_hidden():
    found = rules("writable:/home/me/work", "sealed:/home/me/work/src", "writable:/home/me/work/src/deep")
    assert rights_of("/home/me/work/src/deep", found) == READING
    found = rules("writable:/home/me/work", "hidden:/home/me/work/.env")
    assert rights_of("/home/me/work/.env", found) == READ_DIR
    assert rights_of("/home/me/work/.git/config", found) == CHANGING


places = st.sampled_from(["/", *(f"{top.rstrip('/')}/{name}" for top, names in TREE.items() for name in names)])
marks = st.lists(st.tuples(st.sampled_from(["writable", "sealed", "hidden", "shown"]), places), max_size=8)


def intended(path, marked):
    """Return what the marks say of a path, computed naively: from the top down, the deeper one wins."""
    rights, fixed = READING, False
    steps = [path[:end] or "/" for end in range(len(path) + 1) if path[end : end + 1] in ("/", "")]
    for step in dict.fromkeys(["/", *steps]):
        kinds = {kind for kind, place in marked if place == step}
        fixed = fixed or "sealed" in kinds
        rights = CHANGING if "writable" in kinds else rights
        rights = 0 if "hidden" in kinds else rights
        rights = rights | READING if "shown" in kinds else rights
        rights = rights & READING if fixed else rights
    return rights


@given(marks, places)
def test_no_path_gets_more_rights_than_its_marks_say(marked, path):
    """BX-9: names can be listed everywhere, nothing else is exposed."""
    found = rules(*(f"{kind}:{place}" for kind, place in marked))
    assert rights_of(path, found) & ~(intended(path, marked) | READ_DIR) == 0


@given(marks, st.sampled_from(["/home/me/work/src/deep", "/etc/hosts", "/usr", "/home/me/work/README"]))
def test_a_file_gets_all_the_rights_of_its_marks(marked, path):
    found = rules(*(f"{kind}:{place}" for kind, place in marked))
    assert intended(path, marked) & ~rights_of(path, found) == 0
