//! Counts the connections of agents' sandboxes for the audit, as one row for each agent and destination.

use std::collections::BTreeMap;

use crate::id::AgentId;
use crate::sandbox::egress::{ConnectionOutcome, ConnectionRecord};
use crate::store::{AuditEntry, Level};

/// Most destinations of one agent that are named in the audit. An agent can invent names without limit, but each row
/// costs space.
const MAX_DESTINATIONS: usize = 50;
/// Name under which all other destinations are counted.
const OTHER_DESTINATIONS: &str = "other places";

/// The counts since the rows were last taken.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts(BTreeMap<AgentId, BTreeMap<String, DestinationCounts>>);

#[derive(Debug, Default)]
struct DestinationCounts {
    connected: u64,
    refused: u64,
    failed: u64,
    sent: u64,
    received: u64,
}

impl ConnectionCounts {
    /// Counts a connection that has ended or was refused.
    pub(crate) fn add(&mut self, agent: &AgentId, connection: &ConnectionRecord) {
        let places = self.0.entry(agent.clone()).or_default();
        let mut place = format!("{}:{}", connection.host, connection.port);
        // A destination that has a row keeps it, even when the list is full.
        if !places.contains_key(&place) && places.len() >= MAX_DESTINATIONS {
            OTHER_DESTINATIONS.clone_into(&mut place);
        }
        let sum = places.entry(place).or_default();
        match connection.fate {
            ConnectionOutcome::Connected => sum.connected += 1,
            ConnectionOutcome::NotAllowed | ConnectionOutcome::NotPublic => sum.refused += 1,
            ConnectionOutcome::Failed => sum.failed += 1,
        }
        sum.sent = sum.sent.saturating_add(connection.sent);
        sum.received = sum.received.saturating_add(connection.received);
    }

    /// Returns the rows for the audit and resets the counts.
    pub(crate) fn take(&mut self) -> Vec<AuditEntry> {
        let all = std::mem::take(&mut self.0);
        let each = all.into_iter().flat_map(|(agent, places)| {
            places.into_iter().map(move |(place, sum)| sum.entry(&agent, &place))
        });
        each.collect()
    }
}

impl DestinationCounts {
    fn entry(&self, agent: &AgentId, place: &str) -> AuditEntry {
        let Self { connected, refused, failed, sent, received } = self;
        let level = if *refused > 0 { Level::Yellow } else { Level::Green };
        let detail = format!(
            "{connected} connected, {refused} refused, {failed} failed, {sent} bytes sent, {received} received"
        );
        AuditEntry::new(agent.as_str(), "egress.connect", place, level, detail)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn connection(host: &str, fate: ConnectionOutcome) -> ConnectionRecord {
        let host = crate::sandbox::egress::Host::Name(host.to_owned());
        ConnectionRecord { host, port: 443, fate, sent: 10, received: 20, took: Duration::ZERO }
    }

    #[test]
    fn a_thousand_connections_to_one_place_are_one_row() {
        let mut tally = ConnectionCounts::default();
        let coder: AgentId = "coder".parse().unwrap();
        for _ in 0..1000 {
            tally.add(&coder, &connection("a.example", ConnectionOutcome::Connected));
        }
        tally.add(&coder, &connection("b.example", ConnectionOutcome::NotAllowed));
        tally.add(&"tester".parse().unwrap(), &connection("a.example", ConnectionOutcome::Failed));
        let rows = tally.take();
        let told: Vec<_> =
            rows.iter().map(|row| (row.actor.as_str(), row.subject.as_str(), row.level)).collect();
        assert_eq!(
            told,
            [
                ("coder", "a.example:443", Level::Green),
                ("coder", "b.example:443", Level::Yellow),
                ("tester", "a.example:443", Level::Green),
            ]
        );
        assert_eq!(rows[0].detail, "1000 connected, 0 refused, 0 failed, 10000 bytes sent, 20000 received");
        assert!(tally.take().is_empty());
    }

    #[test]
    fn an_agent_that_makes_names_up_fills_no_audit() {
        let mut tally = ConnectionCounts::default();
        for number in 0..10_000 {
            let made_up = connection(&format!("x{number}.example"), ConnectionOutcome::NotAllowed);
            tally.add(&"coder".parse().unwrap(), &made_up);
        }
        let rows = tally.take();
        assert_eq!(rows.len(), MAX_DESTINATIONS + 1);
        let others = rows.iter().find(|row| row.subject == OTHER_DESTINATIONS).unwrap();
        assert!(others.detail.contains("9950 refused"), "{}", others.detail);
    }
}
