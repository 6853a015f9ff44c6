"""Switching SMT off on a machine of 400 CPUs.

Published: the seconds that it took to take seven of the eight threads of each core offline, and to bring
them back, with normal and with expedited grace periods. The CPUs go one at a time, and each waits for at
least one grace period, so hundreds of them follow each other.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .._core import Config, HotplugSweep, Machine, simulate_many
from ..errors import Interrupted
from ..published import load
from ._experiment import Assumption, Experiment, Figures, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._core import CancelToken, Run

NAME = "hotplug"
KERNEL = "6.18"
HZ = 100
REPLICAS = 3
#: Serial calls of `synchronize_rcu()` per CPU: the one that going offline makes for certain, and the one that
#: the hotplug lock may make on the way back.
WAITS_DOWN, WAITS_UP = 1, 1
SETTINGS: dict[str, dict[str, Any]] = {
    "normal": {"rcu_normal_wake_from_gp": 0},
    "direct wake": {"rcu_normal_wake_from_gp": 1},
    "expedited": {"rcu_expedited": 1},
}
#: What expedited grace periods have to save at least.
FACTOR = 10


def run(
    *,
    seed: int = 1,
    threads: int = 0,
    host: bool = False,
    progress: bool | Callable[[int, int], object] | None = None,
    cancel: CancelToken | None = None,
) -> Experiment:
    """Runs each setting off, and off and on again, with the same seeds."""
    published = load("hotplug")
    config = Config(kernel=KERNEL, nr_cpus=published["nr_cpus"], hz=HZ)
    machine = Machine()
    siblings = [cpu for cpu in range(published["nr_cpus"]) if cpu % published["threads_per_core"]]
    off = HotplugSweep(cpus=siblings, waits_down_percent=100 * WAITS_DOWN, waits_up_percent=100 * WAITS_UP)
    began = time.perf_counter()
    runs: dict[str, list[Run]] = {}
    stop: Interrupted | None = None
    for setting, values in SETTINGS.items():
        for way, sweep in (("off", off), ("off and on", off.replace(back=True))):
            try:
                runs[f"{setting}, {way}"] = simulate_many(
                    config.replace(**values),
                    sweep,
                    replicas=REPLICAS,
                    threads=threads,
                    seed=seed,
                    machine=machine,
                    progress=progress,
                    cancel=cancel,
                )
            except Interrupted as interrupted:
                runs[f"{setting}, {way}"] = list(interrupted.runs)
                stop = interrupted
                break
        if stop is not None:
            break
    cut = stop is not None or any(r.interrupted for some in runs.values() for r in some)
    experiment = _compare(
        published, config, machine, siblings, runs, seed, time.perf_counter() - began, cut, host
    )
    if stop is not None:
        stop.experiment = experiment
        raise stop
    return experiment


def _seconds(runs: dict[str, list[Run]], setting: str, way: str) -> list[float]:
    """Of each replica; the way back is what both ways take besides the way there."""
    there = [run.virtual_s for run in runs.get(f"{setting}, off", [])]
    if way == "off":
        return there
    both = [run.virtual_s for run in runs.get(f"{setting}, off and on", [])]
    return [all_of_it - part for all_of_it, part in zip(both, there, strict=False)]


def _figures(seconds: list[float]) -> Figures:
    return Figures.of([{"mean": s, "min": s, "max": s} for s in seconds])


def _compare(
    published: dict[str, Any],
    config: Config,
    machine: Machine,
    siblings: list[int],
    runs: dict[str, list[Run]],
    seed: int,
    wall_s: float,
    interrupted: bool,
    host: bool,
) -> Experiment:
    rows = []
    for way in ("off", "on"):
        for setting in SETTINGS:
            theirs = published[way].get(setting)
            rows.append(
                Row(
                    f"{way}, {setting}",
                    _figures([] if theirs is None else [theirs]),
                    _figures(_seconds(runs, setting, way)),
                )
            )
    ours = {row.setting: row.simulated.mean for row in rows}
    normal, direct, expedited = (ours[f"off, {setting}"] for setting in SETTINGS)
    theirs_saved = published["off"]["normal"] - published["off"]["expedited"]
    saved = None if normal is None or expedited is None else normal - expedited
    checks = [
        ("off: direct wake is faster than the callback route", _less(direct, normal, 1)),
        (f"off: expedited is at least {FACTOR} times faster", _less(expedited, normal, FACTOR)),
    ]
    count = len(siblings)
    # A call's price is ours; how many of them a CPU makes is not published.
    implied = None if not saved else theirs_saved / (saved / WAITS_DOWN)
    summary: dict[str, dict[str, float | None]] = {
        "off_saved_s": {"published": theirs_saved, "simulated": saved},
        "off_normal_s_per_cpu": {
            "published": published["off"]["normal"] / count,
            "simulated": None if normal is None else normal / count,
        },
        "off_calls_per_cpu": {"published": implied, "simulated": float(WAITS_DOWN)},
        "on_normal_s_per_cpu": {
            "published": published["on"]["normal"] / count,
            "simulated": _per(ours["on, normal"], count),
        },
    }
    calls = "?" if implied is None else f"{implied:.1f}"
    rest_ms = 1000 * published["off"]["expedited"] / count
    notes = [
        "the seconds: they are proportional to the calls per CPU and to the length of a jiffy; here the "
        f"published saving is that of {calls} calls a CPU: the one that is certain, the hotplug lock's, and "
        "whatever else that kernel's configuration makes",
        f"work that is no grace period: the published {published['off']['expedited']} s with expedited ones "
        f"are {rest_ms:.0f} ms a CPU, of which ours are microseconds",
    ]
    if host:
        notes.append("measured on real threads: this workload is only simulated")
    return Experiment(
        name=NAME,
        title=f"SMT{published['threads_per_core']} to SMT1 and back, {count} of {config.nr_cpus} CPUs",
        unit=published["unit"],
        holds=not interrupted and all(ok for _, ok in checks),
        seed=seed,
        assumptions=_assumptions(config, machine, seed),
        wall_s=wall_s,
        rows=rows,
        summary=summary,
        checks=checks,
        mechanism=_mechanism(runs),
        notes=notes,
        interrupted=interrupted,
        runs=runs,
    )


def _less(ours: float | None, than: float | None, times: float) -> bool:
    return ours is not None and than is not None and ours * times < than


def _per(seconds: float | None, count: int) -> float | None:
    return None if seconds is None else seconds / count


def _mechanism(runs: dict[str, list[Run]]) -> list[str]:
    lines = []
    for name, some in runs.items():
        calls = [run.calls for run in some]
        if not sum(calls):
            lines.append(f"{name}: no call was completed")
            continue
        medians = sorted(run.quantile(0.5) / 1e6 for run in some)
        lines.append(
            f"{name}: {calls[0]} calls one after the other, {medians[len(medians) // 2]:.3f} ms each "
            "in the median"
        )
    return lines


def _assumptions(config: Config, machine: Machine, seed: int) -> list[Assumption]:
    return [
        Assumption("kernel", config.kernel, "sets the defaults; it has no early report"),
        Assumption("hz", str(config.hz), "the usual tick rate of such a machine"),
        Assumption(
            "calls per CPU",
            f"{WAITS_DOWN} off, {WAITS_UP} on",
            "going offline waits once for certain; the hotplug lock may wait once in each direction",
        ),
        Assumption(
            "callbacks", "not offloaded", "a CPU that waits by callback has its tick and notices by it"
        ),
        Assumption(
            "timer_migration",
            machine.timer_migration,
            "who expires an idle CPU's timer: as that kernel does (since 6.9 an active CPU)",
        ),
        Assumption(
            "noise",
            f"{machine.noise:g} bursts per second and CPU",
            "what else runs on a machine that is called idle",
        ),
        Assumption("other work", "20 us of CPU time a transition", "all the rest of hotplug is not modelled"),
        Assumption("seeds", f"{seed} to {(seed + REPLICAS - 1) % 2**64}", "the same for each setting"),
    ]
