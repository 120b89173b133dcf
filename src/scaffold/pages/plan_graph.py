"""Draw the plan of a goal: a box for each action, lines for the facts between them, children inside compounds."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import graphlay
from msgspec import Struct

from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action, Goal
from scaffold.core.plan import headline
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.states import status_of
from scaffold.pages.components import Element, Node, References, element, mark_of, scrolling, tone_of
from scaffold.views.run_view import RunView
from scaffold.views.text_format import clip

MAX_BOXES = 200
MAX_LINES = 500
"""With more actions, or more lines, each action is a square, in rows by level: thousands of lines show nothing."""
MAX_SQUARES = 4_000
MAX_DEPTH = 12
"""Deeper actions are not drawn; their compound shows how many of its children are done."""
KEY_CELLS, NOTE_CELLS = 22, 26
PAD, HEADER = 14.0, 48.0
SQUARE = 16.0
SQUARES_IN_ROW = 50
GAPS: Mapping[str, float] = {
    "layer_gap": 34.0,
    "node_gap": 22.0,
    "isolated_gap": 22.0,
    "isolated_max_columns": 4,
    "dummy_gap": 6.0,
    "port_gap": 6.0,
    "port_stroke_clear": 4.0,
    "stub": 8.0,
    "bundle_lane_gap": 4.0,
}
"""Room between boxes and lines, in pixels, and how many boxes without lines stand in a row."""

SiblingEdges = Mapping[tuple[ActionId, ActionId], frozenset[Assertion]]
"""Which assertions lead from one action to another with the same parent, or from their children."""


Point = tuple[float, float]


class Size(Struct, frozen=True):
    """Width and height in pixels."""

    width: float
    height: float


BOX = Size(196.0, 46.0)


class GraphLayout(Struct, frozen=True):
    """Where boxes and lines are, from the top left corner of the drawing."""

    size: Size
    corners: tuple[Point, ...]
    """The top left corner of each box."""
    lines: tuple[tuple[Point, ...], ...]
    """The corners of each line, from the box that provides facts to the one that needs them."""


class PlannedBox(Struct, frozen=True):
    """An action with what is drawn inside it."""

    action: Action
    size: Size
    children: tuple["PlannedBox", ...] = ()
    layout: GraphLayout | None = None
    """Where the children are; None without any."""


class PlanGraph:
    """Draws the plan of one goal."""

    def __init__(self, view: RunView, goal: Goal, refs: References) -> None:
        self._view = view
        self._goal = goal
        self._refs = refs
        self._actions = view.actions_of(goal)
        self._holding = view.holding(goal)
        self._children: dict[ActionId | None, list[Action]] = {}
        for action in self._actions:
            self._children.setdefault(action.parent_id, []).append(action)
        self._edges = sibling_edges(self._actions)

    def draw(self) -> Node:
        """Return the picture, with what it shows in words; None without actions."""
        if not self._actions:
            return None
        if len(self._actions) > MAX_BOXES or len(self._edges) > MAX_LINES:
            more = f"; the first {MAX_SQUARES:,}" if len(self._actions) > MAX_SQUARES else ""
            return self._plan_figure(self._square_map(), f"A square for each action, in the order of the plan{more}.")
        tops = [self._planned_box(action) for action in self._children.get(None, ())]
        layout = self._box_layout(tops)
        content = element("g", *self._inner_elements(tops, layout), transform="translate(1 1)")
        return self._plan_figure(_svg_of_size(Size(layout.size.width + 2, layout.size.height + 2), content), "")

    def _plan_figure(self, svg: Element, note: str) -> Element:
        counts = Counter(status_of(action.state) for action in self._actions)
        words = ", ".join(f"{number} {word}" for word, number in counts.most_common())
        label = f"Plan of {clip(self._goal.name, 60)}: {words}. The table of actions below has the same in words."
        picture = element("div", svg, role="group", aria_label=label)
        caption = element("figcaption", note) if note else None
        return element("figure", scrolling(picture, f"Plan of {clip(self._goal.name, 60)}"), caption)

    def _planned_box(self, action: Action, depth: int = 1) -> PlannedBox:
        inside = self._children.get(action.id, ()) if depth < MAX_DEPTH else ()
        children = tuple(self._planned_box(child, depth + 1) for child in inside)
        if not children:
            return PlannedBox(action, BOX)
        layout = self._box_layout(children)
        size = Size(max(BOX.width, layout.size.width + 2 * PAD), HEADER + layout.size.height + PAD)
        return PlannedBox(action, size, children, layout)

    def _box_layout(self, nodes: Sequence[PlannedBox]) -> GraphLayout:
        return layered_layout([node.size for node in nodes], [edge for edge, _ in self._inner_edges(nodes)])

    def _inner_edges(self, nodes: Sequence[PlannedBox]) -> list[tuple[tuple[int, int], frozenset[Assertion]]]:
        indexes = {node.action.id: index for index, node in enumerate(nodes)}
        return [
            ((indexes[source], indexes[target]), facts)
            for (source, target), facts in self._edges.items()
            if source in indexes and target in indexes
        ]

    def _inner_elements(self, nodes: Sequence[PlannedBox], layout: GraphLayout) -> Iterator[Element]:
        for (_, facts), points in zip(self._inner_edges(nodes), layout.lines, strict=True):
            yield self._edge_element(points, facts)
        for node, (x, y) in zip(nodes, layout.corners, strict=True):
            yield element("g", *self._box_elements(node), transform=f"translate({x:.1f} {y:.1f})")

    def _edge_element(self, points: Sequence[Point], facts: frozenset[Assertion]) -> Element:
        holds = facts <= self._holding
        return element(
            "g",
            element("title", f"{join_limited(sorted(facts), 4)}{'' if holds else ' (does not hold yet)'}"),
            element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), class_="line"),
            element("path", d=_arrow_path(*points[-2:]), class_="tip"),
            class_="edge" if holds else "edge open",
        )

    def _box_elements(self, node: PlannedBox) -> Iterator[Element]:
        action, status = node.action, status_of(node.action.state)
        around = "compound" if node.children else "box"
        label = element(
            "a",
            element("title", f"{action.key}: {status}. {clip(headline(action), 200)}"),
            element("rect", width=node.size.width, height=node.size.height, rx=7.0, class_=around),
            element("rect", width=5.0, height=node.size.height, rx=2.5, class_="stripe"),
            element("text", clip(action.key, KEY_CELLS), x=14.0, y=19.0, class_="key"),
            element(
                "text",
                f"{mark_of(status)} {clip(self._status_note(action), NOTE_CELLS)}",
                x=14.0,
                y=36.0,
                class_="state",
            ),
            href=f"#{self._refs.anchor(action.id)}",
            tabindex="-1",
            class_=f"node {tone_of(status)}",
        )
        yield label
        if node.layout is not None:
            inside = self._inner_elements(node.children, node.layout)
            left = (node.size.width - node.layout.size.width) / 2
            yield element("g", *inside, transform=f"translate({left:.1f} {HEADER:.1f})")

    def _status_note(self, action: Action) -> str:
        status = status_of(action.state)
        if (progress := self._view.progress.get(action.id)) is not None:
            return f"{status}, {progress.done} of {progress.children} done"
        tries = len(self._view.attempts_of(action))
        return f"{status}, {count_of(tries, 'attempt')}" if tries > 1 else status

    def _square_map(self) -> Element:
        shown = self._actions[:MAX_SQUARES]
        step = SQUARE + 4
        squares = [
            element(
                "rect",
                element("title", f"{action.key}: {status_of(action.state)}"),
                x=index % SQUARES_IN_ROW * step,
                y=index // SQUARES_IN_ROW * step,
                width=SQUARE,
                height=SQUARE,
                rx=3.0,
                class_=f"square {tone_of(status_of(action.state))}",
            )
            for index, action in enumerate(shown)
        ]
        rows = -(-len(shown) // SQUARES_IN_ROW)
        return _svg_of_size(Size(SQUARES_IN_ROW * step, rows * step), *squares)


def sibling_edges(actions: Sequence[Action]) -> SiblingEdges:
    """Return the dependencies between actions with the same parent, their own and those between what is inside them."""
    parents = {action.id: action.parent_id for action in actions}
    ancestry: dict[ActionId, Sequence[ActionId]] = {}
    for action in actions:
        chain = [action.id]
        while (parent := parents.get(chain[-1])) is not None:
            chain.append(parent)
        ancestry[action.id] = chain[::-1]
    of_children: dict[ActionId | None, set[Assertion]] = {}
    for action in actions:
        of_children.setdefault(action.parent_id, set()).update(action.effects)
    providers: dict[Assertion, list[ActionId]] = {}
    for action in actions:
        # What a compound promises, its children provide, or children that it is still to get.
        for effect in {*action.effects} - of_children.get(action.id, set()):
            providers.setdefault(effect, []).append(action.id)
    edges: dict[tuple[ActionId, ActionId], frozenset[Assertion]] = {}
    for action in actions:
        for need in action.preconditions:
            for provider in providers.get(need, ()):
                # An edge joins the two with the same parent; there is none if one action is inside the other.
                parts = zip(ancestry[provider], ancestry[action.id], strict=False)
                edge = next(((upper, lower) for upper, lower in parts if upper != lower), None)
                if edge is not None:
                    edges[edge] = edges.get(edge, frozenset()) | {need}
    return edges


def layered_layout(sizes: Sequence[Size], edges: Sequence[tuple[int, int]]) -> GraphLayout:
    """Return where boxes are whose edges (index of a box, index of one that depends on it) point one way.

    They point down or to the right: whichever makes the narrower drawing, as pages are read downwards.
    """
    graph = graphlay.Graph()
    for size in sizes:
        graph.node(width=size.width, height=size.height)
    for source, target in edges:
        graph.edge(source, target)
    options = [{"direction": direction, "spacing": GAPS, "effort": "fast"} for direction in ("topbottom", "leftright")]
    made = [_graph_layout(graphlay.layout(graph, options=each), sizes) for each in options]
    return min(made, key=lambda each: each.size.width)


def _graph_layout(made: graphlay.Layout, sizes: Sequence[Size]) -> GraphLayout:
    left, top = (made.bounds["min"][axis] for axis in "xy")
    width, height = (made.bounds["max"][axis] - made.bounds["min"][axis] for axis in "xy")
    centers = [(node["center"]["x"] - left, node["center"]["y"] - top) for node in made.nodes]
    corners = tuple((x - size.width / 2, y - size.height / 2) for (x, y), size in zip(centers, sizes, strict=True))
    lines = (((point["x"] - left, point["y"] - top) for point in edge["points"]) for edge in made.edges)
    return GraphLayout(Size(width, height), corners, tuple(tuple(_straighten_line(points)) for points in lines))


def _straighten_line(points: Iterable[Point]) -> Iterator[Point]:
    """Yield the corners of a line; each part becomes horizontal or vertical: graphlay's may lean by a pixel or two."""
    last: Point | None = None
    for x, y in points:
        is_vertical = last is not None and abs(x - last[0]) < abs(y - last[1])
        last = (x, y) if last is None else (last[0], y) if is_vertical else (x, last[1])
        yield last


def _arrow_path(before: Point, end: Point) -> str:
    # Lines are horizontal or vertical: the tip is 7 pixels long and 8 wide, against the way the line comes.
    (x, y), (dx, dy) = (
        end,
        (math.copysign(1, b - a) if abs(b - a) > 0.05 else 0.0 for a, b in zip(before, end, strict=True)),
    )
    sides = [(x - 7 * dx - 4 * side * dy, y - 7 * dy + 4 * side * dx) for side in (-1, 1)]
    return "M" + "L".join(f"{px:.1f} {py:.1f}" for px, py in (sides[0], end, sides[1])) + "Z"


def _svg_of_size(size: Size, *content: Node) -> Element:
    box = f"0 0 {size.width:.0f} {size.height:.0f}"
    return element("svg", *content, viewBox=box, width=round(size.width), height=round(size.height))
