use proptest::prelude::*;

use super::*;

fn words(text: &str) -> Vec<String> {
    indexed(text).split_whitespace().map(str::to_owned).collect()
}

#[test]
fn words_runs_and_names_become_the_words_of_the_index() {
    assert_eq!(words("Die Tür, 42!"), ["Die", "Tür", "42"]);
    assert_eq!(words("결제를 GPU로"), ["결제", "제를", "GPU", "로"]);
    assert_eq!(words("東京都"), ["東京", "京都"]);
    assert_eq!(words("memorySearch_v2"), ["memorySearch", "memory", "Search", "v2"]);
    assert_eq!(words("key sk-0123456789abcdef end"), ["key", "key", "end"]);
    assert_eq!(words(" \u{0}\u{202e}…"), Vec::<String>::new());
    assert_eq!(words("\u{1100}\u{1167}\u{11af}\u{110c}\u{1166}"), ["결제"], "composed");
}

#[test]
fn a_query_is_made_of_quoted_words() {
    let found = query("How do I rotate the gateway's tok").unwrap();
    assert_eq!(found.any, r#""rotate" OR "gateway" OR "s" OR "tok""#);
    assert_eq!(found.begun.unwrap(), r#""rotate" OR "gateway" OR "s" OR "tok" OR "tok"*"#);
    assert_eq!(query("rotate ab").unwrap().begun, None, "too short for a beginning");
    assert_eq!(query("rotate?").unwrap().begun, None);
    assert_eq!(query("결제를").unwrap().any, r#""결제" OR "제를""#);
    assert_eq!(query("검").unwrap().any, r#""검"*"#);
    assert_eq!(
        query("what is this?").unwrap().any,
        r#""what" OR "is" OR "this""#,
        "common words alone count"
    );
    assert_eq!(query(" -- \"* ( "), None);
}

proptest! {
    #[test]
    fn no_query_is_an_error_or_an_expression_of_its_author(text in ".{0,120}", odd in "[\"'()*:^+ANDORNT 가검a-z-]{0,60}") {
        for text in [text, odd] {
            let Some(found) = query(&text) else { continue };
            let connection = rusqlite::Connection::open_in_memory().unwrap();
            connection.execute_batch("CREATE VIRTUAL TABLE word USING fts5 (text, content = '')").unwrap();
            for expression in [&found.any, found.begun.as_ref().unwrap_or(&found.any)] {
                let run = connection.query_row("SELECT count(*) FROM word WHERE word MATCH ?1", [expression], |_| Ok(()));
                prop_assert!(run.is_ok(), "{expression}: {run:?}");
                // Outside of the quoted words there is nothing but flock's own.
                let outside: String = expression.split('"').step_by(2).collect();
                prop_assert!(outside.split(['*', ' ']).all(|word| ["", "AND", "OR"].contains(&word)), "{expression}");
            }
        }
    }

    #[test]
    fn every_text_is_indexed_and_finds_itself(text in "\\PC{1,80}") {
        let Some(found) = query(&text) else { return Ok(()) };
        prop_assume!(!text.contains("key") && crate::secret_text::without_keys(&text) == text);
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE VIRTUAL TABLE word USING fts5 (text, tokenize = \"porter unicode61 remove_diacritics 2 categories 'L* N* Co Mc Mn'\")").unwrap();
        connection.execute("INSERT INTO word VALUES (?1)", [indexed(&text)]).unwrap();
        let any: i64 = connection.query_row("SELECT count(*) FROM word WHERE word MATCH ?1", [&found.any], |row| row.get(0)).unwrap();
        let has_tokens: bool = indexed(&text).chars().any(|c| c.is_ascii_alphanumeric() || ('가'..='힣').contains(&c));
        prop_assert!(any == 1 || !has_tokens, "{text:?} {found:?}");
    }
}
