"""`simulate` and `simulate_many`: determinism, refusals, progress, cancelling, threads, processes."""

from __future__ import annotations

import json
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
from conftest import clean_env, python


def test_the_same_seed_gives_the_same_bytes(config: rcu.Config, flood: rcu.SyncFlood, run: rcu.Run) -> None:
    again = rcu.simulate(config, flood, seed=1)
    assert again.samples == run.samples
    assert again.grace_periods == run.grace_periods
    assert again.counters == run.counters
    assert again.digest == run.digest
    assert rcu.simulate(config, flood, seed=2).digest != run.digest
    assert rcu.simulate(config, flood).digest == run.digest


def test_the_early_report_saves_four_milliseconds(config: rcu.Config, flood: rcu.SyncFlood) -> None:
    quiet = rcu.Machine(noise=0, gp_kthread_cpu=7)
    flood = flood.replace(placement=3)
    before = rcu.simulate(config, flood, machine=quiet)
    after = rcu.simulate(config.replace(early_qs=True), flood, machine=quiet)
    assert before.quantile(0.5) == pytest.approx(10e6, rel=0.01)
    assert after.quantile(0.5) == pytest.approx(6e6, rel=0.01)
    same_cpu = rcu.simulate(config, flood, machine=quiet.replace(gp_kthread_cpu=3))
    assert same_cpu.quantile(0.5) == pytest.approx(6e6, rel=0.01)


def test_replicas_do_not_depend_on_threads(config: rcu.Config, flood: rcu.SyncFlood) -> None:
    serial = [rcu.simulate(config, flood, seed=5 + i) for i in range(6)]
    for threads in (1, 2, 0):
        many = rcu.simulate_many(config, flood, replicas=6, threads=threads, seed=5)
        assert [run.digest for run in many] == [run.digest for run in serial]
        assert [run.seed for run in many] == [5, 6, 7, 8, 9, 10]


def test_seeds_wrap(config: rcu.Config) -> None:
    many = rcu.simulate_many(config, rcu.SyncFlood(calls=1), replicas=2, seed=2**64 - 1)
    assert [run.seed for run in many] == [2**64 - 1, 0]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("seed", -1), ("seed", 2**64), ("seed", 1.5), ("seed", "1"), ("seed", True), ("seed", 10**6000),
        ("machine", 1), ("cancel", 1), ("progress", 1), ("progress", "yes"),
        ("memory_limit_mb", 0), ("memory_limit_mb", -1), ("memory_limit_mb", float("nan")),
        ("replicas", 0), ("replicas", -1), ("replicas", 10**9), ("replicas", 1.5), ("replicas", "2"),
        ("threads", -1), ("threads", 10**6), ("threads", float("inf")),
    ],
    ids=lambda value: str(value)[:20] if not isinstance(value, int) else "int",
)  # fmt: skip
def test_arguments_are_refused_by_name(config: rcu.Config, name: str, bad: Any) -> None:
    call: Any = rcu.simulate_many
    with pytest.raises(rcu.ConfigError, match=rf"^{name}=") as caught:
        call(config, rcu.SyncFlood(), **{"replicas": 1, name: bad})
    assert "; allowed: " in str(caught.value)


def test_what_is_no_config_or_workload_is_refused(config: rcu.Config) -> None:
    call: Any = rcu.simulate
    with pytest.raises(rcu.ConfigError, match="^config="):
        call({}, rcu.SyncFlood())
    for bad in (None, 1, "sync-flood", [], [1], [[rcu.SyncFlood()]], rcu.SyncFlood):
        with pytest.raises(rcu.ConfigError, match="^workload="):
            call(config, bad)


def test_what_needs_the_machine_is_checked_with_it(config: rcu.Config) -> None:
    with pytest.raises(rcu.ConfigError, match="^placement=32: .*allowed: 0 to 31"):
        rcu.simulate(config, rcu.SyncFlood(placement=32))
    with pytest.raises(rcu.ConfigError, match="^cpus=32: .*allowed: 0 to 31"):
        rcu.simulate(config, [rcu.SyncFlood(), rcu.CpuLoad(cpus=[32])])
    with pytest.raises(rcu.ConfigError, match="^gp_kthread_cpu=32: "):
        rcu.simulate(config, rcu.SyncFlood(), machine=rcu.Machine(gp_kthread_cpu=32))
    with pytest.raises(rcu.ConfigError, match="^duration_ms=0: "):
        rcu.simulate(config, rcu.CpuLoad())


def test_no_thread_outlives_a_call(config: rcu.Config, flood: rcu.SyncFlood) -> None:
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        pytest.skip("needs /proc")
    rcu.simulate_many(config, flood, replicas=4, threads=2)

    def ours() -> list[str]:
        return [name for task in tasks.iterdir() if (name := _comm(task)).startswith("treercu")]

    deadline = time.monotonic() + 5  # a joined thread may linger in /proc for an instant
    while ours() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ours() == []


def _comm(task: Path) -> str:
    try:
        return (task / "comm").read_text().strip()
    except OSError:
        return ""


# --- Progress


def test_progress_goes_to_a_callable(config: rcu.Config) -> None:
    seen: list[tuple[int, int]] = []
    rcu.simulate(config, rcu.SyncFlood(calls=50), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (50, 50)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_a_failing_progress_callable_ends_the_call(config: rcu.Config, endless: rcu.SyncFlood) -> None:
    def fail(done: int, total: int) -> None:
        raise LookupError("from the callable")

    began = time.monotonic()
    with pytest.raises(LookupError, match="from the callable"):
        rcu.simulate(config, endless, progress=fail)
    assert time.monotonic() - began < 10


def test_a_bar_goes_to_stderr_only_when_asked(config: rcu.Config, capfd: pytest.CaptureFixture[str]) -> None:
    rcu.simulate(config, rcu.SyncFlood(calls=50))
    rcu.simulate(config, rcu.SyncFlood(calls=50), progress=False)
    assert capfd.readouterr() == ("", "")
    rcu.simulate(config, rcu.SyncFlood(calls=50), progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "50" in err


# --- Cancelling


def test_a_token_makes_the_call_return_what_it_has(config: rcu.Config, endless: rcu.SyncFlood) -> None:
    token = rcu.CancelToken()
    assert not token.cancelled
    timer = threading.Timer(0.3, token.cancel)
    timer.start()
    began = time.monotonic()
    run = rcu.simulate(config, endless, cancel=token)
    assert time.monotonic() - began < 10
    timer.join()
    assert token.cancelled
    assert "True" in repr(token)
    assert run.interrupted
    assert run.summary()["interrupted"] is True
    assert 0 < len(run.latency_ns) < endless.tasks * endless.calls
    assert (run.latency_ns > 0).all()


def test_a_token_ends_all_replicas(config: rcu.Config, endless: rcu.SyncFlood) -> None:
    token = rcu.CancelToken()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(rcu.simulate_many, config, endless, replicas=3, threads=2, cancel=token)
        time.sleep(0.3)
        token.cancel()
        runs = future.result(timeout=10)
    assert len(runs) == 3
    assert any(len(run.latency_ns) for run in runs)
    assert all(run.interrupted for run in runs)


def test_a_partial_run_is_the_beginning_of_the_whole(config: rcu.Config) -> None:
    token = rcu.CancelToken()
    long = rcu.SyncFlood(calls=1_000_000)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(rcu.simulate, config, long, cancel=token)
        time.sleep(0.2)
        token.cancel()
        part = future.result(timeout=10)
    n = min(len(part.latency_ns), 2000)
    assert n > 0
    whole = rcu.simulate(config, rcu.SyncFlood(calls=2000))
    assert np.array_equal(part.latency_ns[:n], whole.latency_ns[:n])


# --- Threads and processes


def test_the_interpreter_runs_on_meanwhile(config: rcu.Config, endless: rcu.SyncFlood) -> None:
    token = rcu.CancelToken()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(rcu.simulate, config, endless, cancel=token)
        ticks = 0
        for _ in range(20):
            time.sleep(0.005)
            ticks += 1
        assert not future.done()
        token.cancel()
        future.result(timeout=10)
    assert ticks == 20


def test_threads_side_by_side(config: rcu.Config, flood: rcu.SyncFlood) -> None:
    expected = [rcu.simulate(config, flood, seed=seed).digest for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda seed: rcu.simulate(config, flood, seed=seed), range(8)))
    assert [run.digest for run in runs] == expected
    shared = runs[0]
    with ThreadPoolExecutor(4) as pool:
        views = list(pool.map(lambda _: shared.samples, range(50)))
    assert all(view is views[0] for view in views)


POOLS = """
import concurrent.futures, json, multiprocessing, sys
import treercu as rcu

def main():
    config, flood = rcu.Config(kernel="6.18", nr_cpus=32, hz=1000), rcu.SyncFlood(calls=20)
    # The parent has used the engine, with its threads, before the children start.
    here = [run.digest for run in rcu.simulate_many(config, flood, replicas=3, threads=2, seed=0)]
    context = multiprocessing.get_context(sys.argv[1])
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        jobs = [pool.submit(rcu.simulate, config, flood, seed=seed) for seed in range(3)]
        there = [job.result(60) for job in jobs]
        many = pool.submit(rcu.simulate_many, config, flood, replicas=3, threads=2, seed=0).result(60)
    digests = [[run.digest for run in runs] for runs in (there, many)]
    print(json.dumps({"same": digests == [here, here], "calls": len(there[0].latency_ns)}))

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_process_pools(method: str, tmp_path: Path) -> None:
    script = tmp_path / "pools.py"
    script.write_text(POOLS)
    done = subprocess.run(
        [sys.executable, str(script), method],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env=clean_env(),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"same": True, "calls": 20}


def test_importing_is_quiet_and_starts_nothing() -> None:
    code = "import treercu, sys; sys.exit('pandas' in sys.modules or 'matplotlib' in sys.modules)"
    done = subprocess.run(
        python(code), capture_output=True, text=True, timeout=60, check=False, env=clean_env()
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_build_info() -> None:
    info = rcu.build_info()
    assert info["version"] == rcu.__version__
    assert info["debug"] is False
