"""Draw the plan of a goal: a box for each action, lines for the facts between them, children inside compounds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import ActionId, Assertion
from scaffold.core.model import Action, Goal
from scaffold.core.plan import headline
from scaffold.core.printable_text import count_of, join_limited
from scaffold.core.states import status_of
from scaffold.pages.components import Element, Node, References, element, mark_of, scrolling, tone_of
from scaffold.pages.layered_layout import Edge, EdgeLine, GraphLayout, Point, Size, layered_layout
from scaffold.views.run_view import RunView
from scaffold.views.text_format import clip

MAX_BOXES = 200
"""With more actions, each is a square, in rows by level."""
MAX_SQUARES = 4_000
MAX_DEPTH = 12
"""Deeper actions are not drawn; their compound shows how many of its children are done."""
WIDTH = 1060.0
BOX = Size(196.0, 46.0)
KEY_CELLS, NOTE_CELLS = 22, 26
PAD, HEADER = 14.0, 48.0
SQUARE = 16.0
SQUARES_IN_ROW = 50

SiblingEdges = Mapping[tuple[ActionId, ActionId], frozenset[Assertion]]
"""Which assertions lead from one action to another with the same parent, or from their children."""


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
        if len(self._actions) > MAX_BOXES:
            more = f"; the first {MAX_SQUARES:,}" if len(self._actions) > MAX_SQUARES else ""
            return self._plan_figure(self._square_map(), f"A square for each action, in the order of the plan{more}.")
        tops = [self._planned_box(action, WIDTH - 2) for action in self._children.get(None, ())]
        layout = self._box_layout(tops, WIDTH - 2)
        content = element("g", *self._inner_elements(tops, layout), transform="translate(1 1)")
        size = Size(layout.size.width + 2, layout.size.height + 2)
        note = "" if layout.is_whole else "Lines that would close a circle are left out."
        return self._plan_figure(_svg_of_size(size, content), note)

    def _plan_figure(self, svg: Element, note: str) -> Element:
        counts = Counter(status_of(action.state) for action in self._actions)
        words = ", ".join(f"{number} {word}" for word, number in counts.most_common())
        label = f"Plan of {clip(self._goal.name, 60)}: {words}. The table of actions below has the same in words."
        picture = element("div", svg, role="img", aria_label=label)
        caption = element("figcaption", note) if note else None
        return element("figure", scrolling(picture, f"Plan of {clip(self._goal.name, 60)}"), caption)

    def _planned_box(self, action: Action, width: float, depth: int = 1) -> PlannedBox:
        inside = self._children.get(action.id, ()) if depth < MAX_DEPTH else ()
        children = tuple(self._planned_box(child, width - 2 * PAD, depth + 1) for child in inside)
        if not children:
            return PlannedBox(action, BOX)
        layout = self._box_layout(children, width - 2 * PAD)
        size = Size(max(BOX.width, layout.size.width + 2 * PAD), HEADER + layout.size.height + PAD)
        return PlannedBox(action, size, children, layout)

    def _box_layout(self, nodes: Sequence[PlannedBox], width: float) -> GraphLayout:
        indexes = {node.action.id: index for index, node in enumerate(nodes)}
        edges: list[Edge] = [
            (indexes[source], indexes[target])
            for source, target in self._edges
            if source in indexes and target in indexes
        ]
        return layered_layout([node.size for node in nodes], edges, width)

    def _inner_elements(self, nodes: Sequence[PlannedBox], layout: GraphLayout) -> Iterator[Element]:
        for line in layout.lines:
            source, target = (nodes[index].action.id for index in line.edge)
            yield self._edge_element(line, self._edges[source, target])
        for node, (x, y) in zip(nodes, layout.corners, strict=True):
            yield element("g", *self._box_elements(node), transform=f"translate({x:.1f} {y:.1f})")

    def _edge_element(self, line: EdgeLine, facts: frozenset[Assertion]) -> Element:
        holds = facts <= self._holding
        x, y = line.points[-1]
        return element(
            "g",
            element("title", f"{join_limited(sorted(facts), 4)}{'' if holds else ' (does not hold yet)'}"),
            element("path", d=_edge_path(line.points), class_="line"),
            element("path", d=f"M{x - 4:.1f} {y - 7:.1f}L{x:.1f} {y:.1f}L{x + 4:.1f} {y - 7:.1f}Z", class_="tip"),
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


def _edge_path(points: Sequence[Point]) -> str:
    # Straight down where the points are above each other, else an S.
    x, y = points[0]
    path = f"M{x:.1f} {y:.1f}"
    for to_x, to_y in dict.fromkeys(points[1:]):
        middle = (y + to_y) / 2
        bend = f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} " if abs(to_x - x) > 0.05 else "L"
        path += f"{bend}{to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    return path


def _svg_of_size(size: Size, *content: Node) -> Element:
    box = f"0 0 {size.width:.0f} {size.height:.0f}"
    return element("svg", *content, viewBox=box, width=round(size.width), height=round(size.height))
