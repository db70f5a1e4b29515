//! The files of a skill to which its text refers by Markdown links and pictures. Pure.

use percent_encoding::percent_decode_str;
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag};

/// The most destinations of a text that are looked at. A text of a megabyte has room for hundreds of thousands.
const MAX_LINKS: usize = 200;

/// Returns the destinations of links and pictures that can be files of the skill, in their order and each once. Addresses
/// of the web and places in the text itself are none.
#[must_use]
pub(crate) fn destinations(body: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for event in Parser::new_ext(body, Options::ENABLE_TABLES) {
        let Event::Start(Tag::Link { link_type, dest_url, .. } | Tag::Image { link_type, dest_url, .. }) =
            event
        else {
            continue;
        };
        if matches!(link_type, LinkType::Autolink | LinkType::Email) {
            continue;
        }
        let path = dest_url.split(['#', '?']).next().unwrap_or_default();
        let is_address =
            path.starts_with("//") || path.split('/').next().is_some_and(|name| name.contains(':'));
        if path.is_empty() || is_address {
            continue;
        }
        let path = percent_decode_str(path).decode_utf8_lossy().into_owned();
        if !found.contains(&path) {
            found.push(path);
        }
        if found.len() == MAX_LINKS {
            break;
        }
    }
    found
}

/// Returns the path of the file in the skill's folder, or `None` if the destination leads out of it or to a hidden file.
#[must_use]
pub(crate) fn file(destination: &str) -> Option<String> {
    let names: Vec<&str> = destination.split('/').filter(|name| *name != ".").collect();
    let is_plain = |name: &&str| {
        !name.is_empty() && !name.starts_with('.') && !name.contains('\\') && !name.contains(char::is_control)
    };
    (!names.is_empty() && names.iter().all(is_plain)).then(|| names.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_links_and_pictures_and_not_in_code() {
        let text = "See [the form](forms/form%20a.md#part), ![shot](./shot.png \"title\") and [again](./shot.png).\n\
                    | [cell](table.md) |\n|---|\n\n[named][ref] <https://example.org/x> [web](https://example.org/a.md)\n\
                    [there](#below) [mail](mailto:a@b.c) [other](//host/a.md) [up](../../secrets/key) [root](/etc/passwd)\n\
                    [$kind](<templates/$kind x.md>) `[code](code.md)`\n\n```\n[block](block.md)\n```\n\n[ref]: later.md\n";
        let found = destinations(text);
        assert_eq!(
            found,
            [
                "forms/form a.md",
                "./shot.png",
                "table.md",
                "later.md",
                "../../secrets/key",
                "/etc/passwd",
                "templates/$kind x.md"
            ]
        );
        let many: String = (0..2000).map(|n| format!("[x](f{n}.md) ")).collect();
        assert_eq!(destinations(&many).len(), MAX_LINKS);
    }

    #[test]
    fn a_path_stays_in_the_folder() {
        for (destination, path) in [
            ("a.md", Some("a.md")),
            ("./a.md", Some("a.md")),
            ("././a/./b c.md", Some("a/b c.md")),
            ("그림.png", Some("그림.png")),
            ("", None),
            (".", None),
            ("..", None),
            ("../a.md", None),
            ("a/../b.md", None),
            ("/a.md", None),
            ("a//b.md", None),
            ("folder/", None),
            (".hidden", None),
            (".flock-skill.json", None),
            ("a/.git/config", None),
            ("a\\..\\b", None),
            ("a\nb", None),
            ("a\0b", None),
            ("https://x", None),
            ("./SKILL.md", Some("SKILL.md")),
        ] {
            assert_eq!(file(destination).as_deref(), path, "{destination}");
        }
    }
}
