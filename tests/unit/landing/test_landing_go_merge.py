"""Merging the manifests of Go."""

import pytest
from inline_snapshot import snapshot

from scaffold.landing.conflicts.go_merge import merge_go_mod, merge_go_sum, version_key
from scaffold.landing.conflicts.not_mergeable import NotMergeable
from support.errors import error_of

BASE = """\
module example.org/shop

go 1.21

require (
\tgithub.com/a/a v1.0.0
\tgithub.com/c/c v1.2.0
)

require github.com/x/x v0.1.0 // indirect

replace github.com/a/a => ../a
"""


def changed(old, new):
    assert BASE.count(old) == 1
    return BASE.replace(old, new)


A, C = "\tgithub.com/a/a v1.0.0\n", "\tgithub.com/c/c v1.2.0\n"
B, D = "\tgithub.com/b/b v1.0.0\n", "\tgithub.com/d/d v1.0.0 // why\n"

MERGED = {
    "both require something new": ((A, A + B), (C, C + D), (A + C, A + B + C + D)),
    "both raise one requirement": (("c v1.2.0", "c v1.10.0"), ("c v1.2.0", "c v1.9.0"), ("c v1.2.0", "c v1.10.0")),
    "both raise the language": (("go 1.21", "go 1.22"), ("go 1.21", "go 1.22.3"), ("go 1.21", "go 1.22.3")),
    "one removes, the other raises another": ((A, ""), ("c v1.2.0", "c v1.3.0"), (A + C, C.replace("1.2", "1.3"))),
}


def test_requirements_of_both_sides_are_kept():
    """AL-13: the higher version, as Go itself chooses."""
    merged = {name: merge_go_mod(BASE, changed(*ours), changed(*theirs)) for name, (ours, theirs, _) in MERGED.items()}
    assert merged == {name: changed(*wanted) for name, (*_, wanted) in MERGED.items()}


REFUSED = {
    "both change a replacement": (("=> ../a", "=> ../b"), ("=> ../a", "=> ../c")),
    "one lowers what the other raises": (("c v1.2.0", "c v1.1.0 // v1.2 is broken"), ("c v1.2.0", "c v1.3.0")),
    "one removes what the other raises": ((A, ""), ("a v1.0.0", "a v1.1.0")),
}


def test_what_has_two_meanings_is_refused_with_the_reason():
    """AL-13."""
    refusals = {
        name: error_of(NotMergeable, merge_go_mod, BASE, changed(*ours), changed(*theirs))
        for name, (ours, theirs) in REFUSED.items()
    }
    assert {name: str(refusal) for name, refusal in refusals.items()} == snapshot(
        {
            "both change a replacement": "both sides change replace github.com/a/a",
            "one lowers what the other raises": "both sides change require github.com/c/c",
            "one removes what the other raises": "both sides change require github.com/a/a",
        }
    )


def test_versions_are_in_the_order_of_go():
    given = ["v1.10.0", "v1.2.0", "v1.9.0", "v1.2.0-rc.2", "v0.0.0-20200101000000-abcdef", "v1.2.0-rc.1"]
    ordered = ["v0.0.0-20200101000000-abcdef", "v1.2.0-rc.1", "v1.2.0-rc.2", "v1.2.0", "v1.9.0", "v1.10.0"]
    assert sorted(given, key=version_key) == ordered
    given = ["go1.23.1", "go1.23rc10", "go1.22", "go1.23rc2", "go1.23beta1", "go1.23"]
    ordered = ["go1.22", "go1.23beta1", "go1.23rc2", "go1.23rc10", "go1.23", "go1.23.1"]
    assert sorted(given, key=version_key) == ordered
    with pytest.raises(NotMergeable, match="unknown version"):
        version_key("v1.x")


def test_sums_of_both_sides_are_kept_sorted():
    """AL-13."""
    assert merge_go_sum("a h1\nc h1\n", "a h1\nb h1\nc h1\n", "a h1\nd h1\n") == "a h1\nb h1\nd h1\n"
