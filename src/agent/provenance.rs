//! Where an input of a turn came from. Stored with it, so that after a crash the transcript itself says what
//! has been delivered.

use serde::{Deserialize, Serialize};

use crate::id::{ChannelId, SessionKey, TurnId};

/// Where an input came from. Only flock makes one; nothing of it is ever read from what a model or a
/// message says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Provenance {
    /// Messages of a channel.
    Channel {
        /// Which.
        channel: ChannelId,
        /// The sequence number of the first message that is shown.
        from: i64,
        /// That of the last one.
        to: i64,
    },
    /// A direct message.
    Dm {
        /// Who sent it: an agent's id or `human:<name>`.
        peer: String,
        /// The id of the inbox's row.
        item: String,
    },
    /// A message of another session of the same agent.
    InterSession {
        /// Which one sent it.
        session: SessionKey,
        /// The id of the inbox's row.
        item: String,
    },
    /// Something was asked of this agent, or decided about what it had asked for.
    Request {
        /// The id of the inbox's row.
        item: String,
    },
    /// The answer to a task.
    Answer {
        /// The task.
        task: String,
        /// The id of the inbox's row.
        item: String,
    },
    /// A turn that a crash broke off goes on.
    Resume {
        /// The turn that was broken off.
        turn: TurnId,
    },
    /// As a newer version wrote it.
    #[serde(untagged)]
    Other(serde_json::Value),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_reads_back_under_its_name() {
        let turn = TurnId::new();
        for (provenance, stored) in [
            (
                Provenance::Channel { channel: "Dev-1".parse().unwrap(), from: 3, to: 9 },
                json!({"kind": "channel", "channel": "Dev-1", "from": 3, "to": 9}),
            ),
            (
                Provenance::Dm { peer: "human:ann".into(), item: "i".into() },
                json!({"kind": "dm", "peer": "human:ann", "item": "i"}),
            ),
            (
                Provenance::InterSession {
                    session: "agent:coder:flock:main:ann".parse().unwrap(),
                    item: "i".into(),
                },
                json!({"kind": "inter_session", "session": "agent:coder:flock:main:ann", "item": "i"}),
            ),
            (Provenance::Request { item: "i".into() }, json!({"kind": "request", "item": "i"})),
            (
                Provenance::Answer { task: "t".into(), item: "i".into() },
                json!({"kind": "answer", "task": "t", "item": "i"}),
            ),
            (Provenance::Resume { turn }, json!({"kind": "resume", "turn": turn})),
        ] {
            assert_eq!(serde_json::to_value(&provenance).unwrap(), stored);
            assert_eq!(serde_json::from_value::<Provenance>(stored).unwrap(), provenance);
        }
    }

    #[test]
    fn what_a_newer_version_writes_is_kept_as_it_is() {
        for newer in [
            json!({"kind": "telepathy", "from": [1, 2]}),
            json!({"kind": "channel", "channel": "no id at all", "from": 1, "to": 2}),
            json!({"kind": "dm", "sender": "ann"}),
            json!("dm"),
        ] {
            let read: Provenance = serde_json::from_value(newer.clone()).unwrap();
            assert_eq!(read, Provenance::Other(newer.clone()));
            assert_eq!(serde_json::to_value(&read).unwrap(), newer);
        }
        let more = json!({"kind": "request", "item": "i", "urgent": true});
        assert_eq!(
            serde_json::from_value::<Provenance>(more).unwrap(),
            Provenance::Request { item: "i".into() }
        );
    }
}
