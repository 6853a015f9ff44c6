"""Published measurements: read right, and held."""

from __future__ import annotations

import dataclasses
import json
import re
import statistics
import sys
import time
from typing import Any

import pytest

import treercu as rcu
from conftest import Command
from treercu.published import load, parse_plain

#: Mean latencies on a machine that does other things meanwhile; the experiment itself asks for 10 %.
LOOSELY = 0.3
KEYS = ["name", "holds", "seed", "assumptions", "wall_s", "rows", "summary"]


def test_published_data() -> None:
    data = load("early_qs")
    assert (data["nr_cpus"], data["hz"], data["runs"], data["calls_per_run"]) == (32, 1000, 10, 100)
    assert len(data["baseline"]) == len(data["early_report"]) == 10
    means = [run["mean"] for run in data["baseline"]]
    assert statistics.median(means) == pytest.approx(10.0705)
    # The file's own summary follows from its rows, to its own digits.
    assert statistics.fmean(means) == pytest.approx(data["summary"]["mean_baseline"], abs=0.005)
    assert max(run["max"] for run in data["early_report"]) == data["summary"]["max_early_report"]


def test_hotplug() -> None:
    # 400 CPUs: scans after 1 + 400 // 256 = 2 jiffies, of 10 ms each. By callback without the early report a
    # call takes a tick to be noticed, twice a wait with its tick, and a tick to notice the end:
    # 1 + 2 * 3 + 1 = 8. Direct: 3.
    result = rcu.reproduce("hotplug", seed=1)
    assert result.holds
    rows = {row.setting: row for row in result.rows}
    siblings = 400 * 7 // 8
    for way in ("off", "on"):
        assert rows[f"{way}, normal"].simulated.mean == pytest.approx(siblings * 0.080, rel=0.03)
        assert rows[f"{way}, direct wake"].simulated.mean == pytest.approx(siblings * 0.030, rel=0.05)
        assert rows[f"{way}, expedited"].simulated.mean < 0.1
    assert rows["off, normal"].published.mean == 74.8
    assert rows["off, expedited"].published.mean == 3.2
    assert rows["off, direct wake"].published.mean is None
    # (74.8 - 3.2) / 28
    assert result.summary["off_calls_per_cpu"]["published"] == pytest.approx(2.56, rel=0.05)
    assert all(run.calls in (siblings, 2 * siblings) for some in result.runs.values() for run in some)
    assert {assumed.name for assumed in result.assumptions} >= {"hz", "calls per CPU", "callbacks", "noise"}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with 3.11")
def test_the_reader_for_old_pythons_agrees_with_tomllib() -> None:
    from importlib.resources import files

    text = (files("treercu.published") / "early_qs.toml").read_text(encoding="utf-8")
    assert parse_plain(text) == load("early_qs")
    plain = 'a = 1\n[t]\nb = [1, 2.5]\nc = "x # y"\n\n# note\n[[l]]\nd = true\n[[l]]\nd = false\n'
    assert parse_plain(plain) == {
        "a": 1,
        "t": {"b": [1, 2.5], "c": "x # y"},
        "l": [{"d": True}, {"d": False}],
    }
    with pytest.raises(ValueError, match="line 2"):
        parse_plain("a = 1\nnonsense\n")


def test_early_qs_holds() -> None:
    began = time.monotonic()
    result = rcu.reproduce("early-qs", seed=1)
    assert time.monotonic() - began < 2
    assert result.holds
    assert all(ok for _, ok in result.checks)
    baseline, early = result.rows
    assert (baseline.setting, early.setting) == ("baseline", "early_report")
    assert baseline.simulated.median_of_run_means == pytest.approx(10.07, rel=0.02)
    assert early.simulated.median_of_run_means == pytest.approx(6.035, rel=0.02)
    assert early.published.median_of_run_means == pytest.approx(6.035)
    assert [len(runs) for runs in result.runs.values()] == [10, 10]
    assert [run.seed for run in result.runs["baseline"]] == list(range(1, 11))


@pytest.mark.parametrize("seed", [2, 77, 12345])
def test_it_holds_for_other_seeds(seed: int) -> None:
    assert rcu.reproduce("early-qs", seed=seed).holds


def test_the_mechanism_is_shown_and_is_the_one_claimed() -> None:
    result = rcu.reproduce("early-qs")
    text = str(result)
    assert repr(result) == text
    assert "resolved by" in text
    assert "noise = 0.5 bursts per second and CPU" in text
    assert "holds: yes" in text
    assert max(len(line) for line in text.splitlines()) < 160
    # Two scans without the report, one with it, wherever the kthread is not on the caller's CPU.
    typical = result.runs["baseline"][0].grace_periods["scans"]
    assert statistics.mode(typical.tolist()) == 2
    assert statistics.mode(result.runs["early_report"][0].grace_periods["scans"].tolist()) == 1


def test_to_dict_is_the_commands_json(treercu: Command) -> None:
    done = treercu("reproduce", "early-qs", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert list(told) == KEYS
    mine = rcu.reproduce("early-qs").to_dict()
    assert {**told, "wall_s": 0} == {**mine, "wall_s": 0}
    for row in told["rows"]:
        assert set(row) == {"setting", "published", "simulated"}
        for side in ("published", "simulated"):
            assert set(row[side]) == {"mean", "min", "max", "median_of_run_means"}
    assert set(told["summary"]) == set(load("early_qs")["summary"])
    assert all(set(both) == {"published", "simulated"} for both in told["summary"].values())
    assert {"name", "value", "why"} == set(told["assumptions"][0])


def test_reproduce_all(treercu: Command) -> None:
    done = treercu("reproduce", "all", "--json", "--seed", "3")
    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert set(told) == {"experiments", "wall_s"}
    assert [experiment["name"] for experiment in told["experiments"]] == ["early-qs", "hotplug"]
    assert told["experiments"][0]["seed"] == 3


def test_what_does_not_hold_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from treercu import cli

    false = dataclasses.replace(rcu.reproduce("early-qs"), holds=False)
    monkeypatch.setattr(cli, "reproduce", lambda *_, **__: false)
    assert cli.main(["reproduce", "early-qs", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["holds"] is False
    assert cli.main(["reproduce", "early-qs"]) == 1
    assert "holds: NO" in capsys.readouterr().out


def test_a_cancelled_experiment_does_not_hold() -> None:
    token = rcu.CancelToken()
    token.cancel()
    result = rcu.reproduce("early-qs", cancel=token)
    assert result.interrupted
    assert not result.holds
    assert result.rows[0].simulated.mean is None
    assert "holds: interrupted" in str(result)
    assert result.to_dict()["interrupted"] is True


def test_an_interrupted_experiment_shows_what_it_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from treercu import cli
    from treercu.reproduce import early_qs

    whole = early_qs.simulate_many
    calls: list[int] = []

    def stop_at_the_second(*arguments: Any, **options: Any) -> list[rcu.Run]:
        calls.append(1)
        runs = whole(*arguments, **options)
        if len(calls) == 1:
            return runs
        err = rcu.Interrupted("interrupted")
        err.runs = runs[:2]
        raise err

    monkeypatch.setattr(early_qs, "simulate_many", stop_at_the_second)
    assert cli.main(["reproduce", "early-qs", "--json"]) == 130
    told = json.loads(capsys.readouterr().out)
    assert told["interrupted"] is True
    assert told["holds"] is False
    assert [row["setting"] for row in told["rows"]] == ["baseline", "early_report"]
    assert told["rows"][1]["simulated"]["mean"] > 0


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(rcu.ConfigError, match="early-qs"):
        rcu.reproduce("early-gp")


def test_the_assumptions_say_where_the_gap_and_the_seeds_come_from() -> None:
    token = rcu.CancelToken()
    token.cancel()
    experiment = rcu.reproduce("early-qs", seed=2**64 - 1, cancel=token, progress=False)
    told = {assumption.name: assumption for assumption in experiment.assumptions}
    gap = told["caller_gap_ns"]
    assert gap.value == "5000"
    assert "published minima (9.93 to 9.99 ms" in gap.why
    assert "5 us of 10 ms" in gap.why
    first, last = re.match(r"(\d+) to (\d+)", told["seeds"].value).groups()  # type: ignore[union-attr]
    assert int(first) == 2**64 - 1
    assert int(last) < 1000


def test_a_range_of_seeds_goes_round(treercu: Command) -> None:
    done = treercu("reproduce", "early-qs", "--seed", "18446744073709551615", "--quiet", "--json")
    assert done.returncode in (0, 1), done.stderr
    seeds = next(row for row in json.loads(done.stdout)["assumptions"] if row["name"] == "seeds")
    assert re.match(r"18446744073709551615 to [0-9]{1,3} ", seeds["value"] + " ")


@pytest.mark.slow
def test_early_qs_on_real_threads(treercu: Command) -> None:
    done = treercu("reproduce", "early-qs", "--host", "--json")
    result = json.loads(done.stdout)
    assert list(result) == [*KEYS, "host"]
    assert [row["setting"] for row in result["rows"]] == ["baseline", "early_report"]
    for row in result["rows"]:
        assert set(row) == {"setting", "published", "simulated", "measured"}
        for name in ("mean", "median_of_run_means"):
            assert row["measured"][name] == pytest.approx(row["simulated"][name], rel=LOOSELY), row
        assert result["host"]["tick_lateness"][row["setting"]]["ticks"] > 100
    baseline, early = (row["measured"]["mean"] for row in result["rows"])
    assert early < baseline
    assert all(set(value) == {"published", "simulated", "measured"} for value in result["summary"].values())
    assert done.returncode == (0 if result["holds"] else 1)


def test_a_token_ends_the_measurement_too() -> None:
    token = rcu.CancelToken()
    seen = 0

    def cancel(done: int, total: int) -> None:
        nonlocal seen
        seen += 1
        # The simulations are over in a moment; a measured run reports every 100 ms.
        if seen > 6:
            token.cancel()

    began = time.monotonic()
    result = rcu.reproduce("early-qs", host=True, progress=cancel, cancel=token)
    assert time.monotonic() - began < 10
    assert result.interrupted
    assert not result.holds
    assert any(row.measured is not None and row.measured.mean for row in result.rows)
    assert "measured" in result.table()
