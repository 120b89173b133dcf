"""The layout of a plan's picture: what must be true of any plan, and what small ones look like."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.pages.layered_layout import Size, layered_layout

BOX = Size(100.0, 40.0)
WIDTH = 500.0


@st.composite
def plans(draw):
    """Return sizes of boxes, and dependencies that may go in circles."""
    sizes = draw(st.lists(st.builds(Size, st.sampled_from([60.0, 100.0, 480.0]), st.sampled_from([40.0, 90.0]))))
    last = len(sizes) - 1
    edges = draw(st.lists(st.tuples(st.integers(0, last), st.integers(0, last)), max_size=40)) if sizes else []
    return sizes, edges


def reached(edges):
    """Return all pairs of boxes of which the second depends on the first, however indirectly."""
    pairs = set(edges)
    while more := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
        pairs |= more
    return pairs


@given(plans())
@settings(deadline=None)
def test_boxes_never_overlap_and_every_line_points_down(plan):
    """SC-19: the picture of any plan can be read."""
    sizes, edges = plan
    made = layered_layout(sizes, edges, WIDTH)
    spots = [(x, y, x + size.width, y + size.height) for (x, y), size in zip(made.corners, sizes, strict=True)]
    for one, two in combinations(spots, 2):
        assert one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]
    for left, top, right, bottom in spots:
        assert (left, top) >= (-0.01, 0.0)
        assert right <= made.size.width + 0.01
        assert bottom <= made.size.height
    for line in made.lines:
        heights = [y for _, y in line.points]
        assert heights == sorted(heights)
        source, target = (spots[index] for index in line.edge)
        assert (line.points[0][1], line.points[-1][1]) == (source[3], target[1])


@given(plans())
@settings(deadline=None)
def test_what_is_drawn_says_the_same_as_all_dependencies(plan):
    """SC-19: only what follows from other lines is left out, and circles say that they are cut."""
    sizes, edges = plan
    made = layered_layout(sizes, edges, WIDTH)
    drawn = {line.edge for line in made.lines}
    in_circles = any(a == b for a, b in reached(edges))
    assert made.is_whole == (not in_circles)
    assert drawn <= set(edges)
    if made.is_whole:
        assert reached(drawn) == reached(edges)


def test_a_line_passes_no_box():
    """SC-19: it goes through gaps in the rows between."""
    made = layered_layout([BOX] * 5, [(0, 1), (1, 2), (2, 3), (0, 4), (4, 3), (0, 3)], WIDTH)
    tall = next(line for line in made.lines if line.edge == (4, 3))
    assert {line.edge for line in made.lines} == {(0, 1), (1, 2), (2, 3), (0, 4), (4, 3)}
    for x, y in tall.points[1:-1]:
        assert not any(
            left < x < left + BOX.width and top < y < top + BOX.height and index not in tall.edge
            for index, (left, top) in enumerate(made.corners)
        )


def test_a_chain_is_a_column_and_what_is_independent_stands_in_rows():
    chain = layered_layout([BOX] * 3, [(0, 1), (1, 2)], WIDTH)
    assert len({x for x, _ in chain.corners}) == 1
    rows = layered_layout([BOX] * 9, [], WIDTH)
    assert rows.size.width <= WIDTH
    assert len({y for _, y in rows.corners}) == 3


@pytest.mark.parametrize("chains", [1, 20])
def test_a_plan_of_two_hundred_actions_fits_the_page(chains):
    """SC-19: many chains beside each other do not make it wider than its lines need."""
    edges = [(index - 1, index) for index in range(200) if index % (200 // chains)]
    made = layered_layout([BOX] * 200, edges, WIDTH)
    assert made.size.width <= WIDTH * 1.3


def test_nothing_is_drawn_without_boxes():
    assert layered_layout([], [], WIDTH).size == Size(0.0, 0.0)
