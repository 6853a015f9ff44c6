"""The command-line contract: one JSON object on stdout, exit codes, one line of complaint."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import treercu as rcu
from conftest import COMMAND, Command, clean_env
from treercu import cli

PUBLISHED_RUN = [
    "simulate", "--set", "kernel=6.18", "--set", "nr_cpus=32", "--set", "hz=1000",
    "--workload", "sync-flood", "--tasks", "1", "--calls", "100", "--seed", "1",
]  # fmt: skip
SIMULATE_KEYS = [
    "calls", "mean_ns", "p50_ns", "p99_ns", "max_ns", "virtual_s", "wall_s", "cpu_s", "events", "digest",
    "seed", "config", "machine", "workload", "interrupted",
]  # fmt: skip


def here(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Runs the command in this process, which is faster than another one."""
    code = cli.main(words)
    out, err = capfd.readouterr()
    return code, out, err


def one_object(out: str) -> dict[str, Any]:
    value = json.loads(out)  # fails on anything after the object
    assert isinstance(value, dict)
    assert out.count("\n") == 1
    return value


def test_simulate_json(treercu: Command, run: rcu.Run) -> None:
    done = treercu(*PUBLISHED_RUN, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    result = one_object(done.stdout)
    assert list(result) == SIMULATE_KEYS
    assert result["digest"] == run.digest
    assert result["calls"] == 100
    assert result["p50_ns"] == run.quantile(0.5)
    assert result["seed"] == 1
    assert result["config"] == run.config.effective
    assert result["machine"] == run.machine.to_dict()
    assert result["workload"] == run.workload.to_dict()
    assert result["interrupted"] is False
    again = one_object(treercu(*PUBLISHED_RUN, "--json").stdout)
    for key in SIMULATE_KEYS:
        assert key in ("wall_s", "cpu_s") or again[key] == result[key]


def test_the_json_is_enough_to_run_it_again(capfd: pytest.CaptureFixture[str]) -> None:
    words = "--set hz=1000 --set noise=2.5 --workload sync-flood --calls 7 --tasks 3".split()
    result = one_object(here(capfd, "simulate", *words, "--json")[1])
    workload = dict(result["workload"])
    assert workload.pop("type") == "sync-flood"
    run = rcu.simulate(
        rcu.Config(hz=1000),
        rcu.SyncFlood(**workload),
        machine=rcu.Machine(**result["machine"]),
        seed=result["seed"],
    )
    assert run.digest == result["digest"]


def test_replicas_and_threads(capfd: pytest.CaptureFixture[str]) -> None:
    results = []
    for threads in "1", "2":
        code, out, err = here(
            capfd, *PUBLISHED_RUN, "--replicas", "3", "--threads", threads, "--seed", "9", "--json"
        )
        assert (code, err) == (0, "")
        results.append(one_object(out))
    first, second = results
    assert first["digest"] == second["digest"]
    assert list(first) == [*SIMULATE_KEYS[:10], "replicas", *SIMULATE_KEYS[10:]]
    assert [replica["seed"] for replica in first["replicas"]] == [9, 10, 11]
    assert first["seed"] == 9
    assert first["calls"] == 300
    config = rcu.Config(kernel="6.18", nr_cpus=32, hz=1000)
    alone = rcu.simulate(config, rcu.SyncFlood(), seed=10)
    assert first["replicas"][1]["digest"] == alone.digest
    assert first["replicas"][1]["p99_ns"] == alone.quantile(0.99)
    runs = rcu.simulate_many(config, rcu.SyncFlood(), replicas=3, seed=9)
    latencies = sorted(value for run in runs for value in run.latency_ns.tolist())
    assert first["p50_ns"] == latencies[149]
    assert first["p99_ns"] == latencies[296]
    assert first["mean_ns"] == pytest.approx(sum(latencies) / 300)


def test_several_workloads(capfd: pytest.CaptureFixture[str]) -> None:
    words = (
        "--workload sync-flood --tasks 1 --calls 20 --workload cpu-load --cpus 5,7-9 --mode kernel".split()
    )
    result = one_object(here(capfd, "simulate", "--set", "nr_cpus=16", *words, "--json")[1])
    assert result["workload"] == {
        "type": "mix",
        "parts": [
            rcu.SyncFlood(calls=20).to_dict(),
            rcu.CpuLoad(cpus=[5, 7, 8, 9], mode="kernel").to_dict(),
        ],
    }


@pytest.mark.parametrize("world", ["simulate", "measure"])
def test_a_mix_is_named_with_its_parts_or_before_them(capfd: pytest.CaptureFixture[str], world: str) -> None:
    flood, readers = (
        rcu.SyncFlood(tasks=2, calls=20),
        rcu.Readers(tasks=1, sections=50, section_us="uniform:1:5"),
    )
    words = "--workload sync-flood --tasks 2 --calls 20 "
    words += "--workload readers --sections 50 --section-us uniform:1:5"
    mix = rcu.Mix([flood, readers])
    ways = (
        ["--workload", "mix", *words.split()],
        ["--workload", "mix", "--parts", json.dumps(mix.to_dict()["parts"])],
        ["--workload", "mix", "--parts", json.dumps([flood.to_dict()]), *words.split()[6:]],
    )
    for way in ways:
        code, out, err = here(capfd, world, "--set", "nr_cpus=2", "--set", "hz=1000", *way, "--json")
        assert (code, err) == (0, "")
        result = one_object(out)
        assert (result["workload"], result["calls"]) == (mix.to_dict(), 40)
    # Of one part it is a mix all the same.
    way = ["--workload", "mix", "--workload", "sync-flood", "--calls", "3"]
    result = one_object(here(capfd, world, "--set", "nr_cpus=2", *way, "--json")[1])
    assert result["workload"] == rcu.Mix([rcu.SyncFlood(calls=3)]).to_dict()


FLAGS = {
    "sync-flood": "--tasks 2 --calls 3 --duration-ms 90.5 --placement 1 --start-skew-us 2 --interval-us 9 "
    "--kind poll-full",
    "cpu-load": "--cpus 0 --mode kernel --run-us 9 --pause-us 3 --section-us 4 --gap-us 5 --duration-ms 9",
    "readers": "--tasks 2 --sections 8 --section-us uniform:1:5 --gap-us 2.5 --nested 3 "
    "--deferred-percent 40 --placement random --duration-ms 4",
    "call-rcu-flood": "--tasks 2 --callbacks 80 --burst 4 --interval-us exp:70 --repost 2 --hurry True "
    "--placement spread --duration-ms 4",
    "periodic-interrupt": "--rate-hz 4000 --callbacks 2 --cpus 0-1 --duration-ms 4",
    "hotplug": "--cpus 1-2 --interval-us 300 --transitions 4 --duration-ms 4",
    "hotplug-sweep": "--cpus 1-2 --back True --waits-down-percent 125 --waits-up-percent 50 --other-us 300",
    "srcu-flood": "--tasks 2 --calls 3 --duration-ms 90.5 --kind call --flavour fast --think-us 7 "
    "--readers 2 --section-us exp:70 --gap-us 2.5 --sleep-percent 40 --enter-us uniform:1:5 "
    "--placement random",
}


@pytest.mark.parametrize("name", FLAGS)
def test_every_field_of_every_workload_is_a_flag(name: str) -> None:
    words = FLAGS[name].replace("True", "true").split()
    args = cli._parser().parse_args(["simulate", "--workload", name, *words])
    texts = args.workloads[0][1]
    # A closed loop's pause and an open loop's distance exclude each other.
    assert {*texts, "think_us"} == {*cli._fields(name), "think_us"}
    workload = cli._build_workload(args.workloads).to_dict()
    assert workload["type"] == name
    for flag, text in zip(FLAGS[name].split()[::2], FLAGS[name].split()[1::2], strict=True):
        shown = workload[flag[2:].replace("-", "_")]
        assert str(shown) == text or shown == cli._cpu_list(text)


def test_every_workload_class_is_a_workload() -> None:
    assert set(cli._WORKLOADS) == set(FLAGS)
    for name, cls in cli._WORKLOADS.items():
        assert getattr(rcu, cls.__name__) is cls
        assert name.replace("-", "") == cls.__name__.lower()


def test_one_of_each_kind(capfd: pytest.CaptureFixture[str]) -> None:
    words = [word for name, flags in FLAGS.items() for word in ["--workload", name, *flags.lower().split()]]
    code, out, err = here(capfd, "simulate", "--set", "nr_cpus=4", *words, "--json")
    assert (code, err) == (0, "")
    result = one_object(out)
    assert [part["type"] for part in result["workload"]["parts"]] == list(FLAGS)
    # Of the sync and the SRCU flood, and of two CPUs down and up: 1.25 + 1.25 + 0.5 + 0.5, rounded down.
    assert result["calls"] == 2 * 3 + 2 * 3 + 3
    parts = [
        cli._WORKLOADS[part["type"]](**{name: value for name, value in part.items() if name != "type"})
        for part in result["workload"]["parts"]
    ]
    assert rcu.simulate(rcu.Config(nr_cpus=4), parts).digest == result["digest"]


def test_a_workload_without_calls_has_no_latencies(capfd: pytest.CaptureFixture[str]) -> None:
    words = "simulate --workload call-rcu-flood --callbacks 500".split()
    result = one_object(here(capfd, *words, "--json")[1])
    assert result["calls"] == 0
    assert [result[key] for key in ("mean_ns", "p50_ns", "p99_ns", "max_ns")] == [None] * 4
    out = here(capfd, *words)[1]
    assert "calls 0  mean -" in out
    assert "callbacks invoked " in out


def test_text_output(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = here(capfd, *PUBLISHED_RUN)
    assert (code, err) == (0, "")
    assert "HZ=1000, seed 1" in out
    assert "p50 9.995 ms" in out


def test_warnings_go_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = here(capfd, *PUBLISHED_RUN, "--set", "jiffies_till_first_fqs=5000", "--json")
    assert code == 0
    assert one_object(out)["config"]["jiffies_till_first_fqs"] == 1000
    assert err.count("\n") == 1
    assert err.startswith("treercu: warning: jiffies_till_first_fqs=5000: 1000 ")


BAD = {
    "": "COMMAND",
    "nonsense": "COMMAND",
    "--nonsense": "COMMAND",
    "simulate --nonsense": "--nonsense",
    "simulate --set nr_cpus": "set=nr_cpus: ",
    "simulate --set =4": "set==4: ",
    "simulate --set nr_cpus=0": "nr_cpus=0: ",
    "simulate --set nr_cpus=1000000000": "nr_cpus=1000000000: ",
    "simulate --set nr_cpu=4": "nr_cpu=4: ",
    "simulate --set nr_cpus=": "nr_cpus=",
    "simulate --set rcutree.rcu_fanout_leaf=1000": "rcutree.rcu_fanout_leaf=1000: ",
    "simulate --set jiffies_till_first_fqs=-1": "jiffies_till_first_fqs=-1: ",
    "simulate --set jiffies_till_first_fqs=nan": "jiffies_till_first_fqs=nan: ",
    "simulate --set early_qs=maybe": "early_qs=maybe: ",
    "simulate --set kernel=5.4": "kernel=5.4: ",
    "simulate --set noise=-1": "noise=-1: ",
    "simulate --set noise=nan": "noise=nan: ",
    "simulate --set noise=loud": "noise='loud': ",
    "simulate --set timer_migration=push": "timer_migration='push': ",
    "simulate --set gp_kthread_cpu=99": "gp_kthread_cpu=99: ",
    "simulate --workload flood": "workload=flood: ",
    "simulate --tasks 4": "tasks=4: ",
    "simulate --workload sync-flood --cpus 4": "cpus=4: ",
    "simulate --workload sync-flood --tasks 0": "tasks=0: ",
    "simulate --workload sync-flood --tasks many": "tasks='many': ",
    "simulate --workload sync-flood --tasks 1e99": "tasks=1e+99: ",
    "simulate --workload sync-flood --calls 1.5": "calls=1.5: ",
    "simulate --workload sync-flood --duration-ms -1": "duration_ms=-1: ",
    "simulate --workload sync-flood --duration-ms nan": "duration_ms=nan: ",
    "simulate --workload sync-flood --placement 99": "placement=99: ",
    "simulate --workload cpu-load": "duration_ms=0: ",
    "simulate --workload cpu-load --cpus 3-1": "cpus=3-1: ",
    "simulate --workload cpu-load --cpus 1,,2": "cpus=1,,2: ",
    "simulate --workload cpu-load --mode idle": "mode='idle': ",
    "simulate --workload mix": "workload=mix: no parts; allowed: --parts JSON, or further --workload NAME",
    "measure --workload mix": "workload=mix: no parts; ",
    "simulate --workload mix --tasks 4": "tasks=4: no field of mix; allowed: --parts",
    "simulate --workload sync-flood --parts []": "parts=[]: no field of sync-flood; ",
    "simulate --workload mix --parts []": "parts=[]: not a list of workloads; ",
    "simulate --workload mix --parts {": "parts={: not JSON; ",
    "simulate --workload mix --parts [7]": "parts=7: no such workload; ",
    'simulate --workload mix --parts [{"type":"mix"}]': 'parts="mix": no such workload; ',
    'simulate --workload mix --parts [{"type":[]}]': "parts=[]: no such workload; ",
    'simulate --workload mix --parts [{"type":"readers","calls":1}]': "calls=1: no field of readers; ",
    'simulate --workload mix --parts [{"type":"sync-flood","tasks":0}]': "tasks=0: ",
    'simulate --workload mix --parts [{"type":"cpu-load"}]': "duration_ms=0: ",
    "simulate --workload sync-flood --kind expedite": "kind='expedite': ",
    "simulate --workload sync-flood --kind 1": "kind=1: ",
    "simulate --workload readers": "duration_ms=0: ",
    "simulate --workload readers --sections 0.5": "sections=0.5: ",
    "simulate --workload readers --section-us exp": "section_us='exp': ",
    "simulate --workload readers --section-us uniform:5:1": "section_us='uniform:5:1': ",
    "simulate --workload readers --gap-us nan": "gap_us=nan: ",
    "simulate --workload readers --deferred-percent 101": "deferred_percent=101: ",
    "simulate --workload readers --nested many": "nested='many': ",
    "simulate --workload readers --calls 3": "calls=3: ",
    "simulate --workload call-rcu-flood --hurry maybe": "hurry='maybe': ",
    "simulate --workload call-rcu-flood --burst 0": "burst=0: ",
    "simulate --workload call-rcu-flood --interval-us 0": "interval_us=0: ",
    "simulate --workload periodic-interrupt --rate-hz 0": "rate_hz=0: ",
    "simulate --workload periodic-interrupt --cpus 999 --duration-ms 1": "cpus=999: ",
    "simulate --workload hotplug --cpus 99 --transitions 1": "cpus=99: ",
    "simulate --workload hotplug --transitions -1": "transitions=-1: ",
    "simulate --seed -1": "seed=-1: ",
    "simulate --seed 18446744073709551616": "seed=18446744073709551616: ",
    "simulate --seed one": "seed='one': ",
    "simulate --replicas 0": "replicas=0: ",
    "simulate --threads -1": "threads=-1: ",
    "simulate --threads 99999": "threads=99999: ",
    "simulate --threads many": "threads=many: ",
    "simulate --threads 1.5": "threads=1.5: ",
    "simulate --keep all": "keep='all': ",
    "simulate --keep 0": "keep=0: ",
    "simulate --keep 1.5": "keep=1.5: ",
    "simulate --trace-limit 5": "trace_limit=5: ",
    "simulate --trace /nowhere/at/all": "trace=/nowhere/at/all: ",
    "simulate --trace /dev/null --trace-limit 0": "trace_limit=0: ",
    "simulate --trace /dev/null --trace-limit x": "trace_limit=x: ",
    "simulate --trace /dev/null --replicas 2": "replicas=2: ",
    "simulate --workload sync-flood --duration-ms 1e-9": "duration_ms=1e-09: rounds to 0 ns; ",
    "simulate --workload sync-flood --think-us 0.0004": "think_us=0.0004: rounds to 0 ns; ",
    "simulate --workload readers --sections 1 --section-us exp:0.0001": "rounds to 0 ns; ",
    "simulate --workload readers --sections 1 --gap-us 0.0001": "gap_us=0.0001: rounds to 0 ns; ",
    "simulate --replicas 2 --threads -1": "threads=-1: ",
    "simulate --memory-limit-mb 0": "memory_limit_mb=0: ",
    "simulate --workload sync-flood --tasks 1000000 --calls 1000000": "memory_limit_mb=4096: ",
    "reproduce": "NAME",
    "reproduce nothing": "name=nothing: ",
    "reproduce early-qs --seed x": "seed='x': ",
    "tunables --kernel 1.0": "kernel=1.0: ",
    "tunables --set nr_cpus=0": "nr_cpus=0: ",
}


LONG = [
    "simulate --seed {}", "simulate --replicas {}", "simulate --threads {}", "simulate --keep {}",
    "simulate --trace /dev/null --trace-limit {}", "simulate --memory-limit-mb {}",
    "simulate --set nr_cpus={}", "simulate --set noise={}", "simulate --set gp_kthread_cpu={}",
    "simulate --set {}=1", "simulate --set {}", "simulate --workload {}",
    "simulate --workload sync-flood --tasks {}",
    "simulate --workload sync-flood --duration-ms {}", "simulate --workload sync-flood --placement {}",
    "simulate --workload readers --gap-us {}", "simulate --workload cpu-load --cpus {}", "simulate --{}",
    "simulate --workload mix --parts {}", "simulate --workload mix --parts [{}]",
    "simulate {}", "reproduce {}", "reproduce early-qs --seed {}", "reproduce early-qs --threads {}",
    "tunables --kernel {}", "{}",
]  # fmt: skip


@pytest.mark.parametrize("words", LONG)
def test_endless_input_is_cut(capfd: pytest.CaptureFixture[str], words: str) -> None:
    for text in ("9" * 1000, "9" * 5000, "-" + "9" * 5000, "9" * 300 + ".5", "x" * 5000, "1e308"):
        code, out, err = here(capfd, *(word.format(text) for word in words.split()))
        assert (code, out) == (2, ""), text[:10]
        assert err.startswith("treercu: error: ")
        assert (err.count("\n"), len(err) < 1000) == (1, True), err


def test_a_number_beyond_reading_is_out_of_range(capfd: pytest.CaptureFixture[str]) -> None:
    err = here(capfd, "simulate", "--seed", "9" * 5000)[2]
    assert err.startswith(f"treercu: error: seed={'9' * 57}...: out of range; allowed: ")


def test_only_near_names_are_suggested(capfd: pytest.CaptureFixture[str]) -> None:
    assert "nearest" not in here(capfd, "simulate", "--set", "foo=1")[2]
    assert "the nearest is nr_cpus" in here(capfd, "simulate", "--set", "nr_cpu=1")[2]


def test_keep(capfd: pytest.CaptureFixture[str], run: rcu.Run) -> None:
    for keep in ("histogram", "10"):
        result = one_object(here(capfd, *PUBLISHED_RUN, "--keep", keep, "--json")[1])
        assert list(result) == SIMULATE_KEYS
        summary = run.summary()
        for key in ("calls", "mean_ns", "p50_ns", "p99_ns", "max_ns"):
            assert result[key] == pytest.approx(summary[key], rel=1e-3)
        assert result["calls"] == 100
        many = one_object(here(capfd, *PUBLISHED_RUN, "--keep", keep, "--replicas", "2", "--json")[1])
        assert many["calls"] == 200
        assert many["p50_ns"] == pytest.approx(summary["p50_ns"], rel=2e-3)


def test_a_trace_file(capfd: pytest.CaptureFixture[str], tmp_path: Path, run: rcu.Run) -> None:
    file = tmp_path / "trace.txt"
    file.write_text("of an earlier run, and longer\n" * 100_000)
    code, out, err = here(capfd, *PUBLISHED_RUN, "--trace", str(file), "--json")
    assert (code, err) == (0, "")
    assert one_object(out)["digest"] == run.digest
    text = file.read_text()
    assert text.startswith("# tracer: nop\n")
    assert "earlier" not in text
    assert text.count(" start\n") >= 100
    here(capfd, *PUBLISHED_RUN, "--trace", str(file), "--trace-limit", "7", "--json")
    assert sum(not line.startswith("#") for line in file.read_text().splitlines()) == 7
    # A refused run leaves no file.
    code = here(capfd, *PUBLISHED_RUN, "--trace", str(tmp_path / "new"), "--seed", "-1")[0]
    assert (code, (tmp_path / "new").exists()) == (2, False)


@pytest.mark.parametrize("words", list(BAD))
def test_bad_input_is_one_line_and_exit_code_2(capfd: pytest.CaptureFixture[str], words: str) -> None:
    code, out, err = here(capfd, *words.split(), *(["--json"] if words else []))
    assert (code, out) == (2, "")
    assert err.startswith("treercu: error: ")
    assert BAD[words] in err
    assert err.count("\n") == 1
    if ": " in BAD[words]:
        assert "; allowed: " in err


def test_bad_input_from_outside(treercu: Command) -> None:
    done = treercu("simulate", "--set", "nr_cpus=0\nTraceback", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_a_stall_is_a_failure_not_bad_input(capfd: pytest.CaptureFixture[str]) -> None:
    # One section that lasts for hours: no grace period can end.
    load = "--workload cpu-load --cpus 1 --mode kernel --section-us 90000000000".split()
    words = ["--workload", "sync-flood", *load]
    code, out, err = here(capfd, "simulate", *words, "--json")
    assert (code, out) == (1, "")
    assert err.startswith("treercu: failed: ")
    assert err.count("\n") == 1


def test_tunables(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, err = here(capfd, "tunables", "--json")
    assert (code, err) == (0, "")
    rows = one_object(out)["tunables"]
    assert rows == rcu.tunables()
    assert {"rcutree.jiffies_till_first_fqs", "CONFIG_HZ", "patch.early_qs"} <= {row["name"] for row in rows}
    assert {row["status"] for row in rows} >= {"live", "accepted", "build-time"}
    old = one_object(here(capfd, "tunables", "--kernel", "6.18", "--json")[1])["tunables"]
    assert _default(rows, "early_qs") is True
    assert _default(old, "early_qs") is False
    large = one_object(here(capfd, "tunables", "--set", "nr_cpus=2048", "--json")[1])["tunables"]
    assert _default(large, "jiffies_till_first_fqs") == 9
    code, out, err = here(capfd, "tunables", "--kernel", "6.12")
    assert (code, err) == (0, "")
    assert "jiffies_till_first_fqs = 1 jiffies" in out


def _default(rows: list[dict[str, Any]], name: str) -> Any:
    return next(row["default"] for row in rows if row["python_name"] == name)


def test_help_and_version(treercu: Command) -> None:
    done = treercu("--version")
    assert (done.returncode, done.stdout) == (0, f"treercu {rcu.__version__}\n")
    for words in ("--help", "simulate --help", "reproduce --help", "tunables --help"):
        done = treercu(*words.split())
        assert done.returncode == 0
        assert done.stdout.startswith("usage: treercu")


def test_a_reader_that_has_enough_is_no_error() -> None:
    process = subprocess.Popen(
        [*COMMAND, "tunables", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_env()
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 1


def test_the_script_is_installed(tmp_path: Path) -> None:
    import sysconfig

    script = Path(sysconfig.get_path("scripts")) / "treercu"
    if not script.exists():
        pytest.skip("not installed as a script here")
    done = subprocess.run(
        [script, "--version"], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
    )
    assert done.stdout == f"treercu {rcu.__version__}\n"
