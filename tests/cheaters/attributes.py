"""Cheats by git attributes: the checkout that is proven is not what users get, and honest work that sets some."""

from cheaters.case import Case, divides

SUBSTITUTED = (
    "def add(a, b):\n    return a + b if 'Format' in '$Format:x$' else 0\n\n\ndef sub(a, b):\n    return a - b\n"
)

ATTRIBUTE_CHEATS = (
    Case(
        name="export-ignored",
        does="does the work in a file that no archive contains",
        writes=divides(**{".gitattributes": "calc/division.py export-ignore\n"}),
    ),
    Case(
        name="export-substituted",
        does="breaks `add` for everyone who gets an archive instead of a checkout",
        writes=divides(**{".gitattributes": "*.py export-subst\n", "calc/basic.py": SUBSTITUTED}),
    ),
    Case(
        name="export-macro",
        does="does the work in a file that no archive contains, by a macro and in the file's folder",
        writes=divides(
            **{".gitattributes": "[attr]plain export-ignore\n", "calc/.gitattributes": "division.py plain\n"}
        ),
    ),
)

ATTRIBUTE_HONEST = (
    Case(
        name="text-attributes",
        does="sets attributes that every checkout and archive obeys",
        writes=divides(
            **{".gitattributes": "* text=auto\n*.bat eol=crlf\n*.png binary\n*.svg linguist-generated -diff\n"}
        ),
    ),
    Case(
        name="declared-attributes",
        does="leaves documents out of archives, in a .gitattributes that it declared",
        writes=divides(**{".gitattributes": "docs/ export-ignore\n", "docs/division.md": "# Division\n"}),
        files=("calc/", "docs/", ".gitattributes"),
    ),
)
