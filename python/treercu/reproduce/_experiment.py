"""What an experiment hands back."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._core import Run

__all__ = ["Assumption", "Experiment", "Figures", "Row"]


@dataclass(frozen=True)
class Assumption:
    """Something that decides the result and that the publication does not state."""

    name: str
    value: str
    why: str


@dataclass(frozen=True)
class Figures:
    """Figures over the runs of one setting, in the experiment's unit; `None` without any run."""

    mean: float | None
    min: float | None
    max: float | None
    median_of_run_means: float | None

    @classmethod
    def of(cls, per_run: Sequence[Mapping[str, float]]) -> Figures:
        """From one mapping with `mean`, `min` and `max` per run."""
        if not per_run:
            return cls(None, None, None, None)
        means = [run["mean"] for run in per_run]
        return cls(
            mean=statistics.fmean(means),
            min=min(run["min"] for run in per_run),
            max=max(run["max"] for run in per_run),
            median_of_run_means=statistics.median(means),
        )

    @classmethod
    def of_runs(cls, runs: Sequence[Run], unit_ns: float) -> Figures:
        """From runs; one without a completed call says nothing."""
        summaries = [run.summary() for run in runs]
        return cls.of(
            [
                {key: summary[f"{key}_ns"] / unit_ns for key in ("mean", "min", "max")}
                for summary in summaries
                if summary["calls"]
            ]
        )


@dataclass(frozen=True)
class Row:
    """One setting of the experiment: published beside simulated, and measured where that was asked for."""

    setting: str
    published: Figures
    simulated: Figures
    measured: Figures | None = None

    def to_dict(self) -> dict[str, Any]:
        """As the command prints it with `--json`."""
        out = asdict(self)
        if self.measured is None:
            del out["measured"]
        return out


@dataclass(frozen=True, repr=False)
class Experiment:
    """The published table beside ours. `print()` shows it; `to_dict()` is the command's JSON."""

    name: str
    title: str
    unit: str
    holds: bool
    seed: int
    assumptions: list[Assumption]
    wall_s: float
    rows: list[Row]
    #: Name of a published summary figure: {"published": ..., "simulated": ...}, and "measured" if asked for.
    summary: dict[str, dict[str, float | None]]
    #: What has to be true for `holds`, with the answer.
    checks: list[tuple[str, bool]]
    #: Lines of text on how the simulated figures came about.
    mechanism: list[str]
    #: What does not come out, said before somebody has to ask.
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    #: The simulated runs of each setting.
    runs: dict[str, list[Run]] = field(default_factory=dict, compare=False)
    #: The measured runs of each setting.
    measured_runs: dict[str, list[Run]] = field(default_factory=dict, compare=False)
    #: Facts about the machine that measured, with the lateness of the tick thread by setting.
    host: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """As the command prints it with `--json`."""
        out: dict[str, Any] = {
            "name": self.name,
            "holds": self.holds,
            "seed": self.seed,
            "assumptions": [asdict(assumption) for assumption in self.assumptions],
            "wall_s": self.wall_s,
            "rows": [row.to_dict() for row in self.rows],
            "summary": self.summary,
        }
        if self.host is not None:
            out["host"] = self.host
        if self.interrupted:
            out["interrupted"] = True
        return out

    def __repr__(self) -> str:
        return self.table()

    def _is_measured(self) -> bool:
        return any(row.measured is not None for row in self.rows)

    def table(self) -> str:
        """The whole result as text."""
        columns = ("mean", "min", "max", "median_of_run_means")
        sources = ["published", "simulated", *(["measured"] if self._is_measured() else [])]
        group = "".join(f"{source:>12}" for source in sources)
        lines = [f"{self.name}: {self.title}", ""]
        lines.append(" " * 14 + "".join(f"{column.replace('_', ' '):>{len(group)}}" for column in columns))
        lines.append(f"{self.unit:<14}" + group * len(columns))
        for row in self.rows:
            cells = (
                f"{_show(getattr(getattr(row, source), column, None)):>12}"
                for column in columns
                for source in sources
            )
            lines.append(f"{row.setting:<14}" + "".join(cells))
        lines += ["", f"{'summary':<26}{group}"]
        for name, all_of_them in self.summary.items():
            cells = (f"{_show(all_of_them[source], 2):>12}" for source in sources)
            lines.append(f"{name:<26}" + "".join(cells))
        if self.host is not None:
            lines += ["", "measured on", *(f"  {line}" for line in _describe(self.host))]
        lines += ["", "mechanism", *(f"  {line}" for line in self.mechanism)]
        lines += ["", "assumed, because the publication does not say"]
        lines += [f"  {a.name} = {a.value}: {a.why}" for a in self.assumptions]
        lines += ["", "checks", *(f"  {'yes' if ok else 'NO '} {text}" for text, ok in self.checks)]
        if self.notes:
            lines += ["", "not reproduced", *(f"  {note}" for note in self.notes)]
        answer = "interrupted" if self.interrupted else "yes" if self.holds else "NO"
        lines += ["", f"holds: {answer} (seed {self.seed}, {self.wall_s:.2f} s)"]
        return "\n".join(lines)


def _describe(host: dict[str, Any]) -> list[str]:
    lines = [
        f"{host['cpu_model'] or 'an unknown CPU'}, {host['cores'] or '?'} cores, {host['kernel'] or '?'}, "
        f"clock {host['clock_source'] or '?'} ({host['clock_read_ns']:.1f} ns a read)"
    ]
    for setting, late in host["tick_lateness"].items():
        if late is None:
            lines.append(f"{setting}: no tick was counted")
            continue
        lines.append(
            f"{setting}: ticks late by {late['p50_ns'] / 1000:.0f} us in the median, "
            f"{late['p99_ns'] / 1000:.0f} us in the 99th percentile, {late['max_ns'] / 1000:.0f} us at most"
        )
    return lines


def _show(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
