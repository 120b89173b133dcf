"""Which ready action may not start yet, and why: it would change the same files as another that has not landed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, assert_never

from msgspec import Struct

from scaffold.core.ids import ActionKey
from scaffold.core.printable_text import join_limited
from scaffold.plan.collisions.boundary import Boundary, above, boundary_of, meet
from scaffold.plan.collisions.layout import SourceLayout

HOTSPOT_LANDINGS = 3
"""A file that more landings of the run have changed is a hotspot."""
MOST_OVERTAKEN = 4
"""Once this many actions that it collides with have overtaken a waiting one, it goes first: none of them starts."""
MAX_NAMED = 5
CollisionRule = Literal["path", "hotspot", "forecast", "directory", "turn"]
"""Both may change the same path | a file that many landings changed | a merge of their work conflicts, or one has
changed what the other may | as many agents as may are in the directory | one that has waited long goes first."""


class HeldBack(Struct, frozen=True, kw_only=True):
    """Why a ready action may not start yet."""

    rule: CollisionRule
    waits_for: tuple[ActionKey, ...]
    """The actions of which one must land or end before it; of stories, the story."""
    path: str
    """The file or folder that it waits for; of a glob without a folder, the glob; empty for the whole repository."""

    @property
    def text(self) -> str:
        """Return the reason as people read it, as the end of a sentence."""
        keys, path = join_limited(self.waits_for, MAX_NAMED), self.path or "the whole repository"
        match self.rule:
            case "path":
                return f"waits for {keys}: both may change {path}"
            case "hotspot":
                return f"waits for {keys}: both may change {path}, which is changed often in this run"
            case "forecast":
                return f"waits for {keys}: their changes of {path} would conflict"
            case "directory":
                return f"waits for {keys}: no more agents may work in {path}"
            case "turn":
                return f"lets {keys} go first, which has waited for {path} for longer"
            case _:
                assert_never(self.rule)


class WorkUnit(Struct, frozen=True, kw_only=True):
    """One unit of work: an action, or all steps in one worktree."""

    id: str
    key: ActionKey
    files: tuple[str, ...] = ()
    """The files it may change, with those granted to it; empty means unknown."""
    touched: tuple[str, ...] = ()
    """Of one whose files are unknown, the paths that its committed work changes; of a ready one, its last attempt's."""
    conflicts: Mapping[str, tuple[str, ...]] = {}
    """Other units with whose work its own was merged in memory, and the paths in which they conflict."""
    reads_only: bool = False
    """Whether it changes nothing, as a review."""
    at_work: bool = True
    """Whether an agent works on it; False for one that has handed in and waits to land."""
    has_begun: bool = False
    """Whether earlier steps of it have ended in its worktree."""

    @property
    def boundary(self) -> Boundary:
        """The files that it may change, as far as known."""
        return boundary_of(self.files) if self.files else boundary_of(self.touched, literal=True)


class CollisionLimits(Struct, frozen=True, kw_only=True):
    """The input of the rules besides the running work."""

    layout: SourceLayout = SourceLayout()
    hotspots: frozenset[str] = frozenset()
    """Files that more than `HOTSPOT_LANDINGS` landings of the run have changed, as compared."""
    directory_agents: int = 2
    """How many agents may work in one directory."""

    def directories_of(self, unit: WorkUnit) -> tuple[str, ...]:
        """Return the directories in which the unit works; none if its files are unknown."""
        return self.layout.directories_of(unit.files)


class Collision(Struct, frozen=True):
    """Why two units may not run at the same time."""

    rule: Literal["path", "hotspot", "forecast"]
    path: str


def collision(one: WorkUnit, other: WorkUnit, limits: CollisionLimits) -> Collision | None:
    """Return why two units may not run at the same time, whichever begins; None if they may.

    Of units whose files are both unknown, a merge of their work decides, and whether both have changed a hotspot.
    """
    if one.reads_only or other.reads_only or one.id == other.id:
        return None
    # The strictest rule first: a hotspot blocks even where both boundaries are unknown.
    places = meet(one.boundary, other.boundary)
    hot = [place for place in places if place in limits.hotspots]
    if hot:
        return Collision("hotspot", _path_as_written(hot[0], one, other))
    if places and (one.files or other.files):
        rule: Literal["path", "forecast"] = "path" if one.files and other.files else "forecast"
        return Collision(rule, _path_as_written(places[0], one, other))
    # Neither names its files, so only a merge of their committed work can tell.
    merged = one.conflicts.get(other.id) or other.conflicts.get(one.id)
    return Collision("forecast", merged[0]) if merged else None


def _path_as_written(place: str, *units: WorkUnit) -> str:
    return next((each.boundary.paths[place] for each in units if place in each.boundary.paths), place)


class Board:
    """Running work, and what may start beside it. Ready units are looked up by their paths, so many can be checked.

    `reserved` waits, and goes before others: a story between two steps, or an action that others have overtaken often.
    """

    def __init__(
        self, limits: CollisionLimits, running: Iterable[WorkUnit] = (), reserved: Iterable[WorkUnit] = ()
    ) -> None:
        """`reserved` are in their order: each of them waits only for those ahead."""
        self._limits = limits
        self._by_path = defaultdict[str, list[WorkUnit]](list)
        self._by_folder = defaultdict[str, list[WorkUnit]](list)
        self._by_top = defaultdict[str, list[WorkUnit]](list)
        self._with_first_names: list[WorkUnit] = []
        self._by_id: dict[str, WorkUnit] = {}
        self._at_work = defaultdict[str, list[WorkUnit]](list)
        self._reserved = tuple(reserved)
        self._reserved_ids = frozenset(each.id for each in self._reserved)
        self._verdicts: dict[tuple[str, ...], bool] = {}
        """Whether a unit with these files may start, as long as the same runs."""
        for unit in running:
            self.occupy(unit)

    def occupy(self, unit: WorkUnit) -> None:
        """Let a unit run."""
        # Refused work may be possible now, and the other way round.
        self._verdicts.clear()
        if unit.reads_only:
            return
        self._by_id[unit.id] = unit
        boundary = unit.boundary
        for path in boundary.paths:
            self._by_path[path].append(unit)
        for folder in boundary.folders:
            self._by_folder[folder].append(unit)
        for top in boundary.tops:
            self._by_top[top].append(unit)
        if boundary.first_names:
            self._with_first_names.append(unit)
        if unit.at_work:
            for directory in self._limits.directories_of(unit):
                self._at_work[directory].append(unit)

    def vacate(self, unit: WorkUnit) -> None:
        """Let a unit that runs no longer do so."""
        if self._by_id.pop(unit.id, None) is None:
            return
        self._verdicts.clear()
        boundary = unit.boundary
        directories = self._limits.directories_of(unit) if unit.at_work else ()
        for places, names in (
            (self._by_path, boundary.paths),
            (self._by_folder, boundary.folders),
            (self._by_top, boundary.tops),
            (self._at_work, directories),
        ):
            for name in names:
                places[name].remove(unit)
                if not places[name]:
                    del places[name]
        if boundary.first_names:
            self._with_first_names.remove(unit)

    def may_start(self, unit: WorkUnit) -> bool:
        """Return whether a ready unit may start; as `why_held_back`, but fast where many wait for the same."""
        # Only these follow from the files alone; the others depend on the unit itself.
        if not unit.files or unit.reads_only or unit.has_begun or unit.id in self._reserved_ids:
            return self.why_held_back(unit) is None
        known = self._verdicts.get(unit.files)
        if known is None:
            known = self._verdicts[unit.files] = self.why_held_back(unit) is None
        return known

    def why_held_back(self, unit: WorkUnit) -> HeldBack | None:
        """Return why a ready unit may not start beside what runs and is reserved; None if it may."""
        if unit.reads_only:
            return None
        found = ((other, collision(unit, other, self._limits)) for other in self._units_near(unit))
        for other, each in found:
            if each is not None:
                return HeldBack(rule=each.rule, waits_for=(other.key,), path=each.path)
        # A story between two steps continues in its worktree: nothing goes before it.
        place = next((at for at, each in enumerate(self._reserved) if each.id == unit.id), None)
        before = () if unit.has_begun else self._reserved[:place]
        ahead = tuple(each for each in before if each.id not in self._by_id)
        if full := self._full_directory(unit, ahead):
            return full
        for other in ahead:
            if (each := collision(unit, other, self._limits)) is not None:
                # Work that only waits for its turn collides with nothing yet.
                rule: CollisionRule = each.rule if other.has_begun else "turn"
                return HeldBack(rule=rule, waits_for=(other.key,), path=each.path)
        return None

    def _units_near(self, unit: WorkUnit) -> Iterator[WorkUnit]:
        """Yield the running units that may collide with the unit; the most likely first, some more than once."""
        boundary = unit.boundary
        # A path is looked up instead of compared: thousands of ready actions are asked about, and few of them run.
        for path in boundary.paths if self._by_path else ():
            for place in (path, *above(path)):
                yield from self._by_path.get(place, ())
            yield from self._by_folder.get(path, ())
        yield from self._with_first_names
        if boundary.first_names:
            tops = [top for top in self._by_top if not top or any(one.may_be(top) for one in boundary.first_names)]
            for top in tops:
                yield from self._by_top[top]
        yield from (self._by_id[other] for other in unit.conflicts if other in self._by_id)
        if not unit.files:  # what they say of this unit
            yield from (each for each in self._by_id.values() if unit.id in each.conflicts)

    def _full_directory(self, unit: WorkUnit, ahead: Iterable[WorkUnit]) -> HeldBack | None:
        most = self._limits.directory_agents
        for directory in self._limits.directories_of(unit):
            working = [each for each in self._at_work.get(directory, ()) if each.id != unit.id]
            waiting = [each for each in ahead if directory in self._limits.directories_of(each)]
            # Work that has begun takes its place in the directory, even while no agent works on it.
            begun = [each for each in waiting if each.has_begun]
            if len(working) + len(begun) >= most:
                keys = tuple(each.key for each in (*working, *begun))
                return HeldBack(rule="directory", waits_for=keys, path=directory)
            if len(working) + len(waiting) >= most:
                return HeldBack(rule="turn", waits_for=tuple(each.key for each in waiting), path=directory)
        return None


def overtakes(unit: WorkUnit, waiting: WorkUnit, limits: CollisionLimits) -> bool:
    """Return whether a unit that starts makes another one, which is held back, wait for longer."""
    # It would run into the same files, so the other has to wait for it as well.
    if collision(unit, waiting, limits) is not None:
        return True
    return not set(limits.directories_of(unit)).isdisjoint(limits.directories_of(waiting))
