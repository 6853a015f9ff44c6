//! A kernel command line, read as the kernel reads it: nothing on it is fatal, and each word is reported.
//!
//! How words come about: blanks separate them except inside double quotes, which may stand around the value
//! or around the whole word; in names `-` and `_` are the same; `--` ends what is for the kernel; a later
//! value for a parameter replaces an earlier one; a value that the parameter's reader rejects leaves the
//! parameter as it was.
//!
//! How values are read depends on the parameter. Module parameters are strict: a boolean is decided by its
//! first letter (`on` and `off` by two), without a value it is true; an integer is decimal, octal with a
//! leading 0 or hexadecimal with 0x, must fill the whole value and fit its C type. `nr_cpus=`, `maxcpus=` and
//! `skew_tick=` take a leading integer and do not look at the rest.
//!
//! The era of the configuration does not decide which parameters exist: it sets defaults only.

use super::catalogue::{Kind, MAX_CPUS, MAX_GP_DELAY_JIFFIES, Spec, lookup};
use super::known::{Takes, knob, known};
use super::resolve::Values;
use super::suggest::distance;
use super::value::shown;
use super::{Config, Value};
use crate::error::Error;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What became of a word of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The value is in force.
    Used,
    /// Another value is in force, because the kernel limits it.
    Clamped,
    /// A parameter that is known; the word has no effect.
    Ignored,
    /// No parameter that is known here.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Used => "used",
            Verdict::Clamped => "clamped",
            Verdict::Ignored => "ignored",
            Verdict::Unknown => "unknown",
        })
    }
}

/// One word of a kernel command line and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Word {
    /// The word as it stands on the line, quotes included.
    pub text: String,
    /// The parameter's full name if it is known, otherwise the name as written.
    pub name: String,
    /// What follows the first `=`, without its quotes; none if there is no `=`.
    pub value: Option<String>,
    /// What became of it.
    pub verdict: Verdict,
    /// The value in force, for a word that is used or clamped.
    pub used: Option<Value>,
    /// Why; empty for a word that is simply used.
    pub why: String,
    /// Whether the word has to do with RCU or with what RCU depends on (CPUs, ticks, preemption).
    pub rcu: bool,
}

/// `WORD: VERDICT (why)` on one line; long words are cut, control characters escaped.
impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", shown(&self.text), self.verdict)?;
        match (&self.used, self.verdict) {
            (Some(used), Verdict::Clamped) => write!(f, ", {used} is used")?,
            (Some(used), _) if self.value.as_deref() != Some(&used.to_string()) => write!(f, " as {used}")?,
            _ => {}
        }
        if self.why.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.why)
        }
    }
}

impl Config {
    /// `base` booted with this command line, and a report of each word in its order on the line. Never
    /// fails: what cannot be used is left out and says why.
    ///
    /// A value on the line replaces one that was given in `base`. Values that do not go together are left
    /// out as the kernel does it: first `rcutree.rcu_fanout_leaf`, if a tree of such leaves cannot hold the
    /// CPUs, then `nr_cpus`.
    pub fn from_cmdline(line: &str, base: &Config) -> (Config, Vec<Word>) {
        let mut words: Vec<Word> = Vec::new();
        // Per tunable, the last word that its reader accepts.
        let mut last: BTreeMap<&'static str, (usize, Reading)> = BTreeMap::new();
        let mut ended = false;
        for token in tokens(line) {
            let mut word = Word {
                text: token.text.to_string(),
                name: token.name.to_string(),
                value: token.value.map(str::to_string),
                verdict: Verdict::Ignored,
                used: None,
                why: String::new(),
                rcu: false,
            };
            let name = token.name.replace('-', "_");
            let behind = ended;
            if !behind && token.name == "--" && token.value.is_none() {
                ended = true;
                word.why = "ends the kernel's parameters, the rest is for init".into();
            } else if let Some(knob) = known().iter().find(|knob| knob.name == name) {
                (word.name, word.rcu) = (knob.name.to_string(), true);
                match lookup(knob.name) {
                    _ if behind => {}
                    _ if knob.kind == Kind::Patch => {
                        (word.verdict, word.why) = (Verdict::Unknown, unspellable(knob.name));
                    }
                    _ if knob.kind == Kind::Kconfig => word.why = unspellable(knob.name),
                    None => word.why = "not modelled yet".into(),
                    Some(spec) => match read(spec, knob.takes, token.value) {
                        Reading::Rejected(why) => word.why = why,
                        mut reading => {
                            if let Reading::Value(_, note @ Note::Remark("")) = &mut reading
                                && spec.is_inert()
                            {
                                *note = Note::Remark(spec.why);
                            }
                            if let Some((earlier, _)) = last.insert(spec.python_name, (words.len(), reading))
                            {
                                words[earlier].why = "given again later".into();
                            }
                        }
                    },
                }
            } else {
                (word.rcu, word.why) = explain(&name, token.value);
                word.verdict = if behind {
                    Verdict::Ignored
                } else {
                    Verdict::Unknown
                };
            }
            if behind {
                word.why = "after \"--\", so for init and not for the kernel".into();
            }
            words.push(word);
        }
        let config = apply(base, &last, &mut words);
        (config, words)
    }
}

/// Puts what was read into force and writes the verdicts.
fn apply(base: &Config, last: &BTreeMap<&'static str, (usize, Reading)>, words: &mut [Word]) -> Config {
    let attempt = |without: &[&str]| {
        let mut explicit: Values = base.explicit.clone();
        let accepted = last.iter().filter(|(name, _)| !without.contains(name));
        explicit.extend(accepted.filter_map(|(&name, (_, reading))| Some((name, reading.value()?.clone()))));
        Config::from_explicit(explicit).ok()
    };
    // One after the other, what the tree may not be able to hold.
    let choices: [&[&str]; 4] = [
        &[],
        &["rcu_fanout_leaf"],
        &["nr_cpus"],
        &["nr_cpus", "rcu_fanout_leaf"],
    ];
    let (config, left_out) = choices
        .into_iter()
        .find_map(|without| Some((attempt(without)?, without)))
        .unwrap_or_else(|| (base.clone(), &[]));
    for (name, (index, reading)) in last {
        let word = &mut words[*index];
        let limited = config.warnings().iter().find(|adjusted| adjusted.name == *name);
        match reading {
            Reading::Rejected(why) | Reading::Refused(why) => word.why = why.clone(),
            _ if left_out.contains(name) => {
                word.why = match *name {
                    "nr_cpus" => "more CPUs than the rcu_node tree can hold".into(),
                    _ => "an rcu_node tree of such leaves cannot hold the CPUs".into(),
                };
            }
            Reading::Value(value, note) => {
                (word.verdict, word.why) = match (limited, note) {
                    (Some(adjusted), _) => (Verdict::Clamped, adjusted.why.clone()),
                    (None, Note::Limits(why)) => (Verdict::Clamped, (*why).to_string()),
                    (None, Note::Remark(why)) => (Verdict::Used, (*why).to_string()),
                };
                word.used = config.effective().get(name).or(Some(value)).cloned();
            }
        }
    }
    config
}

// ---------------------------------------------------------------- words

/// One word, taken apart.
struct Token<'a> {
    text: &'a str,
    name: &'a str,
    value: Option<&'a str>,
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

/// The words of a command line. A quote that is not closed reaches to the end of the line.
fn tokens(line: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(is_blank);
        if rest.is_empty() {
            return None;
        }
        let (mut inside, mut end) = (false, rest.len());
        for (at, c) in rest.char_indices() {
            if c == '"' {
                inside = !inside;
            } else if is_blank(c) && !inside {
                end = at;
                break;
            }
        }
        let text = &rest[..end];
        rest = &rest[end..];
        // Quotes around the whole word.
        let (body, whole) = match text.strip_prefix('"') {
            Some(body) => (body, true),
            None => (text, false),
        };
        let unquoted = |part| if whole { strip_quote(part) } else { part };
        // An "=" in first place is part of the name.
        let equals = body.char_indices().skip(1).find(|&(_, c)| c == '=');
        let (name, value) = match equals {
            None => (unquoted(body), None),
            Some((at, _)) => {
                let value = &body[at + 1..];
                let value = value
                    .strip_prefix('"')
                    .map_or_else(|| unquoted(value), strip_quote);
                (&body[..at], Some(value))
            }
        };
        Some(Token { text, name, value })
    })
}

fn strip_quote(text: &str) -> &str {
    text.strip_suffix('"').unwrap_or(text)
}

// ---------------------------------------------------------------- values

/// A remark on a value that was accepted.
enum Note {
    /// The kernel acts as if another value, this one, had been given.
    Limits(&'static str),
    /// Something to know; may be empty.
    Remark(&'static str),
}

/// What a parameter's reader makes of a value.
enum Reading {
    /// Accepted.
    Value(Value, Note),
    /// The kernel's reader fails: the parameter stays as it was.
    Rejected(String),
    /// The kernel takes it, in place of an earlier one, and later does not use it; or this crate cannot.
    Refused(String),
}

impl Reading {
    fn value(&self) -> Option<&Value> {
        match self {
            Reading::Value(value, _) => Some(value),
            _ => None,
        }
    }
}

fn plain(value: impl Into<Value>) -> Reading {
    Reading::Value(value.into(), Note::Remark(""))
}

fn read(spec: &'static Spec, takes: Takes, text: Option<&str>) -> Reading {
    let Some(text) = text else {
        return match (spec.kind, takes) {
            (Kind::ModuleParam, Takes::Bool) | (_, Takes::Flag) => plain(true),
            (_, Takes::CpuList) => plain(""),
            _ => Reading::Rejected("needs a value".into()),
        };
    };
    let leading =
        || leading_int(text).ok_or_else(|| Reading::Rejected("does not start with a number".into()));
    let reading = match spec.python_name {
        "nr_cpus" => leading().map(|n| match n {
            ..=0 => Reading::Rejected("the kernel uses it only above 0".into()),
            n if n > MAX_CPUS.into() => {
                Reading::Rejected(format!("more than the {MAX_CPUS} CPUs that can be simulated"))
            }
            n => plain(n),
        }),
        "maxcpus" => leading().map(|n| match n {
            // Read as unsigned, so as very many.
            ..0 => plain(i64::from(i32::MAX)),
            0 => Reading::Refused("a kernel booted without SMP is not modelled".into()),
            n => accept(spec, n),
        }),
        "skew_tick" => leading().map(|n| plain(n != 0)),
        "preempt" => Ok(match spec.accept(spec.name, &text.into()) {
            Ok(model) if text == "none" || text == "voluntary" => Reading::Value(
                model,
                Note::Remark(
                    "taken as a kernel built this way; where only preempt= says so, readers stay preemptible",
                ),
            ),
            Ok(model) => plain(model),
            Err(error) if text == "none" || text == "voluntary" => Reading::Refused(reason_of(&error)),
            Err(_) => Reading::Rejected("no preemption model: none, voluntary, full or lazy".into()),
        }),
        // Being there is all, whatever follows.
        _ if takes == Takes::Flag => Ok(plain(true)),
        _ if takes == Takes::CpuList => Ok(match super::cpulist::parse(text) {
            Ok(_) => plain(text),
            Err(_) => Reading::Value(
                "all".into(),
                Note::Remark("no list of CPUs, so the kernel takes all"),
            ),
        }),
        _ if takes == Takes::Bool => boolean(text)
            .map(plain)
            .ok_or_else(|| Reading::Rejected("no boolean: y, n, 1, 0, on or off".into())),
        _ => integer(text, takes)
            .map(|n| number(spec, n))
            .map_err(Reading::Rejected),
    };
    reading.unwrap_or_else(|rejected| rejected)
}

/// A module parameter's integer that its C type can hold.
fn number(spec: &'static Spec, n: i128) -> Reading {
    const ONLY_ABOVE_ZERO: &str = "the kernel asks only whether it is above 0";
    let given = i64::try_from(n).unwrap_or(i64::MAX);
    match spec.python_name {
        "jiffies_to_sched_qs" => Reading::Refused(
            "boot code computes it again; rcutree.jiffies_till_sched_qs= sets the age".into(),
        ),
        "rcu_normal_wake_from_gp" if given > 1 => Reading::Value(1.into(), Note::Limits(ONLY_ABOVE_ZERO)),
        "rcu_normal_wake_from_gp" if given < -1 => Reading::Value(0.into(), Note::Limits(ONLY_ABOVE_ZERO)),
        "gp_preinit_delay" | "gp_init_delay" | "gp_cleanup_delay" if given < 0 => {
            Reading::Value(0.into(), Note::Limits("the kernel delays only above 0"))
        }
        "gp_preinit_delay" | "gp_init_delay" | "gp_cleanup_delay" if given > MAX_GP_DELAY_JIFFIES => {
            Reading::Refused(format!(
                "more than {MAX_GP_DELAY_JIFFIES} jiffies is not modelled"
            ))
        }
        "rcu_fanout_leaf" if spec.accept(spec.name, &given.into()).is_err() => {
            Reading::Refused("outside 2 to 64: the kernel warns and keeps the built-in size".into())
        }
        _ => accept(spec, given),
    }
}

/// What the kernel takes and the catalogue may not.
fn accept(spec: &'static Spec, n: i64) -> Reading {
    match spec.accept(spec.name, &n.into()) {
        Ok(value) => plain(value),
        Err(error) => Reading::Refused(format!(
            "not modelled: {}; allowed: {}",
            reason_of(&error),
            spec.range
        )),
    }
}

fn reason_of(error: &Error) -> String {
    match error {
        Error::Config { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

/// A boolean by its first letter, `on` and `off` by two ("enabled" and "disabled" came last).
fn boolean(text: &str) -> Option<bool> {
    let mut letters = text.bytes().map(|b| b.to_ascii_lowercase());
    match letters.next()? {
        b'y' | b't' | b'1' | b'e' => Some(true),
        b'n' | b'f' | b'0' | b'd' => Some(false),
        b'o' => match letters.next()? {
            b'n' => Some(true),
            b'f' => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Base and digits of an unsigned integer: 0x is hexadecimal, a leading 0 octal.
fn base_of(text: &str) -> (u32, &str) {
    let bytes = text.as_bytes();
    match bytes {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => (16, &text[2..]),
        [b'0', ..] => (8, text),
        _ => (10, text),
    }
}

/// The whole of `text` as an integer of this C type; one newline may follow.
fn integer(text: &str, takes: Takes) -> Result<i128, String> {
    let (min, max, c_type) = match takes {
        Takes::Int => (i128::from(i32::MIN), i128::from(i32::MAX), "int"),
        Takes::Ulong => (0, i128::from(u64::MAX), "unsigned long"),
        _ => (i128::from(i64::MIN), i128::from(i64::MAX), "long"),
    };
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (negative, magnitude) = match text.as_bytes() {
        [b'-', ..] => (true, &text[1..]),
        [b'+', ..] => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = base_of(magnitude);
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return Err("no integer: decimal, 0x hexadecimal or 0 octal".into());
    }
    if negative && takes == Takes::Ulong {
        return Err("has a sign where the kernel reads an unsigned long".into());
    }
    let outside = || format!("does not fit in the kernel's {c_type}");
    let magnitude = i128::from_str_radix(digits, base).map_err(|_| outside())?;
    let number = if negative { -magnitude } else { magnitude };
    if (min..=max).contains(&number) {
        Ok(number)
    } else {
        Err(outside())
    }
}

/// The integer that `text` starts with, whatever follows, cut to a C `int`.
fn leading_int(text: &str) -> Option<i64> {
    let (negative, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (base, digits) = base_of(magnitude);
    let mut value: Option<u64> = None;
    for digit in digits.chars().map_while(|c| c.to_digit(base)) {
        let so_far = value.unwrap_or(0);
        value = Some(so_far.wrapping_mul(base.into()).wrapping_add(digit.into()));
    }
    // C converts to int by its low 32 bits.
    let value = value? as u32 as i32;
    Some(i64::from(if negative { value.wrapping_neg() } else { value }))
}

// ---------------------------------------------------------------- unknown words

/// Modules whose parameters drive tests of RCU and are no knobs of RCU.
const TEST_MODULES: &[&str] = &["rcutorture", "rcuscale", "refscale", "torture"];
/// Full names shorter than this are not guessed at.
const GUESSED_CHARS: usize = 5;
/// From this length on two slips are forgiven, and the module may be missing as well.
const LONG_CHARS: usize = 9;

/// What to do with a knob that the kernel does not read from its command line.
fn unspellable(name: &str) -> String {
    let what = match name.strip_prefix("CONFIG_") {
        Some(_) => format!("{name} is decided when the kernel is built"),
        None => format!("{name} is no kernel parameter"),
    };
    match lookup(name) {
        Some(spec) => format!("{what}; set the tunable {} itself", spec.python_name),
        None => format!("{what}; not modelled yet"),
    }
}

/// Whether a word that is no known parameter has to do with RCU, and what was probably meant.
fn explain(name: &str, value: Option<&str>) -> (bool, String) {
    let write = |full: &str| {
        let value = value
            .map(|value| format!("={}", shown(value)))
            .unwrap_or_default();
        let modelled = if lookup(full).is_some() {
            ""
        } else {
            ", which is not modelled yet"
        };
        (
            true,
            format!("no kernel parameter; write {full}{value}{modelled}"),
        )
    };
    if let Some(full) = right_module(name) {
        return write(full);
    }
    if let Some(spec) = lookup(name) {
        return (true, unspellable(spec.name));
    }
    if let Some(option) = knob(name).filter(|knob| knob.kind == Kind::Kconfig) {
        return (true, unspellable(option.name));
    }
    if let Some((module, _)) = name
        .split_once('.')
        .filter(|(module, _)| TEST_MODULES.contains(module))
    {
        return (
            true,
            format!("a parameter of the test module {module}, not of RCU"),
        );
    }
    if let Some(full) = near(name) {
        return write(full);
    }
    let assigned = value.map(|value| value.strip_prefix('+').unwrap_or(value));
    if let Some((inner, _)) = assigned.and_then(|value| value.split_once('=')) {
        let inner = inner.replace('-', "_");
        if known()
            .iter()
            .any(|knob| knob.is_on_command_line() && knob.name == inner)
        {
            return (
                true,
                format!("no kernel parameter; {inner}= must be a word of its own"),
            );
        }
    }
    let mut parts = name.split(['.', '_']);
    if parts.any(|part| part.starts_with("rcu") || part.starts_with("srcu")) {
        (true, "no RCU parameter of this name is known".into())
    } else {
        (false, "no RCU parameter".into())
    }
}

/// The parameter that `name` is but for its module, which is missing, incomplete or another of RCU's.
fn right_module(name: &str) -> Option<&'static str> {
    let (module, last) = match name.rsplit_once('.') {
        Some((module, last)) => (Some(module), last),
        None => (None, name),
    };
    let modules: BTreeSet<&str> = known()
        .iter()
        .filter(|knob| knob.kind == Kind::ModuleParam)
        .filter_map(|knob| Some(knob.name.split_once('.')?.0))
        .collect();
    let resembles = |module: &str| {
        let rcu = modules
            .iter()
            .any(|known| known.contains(module) || distance(known, module) <= 2);
        rcu || module.contains("rcu") || module == "kernel"
    };
    known()
        .iter()
        .filter(|knob| knob.is_on_command_line() && knob.name != name && knob.last_part() == last)
        .find(|_| module.is_none_or(resembles))
        .map(|knob| knob.name)
}

/// The parameter of which `name` is a misspelling.
fn near(name: &str) -> Option<&'static str> {
    let chars = name.chars().count();
    let spelt = known()
        .iter()
        .filter(|knob| knob.is_on_command_line())
        .flat_map(|knob| {
            let bare = knob.last_part();
            let bare = (bare != knob.name && bare.len() >= LONG_CHARS).then_some((bare, knob.name));
            [Some((knob.name, knob.name)), bare].into_iter().flatten()
        });
    let forgiven = |spelt: &str| match spelt.len() {
        ..GUESSED_CHARS => 0,
        GUESSED_CHARS..LONG_CHARS => 1,
        _ => 2,
    };
    spelt
        .filter(|(spelt, _)| spelt.len().abs_diff(chars) <= 2)
        .map(|(spelt, full)| (distance(name, spelt), spelt, full))
        .filter(|(slips, spelt, _)| *slips <= forgiven(spelt))
        .min_by_key(|(slips, ..)| *slips)
        .map(|(_, _, full)| full)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(name, value)` of each word.
    fn taken_apart(line: &str) -> Vec<(&str, Option<&str>)> {
        tokens(line).map(|token| (token.name, token.value)).collect()
    }

    #[test]
    fn words_and_quotes() {
        assert_eq!(taken_apart(" \t\n"), []);
        assert_eq!(
            taken_apart("a  b=1\tc="),
            [("a", None), ("b", Some("1")), ("c", Some(""))]
        );
        assert_eq!(taken_apart(r#"a="1 2" b"#), [("a", Some("1 2")), ("b", None)]);
        assert_eq!(taken_apart(r#""a=1 2" b"#), [("a", Some("1 2")), ("b", None)]);
        assert_eq!(taken_apart(r#""a b" c"#), [("a b", None), ("c", None)]);
        // Inside a value a quote stays, and the blank in it does not separate.
        assert_eq!(taken_apart(r#"a=1" "2"#), [("a", Some("1\" \"2"))]);
        assert_eq!(taken_apart(r#"a="1 2"#), [("a", Some("1 2"))]);
        assert_eq!(taken_apart("a=b=c"), [("a", Some("b=c"))]);
        assert_eq!(taken_apart("=a =b=c"), [("=a", None), ("=b", Some("c"))]);
        assert_eq!(taken_apart("\""), [("", None)]);
        assert_eq!(taken_apart("a=\""), [("a", Some(""))]);
        assert_eq!(taken_apart("ä=ö …"), [("ä", Some("ö")), ("…", None)]);
    }

    #[test]
    fn integers_by_hand() {
        let int = |text| integer(text, Takes::Int).ok();
        for (text, value) in [
            ("0", 0),
            ("10", 10),
            ("-10", -10),
            ("+10", 10),
            ("010", 8),
            ("0x10", 16),
            ("0X1f", 31),
            ("-0x10", -16),
            ("00", 0),
            ("10\n", 10),
            ("2147483647", i128::from(i32::MAX)),
            ("-2147483648", i128::from(i32::MIN)),
        ] {
            assert_eq!(int(text), Some(value), "{text:?}");
        }
        for text in [
            "",
            "-",
            "+",
            "abc",
            "1a",
            "08",
            "0x",
            "0xg",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "--1",
            "+-1",
            "10\n\n",
            "٣",
            "2147483648",
            "-2147483649",
            "99999999999999999999999999999999999999999999",
        ] {
            assert_eq!(int(text), None, "{text:?}");
        }
        assert_eq!(integer("2147483648", Takes::Long), Ok(1 << 31));
        assert_eq!(integer("18446744073709551615", Takes::Ulong), Ok(u64::MAX.into()));
        assert!(integer("18446744073709551616", Takes::Ulong).is_err());
        assert!(integer("-1", Takes::Ulong).is_err() && integer("9223372036854775808", Takes::Long).is_err());
    }

    #[test]
    fn leading_integers_by_hand() {
        for (text, value) in [
            ("8", Some(8)),
            ("8abc", Some(8)),
            ("8,9", Some(8)),
            ("0x10", Some(16)),
            ("010", Some(8)),
            ("08", Some(0)),
            ("0x", Some(0)),
            ("-3", Some(-3)),
            ("abc", None),
            ("", None),
            ("-", None),
            ("+3", None),
            ("4294967297", Some(1)),
        ] {
            assert_eq!(leading_int(text), value, "{text:?}");
        }
    }
}
