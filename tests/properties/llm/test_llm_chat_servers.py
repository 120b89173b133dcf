"""Chat Completions as servers other than OpenAI's write it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from properties.llm.openai_client import TARGET, args, names, split
from scaffold.llm.wire.chat_completions import ChatCodec
from scaffold.llm.wire.codec import ServerSentEvent


@st.composite
def manners(draw: st.DrawFn) -> tuple[list[dict[str, object]], list[tuple[str, object]]]:
    """Draw the chunks of some calls, numbered and named in any understandable way, and the calls."""
    made = draw(st.lists(st.tuples(names, args), min_size=1, max_size=4))
    ids = draw(st.sampled_from(["own", "none", "same"]))
    in_pieces = draw(st.booleans())
    indexes = draw(st.sampled_from(["own"] if in_pieces and ids != "own" else ["own", "zero", "none"]))
    repeated = draw(st.booleans())
    pieces: list[dict[str, object]] = []
    for number, (name, arguments) in enumerate(made):
        written = json.dumps(arguments)
        index = {"own": number, "zero": 0, "none": None}[indexes]
        id_ = {"own": f"call_{number}", "none": None, "same": "call"}[ids]
        first, *more = draw(split(written)) if in_pieces else [written]
        head = {"index": index, "id": id_, "function": {"name": name, "arguments": first}}
        rest = [{"index": index, "function": {"arguments": words}} for words in more]
        if repeated and "".join(more):
            rest = [head | {"function": {"name": name, "arguments": words}} for words in more if words]
        pieces += [head, *rest]
    return pieces, made


@given(manners())
def test_calls_are_distinguished_however_a_server_numbers_and_names_them(said):
    """RA-1: any OpenAI-compatible server; ids of tool calls are unique."""
    pieces, made = said
    reader = ChatCodec().reader(TARGET)
    for piece in pieces:
        reader.feed(ServerSentEvent("", json.dumps({"choices": [{"delta": {"tool_calls": [piece]}}]})))
    reader.feed(ServerSentEvent("", json.dumps({"choices": [{"finish_reason": "stop"}]})))
    calls = reader.end().message.tool_calls
    assert [(call.name, call.args) for call in calls] == made
    assert len({call.id for call in calls}) == len(made)
