//! Python numbers and words into plain Rust ones. Whatever is not what it should be becomes a
//! `ConfigError` that names the parameter, the value and what is allowed.

use super::errors::raise;
use crate::config::Value;
use crate::error::Error;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};

/// Longest value text that a message repeats.
const MAX_SHOWN: usize = 60;
/// Floats at or above this are not exact integers.
const EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;

/// `repr()` of an object, cut short; never fails.
pub(super) fn show(object: &Bound<'_, PyAny>) -> String {
    let text = match object.repr() {
        Ok(text) => text.to_string_lossy().into_owned(),
        // An integer beyond the interpreter's limit on printed digits, or a broken __repr__.
        Err(_) => match object.get_type().name() {
            Ok(name) => format!("<{name}>"),
            Err(_) => "<object>".to_owned(),
        },
    };
    // A message is one line.
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    cut(text)
}

/// `text` itself, or the beginning of a long one.
pub(super) fn cut(text: String) -> String {
    if text.chars().count() > MAX_SHOWN {
        let begin: String = text.chars().take(MAX_SHOWN - 3).collect();
        format!("{begin}...")
    } else {
        text
    }
}

/// A refusal of `object` as the value of `name`.
pub(super) fn refuse(name: &str, object: &Bound<'_, PyAny>, reason: &str, allowed: &str) -> PyErr {
    raise(object.py(), Error::config(name, show(object), reason, allowed))
}

fn is_numpy_bool(object: &Bound<'_, PyAny>) -> bool {
    let class = object.get_type();
    class.module().is_ok_and(|m| m == "numpy") && class.name().is_ok_and(|n| n == "bool" || n == "bool_")
}

/// What a Python object is, as far as parameters go.
pub(super) enum Given {
    /// `bool` or `numpy.bool`.
    Bool(bool),
    /// An integer that fits.
    Int(i128),
    /// An integer that does not.
    Huge,
    /// A real number.
    Float(f64),
    /// A word.
    Text(String),
    /// Anything else.
    Other,
}

/// Looks at a Python object. Numpy scalars count as what they stand for.
pub(super) fn given(object: &Bound<'_, PyAny>) -> Given {
    if let Ok(value) = object.cast::<PyBool>() {
        return Given::Bool(value.is_true());
    }
    if is_numpy_bool(object) {
        return object.is_truthy().map_or(Given::Other, Given::Bool);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Given::Text(text.to_string_lossy().into_owned());
    }
    if let Ok(value) = object.cast::<PyFloat>() {
        return Given::Float(value.value());
    }
    if object.is_instance_of::<PyInt>() || object.hasattr("__index__").unwrap_or(false) {
        return match object.call_method0("__index__") {
            Ok(value) => value.extract::<i128>().map_or(Given::Huge, Given::Int),
            Err(_) => Given::Other,
        };
    }
    // numpy.float32, Fraction, Decimal; an array of one number is not a number.
    if object.hasattr("__float__").unwrap_or(false) && !object.hasattr("__len__").unwrap_or(false) {
        return object.extract::<f64>().map_or(Given::Other, Given::Float);
    }
    Given::Other
}

/// A whole number from `low` to `high`.
pub(super) fn whole(name: &str, object: &Bound<'_, PyAny>, low: i128, high: i128) -> PyResult<i128> {
    let allowed = format!("a whole number from {low} to {high}");
    let value = match given(object) {
        Given::Int(value) => value,
        Given::Float(value) if !value.is_finite() => {
            return Err(refuse(name, object, "not a finite number", &allowed));
        }
        Given::Float(value) if value.fract() != 0.0 => {
            return Err(refuse(name, object, "not a whole number", &allowed));
        }
        Given::Float(value) if value.abs() < EXACT_FLOAT => value as i128,
        Given::Float(_) | Given::Huge => return Err(refuse(name, object, "out of range", &allowed)),
        Given::Bool(_) | Given::Text(_) | Given::Other => {
            return Err(refuse(name, object, "not a number", &allowed));
        }
    };
    if value < low || value > high {
        return Err(refuse(name, object, "out of range", &allowed));
    }
    Ok(value)
}

/// [`whole`] for an unsigned type.
pub(super) fn unsigned(name: &str, object: &Bound<'_, PyAny>, low: u64, high: u64) -> PyResult<u64> {
    Ok(whole(name, object, low.into(), high.into())? as u64)
}

/// A finite real number; its range is checked by whoever uses it.
pub(super) fn real(name: &str, object: &Bound<'_, PyAny>, allowed: &str) -> PyResult<f64> {
    let value = match given(object) {
        Given::Int(value) => value as f64,
        Given::Float(value) => value,
        Given::Huge => return Err(refuse(name, object, "out of range", allowed)),
        Given::Bool(_) | Given::Text(_) | Given::Other => {
            return Err(refuse(name, object, "not a number", allowed));
        }
    };
    if !value.is_finite() {
        return Err(refuse(name, object, "not a finite number", allowed));
    }
    // No negative zero: it would make equal objects differ in their hash.
    Ok(value + 0.0)
}

/// A duration given in units of `unit_ns` ("ms", "us"), as nanoseconds, 0 to `max_ns`.
pub(super) fn duration(
    name: &str,
    object: &Bound<'_, PyAny>,
    unit: &str,
    unit_ns: u64,
    max_ns: u64,
) -> PyResult<u64> {
    duration_or(
        name,
        object,
        unit_ns,
        max_ns,
        &format!("0 to {} {unit}", max_ns / unit_ns),
    )
}

/// Why a duration that is not zero is refused where it would become zero.
pub(super) const TOO_SHORT: &str = "rounds to 0 ns";

/// `allowed`, and the shortest duration that is not zero.
pub(super) fn with_shortest(allowed: &str, unit_ns: u64) -> String {
    format!("{allowed}; 0, or at least {} (1 ns)", 1.0 / unit_ns as f64)
}

/// [`duration`] where something else is allowed too: refusals repeat `allowed`.
pub(super) fn duration_or(
    name: &str,
    object: &Bound<'_, PyAny>,
    unit_ns: u64,
    max_ns: u64,
    allowed: &str,
) -> PyResult<u64> {
    let out_of_range = || refuse(name, object, "out of range", allowed);
    let ns = match given(object) {
        Given::Int(value) => {
            let ns = value.checked_mul(unit_ns.into()).ok_or_else(out_of_range)?;
            u64::try_from(ns).map_err(|_| out_of_range())?
        }
        Given::Float(value) if !value.is_finite() => {
            return Err(refuse(name, object, "not a finite number", allowed));
        }
        Given::Float(value) => {
            let ns = (value * unit_ns as f64).round_ties_even();
            if value < 0.0 || ns > max_ns as f64 {
                return Err(out_of_range());
            }
            if value > 0.0 && ns == 0.0 {
                return Err(refuse(name, object, TOO_SHORT, &with_shortest(allowed, unit_ns)));
            }
            ns as u64
        }
        Given::Huge => return Err(out_of_range()),
        Given::Bool(_) | Given::Text(_) | Given::Other => {
            return Err(refuse(name, object, "not a number", allowed));
        }
    };
    if ns > max_ns {
        return Err(out_of_range());
    }
    Ok(ns)
}

/// A boolean: `True`, `False`, or the words and numbers that the command line takes for them.
pub(super) fn flag(name: &str, object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let value = match given(object) {
        Given::Bool(value) => Some(value),
        Given::Int(0) => Some(false),
        Given::Int(1) => Some(true),
        Given::Text(text) => match text.as_str() {
            "0" | "false" | "off" => Some(false),
            "1" | "true" | "on" => Some(true),
            _ => None,
        },
        _ => None,
    };
    value.ok_or_else(|| {
        let allowed = "True, False, 0, 1, or the words false, true, off, on";
        refuse(name, object, "not a boolean", allowed)
    })
}

/// One of a few words.
pub(super) fn word(name: &str, object: &Bound<'_, PyAny>, choices: &[&str]) -> PyResult<String> {
    match given(object) {
        Given::Text(text) if choices.contains(&text.as_str()) => Ok(text),
        Given::Text(_) => Err(refuse(
            name,
            object,
            "not one of the choices",
            &choices.join(", "),
        )),
        _ => Err(refuse(name, object, "not a word", &choices.join(", "))),
    }
}

/// Nanoseconds in units of `unit_ns`: an `int` when exact, else a `float`.
pub(super) fn in_units<'py>(py: Python<'py>, ns: u64, unit_ns: u64) -> PyResult<Bound<'py, PyAny>> {
    if ns.is_multiple_of(unit_ns) {
        Ok((ns / unit_ns).into_pyobject(py)?.into_any())
    } else {
        Ok((ns as f64 / unit_ns as f64).into_pyobject(py)?.into_any())
    }
}

/// A tunable's value, or why no tunable takes it.
pub(super) fn tunable_value(object: &Bound<'_, PyAny>) -> Result<Value, &'static str> {
    const TOO_LARGE: &str = "out of range";
    match given(object) {
        Given::Bool(value) => Ok(Value::Bool(value)),
        Given::Int(value) => i64::try_from(value).map(Value::Int).map_err(|_| TOO_LARGE),
        Given::Float(value) => Ok(Value::Float(value)),
        Given::Text(text) => Ok(Value::Text(text)),
        Given::Huge => Err(TOO_LARGE),
        Given::Other => Err("neither a boolean, an integer nor a word"),
    }
}

/// A tunable's value as a Python object.
pub(super) fn tunable_object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::Int(value) => value.into_pyobject(py)?.into_any(),
        Value::Float(value) => value.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
    })
}

/// A JSON value as a Python object.
pub(super) fn json_object<'py>(py: Python<'py>, value: &serde_json::Value) -> PyResult<Bound<'py, PyAny>> {
    use serde_json::Value as Json;
    Ok(match value {
        Json::Null => py.None().into_bound(py),
        Json::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Json::Number(number) => {
            if let Some(value) = number.as_u64() {
                value.into_pyobject(py)?.into_any()
            } else if let Some(value) = number.as_i64() {
                value.into_pyobject(py)?.into_any()
            } else {
                number.as_f64().unwrap_or(f64::NAN).into_pyobject(py)?.into_any()
            }
        }
        Json::String(text) => text.into_pyobject(py)?.into_any(),
        Json::Array(items) => {
            let list = pyo3::types::PyList::empty(py);
            for item in items {
                list.append(json_object(py, item)?)?;
            }
            list.into_any()
        }
        Json::Object(fields) => {
            let dict = pyo3::types::PyDict::new(py);
            for (key, item) in fields {
                dict.set_item(key, json_object(py, item)?)?;
            }
            dict.into_any()
        }
    })
}

/// The known name nearest to `name`, if one is near enough to be meant.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .min()
        .filter(|&(distance, candidate)| distance <= 1 + candidate.len().min(name.len()) / 3)
        .map(|(_, candidate)| candidate)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
