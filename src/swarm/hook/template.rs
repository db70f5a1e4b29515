//! Renders a delivery by its hook's template. The template is the owner's; what it is given is hostile: the time and the
//! size that rendering may take are bounded, and no text of a delivery is read as a template.

use std::io::{self, Write};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value as Rendered};
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use serde_json::Value;

use crate::store::HookKind;

/// Most bytes of a template.
pub(crate) const MAX_TEMPLATE: usize = 16 << 10;
/// Most bytes of a rendered text.
const MAX_TEXT: usize = 8000;
/// Most instructions that a template may take, which is some milliseconds.
const FUEL: u64 = 200_000;

/// The values that a template can show.
#[derive(Debug, Serialize)]
pub(crate) struct Delivered<'a> {
    /// The name of the hook.
    pub(crate) hook: &'a str,
    /// The event, such as `push`. Empty if the sender names none.
    pub(crate) event: &'a str,
    /// The sender's own name for the delivery.
    pub(crate) delivery: &'a str,
    /// The content that was sent.
    pub(crate) payload: &'a Value,
    /// The same as text.
    pub(crate) body: String,
}

/// Returns the built-in template of a kind.
#[must_use]
pub(crate) const fn built_in(kind: HookKind) -> &'static str {
    match kind {
        HookKind::Github => include_str!("templates/github.txt"),
        HookKind::Gitlab => include_str!("templates/gitlab.txt"),
        HookKind::Generic => include_str!("templates/generic.txt"),
    }
}

fn environment<'t>() -> Result<Environment<'t>, String> {
    let mut environment = Environment::new();
    // A payload lacks most of what a template may ask for.
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(|error| described(&error))?);
    environment.set_fuel(Some(FUEL));
    Ok(environment)
}

/// Checks a template before it is stored.
///
/// # Errors
///
/// Returns what is wrong with it, and in which line.
pub(crate) fn check(template: &str) -> Result<(), String> {
    if template.trim().is_empty() {
        return Err("the template is empty".to_owned());
    }
    if template.len() > MAX_TEMPLATE {
        return Err(format!("the template has {} bytes, more than {MAX_TEMPLATE}", template.len()));
    }
    environment()?.template_from_str(template).map(drop).map_err(|error| described(&error))
}

/// Renders a delivery. A text that is too long is cut, and says so. An empty one means that the template leaves the
/// delivery out.
///
/// # Errors
///
/// Returns what went wrong, and in which line of the template.
pub(crate) fn render(template: &str, delivered: &Delivered<'_>) -> Result<String, String> {
    let environment = environment()?;
    let compiled = environment.template_from_str(template).map_err(|error| described(&error))?;
    let mut text = Bounded::default();
    let result = compiled.render_captured_to(Rendered::from(Serde(delivered)), &mut text).map(drop);
    match result {
        Err(error) if !text.is_full => Err(described(&error)),
        _ => Ok(text.into_text()),
    }
}

fn described(error: &minijinja::Error) -> String {
    let detail = error.detail().map(str::to_owned).unwrap_or_else(|| error.kind().to_string());
    match error.line() {
        Some(line) => format!("line {line} of the template: {detail}"),
        None => format!("the template: {detail}"),
    }
}

/// A text that takes so many bytes and no more.
#[derive(Default)]
struct Bounded {
    bytes: Vec<u8>,
    is_full: bool,
}

impl Bounded {
    fn into_text(self) -> String {
        // The text may end within a character.
        let text = String::from_utf8_lossy(&self.bytes);
        let text = text.trim_matches('\u{fffd}').trim();
        if self.is_full { format!("{text}\n… (cut here)") } else { text.to_owned() }
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = MAX_TEXT - self.bytes.len();
        if bytes.len() > room {
            self.bytes.extend_from_slice(&bytes[..room]);
            self.is_full = true;
            // This ends the rendering.
            return Err(io::Error::other("the text is long enough"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(template: &str, event: &str, payload: &Value) -> Result<String, String> {
        let body = serde_json::to_string_pretty(payload).unwrap();
        render(template, &Delivered { hook: "ci", event, delivery: "d1", payload, body })
    }

    #[test]
    fn githubs_template_shows_a_push() {
        let payload = json!({
            "ref": "refs/heads/main", "forced": true, "repository": {"full_name": "octo/repo"},
            "sender": {"login": "kim"},
            "commits": [{"id": "0123456789abcdef", "message": "Mend the build\n\nIt was broken."}]
        });
        let text = rendered(built_in(HookKind::Github), "push", &payload).unwrap();
        assert_eq!(
            text,
            "push in octo/repo by kim\nref: refs/heads/main, forced\n0123456789 Mend the build\n\nIt was broken."
        );
    }

    #[test]
    fn githubs_template_shows_a_pull_request_and_a_comment() {
        let payload = json!({
            "action": "opened", "repository": {"full_name": "octo/repo"}, "sender": {"login": "kim"},
            "pull_request": {"number": 7, "title": "A change", "html_url": "https://example.org/7", "body": "Why"}
        });
        let text = rendered(built_in(HookKind::Github), "pull_request", &payload).unwrap();
        assert_eq!(text, "pull_request opened in octo/repo by kim\n#7 A change\nhttps://example.org/7\nWhy");
        let payload = json!({
            "action": "created", "issue": {"number": 8, "title": "A bug", "html_url": "https://example.org/8"},
            "comment": {"html_url": "https://example.org/8#1", "body": "Seen here, too"}
        });
        let text = rendered(built_in(HookKind::Github), "issue_comment", &payload).unwrap();
        assert!(
            text.contains("#8 A bug") && text.ends_with("https://example.org/8#1\nSeen here, too"),
            "{text}"
        );
    }

    #[test]
    fn gitlabs_template_shows_a_merge_request() {
        let payload = json!({
            "object_kind": "merge_request", "user": {"username": "kim"},
            "project": {"path_with_namespace": "group/repo"},
            "object_attributes": {"iid": 3, "title": "A change", "url": "https://example.org/3", "action": "open",
                "description": "Why"}
        });
        let text = rendered(built_in(HookKind::Gitlab), "Merge Request Hook", &payload).unwrap();
        assert_eq!(text, "merge_request open in group/repo by kim\n#3 A change\nhttps://example.org/3\nWhy");
    }

    #[test]
    fn built_in_templates_take_any_payload() {
        for kind in [HookKind::Github, HookKind::Gitlab, HookKind::Generic] {
            for payload in [json!({}), json!([]), json!(null), json!(7), json!({"commits": 1, "issue": "x"})]
            {
                // It may fail on a payload of another shape, but only with an error.
                let _ = rendered(built_in(kind), "push", &payload);
            }
            assert!(check(built_in(kind)).is_ok());
        }
        assert_eq!(rendered(built_in(HookKind::Generic), "", &json!({"a": 1})).unwrap(), "{\n  \"a\": 1\n}");
    }

    #[test]
    fn text_of_a_delivery_is_never_a_template() {
        let payload = json!({"a": "{{ 6 * 7 }}{% for x in range(9) %}x{% endfor %}"});
        assert_eq!(
            rendered("{{ payload.a }}", "", &payload).unwrap(),
            "{{ 6 * 7 }}{% for x in range(9) %}x{% endfor %}"
        );
    }

    #[test]
    fn what_a_payload_lacks_is_empty() {
        assert_eq!(rendered("{{ payload.a.b.c }}", "", &json!({})).unwrap(), "");
    }

    #[test]
    fn long_texts_are_cut_and_say_so() {
        let text = rendered("{{ payload }}", "", &json!("ä".repeat(100_000))).unwrap();
        assert!(text.len() < MAX_TEXT + 40 && text.ends_with("\n… (cut here)"), "{}", text.len());
    }

    #[test]
    fn a_template_without_an_end_is_stopped() {
        let template = "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}";
        assert!(rendered(template, "", &json!({})).unwrap_err().contains("template"));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let problem = check("{{ event }}\n{% if %}").unwrap_err();
        assert!(problem.starts_with("line 2 of the template: "), "{problem}");
        assert!(check(" \n").unwrap_err().contains("empty"));
        assert!(check(&"x".repeat(MAX_TEMPLATE + 1)).unwrap_err().contains("bytes"));
        // Other templates and files can't be reached.
        assert!(rendered("{% include 'secrets' %}", "", &json!({})).is_err());
    }
}
