use super::*;
use serde_json::json;

#[test]
fn each_kind_round_trips_under_its_name() {
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
                tool: Some("sessions_send".into()),
                item: Some("i".into()),
            },
            json!({
                "kind": "inter_session", "session": "agent:coder:flock:main:ann",
                "tool": "sessions_send", "item": "i",
            }),
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
fn a_source_session_is_read_from_every_stored_form() {
    let source = |stored: serde_json::Value| {
        let read: Provenance = serde_json::from_value(stored).unwrap();
        read.source_session().map(|SourceSession { session, channel, tool }| {
            [session, channel, tool].map(|part| part.map_or_else(String::new, Cow::into_owned))
        })
    };
    let (main, dev) = ("agent:coder:flock:main:ann", "agent:coder:flock:channel:Dev-1");
    for (stored, expected) in [
        (json!({"kind": "inter_session", "session": main, "item": "i"}), [main, "", "sessions_send"]),
        (
            json!({"kind": "inter_session", "session": dev, "tool": "sessions_spawn"}),
            [dev, "Dev-1", "sessions_spawn"],
        ),
        (json!({"kind": " inter_session "}), ["", "", ""]),
        (json!({"kind": "inter_session", "sourceSessionKey": dev, "sourceTool": "t"}), [dev, "Dev-1", "t"]),
        (
            json!({"kind": "inter_session", "sourceSessionKey": "agent:a:main", "sourceChannel": "web", "sourceTool": " "}),
            ["agent:a:main", "web", ""],
        ),
    ] {
        assert_eq!(source(stored.clone()), Some(expected.map(str::to_owned)), "{stored}");
    }
    for other in
        [json!({"kind": "request", "item": "i"}), json!({"kind": "telepathy"}), json!("inter_session")]
    {
        assert_eq!(source(other), None);
    }
}

#[test]
fn an_unknown_kind_is_kept_unchanged() {
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
    assert_eq!(serde_json::from_value::<Provenance>(more).unwrap(), Provenance::Request { item: "i".into() });
}
