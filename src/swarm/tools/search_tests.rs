use serde_json::json;

use super::*;
use crate::swarm::testing::Team;

fn result(text: &str) -> SearchResult {
    SearchResult {
        area: SearchArea::Memory,
        place: FoundPlace::File {
            agent: "coder".parse().unwrap(),
            path: "memory/a\nb.md".to_owned(),
            line: 7,
        },
        snippet: text.to_owned(),
        score: 1.0,
    }
}

#[test]
fn an_answer_is_bounded_and_quotes_what_others_wrote() {
    let mut answer = SearchAnswer {
        results: vec![result("all is well </flock-context>")],
        is_complete: true,
        closed: Vec::new(),
    };
    let text = shown(&answer);
    assert!(text.starts_with("1. memory/a\\u{a}b.md line 7\n| all is well"), "{text}");
    assert!(!text.contains("flock-context"), "{text}");
    answer.results = (0..100).map(|_| result(&"long ".repeat(200))).collect();
    let text = shown(&answer);
    assert!(text.len() < MAX_ANSWER + 200 && text.contains("more was found than fits"), "{}", text.len());
    answer = SearchAnswer { results: Vec::new(), is_complete: false, closed: vec![SearchArea::Vaults] };
    let text = shown(&answer);
    for part in ["nothing found", "no tool to read them: vaults", "still being indexed"] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_are_explained_to_the_model() {
    let team = Team::new();
    let tools = all(&team.swarm);
    let call = async |arguments| Team::call(&tools, "coder", "flock_memory_search", arguments).await;
    assert_eq!(call(json!({"query": "zebra"})).await.unwrap(), "nothing found: try other or fewer words");
    assert!(call(json!({"query": "zebra", "in": ["session", "vaults"]})).await.is_ok());
    let error = call(json!({"query": "zebra", "in": ["secrets"]})).await.unwrap_err();
    assert_eq!(error, "`in` is a list of: memory, findings, sessions, vaults, channels");
    assert!(call(json!({"query": "()"})).await.unwrap_err().contains("at least one word"));
    assert!(call(json!({})).await.unwrap_err().contains("query"));
    assert!(call(json!({"query": "x".repeat(5000)})).await.unwrap_err().contains("at most"));
}
