"""Which parts of a command execute files of the repository."""

from scaffold.verify.regression.base_check_files import executing


def test_what_is_executed_is_told_from_what_is_read():
    """BX-5: a check judges by the files that it executes; those that it reads are judged."""
    expected = {
        "python -B tools/accept.py --fast": ["tools/accept.py"],
        "PYTHONPATH=. uv run python tools/accept.py": ["tools/accept.py"],
        "python -m pytest tests/test_a.py": ["python -m pytest"],
        "python -c \"open('tools/check.py')\"": [],
        "bash -lc 'sh tools/check.sh'": ["sh tools/check.sh"],
        "timeout 5 ./tools/check | tee log": ["./tools/check", "tee"],
        "make -C docs accept": ["make -C docs accept"],
        "cd tools && sh -e accept": ["cd . && cd", "cd . && sh accept"],
        'grep -q "ruff check" .github/workflows/ci.yml': ["grep"],
        "sh": [],
    }
    assert {command: executing(command) for command in expected} == expected
