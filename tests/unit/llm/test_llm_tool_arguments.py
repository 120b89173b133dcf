from scaffold.llm.wire.format import UNREADABLE_ARGUMENT, parse_arguments


def test_empty_text_means_no_arguments():
    texts = ["", "  \n", "null", "{}", " {} "]
    assert [text for text in texts if parse_arguments(text) != {}] == []


def test_arguments_are_parsed_from_json():
    assert parse_arguments('{"path": "a.py", "lines": [1, 2.5, true, null], "more": {"é": "\\n"}}') == {
        "path": "a.py",
        "lines": [1, 2.5, True, None],
        "more": {"é": "\n"},
    }


def test_invalid_json_becomes_one_argument_that_no_tool_accepts():
    texts = [
        '{"path": "a.p',
        '{"path": "a.py"} and so on',
        "[1]",
        '"a.py"',
        "7",
        '{"size": NaN}',
        '{"size": 1e999}',
        '{"path": "\\ud800"}',
        "{" * 100_000,
        '{"a":' * 100_000,
        "\ud800",
    ]
    for text in texts:
        read = parse_arguments(text)
        assert list(read) == [UNREADABLE_ARGUMENT], text[:9]
        assert str(read[UNREADABLE_ARGUMENT]).startswith("not a JSON object ("), text[:9]
        assert len(read[UNREADABLE_ARGUMENT]) < 1000, text[:9]


def test_deeply_nested_arguments_become_one_argument_that_no_tool_accepts():
    """JSON can be read at depths at which what works with it later would fail."""
    for levels in [101, 500, 950]:
        for opening, closing in [("[", "]"), ('{"a":', "}")]:
            read = parse_arguments(f'{{"data": {opening * levels}1{closing * levels}}}')
            assert list(read) == [UNREADABLE_ARGUMENT], (levels, opening)
            why = read[UNREADABLE_ARGUMENT]
            assert why.startswith('nested more than 100 levels deep: {"data": '), (levels, opening)
            assert len(why) < 1000, (levels, opening)


def test_the_model_is_shown_what_it_wrote():
    assert '{"path": "a.p' in parse_arguments('{"path": "a.p')[UNREADABLE_ARGUMENT]


def test_arguments_of_a_truncated_reply_are_not_parsed_even_if_they_look_complete():
    """Trap (a): a call cut by `max_tokens` must not become a partial object."""
    assert parse_arguments('{"path": "a.py"}', cut=True) == {}
    assert parse_arguments('{"path": "a.p', cut=True) == {}
