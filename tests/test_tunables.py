"""Every knob has a standing, and every live one moves the figure that its probe names."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import treercu as rcu

ROWS = {row["name"]: row for row in rcu.tunables()}
LIVE = [name for name, row in ROWS.items() if row["status"] == "live"]

#: Live ones that no run may show, and why.
SAFEGUARDS = {
    "gpwrap_lag": "for numbers that wrapped; where they have not, it must change nothing",
    "srcutree.counter_wrap_check": "for SRCU numbers that wrapped, on 32 bits; the engine's tests see it",
}


@pytest.fixture(scope="module")
def probed() -> dict[str, dict[str, Any]]:
    """What the command says of all of them, by Python name."""
    command = [sys.executable, "-m", "treercu", "tunables", "--probe", "all", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["moved"] is True
    assert result["seeds"] == 5
    return {one["name"]: one for one in result["probes"]}


@pytest.mark.parametrize("name", [name for name in LIVE if name not in SAFEGUARDS])
def test_every_live_tunable_moves_its_figure(name: str, probed: dict[str, dict[str, Any]]) -> None:
    probe = ROWS[name]["probe"]
    assert probe is not None, "a live tunable without a probe"
    one = probed[ROWS[name]["python_name"]]
    assert one["moved"] is True
    assert (one["metric"], one["direction"]) == (probe["metric"], probe["direction"])
    before, after = one["before_runs"], one["after_runs"]
    assert len(before) == len(after) == 5
    assert (max(before) < min(after)) if one["direction"] == "up" else (max(after) < min(before))
    assert one["before"] == pytest.approx(sum(before) / 5)
    assert probe["reason"]


def test_a_probe_can_be_carried_out_by_hand() -> None:
    probe = ROWS["rcutree.jiffies_till_first_fqs"]["probe"]
    (part,) = probe["workload"]
    assert (part["type"], part["calls"]) == ("sync-flood", 40)
    config = {name: int(value) if value.isdigit() else value for name, value in probe["config"].items()}

    def mean(value: str) -> float:
        run = rcu.simulate(
            rcu.Config(**config, **{probe["sets"]: int(value)}), rcu.SyncFlood(calls=40), seed=3
        )
        return float(run.latency_ns.mean())

    (one,) = rcu.probe("jiffies_till_first_fqs")
    assert one["before_runs"][2] == pytest.approx(mean(probe["from"]))
    assert one["after_runs"][2] == pytest.approx(mean(probe["to"]))


def test_a_probe_that_cannot_move_says_so() -> None:
    # Only one seed, which is as good as any: what matters is that nothing moves where nothing is set.
    (one,) = rcu.probe("hz", seeds=1)
    assert one["moved"] is True
    assert len(one["before_runs"]) == 1
    for bad, allowed in (("gpwrap_lag", "live"), ("dump_tree", "live"), ("no_such", "tunable")):
        with pytest.raises(rcu.ConfigError, match=allowed):
            rcu.probe(bad)
    for seeds in (0, 1001, -1, 2.5, "x"):
        with pytest.raises(rcu.ConfigError, match="seeds"):
            rcu.probe("hz", seeds=seeds)  # type: ignore[arg-type]
    with pytest.raises(rcu.ConfigError, match="name"):
        rcu.probe(7)  # type: ignore[arg-type]


def test_the_command_refuses_what_it_cannot_probe() -> None:
    for arguments in (
        ["--probe", "no_such"],
        ["--probe", "hz", "--set", "hz=100"],
        ["--probe", "hz", "--seeds", "0"],
        ["--seeds", "3"],
        ["--probe", "dump_tree"],
    ):
        command = [sys.executable, "-m", "treercu", "tunables", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2, arguments
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1


def test_every_knob_of_the_kernel_is_listed_once() -> None:
    own = {"kernel", "gpwrap_lag"}
    assert len(rcu.tunables()) == len(ROWS) == 144 + len(own)
    assert {row["status"] for row in ROWS.values()} <= {"live", "accepted", "build-time", "planned"}
    for name, row in ROWS.items():
        assert row["why"], name
        assert row["effect"], name
        assert row["tier"] in (1, 2, 3), name
        if row["status"] in ("live", "accepted"):
            assert row["python_name"], name
            assert row["range"], name
            assert row["default"] is not None, name
        else:
            assert (row["python_name"], row["probe"]) == (None, None), name
        if row["status"] == "accepted":
            assert (row["tier"], row["probe"]) == (3, None), name
        if row["status"] == "build-time":
            # A knob that decides something has a stand-in.
            assert row["stand_in"] or row["tier"] == 3 or name == "CONFIG_RCU_TRACE", name


def test_a_stand_in_is_a_tunable_or_will_be() -> None:
    settable = {row["python_name"] for row in ROWS.values()}
    planned = {row["name"].split(".")[-1] for row in ROWS.values() if row["status"] == "planned"}
    for row in ROWS.values():
        if row["stand_in"]:
            assert row["stand_in"] in settable | planned, row["name"]


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row["status"] == "accepted"])
def test_an_accepted_knob_is_checked_and_changes_nothing(name: str) -> None:
    row = ROWS[name]
    other = True if row["default"] is False else int(row["default"]) + 1
    plain = rcu.Config()
    config = rcu.Config(**{row["python_name"]: other})
    assert config.effective[row["python_name"]] == other
    assert plain.effective[row["python_name"]] == row["default"]
    flood = rcu.SyncFlood(calls=3)
    assert rcu.simulate(config, flood).digest == rcu.simulate(plain, flood).digest
    with pytest.raises(rcu.ConfigError, match=row["python_name"]):
        rcu.Config(**{row["python_name"]: "maybe"})
    assert eval(repr(config), {"Config": rcu.Config}) == config


@pytest.mark.filterwarnings("ignore::treercu.ConfigWarning")
def test_a_view_shows_what_is_in_force() -> None:
    config = rcu.Config(jiffies_till_sched_qs=77)
    assert config.jiffies_to_sched_qs == 77
    given = rcu.Config(jiffies_till_sched_qs=77, jiffies_to_sched_qs=5)
    assert given.jiffies_to_sched_qs == 77
    workload = [
        rcu.SyncFlood(tasks=4, calls=5),
        rcu.CpuLoad(cpus=[1], mode="kernel", section_us=300_000, gap_us=1),
    ]
    digests = {
        rcu.simulate(rcu.Config(nr_cpus=8, hz=1000, jiffies_to_sched_qs=age), workload).digest
        for age in (1, 1000)
    }
    assert len(digests) == 1


def test_the_safeguard_changes_nothing() -> None:
    workload = [rcu.SyncFlood(calls=150, placement=0), rcu.Readers(tasks=8, section_us=3000, gap_us=100_000)]
    digests = {
        rcu.simulate(rcu.Config(nr_cpus=8, hz=1000, gpwrap_lag=lag), workload).digest for lag in (0, 1, 5)
    }
    assert len(digests) == 1
