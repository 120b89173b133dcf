from scaffold.agent.context.text_size import IMAGE_SIZE, cut_middle, message_size, text_size
from scaffold.agent.context.window_use import TokenEstimate, initial_estimate
from scaffold.core.conversation import AssistantMessage, Image, Text, Thinking, ToolCall, ToolResult, UserMessage
from scaffold.core.tool import Tool
from scaffold.tools.arguments import object_schema


def test_a_message_is_measured_by_what_a_model_reads_of_it():
    """RA-10: four bytes a token, an image about 1,500."""
    said = UserMessage((Text("née"), Image("image/png", b"x" * 1_000_000), ToolResult("a-long-id", "shell", "12345")))
    assert message_size(said) == 4 + 6_000 + 5
    assert IMAGE_SIZE == 1_500 * 4
    reply = AssistantMessage((Thinking("ab", signature="cde"), Text(""), ToolCall("id", "sh", {"a": "é"})))
    assert message_size(reply) == 2 + 3 + 2 + len('{"a":"é"}'.encode())


def test_an_unpaired_surrogate_counts_as_its_escape():
    assert text_size("\udce9") == len("\\udce9")
    assert cut_middle("\udce9" * 100, 90).startswith("\\udce9")


def test_the_fixed_part_of_a_request_includes_tool_schemas():
    """RA-10."""

    async def run(args):
        raise AssertionError

    schema = object_schema({"path": {"type": "string"}})
    tool = Tool(name="look", description="Look.", schema=schema, category="file_read", run=run)
    bare, equipped = initial_estimate("system", "context", []), initial_estimate("system", "context", [tool])
    assert bare.fixed == len("systemcontext")
    assert equipped.fixed > bare.fixed + len("lookLook.") + len(str(schema)) / 2


def test_sizes_convert_to_tokens_and_back():
    gauge = TokenEstimate(400)
    assert gauge.tokens(4_000) == 1_100
    assert gauge.room(1_100) == 4_000
    assert gauge.room(50) < 0
    tripled = gauge.corrected(4_000, 3_300)
    assert tripled.tokens(4_000) == 3_300
    assert tripled.tokens(tripled.room(600)) == 600


def test_an_implausible_usage_corrects_the_estimate_only_up_to_a_limit():
    """A cassette may say anything, or nothing."""
    table = {0: 1.0, 1: 0.25, 10_000_000: 4.0, 2_000: 2.0}
    assert {input_tokens: TokenEstimate(0).corrected(4_000, input_tokens).scale for input_tokens in table} == table
