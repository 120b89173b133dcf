from scaffold.tools.workspace import run_in_thread


async def test_a_file_system_error_becomes_a_failed_result():
    def work(args):
        raise PermissionError(13, "Permission denied")

    output = await run_in_thread(work)({})
    assert output.failed
    assert "Permission denied" in output.content
