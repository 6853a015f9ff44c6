"""`Run`: columns as views of Rust memory, statistics, metadata, pickling."""

from __future__ import annotations

import gc
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treercu as rcu

SAMPLES = {
    "task": np.int32,
    "cpu": np.int32,
    "start_ns": np.int64,
    "end_ns": np.int64,
    "latency_ns": np.int64,
    "gp_seq": np.int64,
}
GRACE_PERIODS = {
    "gp_seq": np.int64,
    "start_ns": np.int64,
    "end_ns": np.int64,
    "requests": np.int64,
    "scans": np.int32,
    "holdout_cpu": np.int32,
    "resolved_by": np.int32,
    "kthread_cpu": np.int32,
}


def test_columns_have_the_promised_names_and_types(run: rcu.Run) -> None:
    assert {name: column.dtype for name, column in run.samples.items()} == SAMPLES
    assert {name: column.dtype for name, column in run.grace_periods.items()} == GRACE_PERIODS
    assert run.samples.rows == 100
    assert all(len(column) == 100 for column in run.samples.values())
    assert "100 rows" in repr(run.samples)
    assert len(run.samples) == len(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_same_array_at_each_access(run: rcu.Run, name: str) -> None:
    assert run.samples is run.samples
    assert run.grace_periods is run.grace_periods
    assert getattr(run, name) is getattr(run, name) is run.samples[name]


@pytest.mark.parametrize("table", ["samples", "grace_periods"])
def test_columns_are_read_only_views_without_a_copy(run: rcu.Run, table: str) -> None:
    for column in getattr(run, table).values():
        assert not column.flags.owndata
        assert type(column.base).__name__ == "_Owner"
        assert column.flags.c_contiguous
        assert column.flags.aligned
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            column.flags.writeable = True
        with pytest.raises(ValueError, match="WRITEABLE"):
            column.setflags(write=True)
        with pytest.raises(TypeError, match="read-only"):
            memoryview(column)[0] = 1


def test_a_view_outlives_its_run(config: rcu.Config) -> None:
    run = rcu.simulate(config, rcu.SyncFlood(calls=50), seed=7)
    view, expected = run.latency_ns, run.latency_ns.copy()
    inner = run.samples["start_ns"][10:20]
    starts = inner.copy()
    del run
    gc.collect()
    # Whatever could be overwritten by now, would be.
    again = [rcu.simulate(config, rcu.SyncFlood(calls=50), seed=seed) for seed in range(20)]
    assert np.array_equal(view, expected)
    assert np.array_equal(inner, starts)
    assert again


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_runs_are_freed_without_the_cycle_collector(config: rcu.Config) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def one(seed: int) -> None:
        run = rcu.simulate(config, rcu.SyncFlood(tasks=500, calls=100), seed=seed)
        assert run.latency_ns.sum() > 0
        assert run.grace_periods["scans"].sum() > 0
        assert run.digest

    gc.disable()
    try:
        one(0)
        before = resident()
        for seed in range(30):  # 2 MB of samples each
            one(seed)
        assert resident() - before < 20_000_000
    finally:
        gc.enable()


def test_what_the_columns_say_fits_together(run: rcu.Run) -> None:
    assert np.array_equal(run.end_ns - run.start_ns, run.latency_ns)
    assert (run.task == 0).all()
    assert ((run.cpu >= 0) & (run.cpu < 32)).all()
    table = run.grace_periods
    assert (table["end_ns"] > table["start_ns"]).all()
    assert (np.diff(table["gp_seq"]) == 4).all()
    assert (table["gp_seq"] % 4 == 1).all()
    assert set(table.labels("resolved_by")) <= set(rcu.RESOLUTIONS)
    assert table["requests"].sum() == 100
    assert run.counters["grace_periods"] == table.rows
    assert run.counters["fqs_scans"] >= table["scans"].sum()


def test_unknown_columns_say_which_there_are(run: rcu.Run) -> None:
    with pytest.raises(KeyError, match="latency_ns"):
        _ = run.samples["latency"]
    with pytest.raises(KeyError, match="resolved_by"):
        run.grace_periods.labels("scans")
    assert "latency" not in run.samples


def test_to_pandas(run: rcu.Run) -> None:
    pd = pytest.importorskip("pandas")
    frame = run.samples.to_pandas()
    assert list(frame.columns) == list(SAMPLES)
    assert frame.index.name == "call"
    assert frame["latency_ns"].dtype == np.int64
    assert np.array_equal(frame["latency_ns"], run.latency_ns)
    frame.loc[0, "latency_ns"] = -1  # the frame is the caller's own
    assert run.latency_ns[0] > 0
    codes = run.grace_periods.to_pandas()["resolved_by"]
    assert isinstance(codes.dtype, pd.CategoricalDtype)
    assert list(codes.cat.categories) == list(rcu.RESOLUTIONS)


def test_to_xarray(run: rcu.Run) -> None:
    pytest.importorskip("xarray")
    data = run.grace_periods.to_xarray()
    assert dict(data.sizes) == {"grace_period": run.grace_periods.rows}
    assert data["start_ns"].attrs == {"units": "ns"}
    assert data["resolved_by"].attrs["flag_meanings"].split() == list(rcu.RESOLUTIONS)


def test_to_arrow(run: rcu.Run) -> None:
    pytest.importorskip("pyarrow")
    table = run.grace_periods.to_arrow()
    assert table.column_names == list(GRACE_PERIODS)
    assert table.column("resolved_by").to_pylist() == list(run.grace_periods.labels("resolved_by"))


@pytest.mark.parametrize(
    ("method", "module", "extra"),
    [
        ("to_pandas", "pandas", "study"),
        ("to_xarray", "xarray", "study"),
        ("to_arrow", "pyarrow", "arrow"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    run: rcu.Run, monkeypatch: pytest.MonkeyPatch, method: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"treercu\[{extra}\]"):
        getattr(run.samples, method)()


def test_summary_and_quantiles(run: rcu.Run) -> None:
    summary = run.summary()
    latencies = np.sort(run.latency_ns)
    assert summary["calls"] == 100
    assert summary["mean_ns"] == pytest.approx(latencies.mean())
    assert summary["std_ns"] == pytest.approx(latencies.std(ddof=1))
    assert (summary["min_ns"], summary["max_ns"]) == (latencies[0], latencies[-1])
    assert summary["p50_ns"] == latencies[49]
    assert summary["p99_ns"] == latencies[98]
    assert summary["interrupted"] is False
    assert run.quantile(0.5) == summary["p50_ns"]
    assert type(run.quantile(0.5)) is int
    assert run.quantile(0) == latencies[0]
    assert run.quantile(1) == latencies[-1]
    assert run.quantile([0.5, 0.99]).tolist() == [latencies[49], latencies[98]]
    assert run.quantile(np.array([0.5])).dtype == np.int64
    assert run.quantile([]).size == 0


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), True, "0.5", None, [0.5, 2], ["x"], 0.999, 0.001])
def test_quantiles_that_mean_nothing_are_refused(run: rcu.Run, bad: Any) -> None:
    with pytest.raises(rcu.ConfigError, match="^q="):
        run.quantile(bad)


def test_histogram(run: rcu.Run) -> None:
    counts, edges = run.histogram(bins=10)
    assert (counts.dtype, edges.dtype) == (np.int64, np.int64)
    assert (len(counts), len(edges)) == (10, 11)
    assert counts.sum() == 100
    assert edges[0] <= run.latency_ns.min()
    assert edges[-1] >= run.latency_ns.max()
    assert len(run.histogram()[0]) == 50
    for bad in (0, -1, 1.5, float("nan"), 10**9, "10", True):
        with pytest.raises(rcu.ConfigError, match="^bins="):
            run.histogram(bins=bad)


def test_metadata(run: rcu.Run, config: rcu.Config, flood: rcu.SyncFlood) -> None:
    assert run.seed == 1
    assert run.config == config
    assert run.machine == rcu.Machine()
    assert run.workload == flood
    assert run.interrupted is False
    assert run.version == rcu.__version__
    assert run.host
    assert len(run.digest) == 32
    assert int(run.digest, 16) >= 0
    assert run.events > 100
    assert 0.9 < run.virtual_s < 1.1
    assert 0 < run.wall_s < 10
    assert 0 < run.cpu_s < 10
    assert repr(run).startswith("<Run: 100 calls, mean 9.9")
    assert "seed 1" in repr(run)


def test_a_list_of_workloads_becomes_a_mix(config: rcu.Config) -> None:
    run = rcu.simulate(config, [rcu.SyncFlood(calls=2), rcu.CpuLoad(cpus=[3])])
    assert run.workload == rcu.Mix([rcu.SyncFlood(calls=2), rcu.CpuLoad(cpus=[3])])
    assert rcu.simulate(config, [rcu.SyncFlood(calls=2)]).workload == rcu.SyncFlood(calls=2)


def test_a_run_pickles(config: rcu.Config) -> None:
    run = rcu.simulate(config, [rcu.SyncFlood(calls=5), rcu.CpuLoad(cpus=[3])], seed=2**64 - 1)
    twin = pickle.loads(pickle.dumps(run))
    assert twin.samples == run.samples
    assert twin.grace_periods == run.grace_periods
    assert twin.grace_periods != run.samples
    assert twin.digest == run.digest
    assert (twin.config, twin.machine, twin.workload) == (run.config, run.machine, run.workload)
    assert (twin.seed, twin.events, twin.wall_s, twin.host) == (run.seed, run.events, run.wall_s, run.host)
    assert twin.summary() == run.summary()
    with pytest.raises(ValueError, match="read-only"):
        twin.latency_ns[0] = 1
    columns = pickle.loads(pickle.dumps(run.samples))
    assert columns == run.samples
    with pytest.raises(ValueError, match="read-only"):
        columns["latency_ns"][0] = 1


def test_a_run_without_calls(config: rcu.Config) -> None:
    token = rcu.CancelToken()
    token.cancel()
    run = rcu.simulate(config, rcu.SyncFlood(), cancel=token)
    assert run.interrupted
    assert len(run.latency_ns) == 0
    assert run.latency_ns.dtype == np.int64
    assert run.summary()["mean_ns"] is None
    assert run.samples.to_pandas().empty
    assert "0 calls" in repr(run)
    assert "interrupted" in repr(run)
    with pytest.raises(rcu.ConfigError, match="no samples"):
        run.quantile(0.5)
    assert run.histogram(5)[0].sum() == 0
    assert pickle.loads(pickle.dumps(run)).digest == run.digest
