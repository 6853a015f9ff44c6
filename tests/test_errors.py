"""Exception classes: hierarchy, fields, pickling."""

from __future__ import annotations

import pickle

import pytest

import treercu as rcu
from treercu import errors


def test_hierarchy() -> None:
    assert issubclass(rcu.ConfigError, (rcu.RcuError, ValueError))
    assert issubclass(rcu.ConfigError, ValueError)
    assert issubclass(rcu.StallError, rcu.RcuError)
    assert issubclass(rcu.MemoryLimitError, MemoryError)
    assert issubclass(rcu.EngineError, rcu.RcuError)
    assert issubclass(rcu.Interrupted, KeyboardInterrupt)
    assert not issubclass(rcu.Interrupted, Exception)
    assert issubclass(rcu.ConfigWarning, UserWarning)


@pytest.mark.parametrize("name", errors.__all__)
def test_every_class_is_public_and_pickles(name: str) -> None:
    cls = getattr(errors, name)
    assert getattr(rcu, name) is cls
    clone = pickle.loads(pickle.dumps(cls("some text")))
    assert type(clone) is cls
    assert str(clone) == "some text"


def test_a_raised_error_pickles_with_its_fields() -> None:
    with pytest.raises(rcu.ConfigError) as caught:
        rcu.Config(nr_cpus=0)
    clone = pickle.loads(pickle.dumps(caught.value))
    assert str(clone) == str(caught.value)
    assert (clone.parameter, clone.value, clone.allowed) == ("nr_cpus", "0", caught.value.allowed)
    assert clone.reason == caught.value.reason


def test_memory_is_estimated_before_anything_starts(config: rcu.Config) -> None:
    with pytest.raises(rcu.MemoryLimitError, match="memory_limit_mb=1") as caught:
        rcu.simulate(config, rcu.SyncFlood(tasks=1000, calls=1_000_000), memory_limit_mb=1)
    assert caught.value.limit_mb == 1
    assert caught.value.need_mb > 1
    with pytest.raises(MemoryError):
        rcu.simulate(config, rcu.SyncFlood(tasks=1000, calls=1_000_000_000))
