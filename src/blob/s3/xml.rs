//! Reads the XML of S3's answers: elements and texts. Anything that those answers do not contain, such as a document type
//! or a CDATA section, is refused.

/// A piece of a document, in its order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// The text of an element that contains no other one, with the names of the elements around it, as in
    /// `ListBucketResult/Contents/Key`.
    Text(String, String),
    /// The end of an element that contains others.
    End(String),
}

/// The deepest nesting of elements.
const MAX_DEPTH: usize = 16;

/// Returns the pieces of a document, or `None` if the text is none.
pub(super) fn pieces(text: &str) -> Option<Vec<Piece>> {
    let mut rest = text.trim_start_matches('\u{feff}').trim();
    let mut pieces = Vec::new();
    // The names of the open elements, and if each contains others.
    let mut open: Vec<(&str, bool)> = Vec::new();
    while let Some(at) = rest.find('<') {
        let (before, after) = rest.split_at(at);
        if open.is_empty() && !before.trim().is_empty() {
            return None;
        }
        if after.starts_with("<?") || after.starts_with("<!--") {
            let end = if after.starts_with("<?") { "?>" } else { "-->" };
            rest = &after[after.find(end)? + end.len()..];
            continue;
        }
        let end = after.find('>')?;
        let tag = &after[1..end];
        rest = &after[end + 1..];
        if tag.starts_with('!') {
            return None;
        }
        if let Some(name) = tag.strip_prefix('/') {
            let path = path(&open);
            let (begun, has_others) = open.pop()?;
            if begun != name.trim() {
                return None;
            }
            pieces.push(if has_others { Piece::End(path) } else { Piece::Text(path, unescaped(before)?) });
            if open.is_empty() {
                return rest.trim().is_empty().then_some(pieces);
            }
            continue;
        }
        let is_empty = tag.ends_with('/');
        let name = tag.trim_end_matches('/').split_ascii_whitespace().next()?;
        if let Some((_, has_others)) = open.last_mut() {
            *has_others = true;
        }
        open.push((name, false));
        if open.len() > MAX_DEPTH {
            return None;
        }
        if is_empty {
            pieces.push(Piece::Text(path(&open), String::new()));
            open.pop();
            if open.is_empty() {
                return rest.trim().is_empty().then_some(pieces);
            }
        }
    }
    None
}

fn path(open: &[(&str, bool)]) -> String {
    open.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("/")
}

/// Returns a text with its references replaced by what they stand for.
fn unescaped(text: &str) -> Option<String> {
    let mut found = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        found.push_str(before);
        let (name, after) = after.split_once(';')?;
        found.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                let number = name.strip_prefix('#')?;
                let number = match number.strip_prefix('x') {
                    Some(hex) => u32::from_str_radix(hex, 16),
                    None => number.parse(),
                };
                char::from_u32(number.ok()?)?
            }
        });
        rest = after;
    }
    found.push_str(rest);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, value: &str) -> Piece {
        Piece::Text(path.to_owned(), value.to_owned())
    }

    #[test]
    fn a_list_is_read_in_its_order() {
        let found = pieces(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<L xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <Name>b</Name><Prefix/><C><Key>a&amp;b&#x41;&#66;</Key><Size>5</Size></C>\n</L>\n",
        );
        let expected = vec![
            text("L/Name", "b"),
            text("L/Prefix", ""),
            text("L/C/Key", "a&bAB"),
            text("L/C/Size", "5"),
            Piece::End("L/C".into()),
            Piece::End("L".into()),
        ];
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let deep = "<a>".repeat(MAX_DEPTH + 1);
        for bad in [
            "",
            "text",
            "<a>",
            "<a></b>",
            "</a>",
            "<a/><b/>",
            "<a></a>x",
            "x<a/>",
            "<!DOCTYPE a><a/>",
            "<a><![CDATA[x]]></a>",
            "<a>&unknown;</a>",
            "<a>&#x110000;</a>",
            "<a>&",
            "<a",
            &deep,
        ] {
            assert_eq!(pieces(bad), None, "{bad}");
        }
    }
}
