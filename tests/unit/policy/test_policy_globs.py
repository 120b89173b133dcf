from scaffold.policy.path.globs import matches


def test_a_glob_matches():
    rows = [
        ("a.py", "a.py"),
        ("*.py", "a.py"),
        ("src/*.py", "src/a.py"),
        ("?.py", "a.py"),
        ("[ab].py", "b.py"),
        ("[!a].py", "b.py"),
        ("[]].py", "].py"),
        ("**", "a/b/c"),
        ("**/x", "x"),
        ("**/x", "a/b/x"),
        ("a/**/x", "a/x"),
        ("a/**/x", "a/b/c/x"),
        ("a/**", "a/b/c"),
        ("**/b/**/d", "a/b/c/b/d"),
        ("**/**/x", "x"),
        ("src", "src/deep/file"),
        ("src/", "src/file"),
        ("./src//a", "src/a"),
        ("/src/a", "src/a"),
        ("a\nb/*", "a\nb/c\nd"),
        ("*", "\udcff.txt"),
        ("**/*.[oc]", "a/b.o"),
        ("a[b", "a[b"),
    ]
    assert [(glob, path) for glob, path in rows if not matches(glob, path)] == []


def test_a_glob_does_not_match():
    rows = [
        ("a.py", "b/a.py"),
        ("*.py", "src/a.py"),
        ("*.py", "a.pyc"),
        ("A.py", "a.py"),
        ("?.py", ".py"),
        ("[!a].py", "a.py"),
        ("a[!x]b", "a/b"),
        ("a?b", "a/b"),
        ("a/**", "a"),
        ("a/**/x", "b/a/x"),
        ("**/x", "xx"),
        ("src", "srcs/file"),
        ("src/a", "src"),
        ("a.b", "axb"),
        ("[z-a]", "m"),
        ("a/*/c", "a/b/b/c"),
    ]
    assert [(glob, path) for glob, path in rows if matches(glob, path)] == []


def test_many_stars_are_matched_quickly():
    assert not matches("/".join(["**", "a"] * 20) + "/b", "/".join(["a"] * 60))
