"""The workload classes and `Mix`: fields, signatures, refusals, equality, pickling; each of them run."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc
from typing import Any

import numpy as np
import pytest

import treercu as rcu

# Every field of every class, by what it takes.
KINDS = {
    "SyncFlood": {
        "tasks": "count", "calls": "count", "duration_ms": "time", "placement": "placement",
        "think_us": "time", "start_skew_us": "time", "interval_us": "time", "kind": "word",
    },
    "CpuLoad": {
        "cpus": "cpus", "mode": "word", "run_us": "time", "pause_us": "time", "section_us": "time",
        "gap_us": "time", "duration_ms": "time",
    },
    "Readers": {
        "tasks": "count", "sections": "count", "section_us": "length", "gap_us": "length",
        "nested": "count", "deferred_percent": "count", "placement": "placement", "duration_ms": "time",
    },
    "CallRcuFlood": {
        "tasks": "count", "callbacks": "count", "burst": "count", "interval_us": "length",
        "repost": "count", "hurry": "flag", "placement": "placement", "duration_ms": "time",
    },
    "PeriodicInterrupt": {
        "rate_hz": "count", "callbacks": "count", "cpus": "cpus", "duration_ms": "time",
    },
    "Hotplug": {"cpus": "cpus", "interval_us": "length", "transitions": "count", "duration_ms": "time"},
    "HotplugSweep": {
        "cpus": "cpus", "back": "flag", "waits_down_percent": "count", "waits_up_percent": "count",
        "other_us": "length",
    },
    "SrcuFlood": {
        "tasks": "count", "calls": "count", "duration_ms": "time", "kind": "word", "flavour": "word",
        "think_us": "time", "readers": "count", "section_us": "length", "gap_us": "length",
        "sleep_percent": "count", "enter_us": "length", "placement": "placement",
    },
}  # fmt: skip
CLASSES = [getattr(rcu, name) for name in KINDS]
RANGES = {
    "tasks": (1, 10**6), "calls": (0, 10**9), "sections": (0, 10**9), "nested": (0, 64),
    "deferred_percent": (0, 100), "burst": (1, 10**6), "repost": (0, 2**16 - 1), "rate_hz": (1, 10**6),
    "transitions": (0, 10**9), "readers": (0, 10**6), "sleep_percent": (0, 100),
    "waits_down_percent": (0, 10_000), "waits_up_percent": (0, 10_000),
}  # fmt: skip


def fields_of(kind: str) -> list[tuple[str, str]]:
    return [(cls, name) for cls, fields in KINDS.items() for name, its in fields.items() if its == kind]


def refused(name: str, call: Any) -> str:
    with pytest.raises(rcu.ConfigError) as caught:
        call()
    assert caught.value.parameter == name
    assert str(caught.value).startswith(f"{name}=")
    assert "; allowed: " in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def make(cls: str, name: str, value: Any) -> Any:
    return getattr(rcu, cls)(**{name: value})


# --- Signatures, names, defaults


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_signature_and_documentation(cls: Any) -> None:
    kinds = KINDS[cls.__name__]
    signature = inspect.signature(cls)
    assert list(signature.parameters) == list(kinds)
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in signature.parameters.values())
    # Each default in the signature is the one in force.
    defaults = {name: each.default for name, each in signature.parameters.items()}
    assert cls(**defaults) == cls()
    for name, value in defaults.items():
        assert cls(**{name: value}) == cls()
        if value is not None:
            assert getattr(cls(), name) in (value, [value])
    assert cls.__doc__
    assert "--" not in cls.__doc__
    for name in kinds:
        assert f"\n- {name}: " in cls.__doc__
        assert getattr(cls, name).__doc__
    shown = pydoc.plain(pydoc.render_doc(cls))
    assert f"class {cls.__name__}" in shown
    assert f"{cls.__name__}(*, {next(iter(kinds))}=" in shown


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_only_its_own_keywords(cls: Any) -> None:
    with pytest.raises(TypeError, match="task_s"):
        cls(task_s=1)
    with pytest.raises(TypeError):
        cls(1)
    with pytest.raises(AttributeError):
        setattr(cls(), next(iter(KINDS[cls.__name__])), 1)


def test_defaults() -> None:
    flood = rcu.SyncFlood()
    assert (flood.tasks, flood.calls, flood.duration_ms, flood.placement) == (1, 100, 0, "spread")
    assert (flood.think_us, flood.start_skew_us, flood.interval_us, flood.kind) == (0, 0, 0, "sync")
    load = rcu.CpuLoad()
    assert (load.cpus, load.mode, load.run_us, load.gap_us) == ("all", "user", 0, 10)
    readers = rcu.Readers()
    assert (readers.section_us, readers.gap_us, readers.nested) == (10, "exp:100", 0)
    assert (rcu.CallRcuFlood().interval_us, rcu.CallRcuFlood().hurry) == (100, False)
    assert (rcu.PeriodicInterrupt().rate_hz, rcu.PeriodicInterrupt().cpus) == (1000, [0])
    assert (rcu.Hotplug().cpus, rcu.Hotplug().interval_us) == ("all", "exp:10000")


def test_a_duration_alone_means_as_many_calls_as_fit() -> None:
    assert rcu.SyncFlood(duration_ms=100).calls == 0
    assert rcu.SyncFlood(duration_ms=100, calls=5).calls == 5
    assert rcu.SyncFlood(duration_ms=100, calls=None).calls == 0
    refused("calls", lambda: rcu.SyncFlood(calls=0))


# --- What each kind of field refuses


@pytest.mark.parametrize(("cls", "name"), fields_of("count"))
def test_counts_are_whole_numbers_in_a_range(cls: str, name: str) -> None:
    low, high = RANGES.get(name, (0, 10**9 if cls == "CallRcuFlood" else 100_000))
    for bad in (
        -1, low - 1, high + 1, 1.5, float("nan"), float("inf"), True, "3", [1], int, 10**40, 10**6000,
    ):  # fmt: skip
        text = refused(name, lambda bad=bad: make(cls, name, bad))
        assert f"a whole number from {low} to {high}" in text
    for good in (max(low, 1), high, float(high), np.int64(high)):
        assert getattr(make(cls, name, good), name) == good
        assert type(getattr(make(cls, name, good), name)) is int


@pytest.mark.parametrize(("cls", "name"), fields_of("time"))
@pytest.mark.parametrize(
    "bad",
    [-1, -0.5, float("nan"), float("inf"), -float("inf"), True, "3", [1], 1e300, 10**300, 10**6000],
    ids=lambda bad: type(bad).__name__,
)
def test_durations_are_finite_and_not_negative(cls: str, name: str, bad: Any) -> None:
    assert "0 to 60480" in refused(name, lambda: make(cls, name, bad))


def test_durations_round_to_nanoseconds() -> None:
    assert rcu.SyncFlood(duration_ms=0.1234567).duration_ms == 0.123457
    assert rcu.SyncFlood(think_us=np.float32(2)).think_us == 2
    assert rcu.SyncFlood(think_us=0.0014) == rcu.SyncFlood(think_us=0.001)
    assert type(rcu.SyncFlood(duration_ms=2.0).duration_ms) is int
    assert rcu.SyncFlood(tasks=2.0).tasks == 2


@pytest.mark.parametrize(("cls", "name"), fields_of("length"))
@pytest.mark.parametrize(
    "bad",
    [
        -1, float("nan"), float("inf"), True, [1], 10**300, 1e300, "", " 10", "10 ", "-1", "+1", "ten",
        "inf", "nan", "exp:", "exp:-1", "exp:nan", "exp:10:20", "Exp:10", "uniform:1", "uniform:1:2:3",
        "uniform:-1:2", "uniform:2:1", "uniform::", "normal:1:2", "1e300", "exp:1e300", "exp:604800000000",
        "uniform:0:604800000001", "10us", "exp:10us", "exp:\n10", "\u0661", "10\0",
    ],
    ids=repr,
)  # fmt: skip
def test_lengths_are_numbers_or_distributions(cls: str, name: str, bad: Any) -> None:
    text = refused(name, lambda: make(cls, name, bad))
    assert "allowed: 0 to 604800000000 us, uniform:LOW:HIGH " in text
    assert "exp:MEAN" in text


@pytest.mark.parametrize(("cls", "name"), fields_of("length"))
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (25, 25), (2.5, 2.5), (np.int32(7), 7), ("10", 10), ("2.5", 2.5), ("1e3", 1000), ("7.0", 7),
        ("uniform:1:5", "uniform:1:5"), ("uniform:3:3", "uniform:3:3"), ("uniform:0.5:40", "uniform:0.5:40"),
        ("exp:10", "exp:10"), ("exp:2.50", "exp:2.5"), ("exp:30240000000", "exp:30240000000"),
        ("exp:1.2344", "exp:1.234"),
    ],
)  # fmt: skip
def test_a_length_is_shown_as_it_can_be_given(cls: str, name: str, given: Any, shown: Any) -> None:
    part = make(cls, name, given)
    value = getattr(part, name)
    assert (value, type(value)) == (shown, type(shown))
    assert make(cls, name, value) == part


def test_lengths_that_would_never_let_time_pass() -> None:
    refused("interval_us", lambda: rcu.CallRcuFlood(interval_us=0))
    refused("interval_us", lambda: rcu.CallRcuFlood(interval_us="exp:0.01"))
    refused("interval_us", lambda: rcu.Hotplug(interval_us=0.5))
    refused("gap_us", lambda: rcu.Readers(section_us=0, gap_us=0))
    assert rcu.Readers(section_us=1, gap_us=0).gap_us == 0


@pytest.mark.parametrize(("cls", "name"), fields_of("placement"))
def test_placement(cls: str, name: str) -> None:
    assert make(cls, name, "random").placement == "random"
    assert make(cls, name, np.int32(5)).placement == 5
    for bad in ("here", -1, 2.5, True, None.__class__, [0], 2**32 - 1):
        refused(name, lambda bad=bad: make(cls, name, bad))


@pytest.mark.parametrize(("cls", "name"), fields_of("cpus"))
def test_cpus(cls: str, name: str) -> None:
    assert make(cls, name, "all").cpus == "all"
    assert make(cls, name, 5).cpus == [5]
    assert make(cls, name, range(3)).cpus == [0, 1, 2]
    assert make(cls, name, np.array([1, 4])).cpus == [1, 4]
    for bad in ("5", "some", [], [1, 1], [-1], [1.5], [True], True, iter([1]), object(), range(2**40)):
        refused(name, lambda bad=bad: make(cls, name, bad))


@pytest.mark.parametrize(("cls", "name"), fields_of("word"))
def test_words(cls: str, name: str) -> None:
    choices = {
        ("SyncFlood", "kind"): ["sync", "poll", "poll-full", "barrier", "expedited"],
        ("SrcuFlood", "kind"): ["sync", "expedited", "call", "poll", "barrier"],
        ("SrcuFlood", "flavour"): ["normal", "fast", "fast-updown", "light"],
        ("CpuLoad", "mode"): ["user", "kernel"],
    }[cls, name]
    for word in choices:
        assert getattr(make(cls, name, word), name) == word
    for bad in ("", "idle", "Sync", 1, True, ["user"], b"sync"):
        assert ", ".join(choices) in refused(name, lambda bad=bad: make(cls, name, bad))


def test_hurry_is_a_boolean() -> None:
    for yes in (True, 1, "1", "on", "true", np.True_):
        assert rcu.CallRcuFlood(hurry=yes).hurry is True  # type: ignore[arg-type]
    for no in (False, 0, "0", "off", "false", np.False_):
        assert rcu.CallRcuFlood(hurry=no).hurry is False  # type: ignore[arg-type]
    for bad in (2, -1, 0.0, 1.0, "maybe", "", [True], object(), 10**40):
        refused("hurry", lambda bad=bad: rcu.CallRcuFlood(hurry=bad))


def test_fields_that_do_not_go_together() -> None:
    refused("think_us", lambda: rcu.SyncFlood(interval_us=100, think_us=1))
    refused("pause_us", lambda: rcu.CpuLoad(pause_us=10))
    refused("section_us", lambda: rcu.CpuLoad(mode="user", section_us=10))
    refused("gap_us", lambda: rcu.CpuLoad(mode="kernel", gap_us=0.5))


# --- Equality, repr, copies

EXAMPLES = [
    rcu.SyncFlood(tasks=3, duration_ms=1.5, placement=2, start_skew_us=0.25),
    rcu.SyncFlood(calls=7, interval_us=33.333),
    rcu.SyncFlood(kind="poll-full"),
    rcu.CpuLoad(cpus=[3, 1], mode="kernel", section_us=5, gap_us=2),
    rcu.Readers(tasks=4, section_us="uniform:1:5", gap_us="exp:7.5", nested=2, deferred_percent=30),
    rcu.Readers(section_us=12.5, sections=100, placement="random"),
    rcu.CallRcuFlood(tasks=2, callbacks=1000, burst=10, interval_us="exp:50", repost=3, hurry=True),
    rcu.PeriodicInterrupt(rate_hz=4000, callbacks=2, cpus=[0, 5], duration_ms=50),
    rcu.Hotplug(cpus=[1, 2, 3], interval_us=500, transitions=40),
    rcu.HotplugSweep(cpus=[1, 2, 3], back=True, waits_down_percent=125, waits_up_percent=56, other_us=300),
    rcu.SrcuFlood(tasks=3, calls=4, kind="poll", flavour="fast", think_us=2, readers=5, enter_us="exp:9"),
    rcu.Mix([rcu.SyncFlood(), rcu.CpuLoad()]),
    rcu.Mix([rcu.SyncFlood(), rcu.Readers(), rcu.CallRcuFlood(), rcu.PeriodicInterrupt(), rcu.Hotplug()]),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
def test_equality_repr_pickle(example: Any) -> None:
    assert eval(repr(example), vars(rcu)) == example
    copies = [pickle.loads(pickle.dumps(example, protocol)) for protocol in range(2, 6)]
    for clone in (copy.copy(example), copy.deepcopy(example), *copies):
        assert type(clone) is type(example)
        assert clone == example
        assert hash(clone) == hash(example)
        assert repr(clone) == repr(example)
    assert example not in [*(cls() for cls in CLASSES), 1, None]
    assert example != example.to_dict()


def test_what_differs_is_different() -> None:
    assert len({hash(example) for example in EXAMPLES}) == len(EXAMPLES)
    for i, example in enumerate(EXAMPLES):
        assert [other == example for other in EXAMPLES] == [j == i for j in range(len(EXAMPLES))]


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not isinstance(e, rcu.Mix)], ids=repr)
def test_replace_and_to_dict(example: Any) -> None:
    cls = type(example)
    fields = example.to_dict()
    kind = "".join(f"-{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("-")
    assert fields.pop("type") == kind
    assert list(fields) == list(KINDS[cls.__name__])
    assert cls(**fields) == example.replace() == example
    if "duration_ms" in fields:
        assert example.replace(duration_ms=77) == cls(**fields | {"duration_ms": 77})
        refused("duration_ms", lambda: example.replace(duration_ms=-1))
    with pytest.raises(TypeError, match="task_s"):
        example.replace(task_s=1)


def test_repr_names_what_differs() -> None:
    assert repr(rcu.SyncFlood()) == "SyncFlood(tasks=1, calls=100)"
    assert repr(rcu.CpuLoad()) == "CpuLoad(cpus='all', mode='user')"
    assert repr(rcu.Readers(gap_us="exp:5")) == "Readers(tasks=1, gap_us='exp:5')"
    assert repr(rcu.CallRcuFlood(hurry=True)) == "CallRcuFlood(tasks=1, hurry=True)"
    assert repr(rcu.PeriodicInterrupt()) == "PeriodicInterrupt(rate_hz=1000)"
    assert repr(rcu.Hotplug()) == "Hotplug(cpus='all')"
    assert repr(rcu.SrcuFlood(flavour="light")) == "SrcuFlood(tasks=1, calls=100, flavour='light')"


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
    text = refused("workload", lambda: rcu.Mix("ab"))  # type: ignore[arg-type]
    assert all(name in text for name in KINDS)


# --- Each of them run

CONFIG = rcu.Config(nr_cpus=8, hz=1000)


@pytest.mark.parametrize("kind", ["sync", "poll", "poll-full"])
@pytest.mark.parametrize("kernel", ["6.18", "7.2"])
def test_each_way_of_waiting(kind: Any, kernel: str) -> None:
    flood = rcu.SyncFlood(tasks=3, calls=20, kind=kind)
    run = rcu.simulate(CONFIG.replace(kernel=kernel), flood)
    assert run.samples.rows == 60
    assert np.array_equal(np.bincount(run.task), [20, 20, 20])
    assert (run.latency_ns > 0).all()
    assert run.counters["grace_periods"] >= 20


def test_expedited_calls_take_microseconds_and_have_numbers_of_their_own() -> None:
    flood = rcu.SyncFlood(kind="expedited", calls=50, think_us=1000)
    machine = rcu.Machine(noise=0)
    run = rcu.simulate(rcu.Config(nr_cpus=32, hz=1000), flood, machine=machine, seed=1)
    assert (run.gp_seq == 4 * np.arange(50) + 1).all()
    assert run.quantile(0.5) < 10_000
    assert run.counters["expedited_grace_periods"] == 50
    assert (run.counters["grace_periods"], run.stalls) == (0, [])
    assert rcu.simulate(rcu.Config(), flood.replace(kind="sync")).counters["expedited_grace_periods"] == 0


def test_stalls_are_told_and_pickled() -> None:
    held = rcu.CpuLoad(cpus=[1], mode="kernel", section_us=8_000_000, gap_us=1)
    calls = [rcu.SyncFlood(kind=kind, calls=1, placement=0) for kind in ("expedited", "sync")]
    config = rcu.Config(nr_cpus=2, hz=100, rcu_cpu_stall_timeout=3, rcu_exp_cpu_stall_timeout=2000)
    run = rcu.simulate(config, [*calls, held], machine=rcu.Machine(noise=0))
    assert len(run.stalls) == run.counters["stalls"] > 1
    normal = next(stall for stall in run.stalls if not stall["expedited"])
    assert (normal["cpus"], normal["readers"], normal["waited_jiffies"]) == ([1], [], 300)
    assert normal["gp_seq"] == run.grace_periods["gp_seq"][0]
    assert normal["text"].endswith("has waited 300 jiffies for CPU 1")
    first = next(stall for stall in run.stalls if stall["expedited"])
    assert first["gp_seq"] == 1
    assert first["text"].startswith("rcu: stall: expedited grace period 1 ")
    twin = pickle.loads(pickle.dumps(run))
    assert (twin.stalls, twin.digest) == (run.stalls, run.digest)


def test_a_barrier_waits_for_callbacks_and_only_for_those() -> None:
    barrier = rcu.SyncFlood(tasks=1, calls=20, kind="barrier", start_skew_us=5000, placement=0)
    nothing = rcu.simulate(CONFIG, barrier)
    assert nothing.latency_ns.max() < 100_000
    assert nothing.counters["grace_periods"] == 0
    flood = rcu.CallRcuFlood(interval_us=200, placement=3)
    run = rcu.simulate(CONFIG, [barrier, flood])
    assert run.samples.rows == 20
    assert run.quantile(0.5) > 2_000_000  # a tick at least until the grace period, and one after it


def test_readers_in_the_way() -> None:
    # Tasks enough that some are preempted inside a section.
    config = CONFIG.replace(nr_cpus=2)
    flood = rcu.SyncFlood(tasks=1, calls=30)
    alone = rcu.simulate(config, flood)
    readers = rcu.Readers(tasks=8, section_us="uniform:2000:9000", gap_us=1, nested=2, deferred_percent=50)
    run = rcu.simulate(config, [flood, readers])
    assert run.samples.rows == 30
    assert run.latency_ns.mean() > alone.latency_ns.mean()
    assert "blocked_reader" in run.grace_periods.labels("resolved_by")


def test_readers_alone() -> None:
    run = rcu.simulate(CONFIG, rcu.Readers(tasks=4, sections=50))
    assert run.samples.rows == 0
    assert run.virtual_s > 50 * 10e-6
    timed = rcu.simulate(CONFIG, rcu.Readers(duration_ms=5))
    assert timed.virtual_s >= 0.004
    assert timed.summary()["mean_ns"] is None


@pytest.mark.parametrize("hurry", [False, True])
def test_a_callback_flood_queues_what_it_says(hurry: bool) -> None:
    flood = rcu.CallRcuFlood(tasks=3, callbacks=200, burst=10, repost=2, hurry=hurry)
    run = rcu.simulate(CONFIG, [flood, rcu.SyncFlood(calls=60)])
    assert run.counters["callbacks_queued"] >= 3 * 200 * 3
    assert run.counters["callbacks_invoked"] >= 3 * 200 * 3


def test_a_periodic_interrupt_queues_at_its_rate() -> None:
    run = rcu.simulate(CONFIG, rcu.PeriodicInterrupt(rate_hz=2000, callbacks=3, cpus=[1, 6], duration_ms=100))
    assert run.counters["callbacks_queued"] == pytest.approx(2 * 200 * 3, rel=0.02)
    assert run.counters["grace_periods"] > 5


def test_hotplug_takes_cpus_away_and_back() -> None:
    hotplug = rcu.Hotplug(cpus=[1, 2, 3], interval_us=700, transitions=40)
    run = rcu.simulate(CONFIG, [rcu.SyncFlood(tasks=6, calls=30), hotplug])
    assert 13 <= run.counters["cpus_offlined"] <= 27
    assert run.samples.rows == 180
    assert rcu.simulate(CONFIG, rcu.SyncFlood()).counters["cpus_offlined"] == 0


def test_a_cpu_that_leaves_can_end_a_grace_period() -> None:
    load = rcu.CpuLoad(cpus=[1, 2, 3, 4, 5, 6], mode="kernel", section_us=30_000)
    hotplug = rcu.Hotplug(cpus=[1, 2, 3, 4, 5, 6], interval_us="exp:1500", duration_ms=1500)
    # Rare, hence several runs.
    runs = rcu.simulate_many(CONFIG, [rcu.SyncFlood(duration_ms=1500), load, hotplug], replicas=24)
    ended = [label for run in runs for label in run.grace_periods.labels("resolved_by").tolist()]
    assert 1 <= ended.count("offline") < len(ended) / 4


def test_all_of_them_together_are_deterministic() -> None:
    mix = rcu.Mix(
        [
            rcu.SyncFlood(tasks=4, calls=40),
            rcu.SyncFlood(tasks=2, calls=10, kind="barrier"),
            rcu.SyncFlood(tasks=2, calls=10, kind="poll"),
            rcu.CpuLoad(cpus=[5], mode="kernel", section_us=20),
            rcu.Readers(tasks=6, section_us="exp:300", gap_us="exp:300", nested=1),
            rcu.CallRcuFlood(burst=20, interval_us="exp:200", repost=1, hurry=True),
            rcu.PeriodicInterrupt(rate_hz=1500, cpus=[2]),
            rcu.Hotplug(cpus=[3, 4], interval_us="exp:2000"),
        ]
    )
    run = rcu.simulate(CONFIG, mix, seed=3)
    assert run.workload == mix
    assert run.samples.rows == 160 + 20 + 20
    again = rcu.simulate(CONFIG, pickle.loads(pickle.dumps(mix)), seed=3)
    assert again.digest == run.digest
    assert rcu.simulate(CONFIG, mix, seed=4).digest != run.digest
    twin = pickle.loads(pickle.dumps(run))
    assert (twin.digest, twin.workload, twin.counters) == (run.digest, mix, run.counters)


@pytest.mark.parametrize(
    "endless",
    [
        rcu.CpuLoad(), rcu.Readers(), rcu.CallRcuFlood(), rcu.PeriodicInterrupt(), rcu.Hotplug(),
        [rcu.Readers(), rcu.Hotplug()],
    ],
    ids=repr,
)  # fmt: skip
def test_something_has_to_end(endless: Any) -> None:
    assert "nothing in this workload ends" in refused("duration_ms", lambda: rcu.simulate(CONFIG, endless))
    run = rcu.simulate(CONFIG, [rcu.SyncFlood(calls=3), *(endless if type(endless) is list else [endless])])
    assert run.samples.rows == 3


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("placement", rcu.Readers(placement=8, sections=1)),
        ("placement", rcu.CallRcuFlood(placement=8, callbacks=1)),
        ("cpus", rcu.PeriodicInterrupt(cpus=[0, 8], duration_ms=1)),
        ("cpus", rcu.Hotplug(cpus=[8], transitions=1)),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_cpus_that_the_machine_does_not_have(name: str, part: Any) -> None:
    assert "allowed: 0 to 7" in refused(name, lambda: rcu.simulate(CONFIG, part))


@pytest.mark.parametrize("flavour", ["normal", "fast", "fast-updown", "light"])
@pytest.mark.parametrize("kind", ["sync", "expedited", "call", "poll", "barrier"])
def test_srcu(kind: Any, flavour: Any) -> None:
    flood = rcu.SrcuFlood(tasks=3, calls=5, kind=kind, flavour=flavour, readers=4, section_us="exp:3000")
    run = rcu.simulate(CONFIG, flood)
    assert run.samples.rows == 15
    ended = run.counters.get("srcu_grace_periods", 0)
    assert (ended == 0) == (kind == "barrier"), "a barrier waits for callbacks, and there are none"
    # One RCU grace period a zero test, of which a grace period needs two.
    rcu_gps = run.counters["grace_periods"] + run.counters["expedited_grace_periods"]
    assert rcu_gps == 0 if flavour == "normal" else rcu_gps >= 2 * ended


def test_the_names_of_what_ends_a_grace_period() -> None:
    assert rcu.RESOLUTIONS == (
        "tick", "context_switch", "idle_scan", "early_report", "nobody", "blocked_reader", "offline",
    )  # fmt: skip
