"""What driving a flood from Python costs: the same floods from Python and from a Rust program, interleaved.

    python benchmarks/overhead.py [--json FILE] [--pairs N] [--rust PROGRAM]

All processes stay for the whole run and take turns: A B C, C B A, A B C ... What counts is the ratio of calls
per second within a pair, Python's over Rust's. Shown is the median over the pairs with its 95 % interval
(percentile bootstrap, seeded). A flood passes when that interval contains 1 or the median is within 5 %; exit
code 1 when one does not.

The control is a second process of the same Rust program, over the first. It is no part of the verdict and
says what the machine can tell apart: where its interval is wide, or lacks 1, the machine was too busy.

The module `treercu` has to be installed from this checkout; the Rust program is built here unless it is
given.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import treercu as rcu

ROOT = Path(__file__).resolve().parent.parent
# The bound on the median where the interval does not contain 1.
WITHIN = 0.05
RESAMPLES = 10_000
CONFIG = rcu.Config(
    nr_cpus=2,
    hz=1000,
    jiffies_till_first_fqs=0,
    rcu_normal_wake_from_gp=1,
    early_qs=True,
    sr_normal_latch="off",
)
FLOODS: dict[str, dict[str, Any]] = {
    "64 threads, sync": {"tasks": 64, "duration_ms": 250, "kind": "sync"},
    "1 thread, expedited": {"tasks": 1, "duration_ms": 100, "kind": "expedited"},
}


class Sample(NamedTuple):
    """One flood."""

    calls: int
    wall_ns: int  # of the flood
    whole_ns: int  # of the call that made it

    @property
    def rate(self) -> float:
        """Calls per second of the flood."""
        return self.calls / (self.wall_ns / 1e9)


def build() -> Path:
    """Builds the Rust program; its path."""
    command = ["cargo", "bench", "--quiet", "--no-run", "--bench", "overhead"]
    done = subprocess.run(
        [*command, "--message-format=json-render-diagnostics"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == "overhead":
            return Path(message["executable"])
    raise SystemExit("cargo names no program")


class Rust:
    """The Rust program, waiting for floods."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen(
            [program, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def flood(self, fields: dict[str, Any], seed: int) -> Sample:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        print(json.dumps({"config": CONFIG.explicit, "seed": seed, **fields}), file=stdin, flush=True)
        line = stdout.readline()
        if not line:
            raise SystemExit("the Rust program ended")
        figures = json.loads(line)
        if figures.pop("config") != CONFIG.effective:
            raise SystemExit("the Rust program is of another version: its configuration differs")
        return Sample(**figures)

    def close(self) -> None:
        self.process.communicate()


def python(fields: dict[str, Any], seed: int) -> Sample:
    flood = rcu.SyncFlood(calls=0, **fields)
    began = time.perf_counter_ns()
    run = rcu.measure(CONFIG, flood, seed=seed)
    whole_ns = time.perf_counter_ns() - began
    return Sample(run.calls, round(run.wall_s * 1e9), whole_ns)


def interval(ratios: np.ndarray[Any, Any]) -> tuple[float, float]:
    """95 % of the medians of resamples."""
    draw = np.random.default_rng(1)
    medians = np.median(draw.choice(ratios, (RESAMPLES, len(ratios))), axis=1)
    low, high = np.quantile(medians, [0.025, 0.975])
    return float(low), float(high)


def judge(ratios: np.ndarray[Any, Any]) -> dict[str, Any]:
    median, (low, high) = float(np.median(ratios)), interval(ratios)
    holds = low <= 1 <= high or abs(median - 1) <= WITHIN
    return {"median_ratio": median, "ratio_95": [low, high], "holds": holds, "ratios": ratios.tolist()}


def compare(name: str, fields: dict[str, Any], pairs: int, rust: Rust, again: Rust) -> dict[str, Any]:
    sides: dict[str, Callable[[dict[str, Any], int], Sample]] = {
        "python": python,
        "rust": rust.flood,
        "control": again.flood,
    }
    for warm_up in sides.values():
        warm_up(fields, 0)
    samples: dict[str, list[Sample]] = {side: [] for side in sides}
    for pair in range(pairs):
        order = list(sides) if pair % 2 == 0 else list(sides)[::-1]
        for side in order:
            samples[side].append(sides[side](fields, pair + 1))
    rates = {side: np.array([one.rate for one in found]) for side, found in samples.items()}
    around = {
        side: float(np.median([one.whole_ns - one.wall_ns for one in found])) / 1e6
        for side, found in samples.items()
    }
    return {
        "flood": name,
        **fields,
        "pairs": pairs,
        **judge(rates["python"] / rates["rust"]),
        "control": judge(rates["control"] / rates["rust"]),
        "calls_per_s": {side: float(np.median(found)) for side, found in rates.items()},
        # Start and end of a call: threads, merging, and in Python the columns.
        "around_ms": around,
        "samples": {side: [one._asdict() for one in found] for side, found in samples.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Floods driven from Python beside floods driven from Rust.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there too")
    parser.add_argument("--pairs", type=int, default=24, help="of floods, at least 20 (default 24)")
    parser.add_argument("--rust", type=Path, metavar="PROGRAM", help="a built benchmarks/overhead.rs")
    options = parser.parse_args()
    if options.pairs < 20:
        parser.error(f"--pairs={options.pairs}: too few for an interval; 20 or more")
    program = options.rust or build()
    rust, again = Rust(program), Rust(program)
    load = [os.getloadavg()[0]]
    began = time.monotonic()
    try:
        rows = [compare(name, fields, options.pairs, rust, again) for name, fields in FLOODS.items()]
    finally:
        rust.close()
        again.close()
    took = time.monotonic() - began
    load.append(os.getloadavg()[0])

    print(f"{'flood':20} {'Python':>11} {'Rust':>11}   ratio  95 % interval")
    for row in rows:
        rate = row["calls_per_s"]
        for title, first, found in [(row["flood"], "python", row), ("  control", "control", row["control"])]:
            low, high = found["ratio_95"]
            rates = f"{rate[first]:9,.0f}/s {rate['rust']:9,.0f}/s"
            verdict = "" if first == "control" else "holds" if found["holds"] else "DOES NOT HOLD"
            ratio = f"{found['median_ratio']:6.3f}  {low:.3f} .. {high:.3f}"
            print(f"{title:20} {rates}  {ratio}   {verdict}".rstrip())
        if not row["control"]["holds"]:
            print("  the control differs from itself: the machine was too busy to tell")
    for row in rows:
        around = row["around_ms"]
        print(
            f"{row['flood']}: besides the flood a call takes {around['python']:.1f} ms from Python, "
            f"{around['rust']:.1f} ms from Rust"
        )
    print(
        f"{options.pairs} interleaved pairs each, medians; {took:.0f} s on {os.cpu_count()} cores, "
        f"load average {load[0]:.1f} before and {load[1]:.1f} after"
    )
    result = {
        "python": sys.version.split()[0],
        "treercu": rcu.__version__,
        "cores": os.cpu_count(),
        "load_average": load,
        "seconds": took,
        "config": CONFIG.effective,
        "within": WITHIN,
        "rows": rows,
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
