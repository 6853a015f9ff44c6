"""Every tunable can change a run, or is known to be a view of others or a safeguard."""

from __future__ import annotations

from typing import Any

import pytest

import treercu as rcu

_CALLS = rcu.SyncFlood(calls=12)
_CROWD = rcu.SyncFlood(tasks=200, calls=3)
_FLOOD = rcu.CallRcuFlood(tasks=4, burst=300, interval_us=700, duration_ms=60)
_DEEP = rcu.CallRcuFlood(tasks=4, burst=3000, interval_us=700, duration_ms=60)
_SMALL = rcu.CallRcuFlood(tasks=4, burst=90, interval_us=700, duration_ms=60)
_READERS = [rcu.SyncFlood(tasks=4, calls=5), rcu.Readers(tasks=8, section_us=2000)]
# One CPU stays in the kernel for longer than the shorter timeout.
_EXPEDITED = [
    rcu.SyncFlood(kind="expedited", calls=3),
    rcu.CpuLoad(cpus=[1], mode="kernel", section_us=100_000, gap_us=1),
]
_BUSY = [rcu.SyncFlood(calls=5), rcu.CpuLoad(mode="kernel")]


def _held(section_us: int) -> list[Any]:
    """One CPU stays in the kernel for that long, again and again."""
    return [
        rcu.SyncFlood(calls=2),
        rcu.CpuLoad(cpus=[1], mode="kernel", section_us=section_us, gap_us=1),
    ]



def _srcu(**fields: Any) -> rcu.SrcuFlood:
    """An SRCU domain with a reader that stays for most of a jiffy."""
    return rcu.SrcuFlood(**{"calls": 20, "think_us": 3000, "readers": 1, "section_us": 900} | fields)


_SRCU_CROWD = rcu.SrcuFlood(tasks=64, calls=50, kind="call")
_32 = {"kernel": "6.18", "nr_cpus": 32, "hz": 1000}

#: What shows the effect: workload, other tunables, one value and another, and machine fields.
EFFECTS: dict[str, tuple[Any, dict[str, Any], Any, Any, dict[str, Any]]] = {
    "kernel": (_CALLS, {}, "6.8", "7.2", {}),
    "nr_cpus": (_CALLS, {}, 4, 40, {}),
    "maxcpus": (_CROWD, {"nr_cpus": 16}, 4, 16, {}),
    "hz": (_CALLS, {}, 250, 1000, {}),
    "preempt": (_READERS, {"nr_cpus": 2}, "full", "none", {}),
    "hz_periodic": (_CALLS, {}, False, True, {}),
    "nohz": (_CALLS, {}, False, True, {}),
    "skew_tick": (_CALLS, {}, False, True, {}),
    "rcu_fanout": (_CROWD, {"nr_cpus": 40, "rcu_fanout_leaf": 4}, 64, 3, {}),
    "config_rcu_fanout_leaf": (_CROWD, {"nr_cpus": 64}, 16, 4, {}),
    "rcu_fanout_leaf": (_CROWD, {"nr_cpus": 64}, 16, 4, {}),
    "rcu_fanout_exact": (
        [rcu.SyncFlood(tasks=20, calls=10), rcu.Readers(tasks=40, section_us=2000)],
        {"nr_cpus": 36, "rcu_fanout_leaf": 16, "hz": 1000},
        False,
        True,
        {},
    ),
    "jiffies_till_first_fqs": (_CALLS, _32, 3, 1, {}),
    "jiffies_till_next_fqs": (_CALLS, _32, 3, 1, {}),
    "jiffies_till_sched_qs": (_held(300_000), {"nr_cpus": 8, "hz": 1000}, 3, 1000, {}),
    "rcu_normal_wake_from_gp": (_CALLS, _32, 0, 1, {}),
    "wake_from_gp_cpu_threshold": (_CALLS, {"kernel": "6.18", "nr_cpus": 8}, 16, 4, {}),
    "early_qs": (_CALLS, _32, False, True, {}),
    "sr_normal_latch": (_CROWD, {"nr_cpus": 16}, "off", "merged", {}),
    "sr_normal_latch_threshold": (_CROWD, {"nr_cpus": 16}, 64, 8, {}),
    # Calls 22 us behind the latest grace period.
    "exp_holdoff": (rcu.SrcuFlood(calls=20, think_us=5), {}, 25_000, 0, {}),
    "convert_to_big": (_SRCU_CROWD, {}, 0, 1, {}),
    "big_cpu_lim": (_SRCU_CROWD, {"nr_cpus": 16}, 128, 16, {}),
    "small_contention_lim": (_SRCU_CROWD, {"nr_cpus": 16}, 100_000, 3, {}),
    "srcu_retry_check_delay": (_srcu(kind="expedited"), {}, 5, 50, {}),
    "srcu_max_nodelay_phase": (_srcu(kind="expedited"), {"hz": 1000}, 400, 3, {}),
    "srcu_max_nodelay": (_srcu(kind="expedited"), {"hz": 1000}, 400, 2, {}),
    "gp_preinit_delay": (_CALLS, {}, 0, 1, {}),
    "gp_init_delay": (_CALLS, {}, 0, 1, {}),
    "gp_cleanup_delay": (_CALLS, {}, 0, 1, {}),
    "blimit": (_FLOOD, {"hz": 1000}, 10, 2000, {}),
    "qhimark": (_FLOOD, {"hz": 1000}, 10_000, 100, {}),
    "qlowmark": (_DEEP, {"hz": 1000}, 10, 9000, {}),
    "qovld": (_FLOOD, {"hz": 1000}, 20_000, 10, {}),
    "rcu_divisor": (_FLOOD, {"hz": 1000}, 7, 1, {}),
    "rcu_resched_ns": (_DEEP, {"hz": 1000}, 3_000_000, 1_000_000, {}),
    # Looks at the clock in a small batch too, where callbacks are slow.
    "rcu_double_check_cb_time": (
        [_CALLS, _SMALL],
        {"nr_cpus": 4, "rcu_resched_ns": 1_000_000, "blimit": 100},
        False,
        True,
        {"cb_invoke_ns": 100_000},
    ),
    "config_rcu_cpu_stall_timeout": (_held(4_000_000), {"nr_cpus": 2, "hz": 100}, 300, 3, {}),
    "rcu_cpu_stall_timeout": (_held(4_000_000), {"nr_cpus": 2, "hz": 100}, 300, 3, {}),
    "config_rcu_exp_cpu_stall_timeout": (_EXPEDITED, {"nr_cpus": 2, "hz": 100}, 20_000, 40, {}),
    "rcu_exp_cpu_stall_timeout": (_EXPEDITED, {"nr_cpus": 2, "hz": 100}, 20_000, 40, {}),
    "kthread_prio": (_BUSY, {"nr_cpus": 2}, 0, 1, {}),
}

#: Those that change no run, and why.
WITHOUT = {
    "jiffies_to_sched_qs": "the kernel overwrites it: a view of the age that is in force",
    "counter_wrap_check": "a safeguard for SRCU numbers that wrapped, on 32 bits; the engine's tests see it",
    "gpwrap_lag": "a safeguard for numbers that wrapped; where they have not, it must change nothing",
}


def test_the_table_is_complete() -> None:
    names = [row["python_name"] for row in rcu.tunables()]
    assert [name for name in names if name not in {**EFFECTS, **WITHOUT}] == []
    assert sorted({*EFFECTS, *WITHOUT} - set(names)) == []
    assert not set(EFFECTS) & set(WITHOUT)


@pytest.mark.parametrize("name", EFFECTS)
def test_every_tunable_changes_a_run(name: str) -> None:
    workload, others, one, other, fields = EFFECTS[name]
    before, after = (rcu.Config(**{**others, name: value}) for value in (one, other))
    assert (before.effective[name], after.effective[name]) == (one, other)
    machine = rcu.Machine(**fields)

    def digest(config: rcu.Config, seed: int) -> str:
        return rcu.simulate(config, workload, machine=machine, seed=seed).digest

    # Chance may hide a small effect from one run, hardly from eight.
    assert any(digest(before, seed) != digest(after, seed) for seed in range(8))
    assert digest(before, 1) == digest(before, 1)


@pytest.mark.filterwarnings("ignore::treercu.ConfigWarning")
def test_a_view_shows_what_is_in_force() -> None:
    config = rcu.Config(jiffies_till_sched_qs=77)
    assert config.jiffies_to_sched_qs == 77
    given = rcu.Config(jiffies_till_sched_qs=77, jiffies_to_sched_qs=5)
    assert given.jiffies_to_sched_qs == 77
    workload, others, *_ = EFFECTS["jiffies_till_sched_qs"]
    digests = {
        rcu.simulate(rcu.Config(**others, jiffies_to_sched_qs=age), workload).digest for age in (1, 1000)
    }
    assert len(digests) == 1


def test_the_safeguard_changes_nothing() -> None:
    workload = [rcu.SyncFlood(calls=150, placement=0), rcu.Readers(tasks=8, section_us=3000, gap_us=100_000)]
    digests = {
        rcu.simulate(rcu.Config(nr_cpus=8, hz=1000, gpwrap_lag=lag), workload).digest for lag in (0, 1, 5)
    }
    assert len(digests) == 1
