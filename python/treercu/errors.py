"""What can go wrong, as exception classes. The engine raises them; their fields are attributes.

A message is one line and names the parameter, the value and what is allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._core import Run, TortureReport
    from .reproduce import Experiment

__all__ = [
    "ConfigError",
    "ConfigWarning",
    "EngineError",
    "HostError",
    "Interrupted",
    "MemoryLimitError",
    "MisuseError",
    "RcuError",
    "SectionError",
    "StallError",
]


class RcuError(Exception):
    """Anything that treercu raises on its own account (except `Interrupted`)."""


class ConfigError(RcuError, ValueError):
    """A parameter is unknown, of the wrong type or out of range; nothing was started."""

    parameter: str = ""
    value: str = ""
    reason: str = ""
    allowed: str = ""


class MemoryLimitError(RcuError, MemoryError):
    """The run would need more memory than `memory_limit_mb`; nothing was started."""

    need_mb: int = 0
    limit_mb: int = 0


class StallError(RcuError):
    """A grace period made no progress: some CPU never passed a quiescent state."""

    gp_seq: int = 0
    waited_s: int = 0
    cpus: tuple[int, ...] | list[int] = ()


class HostError(RcuError, OSError):
    """The operating system refused something that real threads need, a thread for example."""


class MisuseError(RcuError, RuntimeError):
    """A call where it could never return, on an `Engine` that is closed, or in the child of a fork."""


class SectionError(MisuseError):
    """A read-side section across a `yield` or an `await`, on another thread, or out of order."""


class EngineError(RcuError):
    """A defect of treercu, never of the input."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a call. `run` is what was measured so far; `runs` are all replicas of that call,
    `experiment` the unfinished result when the call was `reproduce`, and `report` when it was `torture`.
    """

    run: Run | None = None
    runs: list[Run] | tuple[()] = ()
    experiment: Experiment | None = None
    report: TortureReport | None = None


class ConfigWarning(UserWarning):
    """A value was accepted and limited, as the kernel does; the message names both values."""
