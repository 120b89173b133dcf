"""Long conversations with a model whose window only its local server knows."""

import json

from fakes import MemoryHistory, agent
from model_server.client import open_client
from model_server.server import serve
from model_server.turn import Turn
from scaffold.agent.context.conversation_window import Conversation
from scaffold.core.conversation import AssistantMessage, Text, UserMessage

OVERFLOW = Turn(status=400, error=("invalid_request_error", "This model's maximum context length is 4000 tokens."))
FINE = Turn(text="Fine.", times=9)


def long_talk():
    """Return a conversation of about 15,000 tokens."""
    each = [UserMessage((Text("look " * 100),)), AssistantMessage((Text("seen " * 100),))]
    return Conversation(each * 60)


async def test_a_conversation_is_compacted_to_the_window_its_server_tells():
    """RA-1, RA-10: nothing is sent that would not fit."""
    history = MemoryHistory()
    async with serve("chat", [FINE]) as server, open_client(server, model=server.local_model) as client:
        server.pages["/props"] = json.dumps({"default_generation_settings": {"n_ctx": 4000}})
        worker = agent(client.model, conversation=long_talk(), history=history)
        assert (await worker.turn("go")).text == "Fine."
        assert len(server.requests) == len(history.compactions) == 1
        assert len(server.requests[0].body) < 4000 * 4
        assert worker.tokens / worker.window_tokens < 0.8


async def test_a_refusal_that_names_the_window_leads_to_one_compaction_and_one_more_request():
    """RA-10, RA-21: a quarter of what was sent fits, which halving would take two more requests to find."""
    history = MemoryHistory()
    async with serve("chat", [OVERFLOW, FINE]) as server, open_client(server, model=server.local_model) as client:
        worker = agent(client.model, conversation=long_talk(), history=history)
        assert (await worker.turn("go")).text == "Fine."
        assert len(server.requests) == 2
        assert len(history.compactions) == 1
        assert worker.window_tokens == 4000
