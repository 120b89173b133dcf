"""Merging JSON by its keys."""

import json

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from scaffold.landing.conflicts.json_merge import merge_json
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from support.errors import error_of

BASE = """{
  "name": "shop",
  "version": "1.0.0",
  "files": ["dist", "src"],
  "scripts": {
    "test": "node --test"
  },
  "dependencies": {
    "express": "^4.0.0",
    "qs": "^6.0.0"
  }
}
"""


def changed(old, new):
    assert BASE.count(old) == 1
    return BASE.replace(old, new)


MERGED = {
    "both add a dependency in the same place": (
        ('"express": "^4.0.0",\n', '"express": "^4.0.0",\n    "got": "^1.0.0",\n'),
        ('"express": "^4.0.0",\n', '"express": "^4.0.0",\n    "ink": "^2.0.0",\n'),
        ('"express": "^4.0.0",\n', '"express": "^4.0.0",\n    "got": "^1.0.0",\n    "ink": "^2.0.0",\n'),
    ),
    "both add a script behind the only one": (
        ('"test": "node --test"', '"test": "node --test",\n    "lint": "eslint ."'),
        ('"test": "node --test"', '"test": "node --test",\n    "build": "tsc"'),
        ('"test": "node --test"', '"test": "node --test",\n    "lint": "eslint .",\n    "build": "tsc"'),
    ),
    "both add a file to a list of one line": (
        ('["dist", "src"]', '["bin", "dist", "src"]'),
        ('["dist", "src"]', '["dist"]'),
        ('["dist", "src"]', '["bin", "dist"]'),
    ),
    "one raises the version, the other a dependency beside it": (
        ('"version": "1.0.0"', '"version": "1.1.0"'),
        ('"files": ["dist", "src"]', '"files": ["src"]'),
        ('"version": "1.0.0",\n  "files": ["dist", "src"]', '"version": "1.1.0",\n  "files": ["src"]'),
    ),
}


def test_entries_of_both_sides_are_kept_with_the_layout():
    """AL-13: a manifest is merged by its entries."""
    merged = {name: merge_json(BASE, changed(*ours), changed(*theirs)) for name, (ours, theirs, _) in MERGED.items()}
    assert merged == {name: changed(*wanted) for name, (*_, wanted) in MERGED.items()}


REFUSED = {
    "both change a version": (changed("^4.0.0", "^4.1.0"), changed("^4.0.0", "^5.0.0")),
    "one removes what the other changes": (changed('"express": "^4.0.0",\n    ', ""), changed("^4.0.0", "^5.0.0")),
    "one has a comment": (changed('"name"', '// mine\n"name"'), changed("shop", "store")),
    "one has a key twice": (changed('"name"', '"name": 1, "name"'), changed("shop", "store")),
}


def test_what_has_two_meanings_is_refused_with_the_reason():
    """AL-13."""
    refusals = {
        name: error_of(NotMergeable, merge_json, BASE, ours, theirs) for name, (ours, theirs) in REFUSED.items()
    }
    assert {name: str(refusal).partition(": ")[0] for name, refusal in refusals.items()} == snapshot(
        {
            "both change a version": "both sides change dependencies.express",
            "one removes what the other changes": "one side changes dependencies.express, the other removes it",
            "one has a comment": "invalid JSON",
            "one has a key twice": "an object has the key `name` twice",
        }
    )


KEYS = st.sampled_from([f"k{n}" for n in range(8)])
SCALARS = st.one_of(st.integers(0, 3), st.text("ab", max_size=2), st.booleans(), st.none())
VALUES = st.recursive(
    SCALARS, lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=3), max_leaves=6
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=6)
LAYOUTS = st.sampled_from([{}, {"indent": 2}, {"indent": "\t"}, {"separators": (",", ":")}])


@given(OBJECTS, LAYOUTS, st.data())
def test_changes_of_different_keys_are_both_made(base, layout, data):
    """AL-13: whatever the layout."""
    mine = {key: data.draw(VALUES) for key in data.draw(st.sets(KEYS))}
    other = {key: data.draw(VALUES) for key in data.draw(st.sets(KEYS)) - mine.keys()}
    gone = data.draw(st.sets(st.sampled_from(sorted(base)))) - mine.keys() - other.keys() if base else set()
    ours = {**base, **mine}
    theirs = {key: value for key, value in {**base, **other}.items() if key not in gone}
    merged = merge_json(*(json.dumps(each, **layout) + "\n" for each in (base, ours, theirs)))
    assert json.loads(merged) == {key: value for key, value in {**base, **mine, **other}.items() if key not in gone}


@given(OBJECTS, OBJECTS, LAYOUTS)
def test_a_change_of_one_side_alone_is_taken_as_it_is_written(base, ours, layout):
    before, after = (json.dumps(each, **layout) for each in (base, ours))
    assert merge_json(before, after, before) == after
    assert json.loads(merge_json(before, before, after)) == ours
