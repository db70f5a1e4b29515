//! Reads who is mentioned in a message.
//!
//! The text that a client sends beside the HTML shows a person by whatever name the client knows, so the links in the
//! HTML say where in the text a mention stands and of whom it is.

use std::ops::Range;

use serde_json::Value;

use crate::clean::percent_decode;

/// The beginning of the address of a person.
const ADDRESS: &str = "https://matrix.to/#/";
/// Largest number of mentions that are read.
const MOST: usize = 50;

/// A link to a person in the HTML of a message.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    account: String,
    /// The name that is shown.
    shown: String,
    /// The number of times that the same characters stand in the text before it.
    before: usize,
}

/// Returns the text with each mention as `@name`, without that of flock's account, and `true` if there was one.
pub(super) fn read(body: &str, content: &Value, own: &str) -> (String, bool) {
    let html = content["formatted_body"].as_str().unwrap_or_default();
    let links = links(without_quote(html));
    let listed: Option<Vec<&str>> = content["m.mentions"]
        .as_object()
        .map(|mentions| mentions.get("user_ids").and_then(Value::as_array).into_iter().flatten())
        .map(|listed| listed.filter_map(Value::as_str).take(MOST).collect());
    let mut found: Vec<(Range<usize>, &str)> = Vec::new();
    for link in &links {
        if let Some((at, _)) = body.match_indices(&link.shown).nth(link.before) {
            take(&mut found, at..at + link.shown.len(), &link.account);
        }
    }
    // A person who writes the whole id means the account, too.
    let listed_or_own = listed.iter().flatten().copied().chain([own]);
    for account in listed_or_own.filter(|account| account.starts_with('@')) {
        for (at, _) in body.match_indices(account) {
            let goes_on = |c: char| c.is_alphanumeric() || c == '-' || c == ':';
            if !body[at + account.len()..].starts_with(goes_on) {
                take(&mut found, at..at + account.len(), account);
            }
        }
    }
    let is_to_bot = match &listed {
        Some(listed) => listed.contains(&own),
        // Programs from before version 1.7 of the specification have no list.
        None => found.iter().any(|(_, account)| *account == own),
    };
    (named(body, found, own), is_to_bot)
}

/// Adds a place in the text if no other one is there.
fn take<'a>(found: &mut Vec<(Range<usize>, &'a str)>, place: Range<usize>, account: &'a str) {
    if !found.iter().any(|(other, _)| place.start < other.end && other.start < place.end) {
        found.push((place, account));
    }
}

/// Writes the names into the text.
fn named(body: &str, mut found: Vec<(Range<usize>, &str)>, own: &str) -> String {
    if found.is_empty() {
        return body.to_owned();
    }
    found.sort_by_key(|(place, _)| place.start);
    let mut text = String::with_capacity(body.len());
    let mut done = 0;
    let mut is_first = true;
    for (place, account) in found {
        let before = &body[done..place.start];
        // The client may have written the sign before its name.
        let before = before.strip_suffix('@').unwrap_or(before);
        text.push_str(before);
        done = place.end;
        is_first &= before.trim().is_empty();
        if account != own {
            text.push('@');
            text.push_str(account[1..].split(':').next().unwrap_or_default());
            is_first = false;
        } else if is_first {
            // "flock: do this" is said to flock like "do this".
            let rest = &body[done..];
            done += rest.len() - rest.trim_start_matches([':', ',', ' ']).len();
        } else if text.ends_with(' ') && body[done..].starts_with(' ') {
            done += 1;
        }
    }
    text.push_str(&body[done..]);
    text.trim().to_owned()
}

/// Removes the quote of an answered message.
fn without_quote(html: &str) -> &str {
    html.starts_with("<mx-reply>")
        .then(|| html.split_once("</mx-reply>"))
        .flatten()
        .map_or(html, |(_, rest)| rest)
}

/// Returns the links to people in the HTML of a message.
fn links(html: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (at, _) in html.match_indices(ADDRESS).take(MOST) {
        let rest = &html[at + ADDRESS.len()..];
        let Some(quote) = html[..at].chars().next_back().filter(|quote| matches!(quote, '"' | '\'')) else {
            continue;
        };
        let Some((address, rest)) = rest.split_once(quote) else { continue };
        let account = percent_decode(address.split('?').next().unwrap_or_default());
        let Some(inner) = rest.split_once('>').and_then(|(_, inner)| inner.split_once("</a>")) else {
            continue;
        };
        let shown = plain(inner.0);
        if !account.starts_with('@') || shown.is_empty() {
            continue;
        }
        // The part before ends within the tag of the link, which is not closed there.
        let before = plain(html[..at].rsplit_once('<').map_or("", |(before, _)| before));
        found.push(Link { account, before: before.matches(&shown).count(), shown });
    }
    found
}

/// Returns the text of HTML without its tags.
fn plain(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut is_tag = false;
    for c in html.chars() {
        match c {
            '<' => is_tag = true,
            '>' if is_tag => is_tag = false,
            _ if !is_tag => text.push(c),
            _ => {}
        }
    }
    // The ampersand is the last one, because it begins the others.
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#x27;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text, |text, (name, sign)| text.replace(name, sign))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWN: &str = "@flock:h";

    fn link(account: &str, shown: &str) -> String {
        format!("<a href=\"https://matrix.to/#/{account}\">{shown}</a>")
    }

    fn read_both(body: &str, html: &str) -> (String, bool) {
        read(body, &json!({"body": body, "formatted_body": html}), OWN)
    }

    #[test]
    fn a_person_is_named_by_the_account_and_not_as_the_client_shows_it() {
        let html = format!("ask {} now", link("%40ann.b%3Ah", "Ann &amp; Co"));
        assert_eq!(read_both("ask Ann & Co now", &html), ("ask @ann.b now".to_owned(), false));
        let second = format!("Bob asks {}", link("@bob:h", "Bob"));
        assert_eq!(read_both("Bob asks Bob", &second).0, "Bob asks @bob");
        let sign = format!("hi {}", link("@bob:h", "@Bob"));
        assert_eq!(read_both("hi @Bob", &sign).0, "hi @bob");
    }

    #[test]
    fn the_mention_of_flock_is_taken_out() {
        let first = format!("{}: do <b>this</b>", link(OWN, "flock"));
        assert_eq!(read_both("flock: do **this**", &first), ("do **this**".to_owned(), true));
        let within = format!("can {} do this", link(OWN, "flock"));
        assert_eq!(read_both("can flock do this", &within), ("can do this".to_owned(), true));
        let only = link(OWN, "flock");
        assert_eq!(read_both("flock", &only), (String::new(), true));
        assert_eq!(read_both("@flock:h, hello", ""), ("hello".to_owned(), true));
        assert_eq!(read_both("@flock:home hello", ""), ("@flock:home hello".to_owned(), false));
    }

    #[test]
    fn a_list_of_mentions_is_what_counts() {
        let said = |listed: Value| read("@flock:h hi @bob:h", &json!({"m.mentions": listed}), OWN);
        assert_eq!(said(json!({"user_ids": [OWN, "@bob:h"]})), ("hi @bob".to_owned(), true));
        assert!(!said(json!({"user_ids": ["@bob:h"]})).1);
        assert!(!said(json!({})).1);
        // An answer to flock mentions it without a name in the text.
        let answer = json!({"m.mentions": {"user_ids": [OWN]}});
        assert_eq!(read("thanks", &answer, OWN), ("thanks".to_owned(), true));
    }

    #[test]
    fn hostile_html_changes_nothing() {
        for html in [
            "<a href=\"https://matrix.to/#/@a:h",
            "<a href=\"https://matrix.to/#/@a:h\">",
            "<a href=\"https://matrix.to/#/@a:h\"></a>",
            "https://matrix.to/#/@a:h",
            "<a href=\"https://matrix.to/#/!room:h\">hello</a>",
            "<a href='https://matrix.to/#/%40%E0%A0'>not in the text</a>",
        ] {
            assert_eq!(read_both("hello", html), ("hello".to_owned(), false), "{html}");
        }
        let many = link("@a:h", "x").repeat(500);
        assert_eq!(read_both(&"x".repeat(500), &many).0.matches("@a").count(), MOST);
        let quoted = format!("<mx-reply>{}</mx-reply>hi", link(OWN, "flock"));
        assert_eq!(read_both("hi flock", &quoted), ("hi flock".to_owned(), false));
    }
}
