"""What a run keeps of its calls, and its trace."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

import treercu as rcu

#: What ftrace prints: task, CPU, flags, seconds, tracepoint, the rest.
LINE = re.compile(r"^ *(\S.*)-(\d+) +\[(\d{3,})\] [a-zA-Z.]{5} +(\d+)\.(\d{6}): (rcu_\w+): (\S.*)$")


@pytest.fixture(scope="module")
def crowd() -> rcu.SyncFlood:
    """Enough calls, of enough different latencies."""
    return rcu.SyncFlood(tasks=40, calls=50, start_skew_us=3000, think_us=1700)


@pytest.fixture(scope="module")
def exact(config: rcu.Config, crowd: rcu.SyncFlood) -> rcu.Run:
    return rcu.simulate(config, crowd, seed=3)


def pooled(run: rcu.Run) -> set[tuple[int, ...]]:
    return set(zip(*(column.tolist() for column in run.samples.values()), strict=True))


def close(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert list(got) == list(want)
    for name, value in want.items():
        assert got[name] == pytest.approx(value, rel=1e-3), name
    assert got["calls"] == want["calls"]
    assert got["mean_ns"] == pytest.approx(want["mean_ns"], rel=1e-12)


def test_every_call_is_kept_by_default(config: rcu.Config, crowd: rcu.SyncFlood, exact: rcu.Run) -> None:
    assert (exact.keep, exact.calls, exact.trace) == ("samples", 2000, None)
    assert len(exact.latency_ns) == 2000
    assert rcu.simulate(config, crowd, seed=3, keep="samples", trace=False).digest == exact.digest
    values, counts = exact.distribution()
    assert (values.dtype, counts.dtype) == (np.int64, np.int64)
    assert np.array_equal(np.repeat(values, counts), np.sort(exact.latency_ns))


def test_a_histogram_answers_within_a_thousandth(
    config: rcu.Config, crowd: rcu.SyncFlood, exact: rcu.Run
) -> None:
    run = rcu.simulate(config, crowd, seed=3, keep="histogram")
    assert (run.keep, run.calls, run.samples.rows, run.latency_ns.size) == ("histogram", 2000, 0, 0)
    assert run.latency_ns.dtype == np.int64
    close(run.summary(), exact.summary())
    assert exact.summary()["std_ns"] > 1e5  # the comparison is about something
    qs = [0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1]
    assert run.quantile(qs) == pytest.approx(exact.quantile(qs), rel=1e-3)
    counts, edges = run.histogram(bins=10)
    assert counts.sum() == 2000
    assert edges[-1] >= exact.latency_ns.max()
    assert run.distribution()[1].sum() == 2000
    assert run.grace_periods == exact.grace_periods
    assert run.counters == exact.counters
    assert "2000 calls" in repr(run)


def test_a_sample_is_a_part_of_the_calls(config: rcu.Config, crowd: rcu.SyncFlood, exact: rcu.Run) -> None:
    run = rcu.simulate(config, crowd, seed=3, keep=100)
    assert (run.keep, run.calls, run.samples.rows) == (100, 2000, 100)
    assert len(pooled(run)) == 100
    assert pooled(run) < pooled(exact)
    # Not just the first hundred.
    assert run.end_ns.max() > np.quantile(exact.end_ns, 0.5)
    close(run.summary(), exact.summary())
    assert run.grace_periods == exact.grace_periods
    few = rcu.simulate(config, rcu.SyncFlood(calls=5), keep=100)
    assert (few.calls, few.samples.rows) == (5, 5)


def test_replicas_keep_and_trace_too(config: rcu.Config) -> None:
    runs = rcu.simulate_many(config, rcu.SyncFlood(calls=20), replicas=3, keep="histogram", trace=50)
    assert [(run.keep, run.calls, run.latency_ns.size) for run in runs] == [("histogram", 20, 0)] * 3
    assert [len(run.trace or ()) for run in runs] == [50] * 3


@pytest.mark.parametrize("keep", ["histogram", 30, "samples"])
def test_a_run_pickles_whatever_it_kept(config: rcu.Config, crowd: rcu.SyncFlood, keep: Any) -> None:
    run = rcu.simulate(config, crowd, seed=3, keep=keep, trace=10)
    twin = pickle.loads(pickle.dumps(run))
    assert (twin.keep, twin.calls, twin.digest) == (run.keep, run.calls, run.digest)
    assert twin.summary() == run.summary()
    assert twin.quantile([0, 0.01, 0.5, 1]).tolist() == run.quantile([0, 0.01, 0.5, 1]).tolist()
    assert twin.samples == run.samples
    assert twin.trace is None


def test_memory_decides_what_may_be_kept(config: rcu.Config) -> None:
    huge = rcu.SyncFlood(tasks=10_000, calls=1_000_000)
    with pytest.raises(rcu.MemoryLimitError, match="samples of up to 10000000000 calls"):
        rcu.simulate(config, huge)
    token = rcu.CancelToken()
    token.cancel()
    for keep in ("histogram", 1000):
        assert rcu.simulate(config, huge, keep=keep, cancel=token, memory_limit_mb=8192).interrupted
    with pytest.raises(rcu.MemoryLimitError, match="a trace of up to 200000000 events"):
        rcu.simulate(config, rcu.SyncFlood(), trace=200_000_000)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("keep", 0), ("keep", -1), ("keep", 10**10), ("keep", 10**50), ("keep", 1.5), ("keep", "all"),
        ("keep", True), ("keep", []), ("keep", "1000"),
        ("trace", -1), ("trace", 10**9), ("trace", 1.5), ("trace", "yes"), ("trace", []),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(config: rcu.Config, name: str, bad: Any) -> None:
    for call, more in ((rcu.simulate, {}), (rcu.simulate_many, {"replicas": 2})):
        with pytest.raises(rcu.ConfigError, match=rf"^{name}=.*; allowed: ") as caught:
            call(config, rcu.SyncFlood(), **{name: bad}, **more)  # type: ignore[operator]
        assert caught.value.parameter == name


# --- Traces


@pytest.fixture(scope="module")
def traced(config: rcu.Config) -> rcu.Run:
    return rcu.simulate(config, [rcu.SyncFlood(calls=10), rcu.CallRcuFlood(callbacks=50)], seed=2, trace=True)


def test_a_trace_changes_nothing(config: rcu.Config, traced: rcu.Run) -> None:
    quiet = rcu.simulate(config, [rcu.SyncFlood(calls=10), rcu.CallRcuFlood(callbacks=50)], seed=2)
    assert quiet.trace is None
    assert traced.digest == quiet.digest


def test_the_trace_reads_as_ftrace_prints_it(traced: rcu.Run) -> None:
    trace = traced.trace
    assert trace is not None
    lines = [line for line in trace.to_ftrace().splitlines() if not line.startswith("#")]
    assert len(lines) == len(trace) > 100
    assert trace.dropped == 0
    matches = [LINE.match(line) for line in lines]
    assert all(matches), next(line for line in lines if not LINE.match(line))
    names = {match[6] for match in matches if match}
    assert {"rcu_grace_period", "rcu_callback", "rcu_sr_normal", "rcu_quiescent_state_report"} <= names
    starts = [line for line in lines if re.search(r"rcu_grace_period: rcu_preempt -?\d+ start$", line)]
    assert len(starts) >= traced.counters["grace_periods"]


def test_the_trace_as_a_frame(traced: rcu.Run) -> None:
    pytest.importorskip("pandas")
    trace = traced.trace
    assert trace is not None
    frame = trace.to_pandas()
    assert list(frame.columns) == ["at_ns", "cpu", "comm", "pid", "event", "text"]
    assert (frame["at_ns"].dtype, frame["cpu"].dtype, frame["pid"].dtype) == (np.int64, np.int32, np.int32)
    assert frame["at_ns"].is_monotonic_increasing
    lines = [line for line in trace.to_ftrace().splitlines() if not line.startswith("#")]
    for row, line in zip(frame.itertuples(), lines, strict=True):
        match = LINE.match(line)
        assert match is not None
        assert (row.comm, row.pid, row.cpu) == (match[1], int(match[2]), int(match[3]))
        assert row.at_ns // 1000 == int(match[4]) * 1_000_000 + int(match[5])
        assert (row.event, row.text) == (match[6], match[7])


def test_a_trace_is_bounded(config: rcu.Config, traced: rcu.Run) -> None:
    assert traced.trace is not None
    short = rcu.simulate(config, rcu.SyncFlood(calls=10), trace=20).trace
    assert short is not None
    assert len(short) == 20
    assert short.dropped > 0
    assert short.to_ftrace().endswith(f"# {short.dropped} later events dropped\n")
    assert repr(short) == f"<Trace: 20 events, {short.dropped} more dropped>"
    assert repr(traced.trace) == f"<Trace: {len(traced.trace)} events>"
