use super::*;
use crate::id::SessionKey;
use crate::store::SessionState;

fn session(key: &str, began_at: i64) -> Session {
    Session {
        key: key.parse::<SessionKey>().unwrap(),
        file: "x".to_owned(),
        state: SessionState::Open,
        created_at: 1_000,
        began_at,
        updated_at: 0,
        turns: 0,
        running: false,
        model: None,
        tokens: crate::store::TokenCounts::default(),
        pending: Vec::new(),
    }
}

#[test]
fn conversation_ids_are_unique_and_lower_case() {
    let plain = "agent:coder:flock:channel:dev-1";
    assert_eq!(conversation(&session(plain, 1_000)), format!("{plain}.1000"));
    assert_eq!(session_of(&format!("{plain}.1000")).unwrap().as_str(), plain);
    assert_eq!([session_of(plain), session_of("agent:coder:main.x"), session_of("5.5")], [None, None, None]);
    let (ann, other) = ("agent:coder:flock:dm:human:Ann", "agent:coder:flock:dm:human:ann");
    let names = [ann, other].map(|key| conversation(&session(key, 1_000)));
    assert_eq!(names[1], format!("{other}.1000"));
    assert!(names[0].starts_with(other) && names[0] != names[1], "{names:?}");
    assert_eq!(names[0], names[0].to_ascii_lowercase());
    // A reset session is another conversation each time. So is the session of a later agent with the same name.
    let anew = [1_000, 2_000, 3_000].map(|began| conversation(&session(plain, began)));
    assert!(anew[0] != anew[1] && anew[1] != anew[2], "{anew:?}");
}

#[test]
fn calls_of_one_turn_get_unique_names() {
    let mut so = AnswerState::default();
    let names = ["call_1", "call_1", "call_1.2", "call_1"].map(|id| so.name(id));
    let distinct: HashSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
    assert_eq!(names[0], "call_1");
}
