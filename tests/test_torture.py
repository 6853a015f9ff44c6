"""`treercu.torture`: the report, the command, and how a test ends early.

What the model finds is in `tests/torture.rs`.
"""

from __future__ import annotations

import json
import threading
import time

import pytest

import treercu as rcu
from conftest import COMMAND, Command, python
from test_cli import here, one_object
from test_interrupt import interrupt

WORLDS = ["host", "sim"]


@pytest.mark.parametrize("world", WORLDS)
def test_the_engine_passes(world: str) -> None:
    report = rcu.torture("TREE03", seconds=1, world=world, seed=3)
    assert (report.errors, report.verdict, report.interrupted) == (0, "SUCCESS", False), report.text
    assert (report.scenario, report.world, report.seconds, report.seed) == ("TREE03", world, 1.0, 3)
    assert 1.0 <= report.ran_s < 10
    counters = report.counters
    assert counters["ver"] > 5
    assert counters["rta"] >= counters["rtf"]
    assert sum(counters["reader_pipe"][:2]) > 0 == sum(counters["reader_pipe"][2:])
    assert counters["barrier"]["successes"] == counters["barrier"]["attempts"] > 0
    assert counters["offline"]["successes"] > 0
    assert sum(counters["gp_kinds"].values()) > 0
    assert all(set(item) == {"name", "why"} for item in report.skipped)
    assert "threadirqs use_softirq=0" in [item["name"] for item in report.skipped]
    for item in report.skipped:
        assert f"rcu-torture: skipped: {item['name']}: {item['why']}\n" in report.text
    assert report.text.splitlines()[-1].startswith("rcu-torture:--- End of test: SUCCESS: nreaders=")
    assert repr(report).startswith(f"<TortureReport TREE03 {world} 1: SUCCESS, 0 errors, ")


def test_the_simulated_world_is_deterministic() -> None:
    first, again, other = (rcu.torture("IDLE", seconds=1, world="sim", seed=seed) for seed in (1, 1, 2))
    assert first.to_dict() == again.to_dict()
    assert first.text == again.text
    assert first.counters != other.counters


@pytest.mark.parametrize("world", WORLDS)
def test_the_busted_engine_fails_within_a_second(world: str) -> None:
    report = rcu.torture("busted", seconds=1, world=world)
    assert report.verdict == "FAILURE"
    assert report.errors > 0
    assert sum(report.counters["reader_pipe"][2:]) > 0
    assert report.counters["rtmbe"] > 0
    assert "busted-torture: !!! Reader Pipe: " in report.text


def test_scenarios_are_listed() -> None:
    scenarios = rcu.torture_scenarios()
    names = [scenario["name"] for scenario in scenarios]
    assert names[:10] == [f"TREE{number:02}" for number in range(1, 11)]
    assert {"IDLE", "TRIVIAL", "BUSTED"} == set(names[10:])
    assert all(scenario["intent"] and scenario["cpus"] > 0 for scenario in scenarios)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenario": "TREE99"}, "scenario=TREE99: no such scenario; allowed: TREE01, "),
        ({"scenario": 7}, "scenario=7: not a name; allowed: TREE01, "),
        ({"seconds": 0}, "seconds=0: out of range; allowed: 0.1 to 604800"),
        ({"seconds": "5"}, "seconds='5': not a number; allowed: 0.1 to 604800"),
        ({"seconds": float("nan")}, "seconds=nan: "),
        ({"world": "moon"}, "world='moon': not one of the choices; allowed: host, sim"),
        ({"seed": -1}, "seed=-1: "),
        ({"cancel": 1}, "cancel=1: not a token"),
        ({"progress": 1}, "progress=1: not a progress setting"),
        ({"scenario": "TRIVIAL"}, "scenario=TRIVIAL: textbook RCU needs real threads"),
    ],
)
def test_bad_input_is_refused_by_name(arguments: dict[str, object], message: str) -> None:
    everything: dict[str, object] = {"scenario": "TREE01", "seconds": 1, "world": "sim"} | arguments
    scenario = everything.pop("scenario")
    with pytest.raises(rcu.ConfigError) as error:
        rcu.torture(scenario, **everything)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


@pytest.mark.parametrize("world", WORLDS)
def test_a_token_ends_it_with_what_it_has(world: str) -> None:
    token = rcu.CancelToken()
    reported: list[tuple[int, int]] = []
    timer = threading.Timer(0.5, token.cancel)
    timer.start()
    began = time.monotonic()
    report = rcu.torture(
        "TREE01", seconds=600, world=world, cancel=token, progress=lambda *at: reported.append(at)
    )
    timer.join()
    assert time.monotonic() - began < 10
    assert report.interrupted
    assert report.counters["ver"] > 0
    assert " (interrupted): " in report.text
    assert repr(report).endswith(", interrupted>")
    assert reported
    assert all(0 <= done <= total == 600 * 10**9 for done, total in reported)


def test_ctrl_c_raises_with_the_report_so_far() -> None:
    code = """
import treercu
try:
    treercu.torture("TREE01", seconds=600)
except treercu.Interrupted as stop:
    print(stop.report.interrupted, stop.report.counters["ver"] > 0, stop.run)
"""
    done = interrupt(python(code))
    assert (done.returncode, done.stdout) == (0, "True True None\n"), done.stderr


# The command.


def test_the_json_contract(treercu: Command) -> None:
    done = treercu("torture", "TREE02", "--seconds", "0.5", "--world", "sim", "--seed", "9", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    result = one_object(done.stdout)
    assert list(result)[:5] == ["scenario", "world", "seconds", "errors", "counters"]
    assert (result["scenario"], result["world"], result["seconds"]) == ("TREE02", "sim", 0.5)
    assert (result["errors"], result["verdict"], result["seed"]) == (0, "SUCCESS", 9)
    assert result.pop("wall_s") > 0
    assert result == rcu.torture("TREE02", seconds=0.5, world="sim", seed=9).to_dict()


def test_the_text(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = here(capfd, "torture", "tree01", "--seconds", "0.5", "--world", "sim")
    assert (code, err) == (0, "")
    assert out == rcu.torture("TREE01", seconds=0.5, world="sim").text


def test_errors_exit_1(capfd: pytest.CaptureFixture[str]) -> None:
    for world in WORLDS:
        code, out, _ = here(capfd, "torture", "busted", "--seconds", "1", "--world", world, "--json")
        assert code == 1
        assert one_object(out)["errors"] > 0


def test_the_list(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = here(capfd, "torture", "--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [s["name"] for s in rcu.torture_scenarios()]
    code, out, _ = here(capfd, "torture", "--list", "--json")
    assert one_object(out) == {"scenarios": rcu.torture_scenarios()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["TREE99"], "scenario=TREE99: no such scenario; allowed: TREE01"),
        ([], "scenario: none was named; allowed: TREE01"),
        (["TREE01", "--seconds", "x"], "seconds='x': not a number"),
        (["TREE01", "--world", "moon"], "world='moon': not one of the choices; allowed: host, sim"),
        (["TREE01", "--seed", "-1"], "seed=-1: "),
    ],
)
def test_bad_words_exit_2(capfd: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    code, out, err = here(capfd, "torture", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"treercu: error: {message}")
    assert err.count("\n") == 1


def test_ctrl_c_prints_what_it_has_and_exits_130() -> None:
    done = interrupt([*COMMAND, "torture", "TREE01", "--seconds", "600", "--json"])
    assert done.returncode == 130
    result = json.loads(done.stdout)
    assert result["interrupted"] is True
    assert result["counters"]["ver"] > 0
