"""`SyncFlood`, `CpuLoad`, `Mix`: fields, refusals, equality, pickling."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import treercu as rcu

DURATIONS = {
    "SyncFlood": ["duration_ms", "think_us", "start_skew_us", "interval_us"],
    "CpuLoad": ["run_us", "pause_us", "section_us", "gap_us", "duration_ms"],
}


def refused(name: str, call: Any) -> str:
    with pytest.raises(rcu.ConfigError) as caught:
        call()
    assert caught.value.parameter == name
    assert "; allowed: " in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_defaults() -> None:
    flood = rcu.SyncFlood()
    assert (flood.tasks, flood.calls, flood.duration_ms, flood.placement) == (1, 100, 0, "spread")
    assert (flood.think_us, flood.start_skew_us, flood.interval_us) == (0, 0, 0)
    load = rcu.CpuLoad()
    assert (load.cpus, load.mode, load.run_us, load.gap_us) == ("all", "user", 0, 10)


def test_a_duration_alone_means_as_many_calls_as_fit() -> None:
    assert rcu.SyncFlood(duration_ms=100).calls == 0
    assert rcu.SyncFlood(duration_ms=100, calls=5).calls == 5
    refused("calls", lambda: rcu.SyncFlood(calls=0))


@pytest.mark.parametrize(
    "bad", [0, -1, 1.5, float("nan"), float("inf"), True, "3", None.__class__, 10**7, 10**40]
)
def test_tasks_are_a_positive_whole_number(bad: Any) -> None:
    refused("tasks", lambda: rcu.SyncFlood(tasks=bad))


@pytest.mark.parametrize(("cls", "name"), [(cls, name) for cls, names in DURATIONS.items() for name in names])
@pytest.mark.parametrize(
    "bad",
    [-1, -0.5, float("nan"), float("inf"), -float("inf"), True, "3", [1], 1e300, 10**300, 10**6000],
    ids=lambda bad: type(bad).__name__,
)
def test_durations_are_finite_and_not_negative(cls: str, name: str, bad: Any) -> None:
    text = refused(name, lambda: getattr(rcu, cls)(**{name: bad}))
    assert "0 to 60480" in text


def test_durations_round_to_nanoseconds() -> None:
    assert rcu.SyncFlood(duration_ms=0.1234567).duration_ms == 0.123457
    assert rcu.SyncFlood(think_us=np.float32(2)).think_us == 2
    assert rcu.SyncFlood(think_us=0.0014) == rcu.SyncFlood(think_us=0.001)
    assert type(rcu.SyncFlood(duration_ms=2.0).duration_ms) is int
    assert rcu.SyncFlood(tasks=2.0).tasks == 2


def test_placement() -> None:
    assert rcu.SyncFlood(placement="random").placement == "random"
    assert rcu.SyncFlood(placement=np.int32(5)).placement == 5
    for bad in ("here", -1, 2.5, True, None.__class__, [0]):
        refused("placement", lambda bad=bad: rcu.SyncFlood(placement=bad))


def test_an_open_loop_has_no_think_time() -> None:
    refused("think_us", lambda: rcu.SyncFlood(interval_us=100, think_us=1))


def test_cpus() -> None:
    assert rcu.CpuLoad(cpus=5).cpus == [5]
    assert rcu.CpuLoad(cpus=range(3)).cpus == [0, 1, 2]
    assert rcu.CpuLoad(cpus=np.array([1, 4])).cpus == [1, 4]
    for bad in ("5", "some", [], [1, 1], [-1], [1.5], [True], True, iter([1]), object()):
        refused("cpus", lambda bad=bad: rcu.CpuLoad(cpus=bad))


def test_load_fields_that_do_not_go_together() -> None:
    refused("pause_us", lambda: rcu.CpuLoad(pause_us=10))
    refused("section_us", lambda: rcu.CpuLoad(mode="user", section_us=10))
    refused("mode", lambda: rcu.CpuLoad(mode="idle"))
    refused("mode", lambda: rcu.CpuLoad(mode=1))  # type: ignore[arg-type]


EXAMPLES = [
    rcu.SyncFlood(tasks=3, duration_ms=1.5, placement=2, start_skew_us=0.25),
    rcu.SyncFlood(calls=7, interval_us=33.333),
    rcu.CpuLoad(cpus=[3, 1], mode="kernel", section_us=5, gap_us=2),
    rcu.Mix([rcu.SyncFlood(), rcu.CpuLoad()]),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
def test_equality_repr_pickle(example: Any) -> None:
    assert eval(repr(example), vars(rcu)) == example
    for clone in (copy.copy(example), copy.deepcopy(example), pickle.loads(pickle.dumps(example))):
        assert clone == example
        assert hash(clone) == hash(example)
    assert example not in [rcu.SyncFlood(), rcu.CpuLoad(), 1]


def test_replace_and_to_dict() -> None:
    flood = rcu.SyncFlood(tasks=2, calls=9)
    assert flood.replace(calls=10) == rcu.SyncFlood(tasks=2, calls=10)
    fields = flood.to_dict()
    assert fields.pop("type") == "sync-flood"
    assert rcu.SyncFlood(**fields) == flood
    refused("tasks", lambda: flood.replace(tasks=0))
    with pytest.raises(TypeError):
        flood.replace(task=1)
    load = rcu.CpuLoad(cpus=[1])
    assert load.replace(mode="kernel") == rcu.CpuLoad(cpus=[1], mode="kernel")


def test_mix() -> None:
    flood, load = rcu.SyncFlood(), rcu.CpuLoad()
    mix = rcu.Mix([flood, load])
    assert list(mix) == mix.parts == [flood, load]
    assert (len(mix), mix[0], mix[-1]) == (2, flood, load)
    assert rcu.Mix([mix, flood]).parts == [flood, load, flood]
    assert mix != rcu.Mix([load, flood])
    assert mix.to_dict() == {"type": "mix", "parts": [flood.to_dict(), load.to_dict()]}
    refused("workload", lambda: rcu.Mix([]))
    refused("workload", lambda: rcu.Mix([1]))  # type: ignore[list-item]
    refused("workload", lambda: rcu.Mix("ab"))  # type: ignore[arg-type]
