//! Lengths that are drawn from a distribution.

use super::check_duration;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A length in ns, fixed or drawn anew each time.
///
/// As text, in µs: `10`, `uniform:1:5`, `exp:10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Length {
    /// Always this.
    Fixed(u64),
    /// Uniform from the first to the second, both included.
    Uniform(u64, u64),
    /// Exponential with this mean, cut at twenty times the mean.
    Exponential(u64),
}

impl Length {
    /// Shortest length that can come out, ns.
    pub fn shortest(self) -> u64 {
        match self {
            Length::Fixed(ns) => ns,
            Length::Uniform(low, _) => low,
            Length::Exponential(_) => 1,
        }
    }

    /// Mean, ns.
    pub fn mean(self) -> u64 {
        match self {
            Length::Fixed(ns) | Length::Exponential(ns) => ns,
            Length::Uniform(low, high) => low + (high - low) / 2,
        }
    }

    pub(super) fn validate(self, name: &str) -> Result<()> {
        if let Length::Uniform(low, high) = self
            && low > high
        {
            return Err(Error::config(
                name,
                self,
                "the lower bound is above the upper one",
                "uniform:LOW:HIGH",
            ));
        }
        let longest = match self {
            Length::Fixed(ns) | Length::Uniform(_, ns) => ns,
            Length::Exponential(mean) => mean.saturating_mul(20),
        };
        check_duration(name, longest)
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1000.0;
        match *self {
            Length::Fixed(ns) => write!(f, "{}", us(ns)),
            Length::Uniform(low, high) => write!(f, "uniform:{}:{}", us(low), us(high)),
            Length::Exponential(mean) => write!(f, "exp:{}", us(mean)),
        }
    }
}
