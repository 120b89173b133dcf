"""The tool by which an agent asks for further files."""

from scaffold.core.tool import ToolOutput
from scaffold.tools.human_question import MAX_PATH_CHARS, MAX_PATHS, MAX_REASON_CHARS, request_files


class RecordingHandler:
    """Grants everything and records what was asked."""

    def __init__(self):
        self.asked = []

    async def ask(self, paths, reason):
        self.asked.append((tuple(paths), reason))
        return ToolOutput("Granted")


async def test_a_request_is_passed_on_with_its_reason():
    handler = RecordingHandler()
    output = await request_files(handler.ask).run({"paths": [" a.py", "b/", "a.py"], "reason": " it is wrong "})
    assert (output.content, output.failed) == ("Granted", False)
    assert handler.asked == [(("a.py", "b/"), "it is wrong")]


async def test_a_request_that_is_too_long_or_empty_is_not_passed_on():
    rows = [
        ([], "why"),
        ([f"{n}.py" for n in range(MAX_PATHS + 1)], "why"),
        (["a" * (MAX_PATH_CHARS + 1)], "why"),
        (["a.py"], " "),
        (["a.py"], "w" * (MAX_REASON_CHARS + 1)),
    ]
    handler = RecordingHandler()
    requests = [{"paths": paths, "reason": reason} for paths, reason in rows]
    assert [each for each in requests if not (await request_files(handler.ask).run(each)).failed] == []
    assert handler.asked == []
