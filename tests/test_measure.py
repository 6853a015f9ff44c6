"""Measuring on real threads: counts, order and bounds, never exact times."""

from __future__ import annotations

import ctypes
import gc
import json
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treercu as rcu
from conftest import Command, clean_env, python
from test_interrupt import interrupt

CONFIG = rcu.Config(nr_cpus=2, hz=1000)
MEASURE_KEYS = [
    "calls", "mean_ns", "p50_ns", "p99_ns", "max_ns", "wall_s", "cpu_s", "seed", "config", "machine",
    "workload", "interrupted", "host", "gp_kthread_cpu_s", "tick_cpu_s",
]  # fmt: skip
FACTS = {
    "engine", "cpu_model", "cores", "kernel", "governor", "clock_source", "clock_read_ns", "membarrier",
    "fence", "tick_lateness", "notes",
}  # fmt: skip
LONG = {"tasks": 64, "calls": 0, "duration_ms": 60_000, "think_us": 500}


@pytest.fixture(params=rcu.ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Every engine; one that is not installed skips."""
    name: str = request.param
    try:
        rcu.measure(CONFIG, rcu.SyncFlood(calls=1), engine=name)
    except rcu.ConfigError as err:
        if err.parameter != "engine":
            raise
        pytest.skip(f"{name}: {err.reason}")
    return name


def test_every_call_is_there(engine: str) -> None:
    mix = [rcu.SyncFlood(tasks=3, calls=50), rcu.Readers(tasks=1, section_us="uniform:1:20", gap_us="exp:30")]
    run = rcu.measure(CONFIG, mix, engine=engine, seed=7)
    assert run.world == "host"
    assert run.calls == len(run.latency_ns) == 150
    assert np.array_equal(np.bincount(run.task), [50, 50, 50])
    assert (np.diff(run.end_ns) >= 0).all()
    assert (run.latency_ns == run.end_ns - run.start_ns).all()
    assert (run.latency_ns >= 0).all()
    for task in range(3):
        own = run.task == task
        assert (run.start_ns[own][1:] >= run.end_ns[own][:-1]).all()
    assert not run.latency_ns.flags.writeable
    assert run.end_ns[-1] <= run.wall_s * 1e9 < 60e9
    assert (run.seed, run.config, run.interrupted) == (7, CONFIG, False)
    assert repr(run).startswith("<Run: 150 calls")
    assert f"measured with {engine}" in repr(run)
    assert run.summary()["calls"] == 150
    assert run.samples.to_pandas()["latency_ns"].sum() == run.latency_ns.sum()


def test_facts(engine: str) -> None:
    run = rcu.measure(CONFIG, rcu.SyncFlood(calls=3), engine=engine)
    assert set(run.host) == FACTS
    assert run.host["engine"] == engine
    assert run.host["cores"] >= 1
    assert 0 < run.host["clock_read_ns"] < 1e5
    assert all(isinstance(note, str) for note in run.host["notes"])
    json.dumps(run.host)


def test_what_only_a_simulated_run_has(engine: str) -> None:
    run = rcu.measure(CONFIG, rcu.SyncFlood(calls=3), engine=engine)
    for name in ("machine", "virtual_s", "events"):
        assert not hasattr(run, name)
        with pytest.raises(AttributeError, match=f"a measured run has no {name}"):
            getattr(run, name)


def test_a_simulated_run_is_of_the_other_world(run: rcu.Run) -> None:
    assert run.world == "sim"
    assert isinstance(run.host, str)
    assert run.gp_kthread_cpu_s == run.counters["gp_kthread_cpu_ns"] / 1e9
    assert run.tick_cpu_s == run.counters["tick_cpu_ns"] / 1e9


def test_pickle(engine: str) -> None:
    run = rcu.measure(CONFIG, rcu.SyncFlood(tasks=2, calls=5), engine=engine)
    twin = pickle.loads(pickle.dumps(run))
    assert twin.digest == run.digest
    assert (twin.world, twin.host, twin.wall_s) == (run.world, run.host, run.wall_s)
    assert (twin.gp_kthread_cpu_s, twin.tick_cpu_s) == (run.gp_kthread_cpu_s, run.tick_cpu_s)
    assert not hasattr(twin, "machine")


def test_a_token_ends_64_threads_soon(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    token = rcu.CancelToken()
    asked: list[float] = []

    def watch(done: int, total: int) -> None:
        # Time since all threads were there, ns.
        if done > 200e6 and not asked:
            asked.append(time.perf_counter())
            threading.Thread(target=token.cancel).start()

    run = rcu.measure(CONFIG, rcu.SyncFlood(**LONG), engine=engine, cancel=token, progress=watch)
    took = time.perf_counter() - asked[0]
    with capsys.disabled():
        print(f"\n{engine}: 64 threads gone {took * 1e3:.0f} ms after the token, {run.calls} calls")
    assert run.interrupted
    assert run.summary()["interrupted"]
    assert run.calls > 0
    assert took < 1


def test_a_token_ends_threads_that_never_pause_soon() -> None:
    # On an idle engine an expedited call takes about a microsecond: there are many to gather.
    token = rcu.CancelToken()
    flood = rcu.SyncFlood(tasks=64, calls=0, duration_ms=60_000, kind="expedited")
    timer = threading.Timer(1.0, token.cancel)
    timer.start()
    began = time.perf_counter()
    run = rcu.measure(rcu.Config(nr_cpus=2), flood, cancel=token)
    took = time.perf_counter() - began
    timer.join()
    assert run.interrupted
    assert run.calls > 10_000
    assert took < 3
    # In order of completion, whenever they are looked at; each task's own calls follow each other.
    assert (np.diff(run.samples["end_ns"]) >= 0).all()
    first = run.samples["task"] == run.samples["task"][0]
    assert (run.samples["start_ns"][first][1:] >= run.samples["end_ns"][first][:-1]).all()
    assert len(run.samples["task"]) == run.calls


CAUGHT = """
import json, sys, time, treercu as rcu
try:
    rcu.measure(rcu.Config(nr_cpus=2, hz=1000), rcu.SyncFlood(**{long}), engine={engine!r})
except KeyboardInterrupt as err:
    print(json.dumps([type(err).__name__, err.run.calls, err.run.interrupted, rcu.last_run() is err.run]))
print(rcu.measure(rcu.Config(nr_cpus=2), rcu.SyncFlood(calls=5), engine={engine!r}).calls)
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_ctrl_c_gives_the_partial_run(engine: str) -> None:
    done = interrupt(python(CAUGHT.format(long=LONG, engine=engine)))
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    name, calls, interrupted, last = json.loads(first)
    assert (name, interrupted, last, second) == ("Interrupted", True, True, "5")
    assert calls > 0


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_ctrl_c_of_the_command_prints_what_it_has() -> None:
    words = ["measure", "--json", "--engine", "crossbeam-epoch", "--workload", "sync-flood", "--tasks", "8"]
    words += ["--calls", "0", "--duration-ms", "60000", "--think-us", "500"]
    done = interrupt(python("import sys; from treercu.cli import main; sys.exit(main())", *words))
    assert (done.returncode, done.stderr) == (130, "")
    result = json.loads(done.stdout)
    assert result["interrupted"] is True
    assert result["calls"] > 0


@pytest.mark.parametrize("preempt", ["full", "none"])
@pytest.mark.parametrize("kind", ["sync", "expedited", "poll", "poll-full", "barrier"])
def test_the_own_engine_waits_in_every_way(preempt: str, kind: Any) -> None:
    mix = [
        rcu.SyncFlood(tasks=2, calls=5, kind=kind),
        rcu.Readers(tasks=2),
        rcu.CallRcuFlood(interval_us=500),
    ]
    run = rcu.measure(CONFIG.replace(preempt=preempt), mix)
    assert run.calls == 10
    assert set(run.cpu.tolist()) <= {0, 1}


def test_grace_periods_of_the_own_engine_are_recorded() -> None:
    run = rcu.measure(CONFIG.replace(nr_cpus=8), rcu.SyncFlood(calls=10))
    table = run.grace_periods
    assert run.counters["grace_periods"] >= len(table["gp_seq"]) >= 10
    assert set(run.gp_seq.tolist()) <= set(table["gp_seq"].tolist())
    assert (table["end_ns"] > table["start_ns"]).all()
    assert run.gp_kthread_cpu_s is not None
    assert 0 < run.gp_kthread_cpu_s < run.wall_s
    assert run.tick_cpu_s is not None


def test_hotplug_of_virtual_cpus() -> None:
    mix = [rcu.SyncFlood(tasks=4, calls=10), rcu.Hotplug(transitions=10, interval_us=2000)]
    run = rcu.measure(CONFIG.replace(nr_cpus=4), mix)
    assert run.calls == 40
    assert run.counters["cpus_offlined"] > 1


@pytest.mark.parametrize(("fence", "said"), [("fallback", "fallback"), ("auto", None)])
def test_fences(fence: Any, said: str | None) -> None:
    run = rcu.measure(CONFIG, [rcu.SyncFlood(calls=5), rcu.Readers(tasks=2)], fence=fence)
    assert run.calls == 5
    assert run.host["fence"] == (said or ("membarrier" if run.host["membarrier"] else "fallback"))


def test_precise_timers_are_faster_than_the_wheel() -> None:
    config = rcu.Config(kernel="6.18", nr_cpus=8, hz=250)
    wheel, precise = (
        rcu.measure(config, rcu.SyncFlood(calls=8), timer=timer) for timer in ("wheel", "hrtimer")
    )
    # A wait of n jiffies takes n + 1 ticks on the wheel.
    assert precise.quantile(0.5) < wheel.quantile(0.5)


def test_a_trace_of_real_threads() -> None:
    run = rcu.measure(CONFIG, rcu.SyncFlood(calls=3), trace=500)
    assert run.trace is not None
    assert "rcu_grace_period: " in run.trace.to_ftrace()


def test_what_only_the_own_engine_has_is_refused_elsewhere() -> None:
    for keywords in ({"fence": "fallback"}, {"timer": "hrtimer"}):
        with pytest.raises(rcu.ConfigError, match="engine = treercu") as caught:
            rcu.measure(CONFIG, rcu.SyncFlood(calls=1), engine="seize", **keywords)  # type: ignore[arg-type]
        assert caught.value.parameter in keywords


NO_THREADS = """
import os, resource, time, treercu as rcu
def threads():
    return len(os.listdir("/proc/self/task"))
# What is loaded at the first use is loaded now: nobody may not read where it is installed.
rcu.measure(rcu.Config(nr_cpus=2), rcu.SyncFlood(tasks=1, calls=1), engine={engine!r})
if os.geteuid() == 0:
    os.setuid(65534)  # root's threads are not counted
resource.setrlimit(resource.RLIMIT_NPROC, (60, 60))
before = threads()
try:
    rcu.measure(rcu.Config(nr_cpus=2), rcu.SyncFlood(tasks=500, calls=1), engine={engine!r})
except rcu.HostError as err:
    print(type(err).__mro__[2].__name__, "cannot start" in str(err))
# The last of them may still be on its way out.
deadline = time.monotonic() + 5
while threads() > before and time.monotonic() < deadline:
    time.sleep(0.01)
print(max(0, threads() - before))
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_a_thread_that_cannot_start_is_an_error_and_frees_the_others(engine: str) -> None:
    done = subprocess.run(
        python(NO_THREADS.format(engine=engine)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=clean_env(),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "OSError True\n0\n"


def test_two_floods_at_once(engine: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = [
            pool.submit(rcu.measure, CONFIG, rcu.SyncFlood(tasks=8, calls=50), engine=engine)
            for _ in range(2)
        ]
        assert [one.result().calls for one in both] == [400, 400]


def thread_state_id() -> int:
    """The number of a new thread's state: they are counted up, and any thread that attaches gets one."""
    number: list[int] = []

    def look() -> None:
        api = ctypes.pythonapi
        current, number_of = api.PyThreadState_Get, api.PyThreadState_GetID
        current.restype, number_of.restype = ctypes.c_void_p, ctypes.c_uint64
        number_of.argtypes = [ctypes.c_void_p]
        number.append(number_of(current()))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return number[0]


def test_no_thread_of_a_flood_attaches_to_the_interpreter(engine: str) -> None:
    before = thread_state_id()
    run = rcu.measure(CONFIG, rcu.SyncFlood(tasks=16, calls=0, duration_ms=50), engine=engine)
    assert run.calls > 0
    assert thread_state_id() == before + 1
    # A thread that does attach is seen.
    for _ in range(3):
        thread_state_id()
    assert thread_state_id() == before + 5


def test_a_call_of_a_flood_calls_nothing_in_python(engine: str) -> None:
    def events(calls: int) -> int:
        seen: list[str] = []
        flood = rcu.SyncFlood(tasks=2, calls=calls)
        config, profile = CONFIG.replace(jiffies_till_first_fqs=0), sys.getprofile()
        gc.disable()  # Its hooks would be seen.
        sys.setprofile(lambda frame, event, argument: seen.append(event))
        try:
            run = rcu.measure(config, flood, engine=engine)
        finally:
            sys.setprofile(profile)
            gc.enable()
        assert run.calls == 2 * calls
        return len(seen)

    events(1)
    few, many = events(10), events(2000)
    assert 0 < few == many


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="nothing to hold")
def test_a_flood_goes_on_while_the_interpreter_is_held() -> None:
    held_s = 3.0
    started, done = threading.Event(), threading.Event()
    turns: list[float] = []

    def take_turns() -> None:
        while not done.is_set():
            turns.append(time.perf_counter())
            time.sleep(0.001)

    def watch(done: int, total: int) -> None:
        if done > 0:
            started.set()

    bystander = threading.Thread(target=take_turns)
    bystander.start()
    flood = rcu.SyncFlood(tasks=8, calls=0, duration_ms=1000, think_us=1000)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(rcu.measure, CONFIG, flood, progress=watch)
        assert started.wait(60)
        assert not running.done()
        # A C call that does not release the interpreter, whatever the switch interval is.
        ctypes.PyDLL(None).usleep(int(held_s * 1e6))
        run = running.result()
    done.set()
    bystander.join()
    assert np.diff(turns).max() >= held_s
    # The flood never stood still, and was over before the interpreter was given back.
    assert run.end_ns.max() > 900e6
    assert np.diff(run.end_ns).max() < 500e6
    assert run.wall_s < held_s


def test_keep(engine: str) -> None:
    flood = rcu.SyncFlood(tasks=2, calls=100)
    kept = rcu.measure(CONFIG, flood, engine=engine, keep="histogram")
    assert (kept.calls, len(kept.latency_ns)) == (200, 0)
    assert kept.distribution()[1].sum() == 200
    kept = rcu.measure(CONFIG, flood, engine=engine, keep=20)
    assert (kept.calls, len(kept.latency_ns), kept.keep) == (200, 20, 20)


def test_progress_is_reported(engine: str) -> None:
    seen: list[tuple[int, int]] = []
    flood = rcu.SyncFlood(tasks=2, calls=50, think_us=5000)
    rcu.measure(CONFIG, flood, engine=engine, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (100, 100)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_the_same_seed_means_the_same_placement(engine: str) -> None:
    flood = rcu.SyncFlood(tasks=5, calls=2, placement="random")
    config = CONFIG.replace(nr_cpus=8)

    def starts(run: rcu.Run) -> list[int]:
        return [int(run.cpu[run.task == task][0]) for task in range(5)]

    runs = [rcu.measure(config, flood, engine=engine, seed=seed) for seed in (3, 3)]
    assert starts(runs[0]) == starts(runs[1])
    if engine == "treercu":
        assert starts(runs[0]) == starts(rcu.simulate(config, flood, seed=3))
    else:
        assert starts(runs[0]) == [-1] * 5


@pytest.mark.parametrize(
    ("workload", "parameter"),
    [
        (rcu.PeriodicInterrupt(duration_ms=5), "workload"),
        ([rcu.SyncFlood(calls=1), rcu.Readers(deferred_percent=1)], "deferred_percent"),
        (rcu.SyncFlood(tasks=5000, calls=1), "tasks"),
        (rcu.SyncFlood(calls=1, placement=9), "placement"),
        (rcu.Readers(), "duration_ms"),
    ],
)
def test_what_makes_no_sense_is_refused(workload: Any, parameter: str, engine: str) -> None:
    with pytest.raises(rcu.ConfigError) as caught:
        rcu.measure(CONFIG, workload, engine=engine)
    assert caught.value.parameter == parameter
    assert caught.value.allowed


@pytest.mark.parametrize(
    ("keywords", "parameter"),
    [
        ({"engine": "urcu"}, "engine"),
        ({"engine": 5}, "engine"),
        ({"engine": None, "keep": 0}, "keep"),
        ({"seed": -1}, "seed"),
        ({"cancel": 1}, "cancel"),
        ({"memory_limit_mb": 0}, "memory_limit_mb"),
        ({"progress": 3}, "progress"),
        ({"trace": -1}, "trace"),
    ],
)
def test_bad_arguments_are_named(keywords: dict[str, Any], parameter: str) -> None:
    with pytest.raises(rcu.ConfigError) as caught:
        rcu.measure(CONFIG, rcu.SyncFlood(calls=1), **keywords)
    assert caught.value.parameter == parameter
    if keywords.get("engine") == "urcu":
        assert all(name in caught.value.allowed for name in rcu.ENGINES)


def test_a_baseline_says_that_it_has_one_way_to_wait() -> None:
    run = rcu.measure(CONFIG, rcu.SyncFlood(kind="expedited", calls=5), engine="seize")
    assert any("one way to wait" in note for note in run.host["notes"])


def test_what_a_baseline_has_not_is_refused() -> None:
    for keywords, flood, parameter in [
        ({}, rcu.SyncFlood(kind="poll", calls=1), "kind"),
        ({}, rcu.SyncFlood(kind="barrier", calls=1), "kind"),
        ({"trace": True}, rcu.SyncFlood(calls=1), "trace"),
        ({}, rcu.Hotplug(transitions=1), "workload"),
    ]:
        with pytest.raises(rcu.ConfigError, match="seize has no") as caught:
            rcu.measure(CONFIG, flood, engine="seize", **keywords)  # type: ignore[arg-type]
        assert caught.value.parameter == parameter


def test_srcu_is_not_measured_yet() -> None:
    with pytest.raises(rcu.ConfigError, match="not measured yet"):
        rcu.measure(CONFIG, rcu.SrcuFlood(calls=1))


def test_memory_is_limited() -> None:
    with pytest.raises(rcu.MemoryLimitError):
        rcu.measure(CONFIG, rcu.SyncFlood(tasks=10, calls=1_000_000), engine="seize", memory_limit_mb=100)


def test_command_json(treercu: Command, engine: str) -> None:
    words = ["measure", "--engine", engine, "--set", "nr_cpus=2", "--seed", "5", "--workload", "sync-flood"]
    done = treercu(*words, "--tasks", "2", "--calls", "20", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert list(result) == MEASURE_KEYS
    assert (result["calls"], result["seed"], result["interrupted"]) == (40, 5, False)
    assert result["host"]["engine"] == engine
    assert 0 < result["wall_s"] < 60
    assert set(result["host"]) == FACTS


def test_command_text(treercu: Command, engine: str) -> None:
    done = treercu("measure", "--engine", engine, "--workload", "sync-flood", "--calls", "20")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{engine}, ")
    assert "calls 20  mean " in done.stdout
    assert "ns a read" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "none"], "engine='none'"),
        (["--set", "noise=1"], "set=noise"),
        (["--trace-limit", "5"], "trace_limit=5"),
        (["--workload", "periodic-interrupt", "--duration-ms", "5"], "workload=periodic-interrupt"),
        (["--workload", "sync-flood", "--tasks", "0"], "tasks=0"),
    ],
)
def test_bad_input_of_the_command_is_one_line(treercu: Command, words: list[str], said: str) -> None:
    done = treercu("measure", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
