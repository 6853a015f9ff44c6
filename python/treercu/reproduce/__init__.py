"""Published measurements beside what the mechanism gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigError
from . import early_qs, hotplug
from ._experiment import Assumption, Experiment, Figures, Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from .._core import CancelToken

__all__ = ["EXPERIMENTS", "Assumption", "Experiment", "Figures", "Row", "reproduce"]

#: Every experiment by name.
EXPERIMENTS = {"early-qs": early_qs.run, "hotplug": hotplug.run}


def reproduce(
    name: str,
    *,
    seed: int = 1,
    threads: int = 0,
    host: bool = False,
    progress: bool | Callable[[int, int], object] | None = None,
    cancel: CancelToken | None = None,
) -> Experiment:
    """Runs one experiment; the result prints as a table.

    `seed` is the first replica's seed; `threads` (0: one per core) does not change the result. With `host`
    the same is also measured on real threads, which takes as long as it took those who published it.
    """
    if name not in EXPERIMENTS:
        allowed = ", ".join(EXPERIMENTS)
        err = ConfigError(f"name={str(name)[:60]!r}: no such experiment; allowed: {allowed}")
        err.parameter, err.value, err.reason, err.allowed = "name", str(name), "no such experiment", allowed
        raise err
    return EXPERIMENTS[name](seed=seed, threads=threads, host=host, progress=progress, cancel=cancel)
