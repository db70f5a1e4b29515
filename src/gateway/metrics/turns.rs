//! Counts turns and tool calls, and how long they take, since the gateway was started.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use super::{Labels, Page};
use crate::id::AgentId;

/// The upper limits of a histogram's buckets in seconds: from a turn whose model answers at once to one that works for
/// half an hour.
const BUCKETS: [f64; 13] = [0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0];

/// The end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnStatus {
    Done,
    Cancelled,
    Failed,
}

impl TurnStatus {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

type Histograms = Family<Labels<1>, Histogram, fn() -> Histogram>;

/// The counts of one gateway. Agents that were removed stay in them until it ends.
#[derive(Clone, Debug)]
pub(crate) struct TurnMetrics {
    turns: Family<Labels<2>, Counter>,
    tools: Family<Labels<2>, Counter>,
    waits: Histograms,
    durations: Histograms,
    tool_durations: Histograms,
}

impl Default for TurnMetrics {
    fn default() -> Self {
        let histograms = || Histograms::new_with_constructor(|| Histogram::new(BUCKETS));
        Self {
            turns: Family::default(),
            tools: Family::default(),
            waits: histograms(),
            durations: histograms(),
            tool_durations: histograms(),
        }
    }
}

impl TurnMetrics {
    /// Counts a turn that begins after this wait for its session and for a free slot.
    pub(crate) fn began(&self, agent: &AgentId, waited: Duration) {
        self.waits.get_or_create(&of(agent)).observe(waited.as_secs_f64());
    }

    /// Counts a turn that ended this long after it began.
    pub(crate) fn ended(&self, agent: &AgentId, status: TurnStatus, took: Duration) {
        let labels = of(agent);
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        let [agent] = labels;
        self.turns.get_or_create(&[agent, ("status", status.as_str().to_owned())]).inc();
    }

    /// Counts a tool call that ended.
    pub(crate) fn tool_ended(&self, agent: &AgentId, is_error: bool, took: Duration) {
        let labels = of(agent);
        self.tool_durations.get_or_create(&labels).observe(took.as_secs_f64());
        let [agent] = labels;
        let status = if is_error { "error" } else { "ok" };
        self.tools.get_or_create(&[agent, ("status", status.to_owned())]).inc();
    }

    /// Adds all counts to a page.
    pub(crate) fn show(&self, page: &mut Page) {
        page.family("turns", "Turns that ended", &self.turns);
        page.family("turn_wait_seconds", "Time from the acceptance of a turn to its begin", &self.waits);
        page.family("turn_seconds", "Time from the begin of a turn to its end", &self.durations);
        page.family("tool_calls", "Calls of tools that ended", &self.tools);
        page.family("tool_call_seconds", "Time that calls of tools took", &self.tool_durations);
    }
}

fn of(agent: &AgentId) -> Labels<1> {
    [("agent", agent.to_string())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_tools_are_counted_by_agent_and_end() {
        let (metrics, coder) = (TurnMetrics::default(), "coder".parse().unwrap());
        metrics.began(&coder, Duration::from_millis(20));
        metrics.tool_ended(&coder, false, Duration::from_secs(2));
        metrics.tool_ended(&coder, true, Duration::from_secs(7000));
        metrics.ended(&coder, TurnStatus::Done, Duration::from_secs(3));
        metrics.ended(&coder, TurnStatus::Failed, Duration::from_secs(40));
        let mut page = Page::default();
        metrics.show(&mut page);
        let text = page.text().unwrap();
        for line in [
            r#"flock_turns_total{agent="coder",status="done"} 1"#,
            r#"flock_turns_total{agent="coder",status="failed"} 1"#,
            r#"flock_turn_wait_seconds_bucket{le="0.01",agent="coder"} 0"#,
            r#"flock_turn_wait_seconds_bucket{le="0.05",agent="coder"} 1"#,
            r#"flock_turn_seconds_bucket{le="5.0",agent="coder"} 1"#,
            r#"flock_turn_seconds_count{agent="coder"} 2"#,
            r#"flock_tool_calls_total{agent="coder",status="error"} 1"#,
            r#"flock_tool_call_seconds_bucket{le="1800.0",agent="coder"} 1"#,
            r#"flock_tool_call_seconds_bucket{le="+Inf",agent="coder"} 2"#,
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }
}
