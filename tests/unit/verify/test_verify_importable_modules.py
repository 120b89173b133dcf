"""The importable names of a repository."""

from scaffold.verify.environment.import_proof import python_modules


def test_each_name_has_the_folder_of_its_source():
    expected = {
        (): {},
        ("README.md", "main.go"): {},
        ("calc/__init__.py", "calc/core.py", "calc/inner/__init__.py"): {"calc": ""},
        ("src/calc/__init__.py", "src/calc/core.py", "pyproject.toml"): {"calc": "src"},
        ("src/one.py", "src/two/__init__.py"): {"one": "src", "two": "src"},
        ("app.py", "setup.py", "conftest.py", "test_app.py", "tests/__init__.py", "docs/conf.py"): {"app": ""},
        ("scripts/deploy.py", "manage.py"): {"manage": ""},
        ("src/google/cloud/store/__init__.py", "src/google/cloud/store/a/__init__.py"): {"google.cloud.store": "src"},
        ("api/pyproject.toml", "api/src/api/__init__.py", "web/setup.py", "web/pages/__init__.py"): {
            "api": "api/src",
            "pages": "web",
        },
        ("not-a-name/__init__.py", "also not.py", "src/x-y/z/__init__.py"): {},
        ("__init__.py",): {},
        ("src/tests/__init__.py",): {"tests": "src"},
    }  # fmt: skip
    assert {paths: python_modules(paths) for paths in expected} == expected
