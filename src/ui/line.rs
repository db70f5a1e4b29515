//! A line for people: pieces of text, each with a meaning that may be shown by colour and is never shown by
//! colour alone.

/// What a piece of text means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing in particular.
    #[default]
    Plain,
    /// Done, healthy.
    Good,
    /// Needs attention.
    Warn,
    /// Broken, failed.
    Bad,
    /// A path, a command to run, an id.
    Accent,
    /// Beside the point.
    Dim,
    /// A title.
    Strong,
}

impl Tone {
    /// The SGR parameter, one of the sixteen colours or an attribute.
    const fn sgr(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "32",
            Self::Warn => "33",
            Self::Bad => "31",
            Self::Accent => "36",
            Self::Dim => "2",
            Self::Strong => "1",
        }
    }
}

/// Text made of pieces with a tone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pieces: Vec<(Tone, String)>,
}

impl Line {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a piece.
    #[must_use]
    pub fn with(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.pieces.push((tone, text.into()));
        self
    }

    /// Adds plain text.
    #[must_use]
    pub fn plain(self, text: impl Into<String>) -> Self {
        self.with(Tone::Plain, text)
    }

    /// Adds a path, a command or an id.
    #[must_use]
    pub fn accent(self, text: impl Into<String>) -> Self {
        self.with(Tone::Accent, text)
    }

    /// The text that may be written to a terminal, with escape sequences only of our own.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        let mut out = String::new();
        for (tone, text) in &self.pieces {
            let text = crate::clean::block(text);
            if color && *tone != Tone::Plain {
                out.push_str("\x1b[");
                out.push_str(tone.sgr());
                out.push('m');
                out.push_str(&text);
                out.push_str("\x1b[0m");
            } else {
                out.push_str(&text);
            }
        }
        out
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::new().plain(text)
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self::new().plain(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_ours_and_theirs_is_spelled_out() {
        let line = Line::new().with(Tone::Good, "ok").plain(" \x1b[31mred");
        assert_eq!(line.render(false), "ok \\u{1b}[31mred");
        assert_eq!(line.render(true), "\x1b[32mok\x1b[0m \\u{1b}[31mred");
    }
}
