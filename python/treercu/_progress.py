"""Progress of a long call. The engine's calling thread drives `update(done, total)` and `close()`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .errors import ConfigError

# A call shorter than this shows no bar unless one is asked for.
_DELAY_S = 1.0


class _Bar:
    def __init__(self, *, delay: float, leave: bool) -> None:
        from tqdm import tqdm

        self._bar: Any = tqdm(total=None, delay=delay, file=sys.stderr, unit="", unit_scale=True, leave=leave)

    def update(self, done: int, total: int) -> None:
        bar = self._bar
        bar.total = total or None
        bar.update(done - bar.n)

    def close(self) -> None:
        self._bar.close()


class _Call:
    def __init__(self, function: Callable[[int, int], object]) -> None:
        self._function = function

    def update(self, done: int, total: int) -> None:
        self._function(done, total)

    def close(self) -> None:
        pass


def reporter(progress: object) -> _Bar | _Call | None:
    """What `progress=` asks for: `True` a bar, `None` a bar on a terminal only, a callable that callable."""
    if progress is None:
        try:
            terminal = sys.stderr is not None and sys.stderr.isatty()
        except ValueError:  # closed
            terminal = False
        return _Bar(delay=_DELAY_S, leave=False) if terminal else None
    if progress is True:
        return _Bar(delay=0.0, leave=True)
    if progress is False:
        return None
    if callable(progress):
        return _Call(progress)
    shown = repr(progress)
    allowed = "True, False, None, or a callable of (done, total)"
    err = ConfigError(f"progress={shown[:60]}: not a progress setting; allowed: {allowed}")
    err.parameter, err.value = "progress", shown
    err.reason, err.allowed = "not a progress setting", allowed
    raise err
