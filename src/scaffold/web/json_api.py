"""The JSON API: runs, one run, its events as they happen, the inbox; described by `openapi.py`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from scaffold.core.ids import RunId
from scaffold.views.run_json import Json, run_view_json
from scaffold.web.deciding import Answer, decide_item
from scaffold.web.openapi import description
from scaffold.web.request_guard import Refused, require_session
from scaffold.web.user_runs import UserRuns

EVENTS_AT_ONCE = 500
LOOK_EVERY_S = 0.5
ALIVE_AFTER_S = 15.0
"""A comment is sent this often, so that a reader which has gone away is noticed."""
MAX_STREAMS = 100
MAX_SEQ = 2**62


def api_routes(runs: UserRuns, is_ending: Callable[[], bool]) -> list[Route]:
    """Return the routes of the API."""
    api = Api(runs, is_ending)
    return [
        Route("/api/openapi.json", api.describe, methods=["GET"]),
        Route("/api/session", api.session, methods=["GET"]),
        Route("/api/runs", api.list_runs, methods=["GET"]),
        Route("/api/runs/{run}", api.show_run, methods=["GET"]),
        Route("/api/runs/{run}/events", api.stream_run, methods=["GET"]),
        Route("/api/events", api.stream_changes, methods=["GET"]),
        Route("/api/inbox", api.list_inbox, methods=["GET"]),
        Route("/api/inbox/{item}", api.decide, methods=["POST"]),
    ]


class Api:
    """The handlers of the API."""

    def __init__(self, runs: UserRuns, is_ending: Callable[[], bool]) -> None:
        self._runs = runs
        self._is_ending = is_ending
        self._streams = 0

    async def describe(self, _request: Request) -> Response:
        """Return the description of this API, as OpenAPI."""
        return JSONResponse(description())

    async def session(self, request: Request) -> Response:
        """Return what the session may do, and the token that its changes need."""
        session = require_session(request.state.session)
        return JSONResponse({"csrf": session.csrf, "may_act": session.may_act})

    async def list_runs(self, _request: Request) -> Response:
        """Return the runs of all repositories."""
        listed, unread = await asyncio.to_thread(self._runs.listed)
        runs = [{"repository": str(each.root), **msgspec.to_builtins(run)} for each in listed for run in each.runs]
        broken = [{"repository": str(each.repository), "why": each.why} for each in unread]
        return json_response({"runs": runs, "unread": broken})

    async def show_run(self, request: Request) -> Response:
        """Return a run as `scaffold status --json` prints it."""
        return json_response(await self._run_json(request.path_params["run"]))

    async def _run_json(self, run_id: str) -> Json:
        with self._runs.with_run(run_id) as (reader, run):
            view = await self._runs.run_view(reader, run)
            cleaned: Json = self._runs.redactor(reader.root).clean_all(run_view_json(view))
            return cleaned

    async def list_inbox(self, _request: Request) -> Response:
        """Return what waits for the user, oldest first, each item with the hash that a decision has to name."""
        asked, _ = await self._runs.waiting()
        names = ("kind", "id", "run", "text", "since", "holds_up")
        found = [
            {
                **{name: getattr(each.entry, name) for name in names},
                "repository": str(each.entry.repository or ""),
                "actions": list(each.entry.asks),
                "choices": list(each.entry.choices),
                "detail": each.entry.item.detail if each.entry.item else {},
                "hash": each.entry.binds,
            }
            for each in asked
        ]
        return json_response({"inbox": found})

    async def decide(self, request: Request) -> Response:
        """Decide an item of the inbox, if it is still what was shown."""
        try:
            answer = msgspec.json.decode(await request.body(), type=Answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Refused(422, f"the body is not a decision: {error}", "See /api/openapi.json.") from error
        decided = await asyncio.to_thread(decide_item, self._runs, request.path_params["item"], answer)
        return json_response(
            {
                "id": decided.item.id,
                "state": decided.item.state,
                "repeated": decided.repeated,
                "run": decided.item.run_id,
            }
        )

    async def stream_run(self, request: Request) -> Response:
        """Stream the events of a run from after `?after=N`, or the browser's last one; by default new ones only."""
        run_id = request.path_params["run"]
        newest = await asyncio.to_thread(self._last_seq, run_id)  # NotThere before anything is sent
        wanted = request.headers.get("last-event-id") or request.query_params.get("after") or str(newest)
        if not wanted.isascii() or not wanted.isdigit() or len(wanted) > 18:
            raise Refused(422, "`after` is not the number of an event", "Leave it out for new events only.")
        return self._open_stream(lambda: self._run_frames(run_id, int(wanted)))

    def _last_seq(self, run_id: str) -> int:
        with self._runs.with_run(run_id) as (reader, run):
            return reader.store.events.last_seq(run.id)

    async def _run_frames(self, run_id: str, seq: int) -> AsyncIterator[str]:
        while True:
            found = await asyncio.to_thread(self._events_since, run_id, seq)
            for at, event in found:
                seq = at
                yield f"id: {seq}\nevent: {event['type']}\ndata: {msgspec.json.encode(event).decode()}\n\n"
            if found:
                # For pages, which look at all of the run and not at one event.
                yield f"id: {seq}\nevent: changed\ndata: {seq}\n\n"
            if len(found) < EVENTS_AT_ONCE:
                yield ""

    def _events_since(self, run_id: str, seq: int) -> Sequence[tuple[int, dict[str, Any]]]:
        with self._runs.with_run(run_id) as (reader, run):
            # A look at one number, as long as nothing happens.
            if reader.store.events.last_seq(run.id) <= seq:
                return ()
            found = reader.store.events.since(RunId(run.id), seq, limit=EVENTS_AT_ONCE)
            clean = self._runs.redactor(reader.root).clean_all
        return [
            (each.seq, clean({"seq": each.seq, **msgspec.to_builtins(each.event), "at": msgspec.to_builtins(each.at)}))
            for each in found
        ]

    async def stream_changes(self, _request: Request) -> Response:
        """Stream a word each time that anything has changed in any run of the user."""
        return self._open_stream(self._change_frames)

    async def _change_frames(self) -> AsyncIterator[str]:
        known = await asyncio.to_thread(self._runs.changes)
        while True:
            yield ""
            now = await asyncio.to_thread(self._runs.changes)
            if now != known:
                known = now
                yield "event: changed\ndata: runs\n\n"

    def _open_stream(self, frames: Callable[[], AsyncIterator[str]]) -> Response:
        if self._streams >= MAX_STREAMS:
            raise Refused(503, f"{MAX_STREAMS} pages are watching already", "Close some of them.")
        return StreamingResponse(self._paced_frames(frames()), media_type="text/event-stream")

    async def _paced_frames(self, frames: AsyncIterator[str]) -> AsyncIterator[str]:
        """Pass frames on; an empty one is a pause. Ends with the server."""
        self._streams += 1
        quiet = 0.0
        try:
            yield "retry: 2000\n\n"
            async for frame in frames:
                if frame:
                    quiet = 0.0
                    yield frame
                    continue
                if self._is_ending():
                    return
                await asyncio.sleep(LOOK_EVERY_S)
                quiet += LOOK_EVERY_S
                if quiet >= ALIVE_AFTER_S:
                    quiet = 0.0
                    yield ": still here\n\n"
        finally:
            self._streams -= 1


def json_response(value: Any) -> Response:
    """Return a value as JSON; times as ISO-8601 in UTC."""
    return Response(msgspec.json.encode(value), media_type="application/json")
