"""Which tests concern a change."""

from inline_snapshot import snapshot

from scaffold.verify.regression.selection.mentions import changed_names, go_packages
from scaffold.verify.regression.selection.test_selection import PathIndex, select_tests

ENOUGH = {"tests/test_b.py": 5}


def chosen(changed, *paths, **given):
    selection = select_tests(changed, PathIndex(paths), **given)
    return "whole" if selection.run_all_reason else list(selection.files)


def test_tests_of_a_file_are_those_beside_it():
    """AL-11: co-located, by each language's convention; a test of the same name in another package does not count."""
    rows = [
        ("src/a/b.py", "src/a/test_b.py"),
        ("src/a/b.py", "src/a/b_test.py"),
        ("src/a/b.py", "tests/test_b.py"),
        ("src/a/b.py", "tests/a/test_b.py"),
        ("src/shop/a/b.py", "tests/unit/a/test_b.py"),
        ("src/b.ts", "src/b.test.ts"),
        ("src/b.tsx", "src/b.spec.ts"),
        ("src/b.js", "src/__tests__/b.js"),
        ("src/b.js", "src/__tests__/b.test.js"),
        ("pkg/b.go", "pkg/b_test.go"),
        ("src/b.rs", "tests/b.rs"),
        ("tests/test_b.py", "tests/test_b.py"),
    ]
    others = ["far/test_other.py", "far/b_other.test.ts", "src/zzz/test_b.py"]
    assert [(path, test) for path, test in rows if chosen([path], path, test, *others, sizes={test: 5}) != [test]] == []


def test_with_few_tests_those_of_the_package_are_selected():
    """AL-11: fewer than five found."""
    paths = ["src/shop/cart/sum.py", "tests/cart/test_sum.py", "tests/cart/test_all.py", "tests/till/test_till.py"]
    assert chosen(["src/shop/cart/sum.py"], *paths) == ["tests/cart/test_all.py", "tests/cart/test_sum.py"]
    assert chosen(["src/shop/cart/sum.py"], *paths, sizes={"tests/cart/test_sum.py": 5}) == ["tests/cart/test_sum.py"]


def test_a_change_outside_any_package_with_tests_selects_all():
    """AL-11: a selection is never empty."""
    assert chosen(["README.md"], "README.md", "tests/test_a.py") == "whole"
    assert chosen(["b.py"], "b.py", "tests/test_b.py") == "whole"
    assert chosen(["src/lonely/b.py"], "src/lonely/b.py", "tests/a/test_a.py") == "whole"


def test_shared_files_select_all_tests():
    """AL-11: manifests, locks, configuration."""
    paths = [
        *("pyproject.toml", "tests/conftest.py", "package.json", "web/package-lock.json", "uv.lock", "go.mod"),
        *("Cargo.toml", "vitest.config.ts", "tsconfig.base.json", "requirements-dev.txt"),
    ]
    assert [path for path in paths if chosen([path], path, "tests/test_b.py", sizes=ENOUGH) != "whole"] == []


def test_a_file_that_has_tests_of_its_own_is_run_once_it_changes():
    """AL-11: doctests are neither missed nor taken for removed; a runner is asked for files of its language only."""
    paths = ["shop.py", "till.py", "README.md", "tests/test_shop.py", "tests/test_all.py"]
    own = {"shop.py": 9, "till.py": 1, "README.md": 1, "tests/test_shop.py": 5}
    assert chosen(["shop.py"], *paths, sizes=own) == ["shop.py", "tests/test_shop.py"]
    assert chosen(["shop.py", "README.md"], *paths, sizes=own) == "whole"
    assert chosen(["shop.py"], *paths[1:], sizes=own) == ["tests/test_shop.py"], "it is gone"
    assert chosen(["a/b.py"], "a/b.py", "a/tests/test_c.py", sizes={"a/b.py": 9}) == ["a/b.py", "a/tests/test_c.py"]


def test_tests_of_callers_are_selected():
    """AL-11: files of tests that mention what changed, and the tests of other files that do."""
    paths = [
        *("src/a/b.py", "src/a/c.py", "tests/test_b.py", "tests/test_c.py", "tests/x/test_flow.py"),
        "tests/test_d.py",
    ]
    selection = select_tests(
        ["src/a/b.py"], PathIndex(paths), callers=["src/a/c.py", "tests/x/test_flow.py"], sizes=ENOUGH
    )
    assert dict(selection.reasons) == snapshot(
        {
            "tests/test_b.py": "it tests src/a/b.py",
            "tests/test_c.py": "it tests src/a/c.py, which mentions what changed",
            "tests/x/test_flow.py": "it mentions what changed",
        }
    )


def test_tags_select_the_tests_mapped_to_them():
    """AL-11: tests of a tag, by the prefix of what they are for."""
    paths = ["src/auth/b.py", "src/authors.py", "tests/test_b.py", "smoke/test_login.py", "smoke/test_shop.py"]
    tagged = {"src/auth": ("smoke/test_login.py",), "src/shop/**": ("smoke/test_shop.py",)}
    both = ["smoke/test_login.py", "tests/test_b.py"]
    assert chosen(["src/auth/b.py"], *paths, tagged=tagged, sizes=ENOUGH) == both
    assert "smoke/test_login.py" not in chosen(
        ["src/authors.py", "tests/test_b.py"], *paths, tagged=tagged, sizes=ENOUGH
    )


def test_a_go_package_is_tested_as_a_whole():
    """AL-11: all tests of the folder of the change, or of a folder that mentions it; there are no names per file."""
    paths = ["pay/a.go", "pay/flow_test.go", "shop/till.go", "shop/any_test.go", "far/far_test.go"]
    sizes = {"pay/flow_test.go": 5}
    assert chosen(["pay/a.go"], *paths, sizes=sizes) == ["pay/flow_test.go"]
    both = ["pay/flow_test.go", "shop/any_test.go"]
    assert chosen(["pay/a.go"], *paths, sizes=sizes, callers=["shop/till.go"]) == both


def test_a_go_package_is_named_by_its_module_and_folder():
    """AL-11: what others import it by."""
    modules = {"": "module example.org/shop\n", "tools": '// aside\nmodule "example.org/tools" // quoted\n'}
    found = go_packages(["a.go", "pay/card/b.go", "tools/c.go", "tools/x/d.go", "docs/e.md"], modules)
    assert found == {"example.org/shop", "example.org/shop/pay/card", "example.org/tools", "example.org/tools/x"}
    assert go_packages(["a.go"], {"sub": modules[""]}) == set()


def test_a_deleted_file_selects_its_tests_and_a_deleted_test_its_package():
    """AL-11: other files may depend on a deleted one."""
    assert chosen(["src/a/b.py"], "tests/test_b.py", sizes=ENOUGH) == ["tests/test_b.py"]
    assert chosen(["tests/a/test_b.py"], "tests/a/test_c.py") == ["tests/a/test_c.py"]


def test_changed_names_are_those_with_a_different_meaning():
    """AL-11: comments, positions and private names do not count."""
    before = "import os\nLIMIT = 1\ndef keep(a): return a\ndef _inner(): pass\nclass Shop: x = 1\ndef gone(): pass\n"
    after = "# new\nimport os\nLIMIT = 2\n\ndef keep(a):  return a  # same\ndef _inner(): return 1\nclass Shop: x = 2\n"
    assert changed_names("a.py", before, after) == {"LIMIT", "Shop", "gone"}
    assert changed_names("a.py", before, before + "\n") == set()
    assert changed_names("a.py", None, "def new(): pass") == {"new"}
    assert changed_names("a.py", before, "def broken(") == {"LIMIT", "keep", "Shop", "gone"}


def test_names_of_other_languages_are_found_by_spelling():
    """AL-11: all names of a changed file that others may use."""
    rows = [
        ("a.ts", "export async function load() {}\nexport const MOST = 1\nfunction inner() {}", {"load", "MOST"}),
        ("a.js", "module.exports = { sum, minus: other }\nexports.third = 3", {"sum", "minus", "other", "third"}),
        (
            "a.go",
            "func Load() {}\nfunc (s *Shop) Sell() {}\nfunc inner() {}\ntype Shop struct{}",
            {"Load", "Sell", "Shop"},
        ),
        ("a.rs", "pub fn load() {}\nfn inner() {}\npub(crate) struct Shop;", {"load", "Shop"}),
        ("a.md", "export function load() {}", set()),
    ]
    assert [
        (path, text, names)
        for path, text, names in rows
        if changed_names(path, text, text + "\n// changed\n") != names or changed_names(path, text, text) != set()
    ] == []
