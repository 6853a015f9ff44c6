//! A configuration as a TOML text: one line for each value that was given.
//!
//! ```toml
//! kernel = "6.18"
//! nr_cpus = 32
//! CONFIG_HZ = 1000
//! [rcutree]
//! jiffies_till_first_fqs = 2
//! ```
//!
//! A name is a Python or a full catalogue name; the part before a dot may be a table. What is wrong is
//! refused with the number of its line, the first such line first.

use super::catalogue::{Type, lookup};
use super::known::known;
use super::resolve::Values;
use super::value::shown;
use super::{Config, Value, find, settable};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

impl Config {
    /// The configuration that this TOML text describes; whatever it does not name is at its default.
    ///
    /// # Errors
    /// [`Error::Config`], the reason starting with the number of the line, for text that is no TOML, an
    /// unknown name, a tunable given twice under two names, a wrong type or a value that is refused. What
    /// only all values together violate has no line.
    pub fn from_toml(text: &str) -> Result<Config> {
        let document = DeTable::parse(text).map_err(|error| no_toml(text, &error))?;
        let mut entries = Vec::new();
        flatten("", document.get_ref(), &mut entries);
        entries.sort_by_key(|entry| entry.at);
        let mut explicit = Values::new();
        let mut seen: BTreeMap<&str, (String, usize)> = BTreeMap::new();
        for entry in entries {
            let line = line_of(text, entry.at);
            let accepted = entry.accept();
            let (python_name, value) = accepted.map_err(|error| at_line(line, error))?;
            if let Some((other, first)) = seen.insert(python_name, (entry.name.clone(), line)) {
                return Err(Error::config(
                    shown(&entry.name),
                    &value,
                    format!("line {line}: given on line {first} already, as {other}"),
                    "each tunable once",
                ));
            }
            explicit.insert(python_name, value);
        }
        Config::from_explicit(explicit)
    }

    /// The values that were given as a TOML text, by Python name and in the catalogue's order.
    /// [`Config::from_toml`] makes an equal configuration of it.
    pub fn to_toml(&self) -> String {
        let given = settable().filter_map(|spec| {
            let value = self.explicit.get(spec.python_name)?;
            // The words that the catalogue accepts need no escapes; all else reads the same in TOML.
            Some(match value {
                Value::Text(word) => format!("{} = \"{word}\"\n", spec.python_name),
                other => format!("{} = {other}\n", spec.python_name),
            })
        });
        given.collect()
    }
}

/// One `name = value` of the text.
struct Entry<'a> {
    /// The name with the tables it stands in.
    name: String,
    value: &'a DeValue<'a>,
    /// Where the name stands, bytes.
    at: usize,
}

impl Entry<'_> {
    /// Python name and value in its tunable's type.
    fn accept(&self) -> Result<(&'static str, Value)> {
        let given = match self.value {
            DeValue::Boolean(b) => Ok(Value::Bool(*b)),
            DeValue::String(s) => Ok(Value::Text(s.to_string())),
            DeValue::Float(x) => Ok(Value::Float(x.as_str().parse().unwrap_or(f64::NAN))),
            DeValue::Integer(i) => match i64::from_str_radix(i.as_str(), i.radix()) {
                Ok(i) => Ok(Value::Int(i)),
                Err(_) => Err((i.to_string(), "does not fit in 64 bits".to_string())),
            },
            DeValue::Datetime(d) => Err((d.to_string(), "a date".to_string())),
            DeValue::Array(_) => Err(("[…]".to_string(), "an array".to_string())),
            DeValue::Table(_) => Err(("{…}".to_string(), "a table".to_string())),
        };
        match given {
            Ok(value) => {
                let spec = find(&self.name, &value)?;
                Ok((spec.python_name, spec.accept(&self.name, &value)?))
            }
            Err((text, what)) => {
                let spec = find(&self.name, &text)?;
                let wanted = match (self.value, spec.value_type) {
                    (DeValue::Integer(_), _) => "",
                    (_, Type::Bool) => " where a boolean is needed",
                    (_, Type::OneOf(_) | Type::CpuList) => " where text is needed",
                    (_, Type::Int { .. } | Type::IntOneOf(_)) => " where an integer is needed",
                };
                let reason = format!("{what}{wanted}");
                Err(Error::config(shown(&self.name), shown(&text), reason, spec.range))
            }
        }
    }
}

/// Every value below `table`. A table is gone into if it has something in it and is not in the place of a
/// value; otherwise it is an entry, which no tunable accepts.
fn flatten<'a>(prefix: &str, table: &'a DeTable<'a>, entries: &mut Vec<Entry<'a>>) {
    for (key, value) in table {
        let name = match prefix {
            "" => key.get_ref().to_string(),
            _ => format!("{prefix}.{}", key.get_ref()),
        };
        match value.get_ref() {
            DeValue::Table(inner) if lookup(&name).is_none() && (!inner.is_empty() || is_group(&name)) => {
                flatten(&name, inner, entries);
            }
            value => entries.push(Entry {
                name,
                value,
                at: key.span().start,
            }),
        }
    }
}

/// Whether knobs have names that start with `name` and a dot.
fn is_group(name: &str) -> bool {
    let rest = |full: &'static str| full.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    known().iter().any(|knob| rest(knob.name))
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&b| b == b'\n').count()
}

fn at_line(line: usize, error: Error) -> Error {
    match error {
        Error::Config {
            parameter,
            value,
            reason,
            allowed,
        } => Error::config(parameter, value, format!("line {line}: {reason}"), allowed),
        other => other,
    }
}

fn no_toml(text: &str, error: &toml::de::Error) -> Error {
    let line = error.span().map_or(1, |span| line_of(text, span.start));
    let content = text.lines().nth(line - 1).unwrap_or_default().trim();
    let message = shown(error.message());
    Error::config(
        "TOML",
        shown(content),
        format!("line {line}: {message}"),
        "lines of the form name = value, and [tables]",
    )
}
