"""The early quiescent-state report on an idle machine.

Published: 100 calls of `synchronize_rcu()` in a row on an idle system with 32 CPUs and HZ=1000, ten
runs each, without and with the report. Without it the CPU that runs the grace-period kthread is the
one that the first force-quiescent-state scan cannot find idle, because the scan itself runs there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from .._core import RESOLUTIONS, Config, Machine, SyncFlood, measure, simulate_many
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
#: Mean and median of run means on real threads have to come this near to the simulated ones.
HOST_TOLERANCE = 0.10
#: A tick this late, in ms, is worth a note: a whole call takes as long.
AWAY_MS = 10
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
    host: bool = False,
    progress: bool | Callable[[int, int], object] | None = None,
    cancel: CancelToken | None = None,
) -> Experiment:
    """Runs both settings with the same seeds; with `host` on real threads too, by turns."""
    published = load("early_qs")
    replicas = int(published["runs"])
    config = Config(kernel=KERNEL, nr_cpus=published["nr_cpus"], hz=published["hz"])
    machine = Machine()
    workload = SyncFlood(tasks=1, calls=published["calls_per_run"])
    began = time.perf_counter()
    runs: dict[str, list[Run]] = {setting: [] for setting in SETTINGS}
    measured: dict[str, list[Run]] = {setting: [] for setting in SETTINGS} if host else {}
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
    if host and stop is None:
        stop = _measure(config, workload, measured, replicas, seed, progress, cancel)
    done = [r for all_runs in (*runs.values(), *measured.values()) for r in all_runs]
    cut = stop is not None or any(r.interrupted for r in done)
    experiment = _compare(published, config, machine, runs, measured, seed, time.perf_counter() - began, cut)
    if stop is not None:
        stop.experiment = experiment
        raise stop
    return experiment


def _measure(
    config: Config,
    workload: SyncFlood,
    measured: dict[str, list[Run]],
    replicas: int,
    seed: int,
    progress: bool | Callable[[int, int], object] | None,
    cancel: CancelToken | None,
) -> Interrupted | None:
    """Fills `measured`. The settings take turns, so that whatever else happens on the machine meets both."""
    for replica in range(replicas):
        for setting, early_qs in SETTINGS.items():
            if cancel is not None and cancel.cancelled:
                return None
            try:
                one = measure(
                    config.replace(early_qs=early_qs),
                    workload,
                    seed=(seed + replica) % 2**64,
                    progress=progress,
                    cancel=cancel,
                )
            except Interrupted as interrupted:
                measured[setting].extend(interrupted.runs)
                return interrupted
            measured[setting].append(one)
    return None


def _compare(
    published: dict[str, Any],
    config: Config,
    machine: Machine,
    runs: dict[str, list[Run]],
    measured: dict[str, list[Run]],
    seed: int,
    wall_s: float,
    interrupted: bool,
) -> Experiment:
    rows = [
        Row(
            setting,
            Figures.of(published[setting]),
            Figures.of_runs(runs[setting], _MS),
            Figures.of_runs(measured[setting], _MS) if measured else None,
        )
        for setting in SETTINGS
    ]
    checks = []
    for row in rows:
        near = _near(row.simulated.median_of_run_means, row.published.median_of_run_means, TOLERANCE)
        checks.append((f"{row.setting}: median of run means within {TOLERANCE:.0%} of the published", near))
        if row.measured is not None:
            for name in ("mean", "median_of_run_means"):
                what = f"{row.setting}: measured {name.replace('_', ' ')}"
                near = _near(getattr(row.measured, name), getattr(row.simulated, name), HOST_TOLERANCE)
                checks.append((f"{what} within {HOST_TOLERANCE:.0%} of the simulated", near))
    ours_summary = _summary([row.simulated for row in rows])
    gain = ours_summary["mean_improvement_percent"]
    checks.append(("the report lowers the mean", gain is not None and gain > 0))
    summary: dict[str, dict[str, float | None]] = {
        name: {"published": value, "simulated": ours_summary.get(name)}
        for name, value in published["summary"].items()
    }
    if measured:
        measured_summary = _summary([row.measured for row in rows if row.measured is not None])
        for name, all_of_them in summary.items():
            all_of_them["measured"] = measured_summary.get(name)
    return Experiment(
        name=NAME,
        title=f"synchronize_rcu() on an idle system, {config.nr_cpus} CPUs, HZ={config.hz}",
        unit="ms",
        holds=not interrupted and all(ok for _, ok in checks),
        seed=seed,
        assumptions=[
            *_assumptions(config, machine, seed, max(len(r) for r in runs.values())),
            *(_host_assumptions(config, measured) if measured else []),
        ],
        wall_s=wall_s,
        rows=rows,
        summary=summary,
        checks=checks,
        mechanism=[
            *_mechanism(runs),
            *_mechanism({f"{setting}, measured": some for setting, some in measured.items()}),
        ],
        notes=[
            "the maxima: one outlier a run, and what else ran on the published machine is not known",
            *_not_quiet(measured),
        ],
        interrupted=interrupted,
        runs=runs,
        measured_runs=measured,
        host=_host(measured),
    )


def _near(ours: float | None, theirs: float | None, tolerance: float) -> bool:
    return ours is not None and theirs is not None and abs(ours / theirs - 1) <= tolerance


def _not_quiet(measured: dict[str, list[Run]]) -> list[str]:
    """Says so where the machine that measured was away for longer than any call should take."""
    late = [run.host["tick_lateness"] for some in measured.values() for run in some]
    worst = max((one["max_ns"] for one in late if one is not None), default=0) / _MS
    if worst <= AWAY_MS:
        return []
    return [
        f"a quiet machine: ticks were late by up to {worst:.0f} ms, because something else had the cores; "
        "the measured means carry that, the medians of run means less"
    ]


def _host(measured: dict[str, list[Run]]) -> dict[str, Any] | None:
    """The facts of the first measured run; of the ticks' lateness the worst run of each setting."""
    done = [run for some in measured.values() for run in some]
    if not done:
        return None
    facts: dict[str, Any] = dict(done[0].host)
    facts["tick_lateness"] = {}
    for setting, some in measured.items():
        late = [run.host["tick_lateness"] for run in some if run.host["tick_lateness"] is not None]
        facts["tick_lateness"][setting] = max(late, key=lambda one: one["p50_ns"]) if late else None
    return facts


def _summary(figures: list[Figures]) -> dict[str, float | None]:
    baseline, early = figures

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


def _host_assumptions(config: Config, measured: dict[str, list[Run]]) -> list[Assumption]:
    done = [run for some in measured.values() for run in some]
    cores = done[0].host["cores"] if done else "?"
    return [
        Assumption(
            "measured: CPUs",
            f"{config.nr_cpus} virtual ones on {cores} cores",
            "all but the one that is busy are idle, and an idle one needs no core",
        ),
        Assumption(
            "measured: gp_kthread_cpu",
            "drawn from the seed",
            "where the grace-period thread and the caller start: on the same CPUs as in the simulated run",
        ),
    ]


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
