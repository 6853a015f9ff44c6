"""Ctrl-C: the call ends soon, and what was measured so far is kept."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conftest import COMMAND, clean_env, python

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")

#: Generous: a loaded machine is slow, a call that ignores the signal takes minutes.
SOON_S = 10.0
LONG = ["--workload", "sync-flood", "--tasks", "8", "--calls", "1000000"]


def interrupt(
    words: Sequence[str], number: int = signal.SIGINT, times: int = 1
) -> subprocess.CompletedProcess[str]:
    """Starts a program, waits until the engine works, sends a signal, and waits for the end."""
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_env()
    )
    try:
        deadline = time.monotonic() + 60
        while not _engine_works(process.pid):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.2)
        sent = time.monotonic()
        for time_sent in range(times):
            time.sleep(0.02 * bool(time_sent))
            process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert time.monotonic() - sent < SOON_S
    finally:
        process.kill()
        process.wait()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def _engine_works(pid: int) -> bool:
    for task in Path(f"/proc/{pid}/task").glob("*/comm"):
        try:
            if task.read_text().startswith("treercu-run"):
                return True
        except OSError:
            pass
    return False


def test_simulate_prints_what_it_has_and_exits_130() -> None:
    done = interrupt([*COMMAND, "simulate", *LONG, "--json"])
    assert done.returncode == 130
    result = json.loads(done.stdout)
    assert result["interrupted"] is True
    assert 0 < result["calls"] < 8_000_000
    assert result["mean_ns"] > 0
    assert result["seed"] == 1
    assert done.stderr == ""


def test_a_second_ctrl_c_loses_nothing() -> None:
    # Fast calls of many threads: there is much to gather when the first one comes.
    flood = "--workload sync-flood --tasks 64 --calls 0 --duration-ms 60000 --kind expedited".split()
    done = interrupt([*COMMAND, "measure", "--set", "nr_cpus=2", *flood, "--json"], times=3)
    assert done.returncode == 130
    result = json.loads(done.stdout)
    assert result["interrupted"] is True
    assert result["calls"] > 0
    assert "nothing was measured" not in done.stderr


def test_replicas_too() -> None:
    done = interrupt([*COMMAND, "simulate", *LONG, "--replicas", "3", "--json"])
    assert done.returncode == 130
    result = json.loads(done.stdout)
    assert result["interrupted"] is True
    assert result["calls"] == sum(replica["calls"] for replica in result["replicas"]) > 0


def test_text_says_that_it_is_not_all() -> None:
    done = interrupt([*COMMAND, "simulate", *LONG])
    assert done.returncode == 130
    assert "interrupted" in done.stdout
    assert "Traceback" not in done.stderr


CATCH = """
import json, pickle, treercu as rcu
cfg, flood = rcu.Config(), rcu.SyncFlood(tasks=8, calls=1_000_000)
assert rcu.last_run() is None
try:
    {call}
except KeyboardInterrupt as err:
    twin = pickle.loads(pickle.dumps(err))
    print(json.dumps({{
        "type": type(err).__name__,
        "cause": type(err.__cause__).__name__,
        "calls": len(err.run.latency_ns),
        "runs": len(err.runs),
        "interrupted": err.run.interrupted,
        "last": rcu.last_run() is err.run,
        "pickled": twin.run.digest == err.run.digest,
    }}))
# The engine is as good as before.
print(len(rcu.simulate(cfg, rcu.SyncFlood(calls=5)).latency_ns))
"""


@pytest.mark.parametrize(
    ("call", "runs"),
    [("rcu.simulate(cfg, flood)", 1), ("rcu.simulate_many(cfg, flood, replicas=3, threads=2)", 3)],
)
def test_the_exception_carries_the_partial_run(call: str, runs: int) -> None:
    done = interrupt(python(CATCH.format(call=call)))
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    caught: dict[str, Any] = json.loads(first)
    if runs == 1:
        assert caught.pop("calls") > 0
    else:
        caught.pop("calls")
    assert caught == {
        "type": "Interrupted",
        "cause": "KeyboardInterrupt",
        "runs": runs,
        "interrupted": True,
        "last": True,
        "pickled": True,
    }
    assert second == "5"


OTHER = """
import signal, treercu as rcu
def handler(*_):
    raise LookupError("from the handler")
signal.signal(signal.SIGUSR1, handler)
try:
    rcu.simulate(rcu.Config(), rcu.SyncFlood(tasks=8, calls=1_000_000))
except LookupError as err:
    print(err)
"""


def test_what_another_handler_raises_comes_through() -> None:
    done = interrupt(python(OTHER), signal.SIGUSR1)
    assert (done.returncode, done.stdout, done.stderr) == (0, "from the handler\n", "")


NO_MATTER = """
import signal, treercu as rcu
signal.signal(signal.SIGUSR1, lambda *_: print("seen", flush=True))
print(len(rcu.simulate(rcu.Config(), rcu.SyncFlood(tasks=4, calls=100_000)).latency_ns))
"""


def test_a_handler_that_raises_nothing_changes_nothing() -> None:
    done = interrupt(python(NO_MATTER), signal.SIGUSR1)
    assert (done.returncode, done.stdout, done.stderr) == (0, "seen\n400000\n", "")


@pytest.mark.parametrize("json_wanted", [False, True])
def test_an_interrupt_during_import_is_one_line(tmp_path: Path, json_wanted: bool) -> None:
    # An import that takes for ever, and says when it began.
    (tmp_path / "numpy.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(100)\n")
    words = [*COMMAND, "simulate", *(["--json"] if json_wanted else [])]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_env(PYTHONPATH=str(tmp_path)),
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "importing\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert err == "treercu: interrupted\n"
    assert out == ('{"interrupted": true}\n' if json_wanted else "")


def test_only_the_command_takes_the_interrupt() -> None:
    code = "import signal, treercu; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    done = subprocess.run(
        python(code), capture_output=True, text=True, timeout=60, check=False, env=clean_env()
    )
    assert (done.returncode, done.stdout) == (0, "True\n")
