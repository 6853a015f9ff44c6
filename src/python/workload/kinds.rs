//! What a workload's field can be, as Python gives it and as Python sees it again. Each kind refuses
//! what it does not take with a `ConfigError` that names the field, the value and what is allowed.

use super::super::values::{
    Given, TOO_SHORT, duration, duration_or, flag, given, in_units, refuse, whole, with_shortest, word,
};
use crate::workload::{Cpus, Length, MAX_DURATION_NS, Placement};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyString};

/// More CPUs than any machine has; stops a wrong argument early.
const MAX_CPU_LIST: usize = 1 << 20;

/// A kind of field with values of type `T` in the plain data.
pub(super) trait Kind<T> {
    /// From Python.
    fn read(&self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<T>;
    /// To Python, so that `read` gives the same value again.
    fn show<'py>(&self, py: Python<'py>, value: &T) -> PyResult<Bound<'py, PyAny>>;
}

/// A whole number, from the first to the second.
pub(super) struct Count(pub(super) u64, pub(super) u64);

impl Kind<u64> for Count {
    fn read(&self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<u64> {
        Ok(whole(name, object, self.0.into(), self.1.into())? as u64)
    }

    fn show<'py>(&self, py: Python<'py>, value: &u64) -> PyResult<Bound<'py, PyAny>> {
        Ok(value.into_pyobject(py)?.into_any())
    }
}

impl Kind<u32> for Count {
    fn read(&self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<u32> {
        let high = self.1.min(u32::MAX.into());
        Ok(whole(name, object, self.0.into(), high.into())? as u32)
    }

    fn show<'py>(&self, py: Python<'py>, value: &u32) -> PyResult<Bound<'py, PyAny>> {
        Ok(value.into_pyobject(py)?.into_any())
    }
}

impl Kind<u16> for Count {
    fn read(&self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<u16> {
        let high = self.1.min(u16::MAX.into());
        Ok(whole(name, object, self.0.into(), high.into())? as u16)
    }

    fn show<'py>(&self, py: Python<'py>, value: &u16) -> PyResult<Bound<'py, PyAny>> {
        Ok(value.into_pyobject(py)?.into_any())
    }
}

/// A duration in a unit, kept in nanoseconds.
pub(super) struct Time {
    unit: &'static str,
    unit_ns: u64,
}

/// Microseconds.
pub(super) const US: Time = Time {
    unit: "us",
    unit_ns: 1_000,
};
/// Milliseconds.
pub(super) const MS: Time = Time {
    unit: "ms",
    unit_ns: 1_000_000,
};

impl Kind<u64> for Time {
    fn read(&self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<u64> {
        duration(name, object, self.unit, self.unit_ns, MAX_DURATION_NS)
    }

    fn show<'py>(&self, py: Python<'py>, value: &u64) -> PyResult<Bound<'py, PyAny>> {
        in_units(py, *value, self.unit_ns)
    }
}

/// A [`Length`]: a number of microseconds, or a distribution as text.
pub(super) struct LengthUs;

impl LengthUs {
    /// The longest mean of an exponential distribution; draws are cut at twenty times that.
    const MAX_MEAN_NS: u64 = MAX_DURATION_NS / 20;

    fn allowed() -> String {
        format!(
            "0 to {} us, uniform:LOW:HIGH with such bounds, or exp:MEAN up to exp:{}",
            MAX_DURATION_NS / US.unit_ns,
            Self::MAX_MEAN_NS / US.unit_ns,
        )
    }

    /// The length that a text stands for, or what is wrong with it.
    fn parse(text: &str) -> Result<Length, &'static str> {
        let number = |text: &str, max_ns: u64| -> Result<u64, &'static str> {
            // Digits first: `f64` would also take "inf", "nan" and signs.
            if !text.starts_with(|c: char| c.is_ascii_digit()) {
                return Err("not a length");
            }
            let us: f64 = text.parse().map_err(|_| "not a length")?;
            let ns = (us * US.unit_ns as f64).round_ties_even();
            if ns > max_ns as f64 {
                return Err("out of range");
            }
            if us > 0.0 && ns == 0.0 {
                return Err(TOO_SHORT);
            }
            Ok(ns as u64)
        };
        let words: Vec<&str> = text.split(':').collect();
        match words.as_slice() {
            [us] => Ok(Length::Fixed(number(us, MAX_DURATION_NS)?)),
            ["exp", mean] => Ok(Length::Exponential(number(mean, Self::MAX_MEAN_NS)?)),
            ["uniform", low, high] => {
                let (low, high) = (number(low, MAX_DURATION_NS)?, number(high, MAX_DURATION_NS)?);
                if low > high {
                    return Err("the lower bound is above the upper one");
                }
                Ok(Length::Uniform(low, high))
            }
            _ => Err("not a length"),
        }
    }
}

impl Kind<Length> for LengthUs {
    fn read(&self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<Length> {
        match given(object) {
            Given::Text(text) => Self::parse(&text).map_err(|reason| {
                let mut allowed = Self::allowed();
                if reason == TOO_SHORT {
                    allowed = with_shortest(&allowed, US.unit_ns);
                }
                refuse(name, object, reason, &allowed)
            }),
            _ => duration_or(name, object, US.unit_ns, MAX_DURATION_NS, &Self::allowed()).map(Length::Fixed),
        }
    }

    fn show<'py>(&self, py: Python<'py>, value: &Length) -> PyResult<Bound<'py, PyAny>> {
        match value {
            Length::Fixed(ns) => in_units(py, *ns, US.unit_ns),
            Length::Uniform(..) | Length::Exponential(_) => {
                Ok(PyString::new(py, &value.to_string()).into_any())
            }
        }
    }
}

/// A [`Placement`].
pub(super) struct Place;

impl Kind<Placement> for Place {
    fn read(&self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<Placement> {
        match given(object) {
            Given::Text(text) if text == "spread" => Ok(Placement::Spread),
            Given::Text(text) if text == "random" => Ok(Placement::Random),
            Given::Int(_) | Given::Float(_) | Given::Huge => Ok(Placement::Cpu(cpu(name, object)?)),
            _ => Err(refuse(
                name,
                object,
                "no such placement",
                "spread, random, or a CPU number",
            )),
        }
    }

    fn show<'py>(&self, py: Python<'py>, value: &Placement) -> PyResult<Bound<'py, PyAny>> {
        Ok(match value {
            Placement::Spread => PyString::new(py, "spread").into_any(),
            Placement::Random => PyString::new(py, "random").into_any(),
            Placement::Cpu(cpu) => cpu.into_pyobject(py)?.into_any(),
        })
    }
}

/// [`Cpus`]: all, one, or a list.
pub(super) struct CpuSet;

fn cpu(name: &str, object: &Bound<'_, PyAny>) -> PyResult<u32> {
    Ok(whole(name, object, 0, (u32::MAX - 1).into())? as u32)
}

impl Kind<Cpus> for CpuSet {
    fn read(&self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<Cpus> {
        let no = |reason| {
            let allowed = "all, a CPU number, or a list of CPU numbers";
            refuse(name, object, reason, allowed)
        };
        match given(object) {
            Given::Text(text) if text == "all" => Ok(Cpus::All),
            Given::Text(_) | Given::Bool(_) => Err(no("not a set of CPUs")),
            Given::Int(_) | Given::Huge | Given::Float(_) => Ok(Cpus::List(vec![cpu(name, object)?])),
            Given::Other => {
                let length = object.len().map_err(|_| no("not a set of CPUs"))?;
                if length > MAX_CPU_LIST {
                    return Err(no("too many CPUs"));
                }
                let mut list = Vec::with_capacity(length);
                for item in object.try_iter()? {
                    list.push(cpu(name, &item?)?);
                }
                Ok(Cpus::List(list))
            }
        }
    }

    fn show<'py>(&self, py: Python<'py>, value: &Cpus) -> PyResult<Bound<'py, PyAny>> {
        Ok(match value {
            Cpus::All => PyString::new(py, "all").into_any(),
            Cpus::List(list) => PyList::new(py, list)?.into_any(),
        })
    }
}

/// One of a few words, each with the value it stands for.
pub(super) struct Word<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Kind<T> for Word<T> {
    fn read(&self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<T> {
        let choices: Vec<&str> = self.0.iter().map(|(word, _)| *word).collect();
        let chosen = word(name, object, &choices)?;
        let found = self.0.iter().find(|(word, _)| *word == chosen);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| refuse(name, object, "not one of the choices", &choices.join(", ")))
    }

    fn show<'py>(&self, py: Python<'py>, value: &T) -> PyResult<Bound<'py, PyAny>> {
        let found = self.0.iter().find(|(_, known)| known == value);
        Ok(PyString::new(py, found.map_or("", |(word, _)| word)).into_any())
    }
}

/// A boolean.
pub(super) struct Flag;

impl Kind<bool> for Flag {
    fn read(&self, name: &str, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        flag(name, object)
    }

    fn show<'py>(&self, py: Python<'py>, value: &bool) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyBool::new(py, *value).to_owned().into_any())
    }
}
