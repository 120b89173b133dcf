"""The layout of a plan's picture: what must be true of any plan, and what simple ones look like."""

from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from scaffold.pages.plan_graph import Size, layered_layout

BOX = Size(100.0, 40.0)


@st.composite
def plans(draw):
    """Return sizes of boxes, and dependencies that may go in circles."""
    sizes = draw(st.lists(st.builds(Size, st.sampled_from([60.0, 100.0, 480.0]), st.sampled_from([40.0, 90.0]))))
    pairs = [(a, b) for a in range(len(sizes)) for b in range(len(sizes)) if a != b]
    return sizes, draw(st.lists(st.sampled_from(pairs), max_size=40, unique=True)) if pairs else []


def is_on_border(point, box):
    left, top, right, bottom = box
    x, y = point
    within = left - 0.01 <= x <= right + 0.01 and top - 0.01 <= y <= bottom + 0.01
    return within and min(abs(x - left), abs(x - right), abs(y - top), abs(y - bottom)) < 0.01


@given(plans())
@settings(deadline=None)
def test_boxes_never_overlap_and_every_dependency_is_a_line_between_its_boxes(plan):
    """SC-19: the picture of any plan can be read, also of one with circles, and is the same each time."""
    sizes, edges = plan
    made = layered_layout(sizes, edges)
    boxes = [(x, y, x + size.width, y + size.height) for (x, y), size in zip(made.corners, sizes, strict=True)]
    for one, two in combinations(boxes, 2):
        assert one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]
    for left, top, right, bottom in boxes:
        assert min(left, top) >= -0.01
        assert right <= made.size.width + 0.01
        assert bottom <= made.size.height + 0.01
    for (source, target), points in zip(edges, made.lines, strict=True):
        assert is_on_border(points[0], boxes[source])
        assert is_on_border(points[-1], boxes[target])
        assert all(abs(a - c) < 0.01 or abs(b - d) < 0.01 for (a, b), (c, d) in pairwise(points))
    assert layered_layout(sizes, edges) == made


def test_the_narrower_of_two_directions_is_drawn():
    """SC-19: a chain goes down, and what can be done side by side stands below each other: pages are read downward."""
    chain = layered_layout([BOX] * 9, [(index, index + 1) for index in range(8)])
    assert len({round(x) for x, _ in chain.corners}) == 1
    fan = layered_layout([BOX] * 9, [(0, index) for index in range(1, 9)])
    assert len({round(x) for x, _ in fan.corners}) == 2
    assert fan.size.width < 4 * BOX.width
    assert layered_layout([], []).size == Size(0.0, 0.0)
