//! A line for people, made of pieces of text. Each piece has a meaning that a colour may show.
//!
//! The colour is never the only sign of the meaning.

/// The meaning of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TextStyle {
    /// No special meaning.
    #[default]
    Plain,
    /// Success, or a healthy state.
    Good,
    /// A state that needs attention.
    Warn,
    /// A failure, or a broken part.
    Bad,
    /// A path, a command to run, or an id.
    Accent,
    /// A detail that matters less.
    Dim,
    /// A title or a name.
    Strong,
}

impl TextStyle {
    /// Returns the SGR parameter: one of the sixteen colours or an attribute.
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

/// A text made of pieces, each with a [`TextStyle`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StyledLine {
    pieces: Vec<(TextStyle, String)>,
}

impl StyledLine {
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub(crate) fn with(mut self, tone: TextStyle, text: impl Into<String>) -> Self {
        self.pieces.push((tone, text.into()));
        self
    }

    #[must_use]
    pub(crate) fn plain(self, text: impl Into<String>) -> Self {
        self.with(TextStyle::Plain, text)
    }

    /// Adds a path, a command or an id, shown in the accent colour.
    #[must_use]
    pub(crate) fn accent(self, text: impl Into<String>) -> Self {
        self.with(TextStyle::Accent, text)
    }

    /// Returns the text to write to a terminal. The only escape sequences in it are those of the tones.
    #[must_use]
    pub(crate) fn render(&self, color: bool) -> String {
        let mut out = String::new();
        for (tone, text) in &self.pieces {
            // The pieces may hold text of agents, models or files. Only this function may emit escape sequences.
            let text = crate::clean::block(text);
            if color && *tone != TextStyle::Plain {
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

impl From<&str> for StyledLine {
    fn from(text: &str) -> Self {
        Self::new().plain(text)
    }
}

impl From<String> for StyledLine {
    fn from(text: String) -> Self {
        Self::new().plain(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_styles_write_escape_sequences() {
        let line = StyledLine::new().with(TextStyle::Good, "ok").plain(" \x1b[31mred");
        assert_eq!(line.render(false), "ok \\u{1b}[31mred");
        assert_eq!(line.render(true), "\x1b[32mok\x1b[0m \\u{1b}[31mred");
    }
}
