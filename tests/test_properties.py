"""Properties over random input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treercu as rcu
from treercu import cli

ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
    st.lists(st.integers(), max_size=3), st.dictionaries(st.text(), st.integers(), max_size=2),
)  # fmt: skip
WORKLOADS = [
    rcu.SyncFlood, rcu.CpuLoad, rcu.Readers, rcu.CallRcuFlood, rcu.PeriodicInterrupt, rcu.Hotplug,
    rcu.HotplugSweep, rcu.SrcuFlood,
]  # fmt: skip
LENGTHS = st.one_of(
    st.floats(0, 1e6).map(str),
    st.floats(0, 1e6).map("exp:{}".format),
    st.tuples(st.floats(0, 1e3), st.floats(1e3, 1e6)).map(lambda bounds: "uniform:{}:{}".format(*bounds)),
    st.from_regex(r"(exp|uniform|):?[-+0-9.e:]*", fullmatch=True),
)


def made_or_refused(cls: Any, fields: dict[str, Any]) -> Any:
    """The object, or `None` after a one-line refusal; anything else that is raised fails the test."""
    try:
        return cls(**fields)
    except rcu.ConfigError as err:
        text = str(err)
    assert "; allowed: " in text
    assert "\n" not in text
    assert len(text) < 1000
    return None


@pytest.mark.parametrize("cls", WORKLOADS, ids=lambda cls: cls.__name__)
def test_a_workload_is_made_or_refused(cls: Any) -> None:
    names = [field for field in cls().to_dict() if field != "type"]

    @given(st.dictionaries(st.sampled_from(names), ANYTHING | LENGTHS))
    def check(fields: dict[str, Any]) -> None:
        part = made_or_refused(cls, fields)
        assert part is None or eval(repr(part), vars(rcu)) == part == part.replace()

    check()


@given(LENGTHS)
def test_a_length_is_refused_or_shown_as_it_can_be_given(text: str) -> None:
    part = made_or_refused(rcu.Readers, {"section_us": text})
    if part is not None:
        assert rcu.Readers(section_us=part.section_us) == part
        assert rcu.Readers(section_us=str(part.section_us)) == part


@given(st.dictionaries(st.sampled_from(list(rcu.Machine().to_dict())), ANYTHING))
def test_a_machine_is_made_or_refused(fields: dict[str, Any]) -> None:
    machine = made_or_refused(rcu.Machine, fields)
    assert machine is None or eval(repr(machine), vars(rcu)) == machine


@pytest.mark.filterwarnings("ignore::treercu.ConfigWarning")
@given(st.dictionaries(st.sampled_from(list(rcu.Config().effective)), ANYTHING))
def test_a_config_is_made_or_refused(fields: dict[str, Any]) -> None:
    config = made_or_refused(rcu.Config, fields)
    if config is not None:
        assert eval(repr(config), vars(rcu)) == config
        assert rcu.Config.from_toml(config.to_toml()) == config


@given(st.text())
def test_any_text_is_a_kernel_command_line(line: str) -> None:
    _, words = rcu.Config.from_cmdline(line)
    assert all(word["verdict"] in ("used", "clamped", "ignored", "unknown") for word in words)


@given(st.integers(0, 7 * 24 * 3600 * 10**9))
def test_nanoseconds_survive_their_units(ns: int) -> None:
    for unit, name in ((10**6, "duration_ms"), (10**3, "start_skew_us")):
        flood = rcu.SyncFlood(calls=1, **{name: ns / unit})
        assert flood.replace(**{name: getattr(flood, name)}) == flood
        assert round(getattr(flood, name) * unit) == ns


@given(st.lists(st.text(max_size=20), max_size=5))
@settings(max_examples=50)
def test_any_words_give_an_exit_code(words: list[str]) -> None:
    assert cli.main(["simulate", "--quiet", "--workload", "sync-flood", "--calls", "1", "--", *words]) in (
        0,
        2,
    )
    assert cli.main(["tunables", *[f"--set={word}" for word in words]]) in (0, 2)


@pytest.mark.filterwarnings("ignore::treercu.ConfigWarning")
@given(
    nr_cpus=st.integers(1, 40),
    hz=st.sampled_from([100, 250, 300, 1000]),
    kernel=st.sampled_from(["6.8", "6.12", "6.18", "7.2"]),
    first=st.integers(0, 5),
    tasks=st.integers(1, 6),
    calls=st.integers(1, 20),
    seed=st.integers(0, 2**64 - 1),
)
@settings(max_examples=60)
def test_what_every_run_satisfies(
    nr_cpus: int, hz: int, kernel: str, first: int, tasks: int, calls: int, seed: int
) -> None:
    config = rcu.Config(nr_cpus=nr_cpus, hz=hz, kernel=kernel, jiffies_till_first_fqs=first)
    run = rcu.simulate(config, rcu.SyncFlood(tasks=tasks, calls=calls), seed=seed)
    assert run.samples.rows == tasks * calls
    assert (run.latency_ns >= 0).all()
    assert np.array_equal(np.bincount(run.task), np.full(tasks, calls))
    assert (np.diff(run.end_ns) >= 0).all()
    assert (np.diff(run.grace_periods["gp_seq"]) == 4).all()
    assert (run.grace_periods["start_ns"][1:] >= run.grace_periods["end_ns"][:-1]).all()
    assert run.virtual_s * 1e9 >= run.end_ns.max()
    # Nearest rank, against numpy's own.
    n = run.samples.rows
    for q in (0.0, 0.25, 0.5, 0.9, 1.0):
        if q in (0.0, 1.0) or n == 1 or min(q, 1 - q) * n >= 1:
            expected = np.quantile(run.latency_ns, q, method="inverted_cdf")
            assert run.quantile(q) == expected
