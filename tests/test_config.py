"""`Config` and `Machine`: values in force, refusals, warnings, equality, pickling."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import treercu as rcu

# What a configuration takes.
CATALOGUE = [row for row in rcu.tunables() if row["python_name"] is not None]
BY_NAME = {row["python_name"]: row for row in CATALOGUE}
BOOLEANS = [name for name, row in BY_NAME.items() if isinstance(row["default"], bool)]
INTEGERS = [name for name, row in BY_NAME.items() if type(row["default"]) is int]
WORDS = [name for name, row in BY_NAME.items() if isinstance(row["default"], str)]


def refused(name: str, value: Any, call: Any) -> rcu.ConfigError:
    """The call is refused in one line that names the parameter and what is allowed."""
    with pytest.raises(rcu.ConfigError) as caught:
        call()
    err = caught.value
    assert isinstance(err, ValueError)
    assert isinstance(err, rcu.RcuError)
    assert err.parameter == name
    assert str(err).startswith(f"{name}=")
    assert "; allowed: " in str(err)
    assert err.allowed
    assert "\n" not in str(err)
    assert len(str(err)) < 1000
    return err


def test_every_tunable_is_an_attribute_and_in_effective() -> None:
    config = rcu.Config()
    assert list(config.effective) == [row["python_name"] for row in CATALOGUE]
    for name, value in config.effective.items():
        assert getattr(config, name) == value
        assert name in dir(config)
    assert config.explicit == {}


def test_the_three_kinds_of_tunable_cover_the_catalogue() -> None:
    assert {*BOOLEANS, *INTEGERS, *WORDS} == set(BY_NAME)
    assert "early_qs" in BOOLEANS
    assert "jiffies_till_first_fqs" in INTEGERS
    assert "kernel" in WORDS


def test_catalogue_rows_are_complete() -> None:
    keys = {
        "name", "python_name", "kernel_name", "kind", "default", "range",
        "unit", "effect", "tier", "status", "why", "probe",
    }  # fmt: skip
    for row in CATALOGUE:
        assert keys <= set(row)
        assert row["effect"]
        assert row["range"]
        assert row["why"]
    assert len({row["name"] for row in CATALOGUE}) == len(CATALOGUE)


def test_machine_fields_and_tunables_do_not_share_names() -> None:
    names = {row["python_name"] for row in CATALOGUE} | {row["name"] for row in CATALOGUE}
    assert not names & set(rcu.Machine().to_dict())


def test_kernel_sets_defaults_and_explicit_values_win() -> None:
    assert rcu.Config(kernel="6.18").early_qs is False
    assert rcu.Config().kernel == "7.2"
    assert rcu.Config().early_qs is True
    assert rcu.Config(kernel="6.18", early_qs=True).early_qs is True
    assert rcu.Config(early_qs=True, kernel="6.18") == rcu.Config(kernel="6.18", early_qs=True)


def test_defaults_follow_their_formulas() -> None:
    assert rcu.Config(hz=1000, nr_cpus=32).jiffies_till_first_fqs == 3
    assert rcu.Config(hz=250, nr_cpus=32).jiffies_till_first_fqs == 1
    assert rcu.Config(hz=1000, nr_cpus=2048).jiffies_till_first_fqs == 11


def test_replace_resolves_again_and_leaves_the_original() -> None:
    config = rcu.Config(hz=250)
    other = config.replace(hz=1000)
    assert (config.jiffies_till_first_fqs, other.jiffies_till_first_fqs) == (1, 3)
    assert other.replace(hz=250) == config
    assert config.replace() == config


def test_full_catalogue_names_work_too() -> None:
    given: Any = {"rcutree.jiffies_till_first_fqs": 2, "CONFIG_HZ": 1000}
    assert rcu.Config(**given) == rcu.Config(jiffies_till_first_fqs=2, hz=1000)


def test_equality_and_hash() -> None:
    config = rcu.Config(hz=1000, nr_cpus=4)
    assert config == rcu.Config(nr_cpus=4, hz=1000)
    assert hash(config) == hash(rcu.Config(nr_cpus=4, hz=1000))
    assert config != rcu.Config(hz=1000)
    assert config != "hz"
    assert len({config, rcu.Config(nr_cpus=4, hz=1000)}) == 1


def test_repr_is_the_call_that_makes_it() -> None:
    config = rcu.Config(kernel="6.18", nr_cpus=32, hz=1000, early_qs=True)
    assert eval(repr(config), {"Config": rcu.Config}) == config
    assert repr(rcu.Config()) == "Config()"


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_are_equal_and_do_not_warn_again(clone: Any) -> None:
    with pytest.warns(rcu.ConfigWarning):
        config = rcu.Config(hz=1000, jiffies_till_first_fqs=5000)
    twin = clone(config)
    assert twin == config
    assert twin.explicit == config.explicit == {"hz": 1000, "jiffies_till_first_fqs": 5000}


def test_a_clamped_value_warns_once_and_names_both() -> None:
    with pytest.warns(rcu.ConfigWarning) as caught:
        config = rcu.Config(hz=1000, jiffies_till_first_fqs=5000)
    assert len(caught) == 1
    assert "5000" in str(caught[0].message)
    assert "1000" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert config.jiffies_till_first_fqs == 1000
    assert config.effective["jiffies_till_first_fqs"] == 1000
    # Unchanged by this replace: not said again.
    assert config.replace(nr_cpus=4).jiffies_till_first_fqs == 1000
    with pytest.warns(rcu.ConfigWarning, match="250"):
        config.replace(hz=250)


def test_a_warning_turned_into_an_error_is_one() -> None:
    # The tests run with warnings as errors.
    with pytest.raises(rcu.ConfigWarning):
        rcu.Config(hz=1000, jiffies_till_first_fqs=5000)


def test_attributes_cannot_be_set_or_invented() -> None:
    config: Any = rcu.Config()
    with pytest.raises(AttributeError):
        config.hz = 1000
    with pytest.raises(AttributeError, match="no tunable"):
        _ = config.nr_cpu
    assert not hasattr(config, "__array__")


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    err = refused("nr_cpu", 4, lambda: rcu.Config(nr_cpu=4))
    assert "nr_cpus" in str(err)
    refused("nr_cpu", None, lambda: rcu.Config(nr_cpu=None))
    refused("nr_cpu", [], lambda: rcu.Config().replace(nr_cpu=[]))


NONSENSE = [
    float("nan"), float("inf"), -float("inf"), 1.5, "nonsense", "", "1\n2", "9" * 5000,
    None, [], [3], {}, object(), 10**30, -(10**30), 10**6000, b"3",
]  # fmt: skip


@pytest.mark.parametrize("name", list(BY_NAME))
@pytest.mark.parametrize("value", NONSENSE, ids=lambda value: type(value).__name__)
def test_nonsense_is_refused_by_every_tunable(name: str, value: Any) -> None:
    if BY_NAME[name]["python_name"] == "rcu_nocbs" and value == "":
        pytest.skip("a list of no CPU is one")
    refused(name, value, lambda: rcu.Config(**{name: value}))


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [-(2**63), -1, 0, 1, 2**31, 2**63 - 1, True])
@pytest.mark.filterwarnings("ignore::treercu.ConfigWarning")
def test_an_integer_is_used_clamped_or_refused_but_never_lost(name: str, value: int) -> None:
    row = BY_NAME[name]
    try:
        config = rcu.Config(**{name: value})
    except rcu.ConfigError:
        return
    assert value is not True
    used = config.effective[name]
    assert type(used) is int
    if used != value:
        assert row["class"] == "clamped" or value == -1, (name, value, used)


@pytest.mark.parametrize("name", BOOLEANS)
def test_booleans_take_the_words_for_them(name: str) -> None:
    for word in (True, 1, "1", "true", "on", np.True_):
        assert rcu.Config(**{name: word}).effective[name] is True
    for word in (False, 0, "0", "false", "off", np.False_):
        assert rcu.Config(**{name: word}).effective[name] is False
    refused(name, 2, lambda: rcu.Config(**{name: 2}))


@pytest.mark.parametrize("name", WORDS)
def test_words_are_words(name: str) -> None:
    refused(name, 6.18, lambda: rcu.Config(**{name: 6.18}))
    refused(name, True, lambda: rcu.Config(**{name: True}))


@pytest.mark.parametrize("value", [0, -1, 10**9, 10**12])
def test_absurd_machine_sizes_are_refused(value: int) -> None:
    refused("nr_cpus", value, lambda: rcu.Config(nr_cpus=value))


def test_numpy_numbers_count_as_numbers() -> None:
    assert rcu.Config(nr_cpus=np.int64(4)) == rcu.Config(nr_cpus=4)
    assert rcu.Config(nr_cpus=np.uint8(4)) == rcu.Config(nr_cpus=4)


# --- Text


def test_toml_round_trip() -> None:
    config = rcu.Config(kernel="6.18", nr_cpus=32, hz=1000, early_qs=True)
    assert rcu.Config.from_toml(config.to_toml()) == config
    with pytest.raises(rcu.ConfigError, match="nr_cpu"):
        rcu.Config.from_toml("nr_cpu = 4")
    with pytest.raises(rcu.ConfigError):
        rcu.Config.from_toml("= nonsense")
    with pytest.warns(rcu.ConfigWarning, match="5000"):
        rcu.Config.from_toml("jiffies_till_first_fqs = 5000")


def test_a_kernel_command_line_is_never_fatal() -> None:
    base = rcu.Config(hz=1000, nr_cpus=32)
    line = "ro quiet rcutree.jiffies_till_first_fqs=5000 rcutree.blimit=ten nr_cpus=8 rcu_nocbs=1-3"
    config, words = rcu.Config.from_cmdline(line, base)
    assert (config.nr_cpus, config.hz, config.jiffies_till_first_fqs) == (8, 1000, 1000)
    assert config.blimit == base.blimit
    assert [word["text"] for word in words] == line.split()
    verdicts = {word["name"]: word["verdict"] for word in words}
    assert verdicts["rcutree.jiffies_till_first_fqs"] == "clamped"
    assert verdicts["rcutree.blimit"] == "ignored"
    assert verdicts["nr_cpus"] == "used"
    assert rcu.Config.from_cmdline("")[0] == rcu.Config()


# --- Machine


def test_machine_fields() -> None:
    machine = rcu.Machine()
    fields = machine.to_dict()
    assert fields["noise"] == 0.5
    for name, value in fields.items():
        assert getattr(machine, name) == value
        assert name in dir(machine)
    assert repr(machine) == "Machine()"


def test_machine_replace_equality_pickle() -> None:
    machine = rcu.Machine(noise=0, timer_migration="local", gp_kthread_cpu=3)
    assert machine == rcu.Machine().replace(noise=0.0, timer_migration="local", gp_kthread_cpu=3)
    assert hash(machine) == hash(rcu.Machine(noise=-0.0, timer_migration="local", gp_kthread_cpu=3))
    assert machine != rcu.Machine()
    assert eval(repr(machine), {"Machine": rcu.Machine}) == machine
    for clone in (copy.copy(machine), copy.deepcopy(machine), pickle.loads(pickle.dumps(machine))):
        assert clone == machine
    with pytest.raises(AttributeError):
        machine.noise = 1  # type: ignore[misc]
    with pytest.raises(AttributeError, match="no field"):
        _ = machine.nois


def test_machine_refuses_by_name() -> None:
    assert "noise" in str(refused("nois", 1, lambda: rcu.Machine(nois=1)))
    for name in rcu.Machine().to_dict():
        for value in (float("nan"), float("inf"), "nonsense", None, [], True, 10**30, -(10**30)):
            refused(name, value, lambda name=name, value=value: rcu.Machine(**{name: value}))
    refused("noise_min_ns", 10, lambda: rcu.Machine(noise_min_ns=10, noise_max_ns=5))
    refused("idle_exit_ns", 1.5, lambda: rcu.Machine(idle_exit_ns=1.5))
    refused("governor_keeps_tick", 1.5, lambda: rcu.Machine(governor_keeps_tick=1.5))
    refused("gp_kthread_cpu", -2, lambda: rcu.Machine(gp_kthread_cpu=-2))
