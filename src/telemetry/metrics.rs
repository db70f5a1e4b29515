//! Histograms of the GenAI conventions, added up since the start of the process.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The names and values that one series is of.
pub(crate) type Labels = Vec<(&'static str, Cow<'static, str>)>;

/// Most series of all instruments together. What comes beyond is added to one series per instrument, as the
/// specification says, so that a model that makes up names of tools costs no memory.
const MAX_SERIES: usize = 1_000;

/// Upper limits of the buckets in seconds, as the conventions set them for one operation.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// The same for an agent's turn.
const TURN_SECONDS: [f64; 13] = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];
/// The same for numbers of tokens.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// A measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Instrument {
    /// Duration of a model call.
    OperationDuration,
    /// Tokens of a model call.
    TokenUsage,
    /// Time to the first piece of a model's answer.
    TimeToFirstChunk,
    /// Duration of a turn.
    InvokeAgentDuration,
    /// Duration of a tool call.
    ExecuteToolDuration,
}

impl Instrument {
    /// Returns its name in the conventions.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::OperationDuration => "gen_ai.client.operation.duration",
            Self::TokenUsage => "gen_ai.client.token.usage",
            Self::TimeToFirstChunk => "gen_ai.client.operation.time_to_first_chunk",
            Self::InvokeAgentDuration => "gen_ai.invoke_agent.duration",
            Self::ExecuteToolDuration => "gen_ai.execute_tool.duration",
        }
    }

    pub(super) const fn description(self) -> &'static str {
        match self {
            Self::OperationDuration => "Duration of model calls, with their retries.",
            Self::TokenUsage => "Tokens of model calls.",
            Self::TimeToFirstChunk => "Time to the first piece of a model's answer.",
            Self::InvokeAgentDuration => "Duration of turns.",
            Self::ExecuteToolDuration => "Duration of tool calls.",
        }
    }

    /// Returns its unit in UCUM.
    pub(super) const fn unit(self) -> &'static str {
        match self {
            Self::TokenUsage => "{token}",
            _ => "s",
        }
    }

    pub(super) const fn bounds(self) -> &'static [f64] {
        match self {
            Self::OperationDuration | Self::TimeToFirstChunk | Self::ExecuteToolDuration => &SECONDS,
            Self::TokenUsage => &TOKENS,
            Self::InvokeAgentDuration => &TURN_SECONDS,
        }
    }
}

/// The measurements of one series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Histogram {
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    /// One more than the instrument has bounds.
    pub(super) buckets: Vec<u64>,
}

impl Histogram {
    fn new(bounds: &[f64]) -> Self {
        let buckets = vec![0; bounds.len() + 1];
        Self { count: 0, sum: 0.0, least: f64::INFINITY, most: f64::NEG_INFINITY, buckets }
    }

    fn observe(&mut self, bounds: &[f64], value: f64) {
        self.count += 1;
        self.sum += value;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        // A bound belongs to the bucket below it.
        self.buckets[bounds.partition_point(|bound| *bound < value)] += 1;
    }
}

/// All series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(super) series: BTreeMap<(Instrument, Labels), Histogram>,
}

impl Metrics {
    /// Adds a value to a series.
    pub(super) fn observe(&mut self, instrument: Instrument, mut labels: Labels, value: f64) {
        if !value.is_finite() {
            return;
        }
        labels.sort_unstable();
        let mut key = (instrument, labels);
        if self.series.len() >= MAX_SERIES && !self.series.contains_key(&key) {
            key.1 = vec![("otel.metric.overflow", Cow::Borrowed("true"))];
        }
        let bounds = instrument.bounds();
        self.series.entry(key).or_insert_with(|| Histogram::new(bounds)).observe(bounds, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(tool: &str) -> Labels {
        vec![("gen_ai.tool.name", tool.to_owned().into())]
    }

    #[test]
    fn values_are_counted_in_the_bucket_whose_bound_they_reach() {
        let mut metrics = Metrics::default();
        for value in [1.0, 4.0, 5.0, 1e9, f64::NAN] {
            metrics.observe(Instrument::TokenUsage, Vec::new(), value);
        }
        let found = &metrics.series[&(Instrument::TokenUsage, Vec::new())];
        assert_eq!((found.count, found.least, found.most), (4, 1.0, 1e9));
        assert_eq!(&found.buckets[..4], [1, 1, 1, 0]);
        assert_eq!(found.buckets[14], 1);
    }

    #[test]
    fn endless_names_end_in_one_series() {
        let mut metrics = Metrics::default();
        for at in 0..5_000 {
            metrics.observe(Instrument::ExecuteToolDuration, labels(&at.to_string()), 1.0);
        }
        assert!(metrics.series.len() <= MAX_SERIES + 1, "{}", metrics.series.len());
        let counted: u64 = metrics.series.values().map(|found| found.count).sum();
        assert_eq!(counted, 5_000);
    }
}
