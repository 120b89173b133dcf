"""The demo server that the conformance suite asks for, on our way of serving: sealed state, loopback HTTP, our checks.

Its tools, prompts and resources are those that the suite names; Scaffold has none of them.
"""

import asyncio
import base64
import struct
import warnings
import zlib

from mcp.server import Server
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError, NoBackChannelError
from mcp_types import (
    INVALID_PARAMS,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    CompleteResult,
    Completion,
    EmbeddedResource,
    EmptyResult,
    GetPromptResult,
    ImageContent,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
)

from scaffold.host.process.async_runner import run_async
from scaffold.mcp.serve import serve_http
from scaffold.mcp.server import protected

ANYTHING = {"type": "object", "properties": {}}
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def png():
    """Return an image of one red pixel."""

    def part(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    data = part(b"IDAT", zlib.compress(b"\0\xff\0\0"))
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + data + part(b"IEND", b"")


def wav():
    """Return a sound of no samples."""
    return (
        b"RIFF"
        + struct.pack("<I", 36)
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
        + (b"data" + struct.pack("<I", 0))
    )


IMAGE = base64.b64encode(png()).decode()
SOUND = base64.b64encode(wav()).decode()


def text(words):
    return TextContent(type="text", text=words)


def picture():
    return ImageContent(type="image", data=IMAGE, mime_type="image/png")


def embedded(uri, mime_type, words):
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=words))


def fixed(*content):
    async def run(_ctx, _args):
        return [*content]

    return run


async def logging(ctx, _args):
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)
        await asyncio.sleep(0.05)
    return [text("logged")]


async def progress(ctx, _args):
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100)
        await asyncio.sleep(0.05)
    return [text("done")]


async def failing(_ctx, _args):
    raise ValueError("This tool intentionally returns an error for testing")


async def sampling(ctx, args):
    message = SamplingMessage(role="user", content=text(args["prompt"]))
    reply = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return [text(f"LLM response: {reply.content.text}")]


def eliciting(schema, begin, message=None):
    async def run(ctx, args):
        answer = await ctx.session.elicit_form(message or args["message"], schema, related_request_id=ctx.request_id)
        return [text(f"{begin}action={answer.action}, content={answer.content}")]

    return run


async def reconnecting(ctx, _args):
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    await asyncio.sleep(0.2)
    return [text("reconnected")]


USER = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}
DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}


def titled(begin, *titles):
    return [{"const": f"value{number}", "title": f"{each} {begin}"} for number, each in enumerate(titles, 1)]


ORDER = ("First", "Second", "Third")
OPTIONS = [f"option{number}" for number in (1, 2, 3)]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": titled("Option", *ORDER)},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice", *ORDER)}},
    },
    "required": [],
}
TOOLS = {
    "test_simple_text": fixed(text("This is a simple text response for testing.")),
    "test_image_content": fixed(picture()),
    "test_audio_content": fixed(AudioContent(type="audio", data=SOUND, mime_type="audio/wav")),
    "test_embedded_resource": fixed(
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": fixed(
        text("Multiple content types test:"),
        picture(),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ),
    "test_tool_with_logging": logging,
    "test_error_handling": failing,
    "test_tool_with_progress": progress,
    "test_sampling": sampling,
    "test_elicitation": eliciting(USER, "User response: "),
    "test_elicitation_sep1034_defaults": eliciting(DEFAULTS, "Elicitation completed: ", "Check these"),
    "test_elicitation_sep1330_enums": eliciting(ENUMS, "Elicitation completed: ", "Choose"),
    "test_reconnection": reconnecting,
    "json_schema_2020_12_tool": fixed(text("fine")),
}
SCHEMAS = {
    "test_sampling": {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]},
    "test_elicitation": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
    "json_schema_2020_12_tool": {
        "$schema": DRAFT,
        "type": "object",
        "$defs": {
            "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
        },
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    },
}


async def list_tools(_ctx, _params):
    return ListToolsResult(
        tools=[Tool(name=name, description=f"Does {name}.", input_schema=SCHEMAS.get(name, ANYTHING)) for name in TOOLS]
    )


async def call_tool(ctx, params):
    if params.name not in TOOLS:
        raise MCPError(INVALID_PARAMS, f"there is no tool {params.name}")
    try:
        return CallToolResult(content=await TOOLS[params.name](ctx, params.arguments or {}))
    except (ValueError, NoBackChannelError) as error:
        return CallToolResult(content=[text(str(error))], is_error=True)


PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
}


async def list_prompts(_ctx, _params):
    return ListPromptsResult(
        prompts=[
            Prompt(
                name=name,
                description=f"Says {name}.",
                arguments=[PromptArgument(name=each, description=each, required=True) for each in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
    )


async def get_prompt(_ctx, params):
    args = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            content = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            content = [text(f"Prompt with arguments: arg1='{args['arg1']}', arg2='{args['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            resource = embedded(args["resourceUri"], "text/plain", "Embedded resource content for testing.")
            content = [resource, text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            content = [picture(), text("Please analyze the image above.")]
        case _:
            raise MCPError(INVALID_PARAMS, "there is no such prompt")
    return GetPromptResult(messages=[PromptMessage(role="user", content=each) for each in content])


STATIC, BINARY, WATCHED = "test://static-text", "test://static-binary", "test://watched-resource"


async def list_resources(_ctx, _params):
    return ListResourcesResult(
        resources=[Resource(uri=uri, name=uri, description=f"Shows {uri}.") for uri in (STATIC, BINARY, WATCHED)]
    )


async def list_templates(_ctx, _params):
    template = ResourceTemplate(uri_template="test://template/{id}/data", name="template", description="By number.")
    return ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(_ctx, params):
    uri = str(params.uri)
    if uri == BINARY:
        content = BlobResourceContents(uri=uri, mime_type="image/png", blob=IMAGE)
    elif uri in {STATIC, WATCHED}:
        words = "This is the content of the static text resource."
        content = TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    elif uri.startswith("test://template/"):
        number = uri.split("/")[3]
        words = f'{{"id":"{number}","templateTest":true,"data":"Data for ID: {number}"}}'
        content = TextResourceContents(uri=uri, mime_type="application/json", text=words)
    else:
        raise MCPError(INVALID_PARAMS, "there is no such resource")
    return ReadResourceResult(contents=[content])


async def nothing(_ctx, _params):
    return EmptyResult()


async def complete(_ctx, _params):
    return CompleteResult(completion=Completion(values=["paris", "park", "party"], total=3, has_more=False))


def main():
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    server = Server(
        "demo",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing,
        on_completion=complete,
        on_set_logging_level=nothing,
    )
    run_async(serve_http(protected(server), 0, lambda url: print(url, flush=True)))


if __name__ == "__main__":
    main()
