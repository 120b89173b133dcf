from scaffold.tools.workspace import run_in_thread, truncate_text


def test_short_text_is_not_shortened():
    assert truncate_text("x" * 30, 30) == "x" * 30


def test_an_excerpt_keeps_head_and_tail_and_says_what_is_missing():
    text = "head" + "x" * 1_000 + "tail"
    shown = truncate_text(text, 90)
    assert shown == text[:60] + "\n... 918 characters omitted ...\n" + text[-30:]


async def test_a_file_system_error_becomes_a_failed_result():
    def work(args):
        raise PermissionError(13, "Permission denied")

    output = await run_in_thread(work)({})
    assert output.failed
    assert "Permission denied" in output.content
