//! A route that changes something knows who asks, so that the audit can name the person.

use std::path::Path;

use super::verdict;

/// Handlers of changing methods that take no caller, each with the reason.
const WITHOUT: &[(&str, &str)] = &[
    ("hooks::receive", "the sender is known by its signature, and the audit names the webhook"),
    ("hooks::preview", "it changes nothing"),
    ("agents::remove", "the agent is gone already, and who removed it is recorded"),
    ("agents::prepare", "it changes nothing that is anybody's"),
    ("agents::probe", "it changes nothing"),
    ("bridges::test", "it changes nothing"),
    ("engines::check", "it changes nothing"),
    ("mcp_servers::test", "it changes nothing"),
    ("plugin::call", "the agent of the turn acts"),
    ("plugin::report", "the agent of the turn acts"),
    ("mcp::post", "the agent of the turn acts"),
    ("mcp::end", "the agent of the turn acts"),
    ("dashboard::sign_in_by_form", "the audit names whose token or code it is, whoever was signed in before"),
];

/// The functions behind POST, PUT and DELETE of all routes, as in `freeze::thaw`.
fn handlers() -> Vec<String> {
    let gateway = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gateway");
    let read = |file| std::fs::read_to_string(gateway.join(file)).unwrap();
    let text = ["middleware.rs", "routes/mod.rs"].map(read).concat();
    let mut found = Vec::new();
    for method in ["post(", "put(", "delete("] {
        for (at, _) in text.match_indices(method) {
            let is_word = text[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':'));
            let name = text[at + method.len()..].split(')').next().unwrap();
            if !is_word && name.contains("::") {
                found.push(name.to_owned());
            }
        }
    }
    found.sort();
    found.dedup();
    assert!(found.len() > 50, "{found:?}");
    found
}

#[test]
fn every_route_that_changes_something_knows_who_asks() {
    let routes = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gateway/routes");
    let (mut wrong, handlers) = (Vec::new(), handlers());
    for handler in &handlers {
        let (module, function) = handler.rsplit_once("::").unwrap();
        let text = std::fs::read_to_string(routes.join(format!("{module}.rs"))).unwrap();
        // A caller that is taken and not used would name nobody.
        let knows = text.split_once(&format!("fn {function}(")).is_some_and(|(_, rest)| {
            let (head, body) = rest.split_once("{\n").unwrap();
            let body = body.split("\n}\n").next().unwrap();
            head.contains("Extension<Caller>")
                && ["caller.", "caller,", "&caller"].iter().any(|word| body.contains(word))
        });
        let is_listed = WITHOUT.iter().any(|(listed, _)| listed == handler);
        if knows == is_listed {
            wrong.push(format!(
                "{handler}: it {} a caller",
                if knows { "takes" } else { "takes and uses no" }
            ));
        }
    }
    let gone = WITHOUT.iter().filter(|(listed, _)| !handlers.iter().any(|handler| handler == listed));
    wrong.extend(gone.map(|(listed, _)| format!("{listed}: it is gone")));
    verdict("a route that changes something knows who asks", wrong);
}
