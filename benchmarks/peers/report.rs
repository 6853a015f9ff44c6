//! Rows: what was measured, medians, ratios, verdicts, as text and as JSON.

use serde_json::{Value, json};

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Times.
    Lower,
    /// Rates.
    Higher,
}

/// What a must or a goal asks for.
#[derive(Debug, Clone)]
pub enum Limit {
    /// Of the median ratio ours / peer.
    Ratio(f64),
    /// Of our median itself, in the row's unit.
    Value(f64),
    /// Of the median ratio ours / the competitor of this name.
    RatioTo(&'static str, f64),
    /// Printed and explained only.
    None,
}

/// One of those compared.
#[derive(Debug, Clone)]
pub struct Competitor {
    pub name: &'static str,
    /// One figure a round, in the row's unit.
    pub samples: Vec<f64>,
    /// More about it, each one figure a round: its median is shown.
    pub beside: Vec<(&'static str, Vec<f64>)>,
    /// Facts over the whole row.
    pub facts: Vec<(&'static str, f64)>,
}

impl Competitor {
    pub fn new(name: &'static str) -> Self {
        Competitor {
            name,
            samples: Vec::new(),
            beside: Vec::new(),
            facts: Vec::new(),
        }
    }

    pub fn push(&mut self, sample: Sample) {
        self.samples.push(sample.value);
        for (name, value) in sample.beside {
            match self.beside.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => self.beside.push((name, vec![value])),
            }
        }
    }
}

/// What one slice gave.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    pub value: f64,
    pub beside: Vec<(&'static str, f64)>,
}

impl From<f64> for Sample {
    fn from(value: f64) -> Self {
        Sample {
            value,
            beside: Vec::new(),
        }
    }
}

/// A condition beside the must's ratio.
#[derive(Debug, Clone)]
pub struct Condition {
    pub text: String,
    pub met: bool,
}

/// A row of the table.
#[derive(Debug, Clone)]
pub struct Row {
    pub key: &'static str,
    pub title: &'static str,
    pub configuration: String,
    pub unit: &'static str,
    pub better: Better,
    /// The first one is ours, which must and goal are about; the second is the peer of the ratio, where there is one.
    pub competitors: Vec<Competitor>,
    pub must: Limit,
    pub goal: Limit,
    pub conditions: Vec<Condition>,
    pub skipped: Option<String>,
    pub notes: Vec<String>,
}

/// Median; the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Quantile with linear interpolation between order statistics (type 7); NaN of nothing.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let at = q * last as f64;
    let low = at.floor() as usize;
    let high = (low + 1).min(last);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

impl Row {
    fn ours(&self) -> &Competitor {
        &self.competitors[0]
    }

    /// Median and quartiles of the rounds' ratios of ours to that competitor.
    pub fn ratio(&self, ours: usize, peer: usize) -> Option<[f64; 3]> {
        let (ours, peer) = (self.competitors.get(ours)?, self.competitors.get(peer)?);
        let ratios: Vec<f64> = ours
            .samples
            .iter()
            .zip(&peer.samples)
            .map(|(a, b)| a / b)
            .collect();
        (!ratios.is_empty()).then(|| [0.25, 0.5, 0.75].map(|q| quantile(&ratios, q)))
    }

    fn within(&self, value: f64, limit: f64) -> bool {
        match self.better {
            Better::Lower => value <= limit,
            Better::Higher => value >= limit,
        }
    }

    /// `None`: nothing was asked, or nothing measured.
    fn met(&self, limit: &Limit) -> Option<bool> {
        if self.skipped.is_some() || self.competitors.is_empty() {
            return None;
        }
        match *limit {
            Limit::None => None,
            Limit::Ratio(limit) => self.ratio(0, 1).map(|[_, ratio, _]| self.within(ratio, limit)),
            Limit::Value(limit) => Some(self.within(median(&self.ours().samples), limit)),
            Limit::RatioTo(name, limit) => {
                let peer = self.competitors.iter().position(|one| one.name == name)?;
                self.ratio(0, peer).map(|[_, ratio, _]| self.within(ratio, limit))
            }
        }
    }

    /// Must met, with all conditions.
    pub fn must_met(&self) -> Option<bool> {
        let conditions = self.conditions.iter().all(|condition| condition.met);
        self.met(&self.must).map(|met| met && conditions)
    }

    /// Goal met.
    pub fn goal_met(&self) -> Option<bool> {
        self.met(&self.goal)
    }

    fn limit_text(&self, limit: &Limit) -> String {
        let sign = match self.better {
            Better::Lower => "<=",
            Better::Higher => ">=",
        };
        let peer = self.competitors.get(1).map_or("the peer", |peer| peer.name);
        match limit {
            Limit::None => "-".to_owned(),
            Limit::Ratio(limit) => format!("{sign} {limit} x {peer}"),
            Limit::RatioTo(name, limit) => format!("{sign} {limit} x {name}"),
            Limit::Value(limit) => format!("{sign} {} {}", figure(*limit), self.unit),
        }
    }

    /// The row as a block of text.
    pub fn text(&self) -> String {
        let mut out = format!("{} [{}]\n  {}\n", self.title, self.key, self.configuration);
        if let Some(why) = &self.skipped {
            out += &format!("  skipped: {why}\n");
        }
        for (index, one) in self.competitors.iter().enumerate() {
            if one.samples.is_empty() {
                continue;
            }
            let mut line = format!(
                "  {:<26} {:>10} {:<10} [{} .. {}]",
                one.name,
                figure(median(&one.samples)),
                self.unit,
                figure(quantile(&one.samples, 0.25)),
                figure(quantile(&one.samples, 0.75))
            );
            if index > 0
                && self.key != "floor"
                && let Some([low, middle, high]) = self.ratio(0, index)
            {
                line += &format!("  ours/it {middle:.3} [{low:.3} .. {high:.3}]");
            }
            for (name, values) in &one.beside {
                line += &format!("  {name} {}", figure(median(values)));
            }
            for (name, value) in &one.facts {
                line += &format!("  {name} {}", figure(*value));
            }
            out += line.trim_end();
            out.push('\n');
        }
        let verdict = |met: Option<bool>| match met {
            Some(true) => "met",
            Some(false) => "not met",
            None => "-",
        };
        for condition in &self.conditions {
            out += &format!(
                "  condition: {}: {}\n",
                condition.text,
                verdict(Some(condition.met))
            );
        }
        if !matches!((&self.must, &self.goal), (Limit::None, Limit::None)) {
            out += &format!(
                "  must {}: {};  goal {}: {}\n",
                self.limit_text(&self.must),
                verdict(self.must_met()),
                self.limit_text(&self.goal),
                verdict(self.goal_met())
            );
        }
        for note in &self.notes {
            out += &format!("  {note}\n");
        }
        out
    }

    /// The row as one line of a Markdown table.
    pub fn line(&self) -> String {
        let verdict = |limit: &Limit, met: Option<bool>| {
            let word = match met {
                Some(true) => "met",
                Some(false) => "**not met**",
                None => "-",
            };
            match limit {
                Limit::None => "-".to_owned(),
                _ => format!(
                    "{}: {word}",
                    self.limit_text(limit).replace("<=", "≤").replace(">=", "≥")
                ),
            }
        };
        if let Some(why) = &self.skipped {
            return format!("| {} | skipped: {why} | | | | |", self.title);
        }
        let peers: Vec<String> = self.competitors[1..]
            .iter()
            .filter(|one| !one.samples.is_empty())
            .map(|one| format!("{} {}", one.name, figure(median(&one.samples))))
            .collect();
        format!(
            "| {} | {} {} | {} | {} | {} | {} |",
            self.title,
            figure(median(&self.ours().samples)),
            self.unit,
            peers.join(", "),
            self.ratio(0, 1)
                .map_or("-".to_owned(), |[low, middle, high]| format!(
                    "{middle:.2} ({low:.2} to {high:.2})"
                )),
            verdict(&self.must, self.must_met()),
            verdict(&self.goal, self.goal_met())
        )
    }

    /// The row as JSON.
    pub fn json(&self) -> Value {
        let competitors: Vec<Value> = self
            .competitors
            .iter()
            .enumerate()
            .map(|(index, one)| {
                json!({
                    "name": one.name,
                    "median": median(&one.samples),
                    "q25": quantile(&one.samples, 0.25),
                    "q75": quantile(&one.samples, 0.75),
                    "samples": one.samples,
                    "ours_to_it": if index > 0 { self.ratio(0, index) } else { None },
                    "beside": one.beside.iter().map(|(name, values)| json!({
                        "name": name, "median": median(values), "samples": values,
                    })).collect::<Vec<_>>(),
                    "facts": one.facts.iter().map(|(name, value)| json!({
                        "name": name, "value": value,
                    })).collect::<Vec<_>>(),
                })
            })
            .collect();
        json!({
            "row": self.key,
            "title": self.title,
            "configuration": self.configuration,
            "unit": self.unit,
            "better": if self.better == Better::Lower { "lower" } else { "higher" },
            "competitors": competitors,
            "must": self.limit_text(&self.must),
            "must_met": self.must_met(),
            "goal": self.limit_text(&self.goal),
            "goal_met": self.goal_met(),
            "conditions": self.conditions.iter().map(|condition| json!({
                "text": condition.text, "met": condition.met,
            })).collect::<Vec<_>>(),
            "skipped": self.skipped,
            "notes": self.notes,
        })
    }
}

/// A figure with about three digits that mean something.
pub fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}
