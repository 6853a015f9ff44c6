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
        """From simulated runs; a run without a completed call says nothing."""
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
    """One setting of the experiment: published beside simulated."""

    setting: str
    published: Figures
    simulated: Figures


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
    #: Name of a published summary figure: {"published": ..., "simulated": ...}.
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

    def to_dict(self) -> dict[str, Any]:
        """As the command prints it with `--json`."""
        out: dict[str, Any] = {
            "name": self.name,
            "holds": self.holds,
            "seed": self.seed,
            "assumptions": [asdict(assumption) for assumption in self.assumptions],
            "wall_s": self.wall_s,
            "rows": [asdict(row) for row in self.rows],
            "summary": self.summary,
        }
        if self.interrupted:
            out["interrupted"] = True
        return out

    def __repr__(self) -> str:
        return self.table()

    def table(self) -> str:
        """The whole result as text."""
        columns = ("mean", "min", "max", "median_of_run_means")
        width = 24
        lines = [f"{self.name}: {self.title}", ""]
        lines.append(" " * 14 + "".join(f"{column.replace('_', ' '):>{width}}" for column in columns))
        pair = f"{'published':>12} {'simulated':>11}"
        lines.append(f"{self.unit:<14}" + f"{pair:>{width}}" * len(columns))
        for row in self.rows:
            cells = (
                f"{_show(getattr(row.published, column)):>12} {_show(getattr(row.simulated, column)):>11}"
                for column in columns
            )
            lines.append(f"{row.setting:<14}" + "".join(f"{cell:>{width}}" for cell in cells))
        lines += ["", f"{'summary':<26}{'published':>12} {'simulated':>11}"]
        for name, both in self.summary.items():
            lines.append(f"{name:<26}{_show(both['published'], 2):>12} {_show(both['simulated'], 2):>11}")
        lines += ["", "mechanism", *(f"  {line}" for line in self.mechanism)]
        lines += ["", "assumed, because the publication does not say"]
        lines += [f"  {a.name} = {a.value}: {a.why}" for a in self.assumptions]
        lines += ["", "checks", *(f"  {'yes' if ok else 'NO '} {text}" for text, ok in self.checks)]
        if self.notes:
            lines += ["", "not reproduced", *(f"  {note}" for note in self.notes)]
        answer = "interrupted" if self.interrupted else "yes" if self.holds else "NO"
        lines += ["", f"holds: {answer} (seed {self.seed}, {self.wall_s:.2f} s)"]
        return "\n".join(lines)


def _show(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
