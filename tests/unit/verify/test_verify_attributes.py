"""Which changes of .gitattributes decide what users get."""

from scaffold.verify.paths.attributes import changed_export_settings, is_attributes_file


def changed(before, after, top=None):
    return changed_export_settings(*(text if text is None else text.encode() for text in (before, after, top)))


def test_attributes_that_decide_what_users_get_are_named():
    """BX-5: what archives leave out or change, and what filters change; by macros, too."""
    rows = [
        (None, "calc.py export-ignore\n", ("calc.py export-ignore",)),
        ("", "*.py  text export-subst # not a comment", ("*.py export-subst",)),
        ("*.py text\n", "*.py text filter=mend\n", ("*.py filter=mend",)),
        ("docs export-ignore\n", "docs export-ignore\ndocs -export-ignore\n", ("docs -export-ignore",)),
        ("*.bin filter=lfs\n", None, ("*.bin filter=lfs",)),
        (None, "[attr]kept export-ignore\ncalc.py kept\n", ("[attr]kept export-ignore", "calc.py kept")),
        ("[attr]a -text\n[attr]b a\n", "[attr]a export-ignore\n[attr]b a\n", ("[attr]a export-ignore",)),
        (None, '"my \\"own\\" file" export-ignore\n', ('"my \\"own\\" file" export-ignore',)),
        ("a filter\na -filter\n", "a -filter\na filter\n", ("a -filter", "a filter")),
    ]  # fmt: skip
    assert [
        (before, after, named) for before, after, named in rows if not set(named) <= set(changed(before, after))
    ] == []


def test_attributes_that_checkouts_and_archives_share_are_free():
    rows = [
        (None, "* text=auto\n*.bat eol=crlf\n*.txt ident working-tree-encoding=UTF-16\n*.png binary\n"),
        (None, "# calc.py export-ignore\n\nexport-ignore linguist-generated\n"),
        ("docs export-ignore\n", "# of archives\ndocs   export-ignore\n*.svg -diff\n"),
        (None, None),
    ]
    assert [(before, after) for before, after in rows if changed(before, after) != ()] == []


def test_a_macro_of_the_top_counts_in_every_folder():
    assert changed(None, "calc.py kept\n", "[attr]kept export-ignore\n") == ("calc.py kept",)
    assert changed(None, "calc.py kept\n", "[attr]kept -text\n") == ()


def test_attributes_have_their_file_in_any_folder():
    assert [is_attributes_file(each) for each in (".gitattributes", "a/.GitAttributes", "a.gitattributes")] == [
        True,
        True,
        False,
    ]
