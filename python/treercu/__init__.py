"""The Linux kernel's Tree RCU as an engine: grace-period latency studies in virtual time.

    import treercu as rcu

    cfg = rcu.Config(kernel="6.18", nr_cpus=32, hz=1000)
    run = rcu.simulate(cfg, rcu.SyncFlood(tasks=1, calls=100), seed=1)
    run.latency_ns, run.grace_periods, run.summary()

`Config` holds every tunable, a workload says what to run, `Machine` describes the hardware and
scheduler around it, and a `Run` comes back as numpy columns.
"""

from __future__ import annotations

# First: importing takes a moment, and the command can be interrupted meanwhile.
from . import _startup as _startup

# isort: split
from . import errors
from ._core import (
    ENGINES,
    RESOLUTIONS,
    CallRcuFlood,
    CancelToken,
    Config,
    CpuLoad,
    Engine,
    Hotplug,
    HotplugSweep,
    Machine,
    Mix,
    PeriodicInterrupt,
    Readers,
    ReadSection,
    Run,
    SrcuFlood,
    SyncFlood,
    TortureReport,
    Trace,
    __version__,
    build_info,
    last_run,
    measure,
    probe,
    simulate,
    simulate_many,
    torture,
    torture_scenarios,
    tunables,
)
from .columns import Columns
from .errors import (
    ConfigError,
    ConfigWarning,
    EngineError,
    HostError,
    Interrupted,
    MemoryLimitError,
    MisuseError,
    RcuError,
    SectionError,
    StallError,
)
from .reproduce import reproduce

__all__ = [
    "ENGINES",
    "RESOLUTIONS",
    "CallRcuFlood",
    "CancelToken",
    "Columns",
    "Config",
    "ConfigError",
    "ConfigWarning",
    "CpuLoad",
    "Engine",
    "EngineError",
    "HostError",
    "Hotplug",
    "HotplugSweep",
    "Interrupted",
    "Machine",
    "MemoryLimitError",
    "MisuseError",
    "Mix",
    "PeriodicInterrupt",
    "RcuError",
    "ReadSection",
    "Readers",
    "Run",
    "SectionError",
    "SrcuFlood",
    "StallError",
    "SyncFlood",
    "TortureReport",
    "Trace",
    "__version__",
    "build_info",
    "errors",
    "last_run",
    "measure",
    "probe",
    "reproduce",
    "simulate",
    "simulate_many",
    "torture",
    "torture_scenarios",
    "tunables",
]

if build_info()["debug"]:
    import warnings

    warnings.warn(
        "this is a debug build of treercu: results are the same, times are not; "
        "install with 'pip install .' or 'maturin develop --release'",
        RuntimeWarning,
        stacklevel=2,
    )
    del warnings
