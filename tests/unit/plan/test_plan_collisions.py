"""Which actions may not run at the same time, by the files that they may change."""

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from scaffold.plan.collisions.boundary import MAX_ENTRIES, boundary_of, meet
from scaffold.plan.collisions.layout import SourceLayout, layout_of
from scaffold.plan.collisions.rules import Board, CollisionLimits, HeldBack, WorkUnit, collision, overtakes

NO_LIMITS = CollisionLimits()
PACKAGES = CollisionLimits(layout=SourceLayout(packages=("api", "web")))


def unit(key, *files, **fields):
    return WorkUnit(id=key, key=key, files=files, **fields)


def why(board, found):
    held = board.why_held_back(found)
    return held and (held.rule, held.waits_for, held.path)


def may_meet(one, other):
    return meet(boundary_of((one,)), boundary_of((other,)))


def test_equal_and_nested_paths_meet():
    """AL-4: globs by their fixed prefix, and one without any by what its first name may be."""
    meeting = {
        "src/a.py": ("src/a.py", "src", "SRC/A.py", "/src/a.py", "/**", "a/../src"),
        "./src/a.py": ("src/",),
        "src/deep/er/a.py": ("src/**",),
        "src/*.py": ("src/deep", "src/*.js"),
        "cafe\u0301": ("caf\u00e9",),
        "a.txt": ("", "[ab].txt"),
        "src": (".", "*"),
        "*.py": ("**", "a.py", "a*"),
        "docs/a.md": ("**/*.py",),
        "src/b.py": ("s*/a.py",),
    }
    assert [(one, other) for other, ones in meeting.items() for one in ones if not may_meet(one, other)] == []


def test_other_paths_do_not_meet():
    """AL-4: names that begin alike are not nested, and what is outside of the repository is nothing in it."""
    apart = {
        "src/a.py": ("src/ab.py", "*.py"),
        "srcs/a.py": ("src",),
        "b.txt": ("a.txt",),
        "*.md": ("*.py",),
        "b*": ("a*",),
        "a": ("../a",),
        "b": ("a/../../b",),
    }
    assert [(one, other) for other, ones in apart.items() for one in ones if may_meet(one, other)] == []


def test_names_of_changed_files_are_no_globs():
    """AL-4: `[id].tsx` is a file."""
    assert boundary_of(("app/[id].tsx",), literal=True).paths == {"app/[id].tsx": "app/[id].tsx"}
    assert boundary_of(("app/[id].tsx",)).paths == {"app": "app"}


def test_of_thousands_of_files_their_folders_count():
    """AL-4: an action with 10,000 files is compared as fast as others, and meets no less."""
    many = boundary_of(tuple(f"src/part{n % 50}/deep/f{n}.py" for n in range(10_000)))
    assert len(many.paths) <= MAX_ENTRIES
    assert meet(many, boundary_of(("src/part7/deep/f7.py",)))
    assert not meet(many, boundary_of(("docs",)))
    assert len(boundary_of(tuple(f"f{n}" for n in range(1_000))).paths) == 1, "the whole repository"


names = st.sampled_from(["a", "b", "A", "ab", "*", "a*", "*b", "**", "..", ".", "", "?", "[a]"])
entries = st.lists(names, max_size=4).map("/".join)
files = st.lists(entries, max_size=3).map(tuple)


@given(files, files)
def test_whether_two_meet_does_not_depend_on_their_order(one, other):
    """AL-4."""
    assert meet(boundary_of(one), boundary_of(other)) == meet(boundary_of(other), boundary_of(one))


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), entries)
def test_a_path_meets_the_folders_around_it_and_whatever_these_meet(path, entry):
    """AL-4: what may be changed inside of a folder may be changed by whoever may change the folder."""
    inner, outer = "/".join(path), "/".join(path[:-1])
    assert meet(boundary_of((inner,)), boundary_of((outer,)))
    if meet(boundary_of((inner,)), boundary_of((entry,))):
        assert meet(boundary_of((outer,)), boundary_of((entry,)))


def test_the_directories_of_a_repository_are_its_packages_or_the_first_level_with_several():
    """AL-4: the package is the directory, and a single source root uses the next level."""
    repositories = (
        ([], (), SourceLayout()),
        (["README.md", "a.py"], (), SourceLayout()),
        (["src/a.py", "src/b.py", "tests/t.py"], (), SourceLayout(folders=("src",))),
        (["api/a.py", "web/b.js", "docs/c.md", ".ci/x"], (), SourceLayout(folders=("api", "web"))),
        (
            ["setup.py", "src/n/__init__.py", "src/n/core/a.py", "src/n/cli/b.py", "tests/unit/t.py"],
            (),
            SourceLayout(root="src/n", folders=("src/n/cli", "src/n/core")),
        ),
        (["src/main.rs", "src/net/a.rs"], (), SourceLayout(root="src", folders=("src/net",))),
        (
            ["src/main/java/a/x/X.java", "src/main/java/a/y/Y.java", "src/test/java/a/T.java"],
            (),
            SourceLayout(root="src/main/java/a", folders=("src/main/java/a/x", "src/main/java/a/y")),
        ),
        (
            ["packages/a/x", "packages/b/y", "tools/z/w", "package.json"],
            ("packages/a", "packages/b", "packages/gone", ""),
            SourceLayout(packages=("packages/a", "packages/b"), folders=("tools",)),
        ),
    )
    assert [(paths, layout_of(paths, packages)) for paths, packages, _ in repositories] == [
        (paths, layout) for paths, _, layout in repositories
    ]


SINGLE = SourceLayout(root="src/n", folders=("src/n/cli", "src/n/core"))
SPREAD = SourceLayout(packages=("packages/a", "packages/b"), folders=("tools",))


def test_an_action_counts_for_the_directories_of_its_source():
    """AL-4: tests and documents go with the source that they belong to; by themselves they count for their own."""
    rows = {
        (SourceLayout(folders=("src",)), ("src/a.py",)): (),
        (SINGLE, ("src/n/core/x/a.py", "tests/core/test_a.py")): ("src/n/core",),
        (SINGLE, ("src/n/core", "src/n/CLI/b.py")): ("src/n/cli", "src/n/core"),
        (SINGLE, ("src/n/a.py", "tests/test_a.py")): (),
        (SINGLE, ("src/n/new/a.py",)): ("src/n/new",),
        (SINGLE, ("docs/a.md",)): ("docs",),
        (SINGLE, ("docs/**",)): ("docs",),
        (SINGLE, ("README.md",)): (),
        (SINGLE, ("src/n",)): (),
        (SINGLE, ("**",)): (),
        (SINGLE, ()): (),
        (SPREAD, ("packages/a/x/y.js", "docs/a.md")): ("packages/a",),
        (SPREAD, ("packages/a", "tools/z/w")): ("packages/a", "tools"),
        (SPREAD, ("package.json", "tests/e2e.js")): (),
        (SPREAD, ("*.md", "tests/e2e.js")): (),
        (SPREAD, ("tests/e2e.js",)): ("tests",),
        (SPREAD, (".github/ci.yaml",)): (".github",),
    }
    assert {(layout, files): layout.directories_of(files) for layout, files in rows} == rows


def test_of_two_with_known_files_their_paths_decide():
    """AL-4."""
    assert collision(unit("a", "src/x"), unit("b", "src"), NO_LIMITS).rule == "path"
    assert collision(unit("a", "src/x"), unit("b", "src/y"), NO_LIMITS) is None
    assert collision(unit("a", "src/x"), unit("b"), NO_LIMITS) is None
    assert collision(unit("a", "x"), unit("a", "x"), NO_LIMITS) is None, "steps in one worktree are one"
    assert collision(unit("a", "x"), unit("b", "x", reads_only=True), NO_LIMITS) is None


def test_of_one_with_unknown_files_what_it_has_changed_decides():
    """AL-4: an action without file boundaries is unknown; the forecast of its live work decides."""
    live = unit("a", touched=("src/x.py",))
    assert collision(live, unit("b", "src"), NO_LIMITS).rule == "forecast"
    assert collision(live, unit("b", "docs"), NO_LIMITS) is None
    assert collision(live, unit("b", touched=("src/x.py",)), NO_LIMITS) is None, "a merge may succeed"
    merged = unit("b", touched=("src/x.py",), conflicts={"a": ("src/x.py",)})
    assert collision(live, merged, NO_LIMITS).rule == collision(merged, live, NO_LIMITS).rule == "forecast"


def test_what_changes_a_hotspot_is_serialised_even_if_a_merge_would_succeed():
    """AL-4."""
    limits = CollisionLimits(hotspots=frozenset({"src/x.py"}))
    one, other = unit("a", touched=("src/x.py",)), unit("b", touched=("src/X.py", "y"))
    assert collision(one, other, limits).rule == collision(other, one, limits).rule == "hotspot"
    assert collision(unit("a", "src/x.py"), unit("b", "src"), limits).rule == "hotspot"
    assert collision(unit("a", "src/y.py"), unit("b", "src"), limits).rule == "path"


def test_no_more_agents_than_may_work_in_a_directory():
    """AL-4: what was handed in is at work no more; its files are still in the way of others."""
    board = Board(PACKAGES, [unit("a", "api/a"), unit("b", "api/b"), unit("c", "web/c", at_work=False)])
    assert why(board, unit("d", "api/d")) == ("directory", ("a", "b"), "api")
    assert why(board, unit("d", "web/d")) is None
    assert why(board, unit("d", "web/c")) == ("path", ("c",), "web/c")
    assert why(board, unit("r", "api/d", reads_only=True)) is None
    board.vacate(unit("a", "api/a"))
    board.vacate(unit("a", "api/a"))
    assert why(board, unit("d", "api/d")) is None
    board.occupy(unit("r", "api", reads_only=True))
    assert why(board, unit("d", "api/d")) is None


def test_what_has_waited_long_goes_before_what_would_make_it_wait_for_longer():
    """AL-4: no stream of others starves an action; it waits only for what runs, and for those ahead of it."""
    first, second = unit("first", "api/x"), unit("second", "api/x/y", "web/z")
    board = Board(PACKAGES, [unit("a", "api/x/y/z")], [first, second])
    assert why(board, first) == ("path", ("a",), "api/x/y/z")
    board.vacate(unit("a", "api/x/y/z"))
    assert why(board, first) is None
    assert why(board, second) == ("turn", ("first",), "api/x/y")
    assert why(board, unit("later", "web/z/1")) == ("turn", ("second",), "web/z/1")
    assert board.may_start(unit("other", "docs/z"))
    board.occupy(first)
    assert why(board, second) == ("path", ("first",), "api/x/y")


def test_a_seat_in_a_directory_is_kept_for_what_has_waited_long():
    """AL-4."""
    board = Board(PACKAGES, [unit("a", "api/a")], [unit("old", "api/b", "web/c")])
    assert why(board, unit("new", "api/d")) == ("turn", ("old",), "api")
    assert why(board, unit("old", "api/b", "web/c")) is None


def test_a_story_between_two_steps_keeps_others_out_and_goes_on_itself():
    """AL-4: steps in one worktree are one; two stories that have begun do not wait for each other."""
    story, other = unit("US-1", "api", has_begun=True), unit("US-2", "api/x", has_begun=True)
    board = Board(PACKAGES, reserved=[story, other, unit("old", "api/y")])
    assert why(board, unit("new", "api/z")) == ("directory", ("US-1", "US-2"), "api")
    assert why(board, unit("old", "api/y"))[0] == "directory"
    assert board.may_start(story)
    assert board.may_start(other)
    alone = Board(PACKAGES, reserved=[story])
    assert why(alone, unit("new", "api/z")) == ("path", ("US-1",), "api/z")


def test_globs_without_a_prefix_are_found_among_what_runs():
    """AL-4."""
    board = Board(NO_LIMITS, [unit("g", "*.py")])
    assert why(board, unit("n", "a.py")) == ("path", ("g",), "*.py")
    assert why(board, unit("n", "s*")) == ("path", ("g",), "*.py")
    board.vacate(unit("g", "*.py"))
    assert board.may_start(unit("n", "a.py"))
    board.occupy(unit("t", "src/a"))
    assert why(board, unit("n", "s*")) == ("path", ("t",), "s*")
    assert board.may_start(unit("n", "a*"))
    assert board.may_start(unit("t", "src/a/b"))


def test_forecasts_hold_back_whichever_of_two_has_run_before():
    """AL-4."""
    board = Board(NO_LIMITS, [unit("u", touched=("b.py",), conflicts={"n": ("q",)})])
    assert why(board, unit("n", touched=("z",))) == ("forecast", ("u",), "q")
    assert why(board, unit("m", touched=("z",), conflicts={"u": ("q",)})) == ("forecast", ("u",), "q")
    assert board.may_start(unit("o", touched=("z",)))


def test_the_reason_is_data_and_a_sentence():
    """AL-4: `status` names the rule that holds an action back."""
    texts = {
        "path": snapshot("waits for a, b: both may change src"),
        "hotspot": snapshot("waits for a, b: both may change src, which is changed often in this run"),
        "forecast": snapshot("waits for a, b: their changes of src would conflict"),
        "directory": snapshot("waits for a, b: no more agents may work in src"),
        "turn": snapshot("lets a, b go first, which has waited for src for longer"),
    }
    assert {rule: HeldBack(rule=rule, waits_for=("a", "b"), path="src").text for rule in texts} == texts


def test_whoever_collides_or_takes_a_seat_overtakes():
    """AL-4."""
    assert overtakes(unit("a", "x/y"), unit("b", "x"), PACKAGES)
    assert overtakes(unit("a", "api/y"), unit("b", "api/z"), PACKAGES)
    assert not overtakes(unit("a", "api/y"), unit("b", "web/z"), PACKAGES)


paths = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)
units = st.lists(
    st.tuples(st.lists(paths, max_size=2), st.lists(paths, max_size=2), st.booleans()), min_size=1, max_size=12
).map(
    lambda all_of: [
        unit(f"u{n}", *own, touched=tuple(touched), reads_only=reads) for n, (own, touched, reads) in enumerate(all_of)
    ]
)
layouts = st.sampled_from([SourceLayout(), SourceLayout(folders=("a", "b")), SourceLayout(packages=("a/a", "b"))])
limits = st.builds(
    CollisionLimits, layout=layouts, hotspots=st.frozensets(paths, max_size=2), directory_agents=st.integers(1, 3)
)


@given(units, limits, st.randoms(use_true_random=False))
def test_whatever_starts_and_ends_no_two_that_collide_run_and_nothing_waits_for_nobody(all_of, limits, rng):
    """AL-4: never two colliding; work-conserving; `may_start` agrees with the reason; everything gets its turn."""
    waiting, running, board = [*all_of], [], Board(limits)
    while waiting or running:
        for each in waiting:
            reason = board.why_held_back(each)
            assert board.may_start(each) is (reason is None)
            in_the_way = [other for other in running if collision(each, other, limits)]
            full = [
                place
                for place in limits.directories_of(each)
                if sum(place in limits.directories_of(other) for other in running) >= limits.directory_agents
            ]
            assert (reason is not None) is bool(not each.reads_only and (in_the_way or full))
            assert reason is None or set(reason.waits_for) <= {other.key for other in running}
        able = [each for each in waiting if board.may_start(each)]
        assert able or running, "something can always go on"
        if able and rng.random() < 0.7:
            chosen = rng.choice(able)
            waiting.remove(chosen)
            board.occupy(chosen)
            running += [] if chosen.reads_only else [chosen]
        elif running:
            ended = running.pop(rng.randrange(len(running)))
            board.vacate(ended)
        assert not any(collision(one, two, limits) for one in running for two in running)


@given(units, units, limits)
def test_whether_two_collide_does_not_depend_on_who_runs(one, other, limits):
    """AL-4."""
    left, right = one[0], WorkUnit(id="other", key="other", files=other[0].files, touched=other[0].touched)
    assert (collision(left, right, limits) is None) is (collision(right, left, limits) is None)
    assert collision(left, right, limits) == collision(right, left, limits)
