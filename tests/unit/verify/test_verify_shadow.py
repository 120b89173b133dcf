"""Which new modules would be imported in place of existing ones."""

from inline_snapshot import snapshot

from scaffold.verify.paths.shadow import find_shadows


def hidden(added, before=(), gone=()):
    after = [*(path for path in before if path not in gone), *added]
    return {each.path: each.certain for each in find_shadows(added, before, after)}


FLAT = ("calc/__init__.py", "calc/basic.py", "tests/test_calc.py", "tests/tools.py")
NESTED = ("src/calc/__init__.py", "src/calc/basic.py", "tests/unit/__init__.py", "tests/unit/test_calc.py")


def test_a_shadowing_module_is_found():
    """BX-5: of the standard library, of the runner, and of the repository; True if the other is never imported."""
    certain = {
        ("pytest.py", FLAT): False,
        ("_pytest/__init__.py", FLAT): False,
        ("unittest.py", FLAT): False,
        ("coverage/__init__.py", FLAT): False,
        ("packaging/__init__.py", FLAT): False,
        ("json.py", FLAT): False,
        ("src/random.py", NESTED): False,
        ("tests/json.py", FLAT): False,
        ("tests/calc.py", FLAT): False,
        ("calc.py", FLAT): True,
        ("calc.cpython-311-x86_64-linux-gnu.so", FLAT): True,
        ("calc/basic/__init__.py", FLAT): True,
        ("calc/basic.so", FLAT): True,
        ("calc/__init__.py", NESTED): False,
        ("calc.py", NESTED): False,
        ("lib/calc.py", (*NESTED, "lib/x.py")): False,
        ("util.py", ("util/a.py",)): False,
        ("web/sum.js", ("web/sum.ts",)): False,
        ("web/sum.ts", ("web/sum/index.ts",)): False,
    }
    found = {(added, before): hidden([added], before) for added, before in certain}
    assert found == {(added, before): {added: never} for (added, before), never in certain.items()}


def test_an_added_module_is_allowed():
    rows = [
        ("calc/division.py", FLAT),
        ("calc/json.py", FLAT),
        ("calc/more/__init__.py", FLAT),
        ("tests/test_basic.py", FLAT),
        ("tests/more/test_calc.py", (*FLAT, "tests/other/test_calc.py")),
        ("scripts/types.py", FLAT),
        ("app/logging.py", FLAT),
        ("tests/conftest.py", NESTED),
        ("src/calc/random.py", NESTED),
        ("src/tools.py", FLAT),
        ("test/__init__.py", FLAT),
        ("web/sum.test.ts", ("web/sum.ts",)),
        ("web/sum.d.ts", ("web/sum.js",)),
        ("web/sum.css", ("web/sum.ts",)),
        ("web/config.ts", ("web/config.json",)),
        ("docs/calc.md", FLAT),
    ]
    assert [(added, before) for added, before in rows if hidden([added], before) != {}] == []


def test_modules_may_be_replaced_moved_and_become_packages():
    rows = [
        (["calc/basic/__init__.py"], FLAT, ["calc/basic.py"]),
        (["web/sum.ts"], ("web/sum.js",), ["web/sum.js"]),
        (["calc.py"], ("calc/__init__.py",), ["calc/__init__.py"]),
        (["src/calc/__init__.py", "src/calc/basic.py"], FLAT, ["calc/__init__.py", "calc/basic.py"]),
        (["tests/__init__.py"], HELPED, []),
        (["tests/__init__.py", "tests/unit/__init__.py"], HELPED, []),
        (["tests/__init__.py", "helpers.py"], HELPED, ["tests/helpers.py"]),
    ]
    assert [(added, gone) for added, before, gone in rows if hidden(added, before, gone) != {}] == []


INSTALLED = ("requests", "attr", "google", "google.cloud", "google.cloud.storage", "calc", "_yaml")


def taking(added, before=FLAT, gone=()):
    after = [*(path for path in before if path not in gone), *added]
    return [each.why for each in find_shadows(added, before, after, INSTALLED)]


def test_a_module_with_the_name_of_an_installed_one_is_found_in_every_import_root():
    """BX-5: at the top, below src, in a folder of tests, and as a part of a namespace package."""
    expected = {
        "requests.py": "requests",
        "attr/__init__.py": "attr",
        "src/requests.py": "requests",
        "tests/requests.py": "requests",
        "_yaml.cpython-311-x86_64-linux-gnu.so": "_yaml",
        "google/__init__.py": "google",
        "google/cloud/storage/__init__.py": "google.cloud.storage",
        "tests/google/cloud/storage.py": "google.cloud.storage",
    }
    found = {added: taking([added]) for added in expected}
    assert {added: whys[0].split("`")[1] for added, whys in found.items() if len(whys) == 1} == expected


def test_a_name_that_no_import_root_has_takes_none():
    names = ["calc/requests.py", "google/cloud/other.py", "google/data.txt", "scripts/attr.py", "requests.md"]
    assert [added for added in names if taking([added]) != []] == []


def test_the_repositorys_own_installed_package_may_move_and_grow():
    """A package that is installed, too, is the repository's own if the base has it."""
    moved = ["src/calc/__init__.py", "src/calc/basic.py"]
    assert taking(moved, FLAT, ["calc/__init__.py", "calc/basic.py"]) == []
    assert taking(["google/cloud/storage/more.py"], (*FLAT, "google/cloud/storage/__init__.py")) == []


HELPED = ("calc/__init__.py", "tests/helpers.py", "tests/test_calc.py", "tests/conftest.py", "conftest.py")


def test_a_module_shadows_one_whose_folder_is_no_longer_searched():
    """BX-5: the tests become a package, and their helper is found at the top."""
    assert hidden(["tests/__init__.py", "helpers.py"], HELPED) == {"helpers.py": False}
    both = (*HELPED, "helpers.py")
    (found,) = find_shadows(["tests/__init__.py"], both, [*both, "tests/__init__.py"])
    assert (found.path, found.why) == snapshot(
        ("tests/__init__.py", "makes tests import helpers instead of tests/helpers")
    )


def test_a_name_that_differs_only_in_case_is_found():
    """BX-5: on other file systems one of the two replaces the other."""
    rows = [
        ("calc/Basic.py", FLAT, (), True),
        ("Calc/more.py", FLAT, (), True),
        ("readme.MD", ("README.md",), (), True),
        ("README.md", ("readme.md",), ("readme.md",), False),
        ("Docs/b", ("Docs/a", "docs/a"), (), False),
        ("tests/data/A", ("tests/data/a",), (), False),
    ]
    assert [
        (added, before, gone, found)
        for added, before, gone, found in rows
        if hidden([added], before, gone) != ({added: False} if found else {})
    ] == []
