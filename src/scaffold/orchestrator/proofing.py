"""What a run rests on and ends with: an environment that tells the truth, a baseline before, whole gates after.

Both ask the repository's own gates, and nobody else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

import msgspec

from scaffold.core.errors import EnvironmentNotReady
from scaffold.core.events import Noticed
from scaffold.core.gates import Baseline, GateResult, GateRun
from scaffold.core.model import Run
from scaffold.host.environment import child_environment
from scaffold.host.files import write_atomic
from scaffold.landing.checkout import Checkout
from scaffold.orchestrator.ending import fail
from scaffold.verify.baseline import Captured, Means, capture, captured, document
from scaffold.verify.environment.inside import proven_inside
from scaffold.verify.environment.preparation import Prepared, Wanted, prepare
from scaffold.verify.gates.detection import Detection, detect_at, with_settings
from scaffold.verify.gates.tools import with_tools
from scaffold.verify.readiness import NotReady
from scaffold.verify.services.attendance import proven_served
from scaffold.verify.services.lines import outside_of
from scaffold.worker.enclosure import enclosure, forget_temporary
from scaffold.worker.lease import owned
from scaffold.worker.notice import inform
from scaffold.worker.site import Site

NOT_READY = "environment_not_ready"
SETUP = "setup"
"""Whose temporary folder the commands have that set an environment up."""
NAMED = 3
"""So many new failures are named in the reason of a run that failed by them."""

Grounding = Callable[[Site, Run], Awaitable[None]]
"""Makes sure that a run knows what it is held against, before anything is spent on it."""


async def ground(site: Site, run: Run) -> None:
    """Capture what a run is held against, unless it is known: the environment of checks, and how the gates do there.

    To be called by the run's owner before the first request. Raises EnvironmentNotReady where checks could not be
    believed: the run has failed then. What is captured is written last, so that whoever is killed begins again.
    """
    if site.store.baselines.of_run(run.id) is not None:
        return
    found = await _captured(site, run)
    if isinstance(found, NotReady):
        reason = site.redactor.clean(f"{NOT_READY}: {found.what}")
        fail(site.store, run, reason)
        again = f"then `scaffold retry {run.id}` and `scaffold resume {run.id}`, or a new run if it took a commit"
        raise EnvironmentNotReady(reason, f"{found.fix[:1].upper()}{found.fix[1:].rstrip('.')}, {again}.")
    with owned(site.store, run, durable=True):
        site.store.baselines.hold(run.id, found.baseline)
        for note in found.notes:
            site.store.events.append(run.id, Noticed("info", note))
    _project(site, run, found.baseline)


def regression(results: Iterable[GateResult]) -> str | None:
    """Return why a run fails whose gates did so at its end; None where none of them blocks."""
    broken = [result for result in results if result.blocks]
    if not broken:
        return None
    return f"gates: {'; '.join(map(_in_words, broken))}"


def _in_words(result: GateResult) -> str:
    failed = [name for name, verdict in result.tests.items() if verdict == "new_failure"]
    if result.verdict != "new_failure" or not failed:
        return f"{result.gate.name}: {result.verdict}: {result.detail.partition(chr(10))[0]}"
    count = result.counts.get("new_failure", len(failed))
    more = f" and {count - NAMED} more" if count > NAMED else ""
    return f"{count} new failure{'s' * (count != 1)}: {', '.join(failed[:NAMED])}{more}"


async def _captured(site: Site, run: Run) -> Captured | NotReady:
    detection = await _detected(site, run)
    try:
        prepared = await prepare(_wanted(site, run, detection))
    finally:
        await asyncio.to_thread(forget_temporary, site, run, name=SETUP)
    if isinstance(prepared, NotReady):
        return prepared
    asks = detection.kind != "unknown" or detection.gates or outside_of(prepared.environment.services)
    if not asks and not prepared.environment.path:
        return Captured(baseline=Baseline(environment=prepared.environment, runs=()), notes=detection.notes)
    checkout = Checkout(site, run)
    try:
        return await _captured_in(checkout, site, run, prepared, detection)
    finally:
        await checkout.close()


async def _detected(site: Site, run: Run) -> Detection:
    """Return what the base commit tells, and the settings of the run besides or instead."""
    settings = run.settings
    detection = with_settings(await detect_at(site.git, run.base_sha), settings.given_gates, settings.gates_off)
    return msgspec.structs.replace(
        detection,
        gates=detection.gates if settings.gates else (),
        setup=detection.setup if settings.setup is None else settings.setup,
    )


async def _captured_in(
    checkout: Checkout, site: Site, run: Run, prepared: Prepared, detection: Detection
) -> Captured | NotReady:
    """Capture in a checkout of the base, once it is proven that imports resolve inside of it."""
    base, environment = run.base_sha, prepared.environment
    async with checkout.tree(environment, base=base, commit=base) as tree:
        proven = await proven_inside(environment, tree)
        if isinstance(proven, NotReady):
            return proven
    async with checkout.tree(proven, base=base, commit=base) as tree:
        if trouble := await proven_served(tree.services, tree.enclosure, trusted=run.settings.trusted):
            return trouble
        usable = with_tools(detection, tree.git.cwd, tree.environ)
        return await capture(usable, tree, proven, _means(site, run), left_out=prepared.left_out)


def _wanted(site: Site, run: Run, detection: Detection) -> Wanted:
    settings = run.settings
    return Wanted(
        repository=site.repository,
        base=run.base_sha,
        setup=detection.setup,
        trusted=settings.trusted,
        services=settings.services,
        cache=site.cache,
        environ=child_environment(site.environ, {}, names=settings.environment),
        enclose=partial(enclosure, site, run, name=SETUP),
        clean=site.redactor.clean,
        tell=lambda command: inform(site, run.id, f"Setting up the environment of checks: {command}"),
    )


def _means(site: Site, run: Run) -> Means:
    def told(found: GateRun, reused: bool) -> None:
        with owned(site.store, run, durable=True):
            site.store.baselines.keep(found)
            site.store.events.append(run.id, captured(found, reused=reused))

    find, timeout_s = site.store.baselines.find, run.settings.gate_timeout_s
    return Means(find=find, slots=site.slots(run.settings.gate_slots), told=told, timeout_s=timeout_s)


def _project(site: Site, run: Run, baseline: Baseline) -> None:
    with suppress(OSError):  # a mirror for people; the store has it
        write_atomic(site.projections / "baselines" / f"{run.id}.json", document(baseline, run.id))
