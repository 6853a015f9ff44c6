//! Configurations as text: TOML, kernel command lines, and the list of every known knob.

use proptest::prelude::*;
use std::collections::BTreeSet;
use treercu::config::{Config, Kind, Spec, Type, Value, Verdict, Word, catalogue, knob, known, lookup};
use treercu::error::Error;

/// Parameter, value, reason, allowed of an `Error::Config`.
fn refusal(result: Result<Config, Error>) -> (String, String, String, String) {
    match result {
        Err(Error::Config {
            parameter,
            value,
            reason,
            allowed,
        }) => (parameter, value, reason, allowed),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

fn boot(line: &str) -> (Config, Vec<Word>) {
    Config::from_cmdline(line, &Config::new())
}

/// The only word of a line, and what is in force.
fn one(line: &str) -> (Config, Word) {
    let (config, mut words) = boot(line);
    assert_eq!(words.len(), 1, "{line}");
    (config, words.remove(0))
}

/// A few values of a tunable that its type accepts.
fn values(spec: &Spec) -> BoxedStrategy<Value> {
    match spec.value_type {
        Type::Bool => any::<bool>().prop_map(Value::from).boxed(),
        Type::Int { min, max } => {
            let near = min.max(-5)..=max.min(2000);
            prop_oneof![near, min..=max].prop_map(Value::from).boxed()
        }
        Type::IntOneOf(choices) => prop::sample::select(choices).prop_map(Value::from).boxed(),
        Type::OneOf(choices) => prop::sample::select(choices).prop_map(Value::from).boxed(),
        Type::CpuList => prop::sample::select(vec!["", "all", "0", "1-3,7"])
            .prop_map(Value::from)
            .boxed(),
    }
}

/// Some tunables under either name, each with a value that its type accepts.
fn settings() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let each: Vec<_> = catalogue()
        .iter()
        .map(|spec| {
            let name = prop::sample::select(vec![spec.name, spec.python_name]);
            prop::option::of((name, values(spec)))
        })
        .collect();
    each.prop_map(|all| all.into_iter().flatten().collect::<Vec<_>>())
        .prop_shuffle()
}

// ---------------------------------------------------------------- TOML

#[test]
fn toml_of_what_was_given() {
    assert_eq!(Config::new().to_toml(), "");
    assert_eq!(Config::from_toml(""), Ok(Config::new()));
    let config = Config::from_pairs([
        ("early_qs", Value::from(0)),
        ("CONFIG_HZ", "1000".into()),
        ("nr_cpus", 32.into()),
        ("kernel", "6.18".into()),
        ("rcutree.jiffies_till_first_fqs", 5000.into()),
        ("qovld", (-1).into()),
    ])
    .unwrap();
    // In the catalogue's order; the value as given and not as limited.
    let text = "kernel = \"6.18\"\nnr_cpus = 32\nhz = 1000\njiffies_till_first_fqs = 5000\n\
                early_qs = false\nqovld = -1\n";
    assert_eq!(config.to_toml(), text);
    assert_eq!(Config::from_toml(text), Ok(config));
}

#[test]
fn toml_in_every_form_of_name() {
    let text = r#"
        # a comment
        kernel = "6.18"          # a word
        CONFIG_HZ = 1_000
        rcutree.blimit = 0x14    # dotted
        "rcutree.qhimark" = 500  # quoted
        nohz = "off"             # the words for a boolean
        qlowmark = "50"          # digits as text
        [rcutree]
        jiffies_till_first_fqs = 2
        [rcupdate]
        rcu_cpu_stall_timeout = 30
        [patch]
        early_qs = true
        [srcutree]
    "#;
    // `rcutree` as a dotted key and as a table is one table defined twice: TOML forbids it.
    let (parameter, _, reason, _) = refusal(Config::from_toml(text));
    assert_eq!(parameter, "TOML");
    assert!(reason.starts_with("line 9: "), "{reason}");
    let text = text.replace("        rcutree.blimit = 0x14    # dotted\n", "blimit = 0x14\r\n");
    let expected = Config::from_pairs([
        ("kernel", Value::from("6.18")),
        ("hz", 1000.into()),
        ("blimit", 20.into()),
        ("qhimark", 500.into()),
        ("nohz", false.into()),
        ("qlowmark", 50.into()),
        ("jiffies_till_first_fqs", 2.into()),
        ("rcu_cpu_stall_timeout", 30.into()),
        ("early_qs", true.into()),
    ]);
    assert_eq!(Config::from_toml(&text), expected);
    assert!(Config::from_toml("rcutree.blimit = 20\nrcutree = { blimit = 20 }").is_err());
    assert_eq!(
        Config::from_toml("rcutree = { blimit = 20 }"),
        Config::new().with("blimit", 20)
    );
}

#[test]
fn toml_refusals_in_full() {
    let message = |text: &str| Config::from_toml(text).unwrap_err().to_string();
    assert_eq!(
        message("hz = 1000\n\njiffies_till_fist_fqs = 3\n"),
        "jiffies_till_fist_fqs=3: line 3: no such tunable; allowed: a known name; the nearest is \
         jiffies_till_first_fqs"
    );
    assert_eq!(
        message("[rcutree]\nblimit = 5\nqhimrk = 3\n"),
        "rcutree.qhimrk=3: line 3: no such tunable; allowed: a known name; the nearest is rcutree.qhimark"
    );
    assert_eq!(
        message("hz = 250\n[rcutree]\nuse_softirq = false\n"),
        "rcutree.use_softirq=false: line 3: rcutree.use_softirq is a knob of the kernel that is not \
         modelled yet; allowed: what is modelled, as the table of tunables lists it"
    );
    assert_eq!(
        message("\nrcu_fanout_leaf = 1000"),
        "rcu_fanout_leaf=1000: line 2: out of range; allowed: 2 to 64 (the kernel warns and ignores others)"
    );
    assert_eq!(
        message("hz = 1000\nnr_cpus = 2\nCONFIG_HZ = 1000\n"),
        "CONFIG_HZ=1000: line 3: given on line 1 already, as hz; allowed: each tunable once"
    );
    assert_eq!(
        message("nr_cpus = [1, 2]"),
        "nr_cpus=[…]: line 1: an array where an integer is needed; allowed: 1 to 16384, and no more than a \
         tree of 4 levels holds with the fan-outs in force"
    );
    assert_eq!(
        message("nohz = 2026-01-01"),
        "nohz=2026-01-01: line 1: a date where a boolean is needed; allowed: 0 1 false true off on n y"
    );
    assert_eq!(
        message("[kernel]\nx = 1"),
        "kernel={…}: line 1: a table where text is needed; allowed: \"6.8\", \"6.12\", \"6.18\" or \"7.2\""
    );
    assert_eq!(
        message("jiffies_till_first_fqs = 18446744073709551615"),
        "jiffies_till_first_fqs=18446744073709551615: line 1: does not fit in 64 bits; allowed: 0 to HZ \
         jiffies; above: HZ is used"
    );
    // Of several the one that comes first in the text.
    assert!(message("zz = 1\naa = 2\n").starts_with("zz=1: line 1: "));
    // Empty tables: of a group, or of nothing.
    assert_eq!(Config::from_toml("[rcutree]\n[sysctl.kernel]"), Ok(Config::new()));
    assert!(message("hz = 100\n[rcutreee]\n").starts_with("rcutreee={…}: line 2: no such tunable"));
    // What all values together violate has no line.
    let text = "nr_cpus = 17\nrcu_fanout = 2\nrcu_fanout_leaf = 2\n";
    let (parameter, value, reason, _) = refusal(Config::from_toml(text));
    assert_eq!((parameter.as_str(), value.as_str()), ("nr_cpus", "17"));
    assert!(!reason.contains("line"), "{reason}");
}

#[test]
fn text_that_is_no_toml() {
    for (text, line) in [
        ("hz", 1),
        ("hz = 1000\nnr_cpus = = 3", 2),
        ("hz = 1\nhz = 2", 2),
        ("\n\n[rcutree\n", 3),
        ("hz = 0123", 1),
        ("a = \"\u{1b}[31m", 1),
        ("nohz = True", 1),
    ] {
        let (parameter, value, reason, allowed) = refusal(Config::from_toml(text));
        assert_eq!(parameter, "TOML", "{text}");
        assert!(reason.starts_with(&format!("line {line}: ")), "{text}: {reason}");
        assert!(!allowed.is_empty());
        assert!(!value.contains(['\n', '\u{1b}']) && !reason.contains(['\n', '\u{1b}']));
    }
}

// ---------------------------------------------------------------- command line, word by word

#[test]
fn integers_as_the_kernel_reads_them() {
    for (text, blimit) in [
        ("20", 20),
        ("0x20", 32),
        ("0X1F", 31),
        ("020", 16),
        ("+7", 7),
        ("\"9\"", 9),
    ] {
        let (config, word) = one(&format!("rcutree.blimit={text}"));
        assert_eq!(config.tunables().blimit, blimit, "{text}");
        assert_eq!((word.verdict, word.used), (Verdict::Used, Some(blimit.into())));
        assert_eq!((word.name.as_str(), word.rcu), ("rcutree.blimit", true));
    }
    for text in [
        "abc",
        "",
        "20x",
        "0x",
        "08",
        "2 0",
        "1e3",
        "-",
        "20,30",
        "2.0",
        "99999999999999999999",
        "true",
    ] {
        let (config, word) = one(&format!("rcutree.blimit=\"{text}\""));
        assert_eq!(config, Config::new(), "{text}");
        assert_eq!(
            (word.verdict, word.used, word.rcu),
            (Verdict::Ignored, None, true)
        );
        assert!(!word.why.is_empty());
    }
    let (_, word) = one("rcutree.blimit");
    assert_eq!(
        (word.verdict, word.why.as_str()),
        (Verdict::Ignored, "needs a value")
    );
    // What the kernel takes and this crate does not model is left out and says so.
    for line in [
        "rcutree.blimit=0",
        "rcutree.blimit=-1",
        "rcutree.qovld=4294967295",
    ] {
        let (config, word) = one(line);
        assert_eq!((config, word.verdict), (Config::new(), Verdict::Ignored));
        assert!(
            word.why.starts_with("not modelled: out of range; allowed: "),
            "{word}"
        );
    }
    // An unsigned long has no sign; an int ends at 2^31.
    let (_, word) = one("rcutree.jiffies_till_first_fqs=-1");
    assert_eq!(word.verdict, Verdict::Ignored);
    let (_, word) = one("rcutree.kthread_prio=2147483648");
    assert_eq!(word.verdict, Verdict::Ignored);
}

#[test]
fn values_that_the_kernel_limits() {
    for (line, used) in [
        ("rcutree.jiffies_till_first_fqs=251", 250),
        ("rcutree.jiffies_till_first_fqs=18446744073709551615", 250),
        ("rcutree.jiffies_till_next_fqs=0", 1),
        ("rcutree.rcu_divisor=-1", 7),
        ("rcutree.rcu_divisor=100", 62),
        ("rcutree.rcu_resched_ns=1", 1_000_000),
        ("rcutree.qovld=-5", 20_000),
        ("rcutree.kthread_prio=500", 99),
        ("rcupdate.rcu_cpu_stall_timeout=1000", 300),
        ("rcutree.rcu_normal_wake_from_gp=2", 1),
        ("rcutree.rcu_normal_wake_from_gp=-7", 0),
        ("rcutree.gp_init_delay=-3", 0),
        ("maxcpus=64", 8),
        ("maxcpus=-1", 8),
    ] {
        let (config, word) = one(line);
        assert_eq!(word.verdict, Verdict::Clamped, "{word}");
        assert_eq!(word.used, Some(used.into()), "{word}");
        assert_eq!(config.get(&word.name), Ok(used.into()));
        assert!(!word.why.is_empty());
    }
    // Limits follow what else is on the line, wherever it stands.
    let (config, words) = boot("maxcpus=64 nr_cpus=128");
    assert_eq!((config.tunables().maxcpus, words[0].verdict), (64, Verdict::Used));
}

#[test]
fn booleans_by_their_first_letters() {
    for (text, exact) in [
        ("=1", true),
        ("=y", true),
        ("=Yes", true),
        ("=true", true),
        ("=on", true),
        ("=1000", true),
        ("", true),
        ("=0", false),
        ("=n", false),
        ("=No", false),
        ("=off", false),
        ("=F", false),
    ] {
        let (config, word) = one(&format!("rcutree.rcu_fanout_exact{text}"));
        assert_eq!(config.tunables().rcu_fanout_exact, exact, "{text}");
        assert_eq!((word.verdict, word.used), (Verdict::Used, Some(exact.into())));
    }
    for text in ["=", "=2", "=-1", "=o", "=ok", "=x"] {
        let (config, word) = one(&format!("rcutree.rcu_fanout_exact{text}"));
        assert_eq!(
            (config, word.verdict),
            (Config::new(), Verdict::Ignored),
            "{text}"
        );
    }
    for (line, periodic) in [("nohz=off", true), ("nohz=n", true), ("nohz=on", false)] {
        assert_eq!(boot(line).0.tunables().periodic_ticks, periodic);
    }
    assert_eq!(one("nohz").1.verdict, Verdict::Ignored);
}

#[test]
fn plain_words_that_take_a_leading_integer() {
    for (line, cpus) in [("nr_cpus=4", 4), ("nr_cpus=4,5", 4), ("nr_cpus=0x10", 16)] {
        let (config, word) = one(line);
        assert_eq!((config.tunables().nr_cpus, word.verdict), (cpus, Verdict::Used));
    }
    for line in [
        "nr_cpus=0",
        "nr_cpus=-4",
        "nr_cpus=all",
        "nr_cpus=1000000",
        "nr_cpus",
        "maxcpus=0",
        "maxcpus=x",
        "skew_tick=on",
        "skew_tick",
        "preempt=rt",
        "preempt=FULL",
        "preempt",
    ] {
        let (config, word) = one(line);
        assert_eq!(
            (config, word.verdict),
            (Config::new(), Verdict::Ignored),
            "{word}"
        );
        assert!(word.rcu && !word.why.is_empty());
    }
    assert!(boot("skew_tick=1").0.tunables().skew_tick);
    assert!(!boot("skew_tick=0").0.tunables().skew_tick);
    for model in ["none", "voluntary"] {
        let (config, word) = one(&format!("preempt={model}"));
        if lookup("preempt").unwrap().range.contains(model) {
            assert_eq!(
                (word.verdict, config.tunables().preempt.name()),
                (Verdict::Used, model)
            );
            assert!(word.why.contains("preemptible"), "{word}");
        } else {
            assert_eq!((word.verdict, config), (Verdict::Ignored, Config::new()));
            assert!(word.why.contains("not modelled yet"), "{word}");
        }
    }
}

#[test]
fn dashes_and_underscores_are_the_same_in_names() {
    for line in [
        "rcutree.jiffies-till-first-fqs=2",
        "rcutree.jiffies_till-first_fqs=2",
        "\"rcutree.jiffies_till_first_fqs=2\"",
    ] {
        let (config, word) = one(line);
        assert_eq!(config.tunables().jiffies_till_first_fqs, 2);
        assert_eq!(word.name, "rcutree.jiffies_till_first_fqs");
        assert_eq!((word.text.as_str(), word.value.as_deref()), (line, Some("2")));
    }
    assert_eq!(boot("nr-cpus=4").0.tunables().nr_cpus, 4);
    assert!(boot("rcu-nocb-poll").0.tunables().rcu_nocb_poll);
    // Not in values, and upper case is another letter.
    assert_eq!(one("RCUTREE.blimit=5").1.verdict, Verdict::Unknown);
}

#[test]
fn the_last_accepted_value_wins() {
    let (config, words) = boot("rcutree.blimit=5 nr_cpus=2 rcutree.blimit=7 rcutree.blimit=abc nr_cpus=4");
    assert_eq!((config.tunables().blimit, config.tunables().nr_cpus), (7, 4));
    let verdicts: Vec<_> = words.iter().map(|word| word.verdict).collect();
    use Verdict::{Ignored, Used};
    assert_eq!(verdicts, [Ignored, Ignored, Used, Ignored, Used]);
    assert_eq!(words[0].why, "given again later");
    assert!(words[3].why.starts_with("no integer"));
    // A value that the reader takes and the boot code does not use has replaced the earlier one.
    let (config, words) = boot("rcutree.rcu_fanout_leaf=8 rcutree.rcu_fanout_leaf=1000");
    assert_eq!(config.tunables().rcu_fanout_leaf, 16);
    assert_eq!((words[0].verdict, words[1].verdict), (Ignored, Ignored));
}

#[test]
fn two_dashes_end_the_line_for_the_kernel() {
    let (config, words) = boot("quiet rcutree.blimit=5 -- rcutree.blimit=6 nr_cpus=2 -- single");
    assert_eq!(config, Config::new().with("blimit", 5).unwrap());
    assert_eq!(words.len(), 7);
    for word in &words[3..] {
        assert_eq!(word.verdict, Verdict::Ignored);
        assert_eq!(word.why, "after \"--\", so for init and not for the kernel");
    }
    assert_eq!((words[2].verdict, words[2].rcu), (Verdict::Ignored, false));
    assert_eq!((words[3].rcu, words[6].rcu), (true, false));
    // Not with a value, and not as a beginning.
    assert_eq!(boot("--=x --a rcutree.blimit=6").0.tunables().blimit, 6);
}

#[test]
fn the_line_goes_before_the_base_and_defaults_follow() {
    let base = Config::from_pairs([("hz", 1000), ("rcu_fanout_leaf", 8), ("nr_cpus", 4)]).unwrap();
    let (config, _) = Config::from_cmdline("nr_cpus=512 rcutree.rcu_fanout_leaf=32 quiet", &base);
    let t = config.tunables();
    assert_eq!((t.nr_cpus, t.rcu_fanout_leaf, t.hz), (512, 32, 1000));
    assert_eq!(t.jiffies_till_first_fqs, 3 + 2);
    assert_eq!(Config::from_cmdline("", &base), (base, vec![]));
}

#[test]
fn what_the_tree_cannot_hold_is_left_out() {
    // Leaves of 4 under nodes of 2 children: 4 * 2 * 2 * 2 = 32 CPUs, with leaves of 2: 16.
    let base = Config::from_pairs([("rcu_fanout", 2), ("rcu_fanout_leaf", 4), ("nr_cpus", 20)]).unwrap();
    let verdicts = |line: &str| {
        let (config, words) = Config::from_cmdline(line, &base);
        let t = config.tunables();
        let verdicts: Vec<_> = words.iter().map(|word| word.verdict).collect();
        (t.nr_cpus, t.rcu_fanout_leaf, verdicts)
    };
    use Verdict::{Ignored, Used};
    assert_eq!(verdicts("rcutree.rcu_fanout_leaf=2"), (20, 4, vec![Ignored]));
    assert_eq!(
        verdicts("rcutree.rcu_fanout_leaf=2 nr_cpus=16"),
        (16, 2, vec![Used, Used])
    );
    assert_eq!(
        verdicts("rcutree.rcu_fanout_leaf=2 nr_cpus=32"),
        (32, 4, vec![Ignored, Used])
    );
    assert_eq!(
        verdicts("rcutree.rcu_fanout_leaf=8 nr_cpus=64"),
        (64, 8, vec![Used, Used])
    );
    assert_eq!(
        verdicts("rcutree.rcu_fanout_leaf=8 nr_cpus=65"),
        (20, 8, vec![Used, Ignored])
    );
    assert_eq!(
        verdicts("rcutree.rcu_fanout_leaf=2 nr_cpus=65"),
        (20, 4, vec![Ignored, Ignored])
    );
}

#[test]
fn names_that_are_no_kernel_parameters() {
    for (line, meant) in [
        ("rcu_fanout_leaf=8", "write rcutree.rcu_fanout_leaf=8"),
        (
            "jiffies-till-first-fqs=1",
            "write rcutree.jiffies_till_first_fqs=1",
        ),
        ("rcu_expedited=1", "write rcupdate.rcu_expedited=1"),
        (
            "tree.use_softirq=0",
            "write rcutree.use_softirq=0, which is not modelled yet",
        ),
        ("rcu.blimit=3", "write rcutree.blimit=3"),
        (
            "rcutree.rcu_cpu_stall_timeout=60",
            "write rcupdate.rcu_cpu_stall_timeout=60",
        ),
        ("rcutree.rcu_nocbs=1-3", "write rcu_nocbs=1-3"),
        (
            "rcutree.jiffies_till_fist_fqs=1",
            "write rcutree.jiffies_till_first_fqs=1",
        ),
        (
            "rcutree.jiffies_till_frist_fqs=1",
            "write rcutree.jiffies_till_first_fqs=1",
        ),
        ("nr_cpu=3", "write nr_cpus=3"),
        ("skewtick", "write skew_tick"),
        (
            "kernel.panic_on_rcu_stall=1",
            "write sysctl.kernel.panic_on_rcu_stall=1",
        ),
    ] {
        let (config, word) = one(line);
        assert_eq!(
            (config, word.verdict, word.rcu),
            (Config::new(), Verdict::Unknown, true)
        );
        assert_eq!(word.why, format!("no kernel parameter; {meant}"));
    }
    // This crate's own, patches and build options.
    for (line, why) in [
        (
            "hz=1000",
            "CONFIG_HZ is decided when the kernel is built; set the tunable hz itself",
        ),
        (
            "early_qs=1",
            "patch.early_qs is no kernel parameter; set the tunable early_qs itself",
        ),
        (
            "patch.early_qs=1",
            "patch.early_qs is no kernel parameter; set the tunable early_qs itself",
        ),
        (
            "kernel=6.8",
            "kernel is no kernel parameter; set the tunable kernel itself",
        ),
        (
            "rcu_boost=y",
            "CONFIG_RCU_BOOST is decided when the kernel is built; not modelled yet",
        ),
        (
            "rcutorture.stat_interval=15",
            "a parameter of the test module rcutorture, not of RCU",
        ),
        ("rcu_no_such_thing=1", "no RCU parameter of this name is known"),
        (
            "x=skew_tick=1",
            "no kernel parameter; skew_tick= must be a word of its own",
        ),
    ] {
        let (config, word) = one(line);
        assert_eq!(
            (config, word.verdict, word.rcu),
            (Config::new(), Verdict::Unknown, true)
        );
        assert_eq!(word.why, why);
    }
    // A build option is a knob, which the command line does not turn.
    for line in ["CONFIG_HZ=1000", "CONFIG_RCU_BOOST=y"] {
        let (config, word) = one(line);
        assert_eq!((config, word.verdict), (Config::new(), Verdict::Ignored));
        assert!(word.why.contains("decided when the kernel is built"), "{word}");
    }
    // Nothing to do with RCU, also where it looks a little like it.
    for line in [
        "quiet",
        "",
        "ro",
        "root=/dev/sda",
        "limit=5",
        "circular=1",
        "noht",
        "kvm.halt_poll_ns=0",
        "tree=1",
        "foo.blimit=3",
        "kthread_cpus=0-2",
        "…",
        "=",
        "\"\"",
        "-",
        "---",
    ] {
        let (config, words) = boot(line);
        assert_eq!(config, Config::new());
        for word in words {
            assert_eq!((word.verdict, word.rcu), (Verdict::Unknown, false), "{word}");
            assert_eq!(word.why, "no RCU parameter");
        }
    }
}

#[test]
fn words_in_one_line() {
    let (_, words) = boot(
        "rcutree.blimit=20 rcutree.qhimark=0x10 rcutree.jiffies_till_first_fqs=999 rcutree.blimit=a rcu_nocbs=1 \
         quiet nohz=off",
    );
    let shown: Vec<String> = words.iter().map(Word::to_string).collect();
    assert_eq!(
        shown,
        [
            "rcutree.blimit=20: used",
            "rcutree.qhimark=0x10: used as 16",
            "rcutree.jiffies_till_first_fqs=999: clamped, 250 is used (the kernel limits it to one second, \
             HZ=250 jiffies)",
            "rcutree.blimit=a: ignored (no integer: decimal, 0x hexadecimal or 0 octal)",
            "rcu_nocbs=1: used",
            "quiet: unknown (no RCU parameter)",
            "nohz=off: used as false",
        ]
    );
    let long = one(&format!("\"rcutree.blimit={}\n\u{1b}\"", "9".repeat(100_000)))
        .1
        .to_string();
    assert!(long.len() < 200 && !long.contains(['\n', '\u{1b}']), "{long}");
    assert_eq!(
        serde_json::to_value(&words[1]).unwrap(),
        serde_json::json!({
            "text": "rcutree.qhimark=0x10", "name": "rcutree.qhimark", "value": "0x10", "verdict": "used",
            "used": 16, "why": "", "rcu": true
        })
    );
}

// ---------------------------------------------------------------- command lines as people write them

/// What one line of the sample comes to, by hand: the values in force that it sets, the known words that
/// have no effect, and the words that are about RCU and no kernel parameters. All others have nothing to
/// do with RCU.
struct Expected {
    id: &'static str,
    sets: &'static [(&'static str, i64)],
    ignored: &'static [&'static str],
    unknown_rcu: &'static [&'static str],
}

const NONE: &[&str] = &[];

#[rustfmt::skip]
const SAMPLE: [Expected; 19] = [
    Expected { id: "C01", sets: &[("skew_tick", 1), ("nohz", 1), ("kthread_prio", 11), ("rcu_normal_after_boot", 1)],
        // skew_tick is given twice; the first counts for nothing.
        ignored: &["skew_tick", "rcutree.nohz_full_patience_delay", "isolcpus", "nohz_full"], unknown_rcu: NONE },
    Expected { id: "C02", sets: &[("skew_tick", 1), ("nohz", 1), ("kthread_prio", 11)],
        ignored: &["skew_tick", "isolcpus", "nohz_full"], unknown_rcu: NONE },
    Expected { id: "C03", sets: &[("rcu_normal_after_boot", 0)], ignored: NONE, unknown_rcu: NONE },
    Expected { id: "C04", sets: &[("rcu_normal_after_boot", 0)], ignored: &["nohz_full"], unknown_rcu: NONE },
    Expected { id: "C05", sets: &[("skew_tick", 1), ("nohz", 1), ("rcu_normal_after_boot", 1)],
        ignored: &["nohz_full"],
        // A variable of the tuning tool, with a parameter as its value.
        unknown_rcu: &["cmdline_realtime"] },
    Expected { id: "C06", sets: &[("rcu_normal_after_boot", 1)], ignored: NONE,
        unknown_rcu: &["cmdline_network_latency"] },
    Expected { id: "C07", sets: &[("nohz", 1), ("skew_tick", 1), ("rcu_normal_after_boot", 1)],
        ignored: &["isolcpus", "nohz_full"],
        unknown_rcu: NONE },
    Expected { id: "C08", sets: &[("skew_tick", 1), ("nohz", 1)],
        ignored: &["nohz_full", "isolcpus"], unknown_rcu: NONE },
    Expected { id: "C09", sets: &[("skew_tick", 1), ("nohz", 1)],
        ignored: &["isolcpus", "nohz_full"], unknown_rcu: NONE },
    Expected { id: "C10", sets: &[], ignored: &["rcutree.enable_rcu_lazy"], unknown_rcu: NONE },
    Expected { id: "C11", sets: &[], ignored: &["rcutree.enable_rcu_lazy"], unknown_rcu: NONE },
    Expected { id: "C12", sets: &[("rcu_expedited", 1)], ignored: NONE,
        // Lacks "sysctl.".
        unknown_rcu: &["kernel.panic_on_rcu_stall"] },
    Expected { id: "C13", sets: &[("nr_cpus", 224), ("rcu_expedited", 1)], ignored: NONE, unknown_rcu: NONE },
    Expected { id: "C14", sets: &[("rcu_expedited", 1)], ignored: NONE, unknown_rcu: NONE },
    Expected { id: "C15", sets: &[("rcu_expedited", 1)], ignored: NONE, unknown_rcu: NONE },
    Expected { id: "C16", sets: &[("gp_preinit_delay", 3), ("gp_init_delay", 3), ("gp_cleanup_delay", 3),
            ("rcu_normal_wake_from_gp", 1), ("rcu_self_test", 1), ("rcu_normal", 1)],
        ignored: NONE,
        unknown_rcu: &["rcutorture.nfakewriters", "rcutorture.gp_sync"] },
    Expected { id: "C17", sets: &[("gp_preinit_delay", 12), ("gp_init_delay", 3), ("gp_cleanup_delay", 3),
            ("kthread_prio", 2), ("threadirqs", 1)],
        ignored: NONE,
        unknown_rcu: &["rcutorture.onoff_interval", "rcutorture.onoff_holdoff", "tree.use_softirq",
            "rcutorture.n_barrier_cbs", "rcutorture.stat_interval", "rcutorture.shutdown_secs",
            "rcutorture.test_no_idle_hz", "rcutorture.verbose"] },
    // "--kconfig" and "--bootargs" are no "--".
    Expected { id: "C18", sets: &[("rcu_normal_wake_from_gp", 1)],
        ignored: &["CONFIG_NR_CPUS", "CONFIG_RCU_NOCB_CPU", "CONFIG_RCU_NOCB_CPU_DEFAULT_ALL", "CONFIG_RCU_LAZY"],
        unknown_rcu: &["rcuscale.nwriters", "rcuscale.nreaders", "rcuscale.minruntime",
            "torture.disable_onoff_at_boot"] },
    // And preempt=lazy, a word, below.
    Expected { id: "C19", sets: &[("rcu_normal_wake_from_gp", 1)], ignored: NONE, unknown_rcu: NONE },
];

#[test]
fn the_sample_of_boot_lines() {
    let sample = include_str!("data/bootlines/boot-open.txt");
    let mut lines = sample.lines().filter(|line| !line.starts_with("# "));
    for expected in &SAMPLE {
        let id = expected.id;
        assert!(lines.next().unwrap().starts_with(&format!("## {id} |")));
        let line = lines.next().unwrap();
        let (config, words) = boot(line);
        // None of these lines has a quote, so blanks alone make the words.
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, line.split_whitespace().collect::<Vec<_>>(), "{id}");

        let mut by_hand = Config::new();
        for &(name, value) in expected.sets {
            by_hand = by_hand.with(name, value).unwrap();
        }
        if id == "C19" {
            by_hand = by_hand.with("preempt", "lazy").unwrap();
        }
        for word in &texts {
            if let Some(list) = word.strip_prefix("rcu_nocbs=") {
                // A template's variable is no list, so the kernel offloads all.
                let list = if list.starts_with('$') { "all" } else { list };
                by_hand = by_hand.with("rcu_nocbs", list).unwrap();
            }
            if *word == "rcu_nocb_poll" {
                by_hand = by_hand.with("rcu_nocb_poll", true).unwrap();
            }
        }
        assert_eq!(config, by_hand, "{id}");

        let names = |verdict: Verdict, rcu: bool| -> Vec<&str> {
            let of = words
                .iter()
                .filter(|word| word.verdict == verdict && word.rcu == rcu);
            of.map(|word| word.name.as_str()).collect()
        };
        assert_eq!(names(Verdict::Used, true).len(), by_hand.explicit().len(), "{id}");
        assert_eq!(names(Verdict::Ignored, true), expected.ignored, "{id}");
        assert_eq!(names(Verdict::Unknown, true), expected.unknown_rcu, "{id}");
        for verdict in [Verdict::Used, Verdict::Clamped, Verdict::Ignored] {
            assert_eq!(names(verdict, false), NONE, "{id}");
        }
        assert_eq!(names(Verdict::Clamped, true), NONE, "{id}");
        for word in &words {
            let why = match (word.verdict, word.name.as_str()) {
                (Verdict::Ignored, "skew_tick") => "given again later",
                (Verdict::Ignored, name) if !name.starts_with("CONFIG_") => "not modelled yet",
                _ => continue,
            };
            assert_eq!(word.why, why, "{id}: {word}");
        }
    }
    assert_eq!(lines.next(), None);
}

// ---------------------------------------------------------------- every knob

#[test]
fn the_list_of_knobs() {
    assert_eq!(known().len(), 144);
    let names: BTreeSet<&str> = known().iter().map(|knob| knob.name).collect();
    assert_eq!(names.len(), 144);
    let of_kind = |kind| known().iter().filter(|knob| knob.kind == kind).count();
    assert_eq!(
        [
            Kind::ModuleParam,
            Kind::BootArg,
            Kind::Kconfig,
            Kind::Patch,
            Kind::Model
        ]
        .map(of_kind),
        [59, 14, 66, 5, 0]
    );
    for entry in known() {
        assert!((1..=3).contains(&entry.tier), "{}", entry.name);
        assert_eq!(knob(entry.name), Some(entry));
        assert_eq!(entry.is_modelled(), lookup(entry.name).is_some());
    }
    // Whatever is modelled is in it, but for this crate's own; the two agree.
    for spec in catalogue() {
        match knob(spec.name) {
            Some(knob) => {
                assert_eq!((knob.kind, knob.tier), (spec.kind, spec.tier), "{}", spec.name);
                assert!(knob.is_modelled());
            }
            None => assert_eq!(spec.kind, Kind::Model, "{}", spec.name),
        }
    }
    for (short, full) in [
        ("use_softirq", "rcutree.use_softirq"),
        ("rcu_boost", "CONFIG_RCU_BOOST"),
        ("config_rcu_boost", "CONFIG_RCU_BOOST"),
        ("panic_on_rcu_stall", "sysctl.kernel.panic_on_rcu_stall"),
        ("preempt", "preempt"),
    ] {
        assert_eq!(knob(short).map(|knob| knob.name), Some(full));
    }
    for name in [
        "",
        "RCU_BOOST",
        "rcutree",
        "rcutree.",
        "hzz",
        "rcutorture.verbose",
    ] {
        assert_eq!(knob(name), None, "{name}");
    }
}

#[test]
fn every_knob_on_a_command_line_and_in_a_configuration() {
    for entry in known() {
        // With the value in force of what is modelled, anything for the others.
        let spec = lookup(entry.name);
        let value = spec.map_or("1".to_string(), |spec| {
            match Config::new().get(spec.name).unwrap() {
                Value::Bool(b) => u8::from(b).to_string(),
                value => value.to_string(),
            }
        });
        let (config, word) = one(&format!("{}={value}", entry.name));
        assert_eq!((word.name.as_str(), word.rcu), (entry.name, true));
        // A flag is on by being there, whatever follows.
        let flag = entry.name == "rcu_nocb_poll";
        let default = if flag {
            Config::new().with(entry.name, true).unwrap()
        } else {
            Config::new()
        };
        assert_eq!(config.tunables(), default.tunables());
        let on_line = matches!(entry.kind, Kind::ModuleParam | Kind::BootArg);
        let expected = match (on_line, spec) {
            (true, Some(spec)) if spec.python_name == "jiffies_to_sched_qs" => Verdict::Ignored,
            (true, Some(_)) => Verdict::Used,
            (true, None) => Verdict::Ignored,
            (false, _) if entry.kind == Kind::Kconfig => Verdict::Ignored,
            (false, _) => Verdict::Unknown,
        };
        assert_eq!(word.verdict, expected, "{word}");
        assert_eq!(word.why.contains("not modelled yet"), spec.is_none(), "{word}");
        if spec.is_none() {
            let (parameter, _, reason, _) = refusal(Config::new().with(entry.name, 1));
            assert_eq!(parameter, entry.name);
            assert_eq!(
                reason,
                format!("{} is a knob of the kernel that is not modelled yet", entry.name)
            );
        }
    }
}

// ---------------------------------------------------------------- properties

/// Words that a command line may hold, sound and broken.
fn word() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        4 => prop::sample::select(known().iter().map(|knob| knob.name.to_string()).collect::<Vec<_>>()),
        1 => prop::sample::select(catalogue().iter().map(|spec| spec.python_name.to_string()).collect::<Vec<_>>()),
        1 => "[-a-z_.=\"]{0,12}",
    ];
    let value = prop_oneof![
        4 => (-3i64..300).prop_map(|n| format!("={n}")),
        1 => any::<i64>().prop_map(|n| format!("={n}")),
        1 => any::<u64>().prop_map(|n| format!("={n:#x}")),
        1 => prop::sample::select(vec!["", "=", "=on", "=off", "=y", "=full", "=lazy", "=none", "=\"1 2\"", "=1-3"])
            .prop_map(str::to_string),
        1 => any::<String>(),
    ];
    (name, value).prop_map(|(name, value)| name + &value)
}

proptest! {
    #[test]
    fn toml_round_trip(settings in settings()) {
        let Ok(config) = Config::from_pairs(settings.clone()) else { return Ok(()) };
        let text = config.to_toml();
        prop_assert_eq!(text.lines().count(), config.explicit().len());
        prop_assert_eq!(&Config::from_toml(&text), &Ok(config.clone()));
        // As the names were given, each quoted or not.
        let quoted: String = settings.iter().map(|(name, value)| match value {
            Value::Text(word) => format!("\"{name}\" = '{word}'\n"),
            value => format!("\"{name}\" = {value}\n"),
        }).collect();
        prop_assert_eq!(&Config::from_toml(&quoted), &Ok(config));
    }

    #[test]
    fn any_text_is_toml_or_refused_in_one_line(text in any::<String>()) {
        if let Err(error) = Config::from_toml(&text) {
            let message = error.to_string();
            prop_assert!(!message.contains('\n') && message.chars().count() < 1000, "{}", message);
        }
    }

    #[test]
    fn no_command_line_is_fatal(
        line in prop_oneof![
            any::<String>(),
            prop::collection::vec(word(), 0..12).prop_map(|words| words.join(" ")),
        ],
        settings in settings(),
    ) {
        let base = Config::from_pairs(settings).unwrap_or_default();
        let (config, words) = Config::from_cmdline(&line, &base);
        // Nothing of the line is lost.
        let blank = |c: char| c.is_ascii_whitespace() || c == '\u{b}';
        let mut rest = line.as_str();
        for word in &words {
            rest = rest.trim_start_matches(blank);
            prop_assert!(rest.starts_with(&word.text));
            rest = &rest[word.text.len()..];
        }
        prop_assert!(rest.chars().all(blank));
        let mut changed = base.explicit().clone();
        for word in &words {
            let shown = word.to_string();
            prop_assert!(!shown.contains('\n'), "{}", shown);
            let in_force = matches!(word.verdict, Verdict::Used | Verdict::Clamped);
            prop_assert_eq!(in_force, word.used.is_some(), "{}", shown);
            prop_assert!(word.verdict == Verdict::Used || !word.why.is_empty(), "{}", shown);
            if let Some(used) = &word.used {
                let spec = lookup(&word.name).unwrap();
                prop_assert!(word.rcu);
                prop_assert_eq!(&config.get(spec.name).unwrap(), used, "{}", shown);
                let given = config.explicit()[spec.python_name].clone();
                prop_assert_eq!(word.verdict == Verdict::Used, config.warnings().iter().all(|w| w.name != spec.python_name)
                    && !word.why.starts_with("the kernel "), "{}", shown);
                changed.insert(spec.python_name, given);
            }
        }
        // Exactly the words that are used make the difference.
        prop_assert_eq!(config.explicit(), &changed);
        prop_assert_eq!(&Config::from_pairs(changed).unwrap(), &config);
    }

    #[test]
    fn a_parameter_means_the_same_on_a_command_line(settings in settings()) {
        let settings: Vec<_> = settings.into_iter().filter_map(|(name, value)| {
            let spec = lookup(name).unwrap();
            let plain = matches!(spec.kind, Kind::ModuleParam | Kind::BootArg);
            let off_flag = spec.python_name == "rcu_nocb_poll" && value == Value::Bool(false);
            (plain && !off_flag && spec.python_name != "jiffies_to_sched_qs").then_some((spec.name, value))
        }).collect();
        let Ok(config) = Config::from_pairs(settings.clone()) else { return Ok(()) };
        let line: Vec<String> = settings.iter().map(|(name, value)| match value {
            Value::Bool(b) => format!("{name}={}", u8::from(*b)),
            value => format!("{name}={value}"),
        }).collect();
        let (booted, words) = boot(&line.join("  "));
        prop_assert_eq!(booted, config);
        prop_assert!(words.iter().all(|word| matches!(word.verdict, Verdict::Used | Verdict::Clamped)));
    }
}

#[test]
fn every_knob_has_one_standing() {
    use treercu::config::{Standing, accepted, elsewhere};
    for knob in known() {
        let told = elsewhere(knob.name);
        assert_eq!(told.is_none(), lookup(knob.name).is_some(), "{}", knob.name);
        if let Some(told) = told {
            assert!(told.effect.ends_with('.'), "{}", knob.name);
            // What cannot be set has something that can, unless it concerns debugging only.
            if let Standing::BuildTime(stand_in) = told.standing {
                assert!(knob.tier == 3 || !stand_in.is_empty() || knob.name == "CONFIG_RCU_TRACE");
            }
        }
    }
    for spec in accepted() {
        assert!(spec.is_inert() && lookup(spec.name) == Some(spec));
        assert_eq!(known().iter().filter(|knob| knob.name == spec.name).count(), 1);
    }
    assert!(!lookup("hz").unwrap().is_inert());
}

#[test]
fn a_boot_line_may_hold_knobs_without_an_effect() {
    let line = "rcutree.rcu_kick_kthreads=1 rcupdate.rcu_task_stall_info_mult=7 threadirqs";
    let (config, words) = Config::from_cmdline(line, &Config::new());
    assert_eq!(config.get("rcu_kick_kthreads").unwrap(), Value::Bool(true));
    assert_eq!(config.get("rcu_task_stall_info_mult").unwrap(), Value::Int(7));
    assert_eq!(config.get("threadirqs").unwrap(), Value::Bool(true));
    assert_eq!(words.len(), 3);
}
