"""Which paths an action has declared."""

from scaffold.verify.paths.declared_paths import is_declared_by_name, is_declared_path, is_declared_specifically


def test_files_are_declared_by_path_folder_or_glob():
    """AL-9: a declaration of everything does not count where a file must be declared deliberately."""
    rows = [
        ((), "a.py", False, False, False),
        (("a.py",), "a.py", True, True, True),
        (("./a.py",), "a.py", True, True, True),
        (("a.py",), "b/a.py", False, False, False),
        (("src",), "src/a.py", True, True, False),
        (("src/",), "src/deep/a.py", True, True, False),
        (("src",), "src2/a.py", False, False, False),
        (("tests/**",), "tests/conftest.py", True, True, False),
        (("src/*.py",), "src/a.py", True, True, False),
        (("**/conftest.py",), "tests/conftest.py", True, True, True),
        (("**/*_test.go",), "pkg/a_test.go", True, True, True),
        (("**",), "tests/conftest.py", True, False, False),
        ((".",), "tests/conftest.py", True, False, False),
        (("**/*.py",), "tests/conftest.py", True, False, False),
        (("[!x]*",), "conftest.py", True, False, False),
        (("pages/[id].tsx",), "pages/[id].tsx", True, True, True),
        ((".env",), ".env", True, True, True),
    ]
    assert [
        (files, path, is_declared, is_meant, is_named)
        for files, path, is_declared, is_meant, is_named in rows
        if (is_declared_path(path, files), is_declared_specifically(path, files), is_declared_by_name(path, files))
        != (is_declared, is_meant, is_named)
    ] == []
