"""Place boxes in rows so that every dependency points down, with room for lines between the boxes.

The steps are those of layered graph drawing (Sugiyama): drop implied edges, fill rows from the top with boxes whose
dependencies are above them, route long lines through gaps in the rows between, order the rows by their neighbours, and
move boxes under what they depend on. Rows are never wider than asked for, so the drawing grows downward.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

GAP_X, GAP_Y = 22.0, 34.0
SWEEPS = 4
Edge = tuple[int, int]
"""(index of a box, index of a box that depends on it)."""
Point = tuple[float, float]


class Size(Struct, frozen=True):
    """Width and height."""

    width: float
    height: float


class EdgeLine(Struct, frozen=True):
    """A line between two boxes as points: from the bottom of one, through gaps, to the top of the other."""

    edge: Edge
    points: tuple[Point, ...]


class GraphLayout(Struct, frozen=True, kw_only=True):
    """The top left corner of each box, and the lines."""

    size: Size
    corners: tuple[Point, ...]
    lines: tuple[EdgeLine, ...]
    is_whole: bool
    """False if some dependencies are not drawn, because they would close a cycle."""


def layered_layout(sizes: Sequence[Size], edges: Sequence[Edge], width: float) -> GraphLayout:
    """Return the layout of boxes given in plan order; it is wider than `width` only if a box or many lines need it."""
    order, kept = _break_cycles(len(sizes), set(edges))
    is_whole = len(kept) == len(set(edges))
    kept = _without_implied(order, kept)
    rows = _Rows(sizes, _fill_rows(sizes, order, kept, width), kept)
    rows.sort()
    centers = rows.centers()
    tops = rows.tops()
    at = [tops[rows.row_of[index]] for index in range(len(sizes))]
    corners = [(centers[index] - size.width / 2, at[index]) for index, size in enumerate(sizes)]
    lines = [EdgeLine(edge, tuple(rows.points(edge, centers, tops))) for edge in kept]
    height = max((top + size.height for top, size in zip(at, sizes, strict=True)), default=0.0)
    return GraphLayout(size=Size(rows.width, height), corners=tuple(corners), lines=tuple(lines), is_whole=is_whole)


def _break_cycles(count: int, edges: set[Edge]) -> tuple[list[int], list[Edge]]:
    """Return the boxes in topological order, and the edges without those that close a cycle."""
    left, order, placed = list(range(count)), list[int](), set[int]()
    before: dict[int, set[int]] = {index: set() for index in left}
    for source, target in edges:
        before[target].add(source)
    while left:
        # In a cycle no node is ready; the first in plan order is placed before its predecessors.
        ready = [index for index in left if before[index] <= placed] or left[:1]
        order += ready
        placed.update(ready)
        left = [index for index in left if index not in placed]
    rank = {index: number for number, index in enumerate(order)}
    return order, sorted((edge for edge in edges if rank[edge[0]] < rank[edge[1]]), key=lambda edge: (edge[1], edge[0]))


def _without_implied(order: Sequence[int], edges: Sequence[Edge]) -> list[Edge]:
    """Return the edges without those that follow from others: of A-B, B-C and A-C, the last one."""
    targets: dict[int, list[int]] = {index: [] for index in order}
    for source, target in edges:
        targets[source].append(target)
    rank = {index: number for number, index in enumerate(order)}
    reached: dict[int, int] = {}  # as bits
    kept: set[Edge] = set()
    for source in reversed(order):
        bits = 0
        for target in sorted(targets[source], key=rank.__getitem__):
            if not bits >> target & 1:
                kept.add((source, target))
                bits |= 1 << target | reached[target]
        reached[source] = bits
    return [edge for edge in edges if edge in kept]


def _fill_rows(sizes: Sequence[Size], order: Sequence[int], edges: Sequence[Edge], width: float) -> list[list[int]]:
    """Return the boxes in rows no wider than `width` (or one box each), dependencies first, in plan order."""
    before: dict[int, set[int]] = {index: set() for index in order}
    for source, target in edges:
        before[target].add(source)
    levels = _level_by_box(order, edges)
    rows: list[list[int]] = []
    placed, left, level = set[int](), sorted(order), 0
    while left:
        row, taken = list[int](), -GAP_X
        for index in left:
            needed = GAP_X + sizes[index].width
            if levels[index] <= level and before[index] <= placed and (not row or taken + needed <= width):
                row.append(index)
                taken += needed
        if row:
            rows.append(row)
        placed.update(row)
        left = [index for index in left if index not in placed]
        level += 1
    return rows


def _level_by_box(order: Sequence[int], edges: Sequence[Edge]) -> Mapping[int, int]:
    """Return the longest chain before each box; a box without dependencies goes just above the first that needs it."""
    level = dict.fromkeys(order, 0)
    before: dict[int, list[int]] = {index: [] for index in order}
    after: dict[int, list[int]] = {index: [] for index in order}
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    for index in order:
        level[index] = max((level[source] + 1 for source in before[index]), default=0)
    for index in order:
        if after[index] and not before[index]:
            level[index] = min(level[target] for target in after[index]) - 1
    return level


class _Rows:
    """Rows of items: boxes by their index, and gaps by numbers above these, through which lines pass.

    All lines to a box share their gaps, or all lines from it, whichever are more.
    """

    def __init__(self, sizes: Sequence[Size], rows: list[list[int]], edges: Sequence[Edge]) -> None:
        self.rows = rows
        self.row_of = {index: at for at, row in enumerate(rows) for index in row}
        self._sizes = sizes
        self._above: dict[int, list[int]] = {}
        self._below: dict[int, list[int]] = {}
        self._paths: dict[Edge, list[int]] = {}
        sources, targets = Counter(edge[0] for edge in edges), Counter(edge[1] for edge in edges)
        gaps: dict[tuple[str, int, int], int] = {}
        for source, target in edges:
            shared = ("to", target) if targets[target] >= sources[source] else ("from", source)
            path = [source]
            for at in range(self.row_of[source] + 1, self.row_of[target]):
                path.append(gaps.setdefault((*shared, at), len(sizes) + len(gaps)))
                if path[-1] not in self.row_of:
                    self.row_of[path[-1]] = at
                    self.rows[at].append(path[-1])
            self._paths[source, target] = [*path, target]
            for upper, lower in pairwise(self._paths[source, target]):
                self._above.setdefault(lower, []).append(upper)
                self._below.setdefault(upper, []).append(lower)

    def sort(self) -> None:
        """Order each row by the places of its neighbours, from above and from below in turn."""
        for number in range(SWEEPS):
            near, rows = (self._below, self.rows[::-1]) if number % 2 else (self._above, self.rows)
            for row in rows:
                places = {item: (spot + 0.5) / len(each) for each in self.rows for spot, item in enumerate(each)}
                row.sort(key=lambda item, near=near, places=places: _mean_place(near, item, places))  # type: ignore[misc]

    @property
    def width(self) -> float:
        """The width that the widest row needs."""
        return max((self._least_offsets(row)[-1] + self._half_end_widths(row) for row in self.rows), default=0.0)

    def centers(self) -> Mapping[int, float]:
        """Return the horizontal centre of each item: close to those of its neighbours, without overlaps."""
        width, found = self.width, dict[int, float]()
        for row in self.rows:
            offsets = self._least_offsets(row)
            start = (width - offsets[-1] - self._half_end_widths(row)) / 2 + self._item_width(row[0]) / 2
            found.update({item: start + offset for item, offset in zip(row, offsets, strict=True)})
        for number in range(SWEEPS):
            near, rows = (self._below, self.rows[::-1]) if number % 2 else (self._above, self.rows)
            for row in rows:
                wanted = [_mean_place(near, item, found) for item in row]
                first, offsets = self._item_width(row[0]) / 2, self._least_offsets(row)
                last = width - offsets[-1] - self._item_width(row[-1]) / 2
                starts = _closest_nondecreasing([want - offset for want, offset in zip(wanted, offsets, strict=True)])
                for item, start, offset in zip(row, starts, offsets, strict=True):
                    found[item] = min(max(start, first), last) + offset
        return found

    def tops(self) -> list[float]:
        """Return the vertical start of each row."""
        tops = [0.0]
        for row in self.rows:
            tops.append(tops[-1] + self._row_height(row) + GAP_Y)
        return tops

    def points(self, edge: Edge, centers: Mapping[int, float], tops: Sequence[float]) -> Iterator[Point]:
        """Yield the points of a line: where it leaves its box and each row, and where it enters the next one."""
        source, target = edge
        yield centers[source], tops[self.row_of[source]] + self._sizes[source].height
        for item in self._paths[edge][:-1]:
            at = self.row_of[item]
            if item != source:
                yield centers[item], tops[at]
            yield centers[item], tops[at] + self._row_height(self.rows[at])
        yield centers[target], tops[self.row_of[target]]

    def _row_height(self, row: Sequence[int]) -> float:
        return max((self._sizes[item].height for item in row if item < len(self._sizes)), default=0.0)

    def _item_width(self, item: int) -> float:
        return self._sizes[item].width if item < len(self._sizes) else 0.0

    def _half_end_widths(self, row: Sequence[int]) -> float:
        return (self._item_width(row[0]) + self._item_width(row[-1])) / 2

    def _least_offsets(self, row: Sequence[int]) -> list[float]:
        """Return the least distances between the centre of the first item of a row and those of all its items."""
        offsets = [0.0]
        for left, right in pairwise(row):
            offsets.append(offsets[-1] + GAP_X + (self._item_width(left) + self._item_width(right)) / 2)
        return offsets


def _mean_place(near: Mapping[int, Sequence[int]], item: int, places: Mapping[int, float]) -> float:
    """Return the mean place of an item's neighbours; its own without any."""
    return sum(places[each] for each in near[item]) / len(near[item]) if item in near else places[item]


def _closest_nondecreasing(wanted: Sequence[float]) -> list[float]:
    """Return the non-decreasing numbers closest to `wanted` by least squares (isotonic regression)."""
    blocks: list[tuple[float, int]] = []  # the mean of neighbours that would overlap, and how many they are
    for each in wanted:
        mean, count = each, 1
        while blocks and blocks[-1][0] >= mean:
            above, many = blocks.pop()
            mean, count = (above * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    return [mean for mean, count in blocks for _ in range(count)]
