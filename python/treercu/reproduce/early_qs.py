"""The early quiescent-state report on an idle machine.

Published: 100 calls of `synchronize_rcu()` in a row on an idle system with 32 CPUs and HZ=1000, ten
runs each, without and with the report. Without it the CPU that runs the grace-period kthread is the
one that the first force-quiescent-state scan cannot find idle, because the scan itself runs there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import RESOLUTIONS, Config, Machine, SyncFlood, simulate_many
from ..errors import Interrupted
from ..published import load
from ._experiment import Assumption, Experiment, Figures, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._core import CancelToken, Run

NAME = "early-qs"
KERNEL = "6.18"
SETTINGS = {"baseline": False, "early_report": True}
#: The median of run means has to come this near to the published one, as a share of it.
TOLERANCE = 0.02
_MS = 1e6
_WORDS = {
    "tick": "a tick",
    "context_switch": "a context switch",
    "idle_scan": "a scan that found it idle",
    "early_report": "the early report",
    "nobody": "nobody (no CPU had to report)",
}


def run(
    *,
    seed: int = 1,
    threads: int = 0,
    progress: bool | Callable[[int, int], object] | None = None,
    cancel: CancelToken | None = None,
) -> Experiment:
    """Runs both settings with the same seeds."""
    published = load("early_qs")
    replicas = int(published["runs"])
    config = Config(kernel=KERNEL, nr_cpus=published["nr_cpus"], hz=published["hz"])
    machine = Machine()
    workload = SyncFlood(tasks=1, calls=published["calls_per_run"])
    began = time.perf_counter()
    runs: dict[str, list[Run]] = {setting: [] for setting in SETTINGS}
    stop: Interrupted | None = None
    for setting, early_qs in SETTINGS.items():
        try:
            runs[setting] = simulate_many(
                config.replace(early_qs=early_qs),
                workload,
                replicas=replicas,
                threads=threads,
                seed=seed,
                machine=machine,
                progress=progress,
                cancel=cancel,
            )
        except Interrupted as interrupted:
            runs[setting] = list(interrupted.runs)
            stop = interrupted
            break
    cut = stop is not None or any(r.interrupted for all_runs in runs.values() for r in all_runs)
    experiment = _compare(published, config, machine, runs, seed, time.perf_counter() - began, cut)
    if stop is not None:
        stop.experiment = experiment
        raise stop
    return experiment


def _compare(
    published: dict[str, Any],
    config: Config,
    machine: Machine,
    runs: dict[str, list[Run]],
    seed: int,
    wall_s: float,
    interrupted: bool,
) -> Experiment:
    rows = [
        Row(setting, Figures.of(published[setting]), Figures.of_runs(runs[setting], _MS))
        for setting in SETTINGS
    ]
    checks = []
    for row in rows:
        ours, theirs = row.simulated.median_of_run_means, row.published.median_of_run_means
        near = ours is not None and theirs is not None and abs(ours / theirs - 1) <= TOLERANCE
        checks.append((f"{row.setting}: median of run means within {TOLERANCE:.0%} of the published", near))
    ours_summary = _summary(rows)
    gain = ours_summary["mean_improvement_percent"]
    checks.append(("the report lowers the mean", gain is not None and gain > 0))
    summary: dict[str, dict[str, float | None]] = {
        name: {"published": value, "simulated": ours_summary.get(name)}
        for name, value in published["summary"].items()
    }
    return Experiment(
        name=NAME,
        title=f"synchronize_rcu() on an idle system, {config.nr_cpus} CPUs, HZ={config.hz}",
        unit="ms",
        holds=not interrupted and all(ok for _, ok in checks),
        seed=seed,
        assumptions=_assumptions(config, machine, seed, max(len(r) for r in runs.values())),
        wall_s=wall_s,
        rows=rows,
        summary=summary,
        checks=checks,
        mechanism=_mechanism(runs),
        notes=[
            "the maxima: one outlier a run, and what else ran on the published machine is not known",
        ],
        interrupted=interrupted,
        runs=runs,
    )


def _summary(rows: list[Row]) -> dict[str, float | None]:
    baseline, early = (row.simulated for row in rows)

    def gain(before: float | None, after: float | None) -> float | None:
        return None if before is None or after is None else 100 * (1 - after / before)

    return {
        "mean_baseline": baseline.mean,
        "mean_early_report": early.mean,
        "mean_improvement_percent": gain(baseline.mean, early.mean),
        "max_baseline": baseline.max,
        "max_early_report": early.max,
        "max_improvement_percent": gain(baseline.max, early.max),
    }


def _mechanism(runs: dict[str, list[Run]]) -> list[str]:
    lines = []
    for setting, some in runs.items():
        scans = _together(some, "scans")
        resolved = _together(some, "resolved_by")
        if not scans.size:
            lines.append(f"{setting}: no grace period ended")
            continue
        by_scans = ", ".join(
            f"{np.mean(scans == n):.1%} with {n} scan{'s' if n != 1 else ''}" for n in np.unique(scans)
        )
        by_answer = ", ".join(
            f"{_WORDS.get(RESOLUTIONS[code], RESOLUTIONS[code])} in {np.mean(resolved == code):.1%}"
            for code in np.unique(resolved)
        )
        own = np.mean(_together(some, "holdout_cpu") == _together(some, "kthread_cpu"))
        lines.append(f"{setting}: {scans.size} grace periods, {by_scans}")
        lines.append(f"  the last hold-out was the grace-period kthread's own CPU in {own:.1%}")
        lines.append(f"  the last hold-out was resolved by {by_answer}")
    return lines


def _together(runs: list[Run], column: str) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    columns = [run.grace_periods[column] for run in runs]
    return np.concatenate(columns) if columns else np.zeros(0, np.int32)


def _assumptions(config: Config, machine: Machine, seed: int, replicas: int) -> list[Assumption]:
    route = "callback" if config.nr_cpus > 16 else "direct wake"
    noise = (
        f"{machine.noise:g} bursts per second and CPU, "
        f"{machine.noise_min_ns / 1000:g} to {machine.noise_max_ns / 1000:g} us each"
    )
    return [
        Assumption(
            "kernel", config.kernel, f"sets the defaults; {config.nr_cpus} CPUs take the {route} route"
        ),
        Assumption("preempt", config.preempt, "the read-side flavour"),
        Assumption(
            "jiffies_till_first_fqs, jiffies_till_next_fqs",
            f"{config.jiffies_till_first_fqs}, {config.jiffies_till_next_fqs}",
            "that kernel's defaults for this many CPUs and this HZ",
        ),
        Assumption(
            "timer_migration",
            machine.timer_migration,
            "who expires an idle CPU's timer: as that kernel does (since 6.9 an active CPU)",
        ),
        Assumption("noise", noise, "what else runs on a machine that is called idle"),
        Assumption(
            "gp_kthread_cpu", "drawn from the seed", "where the grace-period kthread and the caller start"
        ),
        Assumption(
            "caller_gap_ns",
            str(machine.caller_gap_ns),
            "the caller's own time between calls, taken from the published minima (9.93 to 9.99 ms); worth "
            f"{machine.caller_gap_ns / 1000:g} us of 10 ms",
        ),
        Assumption(
            "all other costs",
            "defaults of treercu.Machine",
            "wake-ups, switches, interrupts: microseconds, against milliseconds of waiting for ticks",
        ),
        Assumption(
            "seeds",
            f"{seed} to {(seed + max(replicas, 1) - 1) % 2**64}"
            + (" (after 2**64 - 1 comes 0)" if seed + replicas > 2**64 else ""),
            "one for each run, the same for both settings",
        ),
    ]
