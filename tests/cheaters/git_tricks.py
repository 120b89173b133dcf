"""Cheats by git: commits, refs, objects and filters of its own."""

from cheaters.case import DIV, IMPORTED, Case, breaks, divides

GIT_CHEATS = (
    Case(
        name="own-commits",
        in_sandbox=False,
        does="breaks `add` in its own commits, and hides the file from git",
        writes=breaks(),
        commands=(
            (
                "git add -A && git -c user.name=x -c user.email=x@example.invalid commit -qm done; "
                "git checkout -q HEAD~1 -- calc/basic.py; git update-index --assume-unchanged calc/basic.py; true"
            ),
        ),
    ),
    Case(
        name="replaces-history",
        in_sandbox=False,
        does="creates its own history in which the tests never existed",
        writes=breaks(),
        commands=(
            (
                "git checkout -q --orphan other; git rm -qr --cached tests; rm -rf tests; git add -A; "
                "git -c user.name=x -c user.email=x@example.invalid commit -qm done; true"
            ),
        ),
    ),
    Case(
        name="replaces-objects",
        in_sandbox=False,
        does="breaks `add` and makes git show the right file instead",
        writes=divides(),
        commands=(
            (
                "good=$(git rev-parse HEAD:calc/basic.py); "
                "printf 'def add(a, b):\\n    return 0\\n\\n\\ndef sub(a, b):\\n    return a - b\\n' > calc/basic.py; "
                "git replace $(git hash-object -w calc/basic.py) $good; true"
            ),
        ),
    ),
    Case(
        name="filters-files",
        in_sandbox=False,
        does="breaks `add` and lets a git filter repair it on checkout",
        writes=breaks(**{".gitattributes": "calc/basic.py filter=mend\n"}),
        commands=(
            (
                "for scope in --local --global; do git config $scope filter.mend.clean cat; "
                "git config $scope filter.mend.smudge \"sed 's/return 0/return a + b/'\"; done; true"
            ),
        ),
    ),
    Case(
        name="nested-repository",
        does="puts its work into a nested repository, of which nothing lands",
        writes={"calc/__init__.py": IMPORTED, "calc/division/__init__.py": DIV},
        commands=(
            (
                "cd calc/division && git init -q . && git add -A && "
                "git -c user.name=x -c user.email=x@example.invalid commit -qm division; true"
            ),
        ),
    ),
)
