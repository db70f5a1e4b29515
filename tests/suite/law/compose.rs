//! `docker compose -f docker-compose.standalone.yml up` works as it is: no variable is needed, and what the image is
//! made from is there.

use std::path::Path;

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn every_variable_of_the_compose_file_has_a_default() {
    let compose = text("docker-compose.standalone.yml");
    let used: Vec<&str> = compose.split("${").skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
    assert!(used.len() > 5, "{used:?}");
    for variable in used {
        let default = variable.split_once(":-").map(|(_, default)| default);
        assert!(default.is_some_and(|default| !default.is_empty()), "{variable} has no default");
    }
}

#[test]
fn what_the_image_is_made_from_is_there() {
    let ignored = text(".dockerignore");
    for line in text("standalone/Dockerfile.source").lines() {
        let Some(copied) = line.strip_prefix("COPY ").filter(|copied| !copied.starts_with("--from")) else {
            continue;
        };
        let mut words: Vec<&str> = copied.split_whitespace().collect();
        words.pop();
        for path in words {
            let there = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
            assert!(there.exists(), "{path} is copied and is not there");
            assert!(!ignored.lines().any(|ignored| path.starts_with(ignored)), "{path} is left out");
        }
    }
}
