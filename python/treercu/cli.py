"""The command `treercu`.

Scripts rely on its contract: with `--json` exactly one JSON object on stdout and nothing else there;
exit code 0 done and holding, 1 a check failed, 2 bad input (one line on stderr), 130 interrupted (what
was measured so far is still printed).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from . import __version__, _startup
from ._core import (
    ENGINES,
    CallRcuFlood,
    Config,
    CpuLoad,
    Hotplug,
    HotplugSweep,
    Machine,
    Mix,
    PeriodicInterrupt,
    Readers,
    Run,
    SrcuFlood,
    SyncFlood,
    measure,
    probe,
    simulate,
    simulate_many,
    torture,
    torture_scenarios,
    tunables,
)
from .errors import ConfigError, ConfigWarning, Interrupted, MemoryLimitError, RcuError
from .reproduce import EXPERIMENTS, Experiment, reproduce

__all__ = ["main"]

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

# By the name that `to_dict()` and the JSON give them.
_WORKLOADS: dict[str, Any] = {
    cls().to_dict()["type"]: cls
    for cls in (
        SyncFlood,
        CpuLoad,
        Readers,
        CallRcuFlood,
        PeriodicInterrupt,
        Hotplug,
        HotplugSweep,
        SrcuFlood,
    )
}


# Its parts are given with it, or as workloads of their own.
_MIX = "mix"
_NAMES = [*_WORKLOADS, _MIX]


class _BadInput(Exception):
    """Bad input that no engine error describes; the text is one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _BadInput(message if len(message) <= 300 else message[:297] + "...")


def _fields(name: str) -> list[str]:
    if name == _MIX:
        return ["parts"]
    return [field for field in _WORKLOADS[name]().to_dict() if field != "type"]


class _Workload(argparse.Action):
    """`--workload NAME` begins a workload; its flags follow."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if values not in _NAMES:
            allowed = f"{', '.join(_NAMES)} (repeat --workload for several at once)"
            raise _BadInput(f"workload={_cut(values)}: no such workload; allowed: {allowed}")
        namespace.workloads = [*(namespace.workloads or []), (values, {})]


class _WorkloadField(argparse.Action):
    """A field of the workload that was named last."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if not namespace.workloads:
            raise _BadInput(
                f"{self.dest}={_cut(values)}: belongs to no workload; "
                f"allowed: after --workload NAME, one of {', '.join(_NAMES)}"
            )
        name, fields = namespace.workloads[-1]
        if self.dest not in _fields(name):
            flags = ", ".join("--" + field.replace("_", "-") for field in _fields(name))
            raise _BadInput(f"{self.dest}={_cut(values)}: no field of {name}; allowed: {flags}")
        fields[self.dest] = values


def _cut(text: str) -> str:
    shown = repr(text)[1:-1]
    return shown if len(shown) <= 60 else shown[:57] + "..."


class _Long(int):
    """A whole number of more digits than Python reads; shown as it was written."""

    text = ""

    def __repr__(self) -> str:
        return self.text


def _number(text: str) -> int | float | str:
    """A number if it reads as one; else the text, which the engine then refuses by name."""
    if re.fullmatch(r"[+-]?[0-9]{100,}", text):
        long = _Long(-(10**99) if text.startswith("-") else 10**99)
        long.text = text
        return long
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return text


def _whole(name: str, text: str, low: int, high: int) -> int:
    """A whole number that the engine does not always get to see."""
    value = _number(text)
    if not isinstance(value, int) or not low <= value <= high:
        reason = "out of range" if isinstance(value, int) else "not a whole number"
        raise _BadInput(f"{name}={_cut(text)}: {reason}; allowed: a whole number from {low} to {high}")
    return value


@contextlib.contextmanager
def _file(name: str, path: str | None) -> Iterator[Any]:
    """A file for writing, opened before the work; `None` without a path. A file that was not there does
    not stay behind when the work fails."""
    if path is None:
        yield None
        return
    new = not os.path.lexists(path)
    try:
        with open(path, "a", encoding="ascii") as file:
            yield file
    except OSError as err:
        raise _BadInput(f"{name}={_cut(path)}: {err.strerror}; allowed: a file that can be written") from err
    except BaseException:
        if new:
            with contextlib.suppress(OSError):
                os.unlink(path)
        raise


def _replace(file: Any, text: str) -> None:
    if file.seekable():
        file.truncate(0)
    file.write(text)


def _cpu_list(text: str) -> str | list[int]:
    """`all`, `5`, `0,2,8-11`."""
    if text == "all":
        return text
    cpus: list[int] = []
    for word in text.split(","):
        # Six digits are more CPUs than any machine has.
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", word)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            allowed = "all, or a list such as 0,2,8-11"
            raise _BadInput(f"cpus={_cut(text)}: not a list of CPUs; allowed: {allowed}")
        cpus.extend(range(first, last + 1))
    return cpus


def _parts(text: str) -> list[Any]:
    """The parts of a mix in JSON, as `--json` prints them."""
    allowed = 'a JSON list such as [{"type": "sync-flood", "tasks": 4}, {"type": "readers", "sections": 9}]'
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        raise _BadInput(f"parts={_cut(text)}: not JSON; allowed: {allowed}") from None
    if not isinstance(items, list) or not items:
        raise _BadInput(f"parts={_cut(text)}: not a list of workloads; allowed: {allowed}")
    parts = []
    for item in items:
        name = item.get("type") if isinstance(item, dict) else None
        if not isinstance(name, str) or name not in _WORKLOADS:
            shown = json.dumps(item if name is None else name)
            names = ", ".join(_WORKLOADS)
            raise _BadInput(f"parts={_cut(shown)}: no such workload; allowed: a type of {names}")
        fields = {field: value for field, value in item.items() if field != "type"}
        for field, value in fields.items():
            if field not in _fields(name):
                known = ", ".join(_fields(name))
                raise _BadInput(
                    f"{_cut(field)}={_cut(json.dumps(value))}: no field of {name}; allowed: {known}"
                )
        parts.append(_WORKLOADS[name](**fields))
    return parts


def _build_workload(given: list[tuple[str, dict[str, str]]] | None) -> Any:
    parts: list[Any] = []
    given = given or [("sync-flood", {})]
    for name, texts in given:
        if name == _MIX:
            parts.extend(_parts(texts["parts"]) if "parts" in texts else [])
            continue
        # What is no number stays text; the class reads or refuses it by the field's name.
        fields = {
            field: _cpu_list(text) if field == "cpus" else _number(text) for field, text in texts.items()
        }
        parts.append(_WORKLOADS[name](**fields))
    if not parts:
        raise _BadInput(
            f"workload={_MIX}: no parts; allowed: --parts JSON, or further --workload NAME with their flags"
        )
    named = any(name == _MIX for name, _ in given)
    return Mix(parts) if named or len(parts) > 1 else parts[0]


def _split_settings(settings: Sequence[str] | None) -> tuple[dict[str, str], dict[str, Any]]:
    """`--set NAME=VALUE` into tunables and machine fields."""
    machine_fields = Machine().to_dict()
    config: dict[str, str] = {}
    machine: dict[str, Any] = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise _BadInput(f"set={_cut(setting)}: not a setting; allowed: NAME=VALUE (see treercu tunables)")
        if name in machine_fields:
            machine[name] = value if isinstance(machine_fields[name], str) else _number(value)
        else:
            config[name] = value
    return config, machine


def _parser() -> _Parser:
    parser = _Parser(
        prog="treercu",
        description="The Linux kernel's Tree RCU in virtual time and on real threads: grace-period "
        "latency studies.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"treercu {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = commands.add_parser(
            name, help=text, description=text, allow_abbrev=False
        )
        added.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
        return added

    sim = command("simulate", "Run a workload in virtual time and print its latencies.")
    _add_set(sim)
    sim.add_argument("--replicas", default="1", metavar="N", help="runs, with seeds N, N+1, ... (default 1)")
    sim.add_argument("--threads", default="0", metavar="N", help="threads for replicas, 0: one per core")
    _add_run(sim)

    real = command("measure", "Run a workload on real threads, in real time, and print its latencies.")
    _add_set(real)
    real.add_argument(
        "--engine", default=ENGINES[0], metavar="NAME", help=f"{', '.join(ENGINES)} (default {ENGINES[0]})"
    )
    real.add_argument(
        "--fence",
        default="auto",
        metavar="KIND",
        help="what orders readers: auto (default), membarrier, fallback",
    )
    real.add_argument(
        "--timer",
        default="wheel",
        metavar="KIND",
        help="timeouts of the grace-period thread: wheel (default) or hrtimer",
    )
    _add_run(real)

    rep = command("reproduce", "Put a published measurement beside what the mechanism gives.")
    rep.add_argument("name", metavar="NAME", help=f"{', '.join(EXPERIMENTS)}, or all")
    rep.add_argument("--seed", default="1", metavar="N", help="seed of the first run (default 1)")
    rep.add_argument("--threads", default="0", metavar="N", help="0: one per core")
    rep.add_argument("--host", action="store_true", help="measure the same on real threads too")
    _add_quiet(rep)

    tor = command("torture", "Run rcutorture's model against the engine.")
    tor.add_argument("scenario", nargs="?", metavar="SCENARIO", help="see --list")
    tor.add_argument("--list", action="store_true", dest="list_them", help="list the scenarios, run none")
    tor.add_argument("--seconds", default="5", metavar="N", help="length of the test (default 5)")
    tor.add_argument("--world", default="host", metavar="WORLD", help="host (default): real threads; sim")
    tor.add_argument("--seed", default="1", metavar="N", help="0 to 2**64-1 (default 1)")
    _add_quiet(tor)

    tun = command("tunables", "List every tunable with its default.")
    tun.add_argument("--kernel", metavar="VERSION", help="show this kernel's defaults")
    tun.add_argument(
        "--probe",
        metavar="NAME",
        help="simulate two settings of a tunable, or of all, and see whether its figure moves",
    )
    tun.add_argument("--seeds", metavar="N", help="runs of each setting of a probe (default 5)")
    _add_set(tun)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    """What every command that runs a workload takes."""
    parser.add_argument("--seed", default="1", metavar="N", help="0 to 2**64-1 (default 1)")
    parser.add_argument("--memory-limit-mb", default="4096", metavar="N", help="refuse a run that needs more")
    parser.add_argument(
        "--keep",
        default="samples",
        metavar="WHAT",
        help="samples (default): every call; histogram: their distribution; N: that and N calls",
    )
    parser.add_argument("--trace", metavar="FILE", help="write the trace events there, as ftrace prints them")
    parser.add_argument("--trace-limit", metavar="N", help="most trace events (default 1000000)")
    _add_quiet(parser)
    parser.add_argument(
        "--workload",
        action=_Workload,
        dest="workloads",
        metavar="NAME",
        help=f"{', '.join(_NAMES)}; the flags that follow belong to it; may be repeated",
    )
    group = parser.add_argument_group("fields of a workload, after its --workload")
    owners: dict[str, list[str]] = {}
    for name in _NAMES:
        for field in _fields(name):
            owners.setdefault(field, []).append(name)
    for field, names in owners.items():
        flag = "--" + field.replace("_", "-")
        group.add_argument(
            flag,
            action=_WorkloadField,
            dest=field,
            default=argparse.SUPPRESS,
            metavar="JSON" if field == "parts" else "VALUE",
            help="of mix: its workloads, as --json prints them; or name them by --workload"
            if field == "parts"
            else f"of {', '.join(names)}",
        )


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        dest="settings",
        metavar="NAME=VALUE",
        help="set kernel, a tunable or a machine field; may be repeated",
    )


def _add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def _run_options(args: argparse.Namespace) -> dict[str, Any]:
    """The keywords that `simulate` and `measure` share, besides the seed."""
    options: dict[str, Any] = {
        "progress": False if args.quiet else None,
        "memory_limit_mb": _number(args.memory_limit_mb),
        "keep": _number(args.keep),
    }
    limit = args.trace_limit
    if args.trace is not None:
        options["trace"] = True if limit is None else _whole("trace_limit", limit, 1, 200_000_000)
    elif limit is not None:
        raise _BadInput(f"trace_limit={_cut(limit)}: no trace; allowed: with --trace FILE")
    return options


def _simulate(args: argparse.Namespace) -> int:
    settings, fields = _split_settings(args.settings)
    config, machine = Config(**settings), Machine(**fields)
    workload = _build_workload(args.workloads)
    seed, replicas = _number(args.seed), _number(args.replicas)
    common: dict[str, Any] = {"seed": seed, "machine": machine, **_run_options(args)}
    threads = _whole("threads", args.threads, 0, 1024)
    if args.trace is not None and replicas != 1:
        raise _BadInput(f"replicas={_cut(args.replicas)}: one trace, one run; allowed: 1 with --trace")
    began = time.perf_counter()
    code = DONE
    with _file("trace", args.trace) as trace_file:
        try:
            if replicas == 1:
                runs = [simulate(config, workload, **common)]
            else:
                many: Any = simulate_many
                runs = many(config, workload, replicas=replicas, threads=threads, **common)
        except Interrupted as interrupted:
            runs, code = list(interrupted.runs), INTERRUPTED
        wall_s = time.perf_counter() - began
        for run in runs if trace_file else ():
            if run.trace is not None:
                _replace(trace_file, run.trace.to_ftrace())
    result = _pooled(runs, wall_s)
    result["seed"] = seed
    result["config"] = config.effective
    result["machine"] = machine.to_dict()
    result["workload"] = workload.to_dict()
    result["interrupted"] = code == INTERRUPTED or any(run.interrupted for run in runs)
    if args.json:
        _print_json(result)
    else:
        _print_simulated(result, runs)
    return code


def _measure(args: argparse.Namespace) -> int:
    settings, fields = _split_settings(args.settings)
    if fields:
        raise _BadInput(f"set={_cut(next(iter(fields)))}: a machine field; allowed: with simulate")
    config = Config(**settings)
    workload = _build_workload(args.workloads)
    seed: Any = _number(args.seed)
    options = _run_options(args)
    code = DONE
    with _file("trace", args.trace) as trace_file:
        try:
            run = measure(
                config,
                workload,
                engine=args.engine,
                seed=seed,
                fence=args.fence,
                timer=args.timer,
                **options,
            )
        except Interrupted as interrupted:
            if interrupted.run is None:
                raise
            run, code = interrupted.run, INTERRUPTED
        if trace_file and run.trace is not None:
            _replace(trace_file, run.trace.to_ftrace())
    summary = run.summary()
    result = {
        **{key: summary[key] for key in ("calls", "mean_ns", "p50_ns", "p99_ns", "max_ns")},
        "wall_s": run.wall_s,
        "cpu_s": run.cpu_s,
        "seed": seed,
        "config": config.effective,
        # The key belongs to the contract; the machine is the one in `host`.
        "machine": None,
        "workload": workload.to_dict(),
        "interrupted": run.interrupted,
        "host": run.host,
        "gp_kthread_cpu_s": run.gp_kthread_cpu_s,
        "tick_cpu_s": run.tick_cpu_s,
    }
    if args.json:
        _print_json(result)
    else:
        _print_measured(result, run)
    return code


def _latency_figures(runs: list[Run]) -> dict[str, Any]:
    """The same figures by the same rules as `Run.summary`, over the calls of several runs together."""
    import numpy as np

    distributions = [run.distribution() for run in runs]
    values = np.concatenate([values for values, _ in distributions] or [np.zeros(0, np.int64)])
    order = np.argsort(values, kind="stable")
    values = values[order]
    upto = np.cumsum(np.concatenate([counts for _, counts in distributions] or [values])[order])
    n = sum(run.calls for run in runs)

    def rank(q: float) -> int | None:
        if n == 0 or (n > 1 and min(q, 1 - q) * n < 1 - 1e-9):
            return None
        return int(values[np.searchsorted(upto, max(math.ceil(q * n - 1e-9), 1))])

    means = [(run.summary()["mean_ns"], run.calls) for run in runs if run.calls]
    return {
        "calls": n,
        "mean_ns": math.fsum(mean * calls for mean, calls in means) / n if n else None,
        "p50_ns": rank(0.5),
        "p99_ns": rank(0.99),
        "max_ns": int(values[-1]) if n else None,
    }


def _one(run: Run) -> dict[str, Any]:
    summary = run.summary()
    return {
        **{key: summary[key] for key in ("calls", "mean_ns", "p50_ns", "p99_ns", "max_ns")},
        "virtual_s": run.virtual_s,
        "wall_s": run.wall_s,
        "cpu_s": run.cpu_s,
        "events": run.events,
        "digest": run.digest,
    }


def _pooled(runs: list[Run], wall_s: float) -> dict[str, Any]:
    """One run as it is; several with their calls together, and each one under `replicas`."""
    if len(runs) == 1:
        return _one(runs[0])
    import hashlib

    digests = " ".join(run.digest for run in runs)
    return {
        **_latency_figures(runs),
        "virtual_s": math.fsum(run.virtual_s for run in runs),
        "wall_s": wall_s,
        "cpu_s": math.fsum(run.cpu_s for run in runs),
        "events": sum(run.events for run in runs),
        "digest": hashlib.sha256(digests.encode()).hexdigest()[:32],
        "replicas": [{"seed": run.seed, **_one(run)} for run in runs],
    }


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e6:.3f} ms"


def _latency_line(result: dict[str, Any], show: Callable[[float | None], str] = _ms) -> str:
    return (
        f"calls {result['calls']}  mean {show(result['mean_ns'])}  p50 {show(result['p50_ns'])}  "
        f"p99 {show(result['p99_ns'])}  max {show(result['max_ns'])}"
    )


def _print_measured(result: dict[str, Any], run: Run) -> None:
    def us(value: float | None) -> str:
        return "-" if value is None else f"{value / 1e3:.3f} us"

    def seconds(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f} s"

    config, host = result["config"], result["host"]
    short = result["p50_ns"] is not None and result["p50_ns"] < 1_000_000
    lines = [
        f"{host['engine']}, {config['nr_cpus']} virtual CPUs, HZ={config['hz']}, seed {result['seed']}",
        _latency_line(result, us if short else _ms),
        f"grace periods {run.counters['grace_periods']}  "
        f"callbacks invoked {run.counters['callbacks_invoked']}",
        f"wall {result['wall_s']:.3f} s, CPU time {result['cpu_s']:.3f} s, of it grace-period thread "
        f"{seconds(result['gp_kthread_cpu_s'])}, tick thread {seconds(result['tick_cpu_s'])}",
        f"on {host['cpu_model'] or 'an unknown CPU'}, {host['cores'] or '?'} cores, "
        f"{host['kernel'] or 'unknown kernel'}, governor {host['governor'] or '-'}, "
        f"clock {host['clock_source'] or '?'} ({host['clock_read_ns']:.1f} ns a read)",
    ]
    if host["fence"] is not None:
        lines.append(f"readers are ordered by {host['fence']}")
    late = host["tick_lateness"]
    if late is not None:
        lines.append(
            f"tick lateness: p50 {us(late['p50_ns'])}  p99 {us(late['p99_ns'])}  max {us(late['max_ns'])}  "
            f"of {late['ticks']} ticks"
        )
    lines += [f"note: {note}" for note in host["notes"]]
    if result["interrupted"]:
        lines.append("interrupted: these are the calls completed so far")
    print("\n".join(lines))


def _print_simulated(result: dict[str, Any], runs: list[Run]) -> None:
    config = result["config"]
    replicas = len(result.get("replicas", [0]))
    lines = [
        f"kernel {config['kernel']}, {config['nr_cpus']} CPUs, HZ={config['hz']}, seed {result['seed']}"
        + (f", {replicas} replicas" if replicas != 1 else ""),
        _latency_line(result),
        f"grace periods {sum(run.counters['grace_periods'] for run in runs)}  "
        f"callbacks invoked {sum(run.counters['callbacks_invoked'] for run in runs)}",
        f"virtual {result['virtual_s']:.3f} s in {result['wall_s']:.3f} s, {result['events']} events, "
        f"digest {result['digest']}",
    ]
    if result["interrupted"]:
        lines.append("interrupted: these are the calls completed so far")
    print("\n".join(lines))


def _reproduce(args: argparse.Namespace) -> int:
    names = list(EXPERIMENTS) if args.name == "all" else [args.name]
    if args.name != "all" and args.name not in EXPERIMENTS:
        raise _BadInput(f"name={_cut(args.name)}: no such experiment; allowed: {', '.join(EXPERIMENTS)}, all")
    seed: Any = _number(args.seed)
    threads: Any = _number(args.threads)
    progress = False if args.quiet else None
    began = time.perf_counter()
    done: list[Experiment] = []
    interrupted = False
    for name in names:
        try:
            done.append(reproduce(name, seed=seed, threads=threads, host=args.host, progress=progress))
        except Interrupted as stop:
            interrupted = True
            if stop.experiment is not None:
                done.append(stop.experiment)
            break
    if args.json:
        if args.name == "all":
            result: dict[str, Any] = {
                "experiments": [experiment.to_dict() for experiment in done],
                "wall_s": time.perf_counter() - began,
            }
        else:
            result = done[0].to_dict() if done else {"name": args.name, "holds": False, "seed": seed}
        if interrupted:
            result["interrupted"] = True
        _print_json(result)
    else:
        print("\n\n".join(experiment.table() for experiment in done))
    if interrupted:
        return INTERRUPTED
    return DONE if all(experiment.holds for experiment in done) else FAILED


def _torture(args: argparse.Namespace) -> int:
    if args.list_them:
        scenarios = torture_scenarios()
        if args.json:
            _print_json({"scenarios": scenarios})
        else:
            for scenario in scenarios:
                print(f"{scenario['name']:8} {scenario['cpus']:3} CPUs  {scenario['intent']}")
        return DONE
    if args.scenario is None:
        names = ", ".join(scenario["name"] for scenario in torture_scenarios())
        raise _BadInput(f"scenario: none was named; allowed: {names}")
    seconds: Any = _number(args.seconds)
    seed: Any = _number(args.seed)
    progress = False if args.quiet else None
    code = DONE
    began = time.perf_counter()
    try:
        report = torture(args.scenario, seconds=seconds, world=args.world, seed=seed, progress=progress)
    except Interrupted as interrupted:
        if interrupted.report is None:
            raise
        report, code = interrupted.report, INTERRUPTED
    if args.json:
        # `seconds` was asked for and `ran_s` is how long the writers and readers were at it.
        _print_json({**report.to_dict(), "wall_s": time.perf_counter() - began})
    else:
        print(report.text, end="")
    if code == DONE and report.verdict != "SUCCESS":
        code = FAILED
    return code


def _probe(args: argparse.Namespace) -> int:
    if args.settings or args.kernel is not None:
        raise _BadInput("probe: each probe has its own settings; allowed: --probe without --set and --kernel")
    seeds = _whole("seeds", "5" if args.seeds is None else args.seeds, 1, 1000)
    outcomes = probe(args.probe, seeds=seeds)
    if args.json:
        _print_json({"probes": outcomes, "seeds": seeds, "moved": all(one["moved"] for one in outcomes)})
    else:
        for one in outcomes:
            verdict = "moved" if one["moved"] else "NOT MOVED"
            print(
                f"{one['name']:34} {one['metric']:26} {one['before']:>16,.1f} -> {one['after']:>16,.1f}"
                f"  {one['direction']:4}  {verdict}"
            )
    return DONE if all(one["moved"] for one in outcomes) else FAILED


def _tunables(args: argparse.Namespace) -> int:
    if args.probe is not None:
        return _probe(args)
    if args.seeds is not None:
        raise _BadInput(f"seeds={_cut(args.seeds)}: nothing is run; allowed: with --probe")
    settings, fields = _split_settings(args.settings)
    Machine(**fields)
    if args.kernel is not None:
        settings["kernel"] = args.kernel
    table = tunables(Config(**settings))
    if args.json:
        _print_json({"tunables": table})
        return DONE
    for row in table:
        unit = f" {row['unit']}" if row["unit"] else ""
        if row["python_name"] is None:
            print(f"{row['name']}   [{row['status']}: {row['why']}]")
        else:
            print(f"{row['python_name']} = {row['default']}{unit}   [{row['name']}; {row['range']}]")
        print(f"    {row['effect']}")
    return DONE


def _interrupt(number: int, frame: object) -> None:
    """The first Ctrl-C ends the work. The others are too late, and must not lose what it brings."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(value, allow_nan=False))


def _say(kind: str, text: object) -> None:
    """One line on stderr."""
    line = " ".join(str(text).split())
    print(f"treercu: {kind}: {line}", file=sys.stderr)


def _run(argv: Sequence[str] | None) -> int:
    json_wanted = "--json" in (sys.argv[1:] if argv is None else argv)
    try:
        _startup.end()
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # Refused elsewhere than in the main thread, where no signal comes either.
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGINT, _interrupt)
        args = _parser().parse_args(argv)
        commands = {
            "simulate": _simulate,
            "measure": _measure,
            "reproduce": _reproduce,
            "torture": _torture,
            "tunables": _tunables,
        }
        return commands[args.command](args)
    except (_BadInput, ConfigError, MemoryLimitError) as err:
        _say("error", err)
        return BAD_INPUT
    except RcuError as err:
        _say("failed", err)
        return FAILED
    except KeyboardInterrupt:
        # Nothing was measured yet.
        _say("interrupted", "nothing was measured yet")
        if json_wanted:
            _print_json({"interrupted": True})
        return INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    before = signal.getsignal(signal.SIGINT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ConfigWarning)
            warnings.showwarning = lambda message, *_, **__: _say("warning", message)
            code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has had enough; keep the interpreter's last flush quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    finally:
        # For whoever called this as a function.
        if before is signal.default_int_handler and signal.getsignal(signal.SIGINT) is not before:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGINT, before)
    return code
