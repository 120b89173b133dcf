"""Serve an editor on the standard streams of this process."""

from scaffold.acp.agent import EditorWork, serve_editor
from scaffold.extensions.protocol_lines import line_transport
from scaffold.host.protocol_streams import ProtocolStreams
from scaffold.store.user_store import UserStore


async def serve_standard_streams(work: EditorWork, store: UserStore, streams: ProtocolStreams) -> None:
    """Work for the editor at the other end of the streams until it goes away."""
    async with line_transport(streams) as transport:
        await serve_editor(work, store, transport)
