from scaffold.core.errors import ScaffoldError


def test_an_error_in_one_line_is_two_sentences():
    assert ScaffoldError("the key is wrong", "Set another.").in_full == "the key is wrong. Set another."
    assert ScaffoldError("It broke.", "Try again.").in_full == "It broke. Try again."
