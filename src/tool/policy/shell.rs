//! Finds the programs that a shell command would run and the words in it, as far as its text tells.
//!
//! This is not a shell. Everything that only a shell could interpret (substitutions, here-documents, functions) is
//! refused, so that nothing is taken for a plain word that a shell would run.

/// A parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedCommand {
    /// The first word of each simple command, without quotes.
    pub(super) programs: Vec<String>,
    /// All words without quotes, including the files of redirections.
    pub(super) words: Vec<String>,
}

/// Parses a command line.
///
/// # Errors
///
/// Returns a description of the part that cannot be judged by its text.
pub(super) fn parse(text: &str) -> Result<ParsedCommand, &'static str> {
    let mut reader = ShellParser { rest: text, line: ParsedCommand::default(), expects: Expects::Program };
    while reader.step()? {}
    reader.expect_no_target()?;
    Ok(reader.line)
}

/// The role of the next word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Program,
    Argument,
    /// The file of a redirection. `TargetFirst` is one in front of the program, `Target` one behind it.
    Target,
    TargetFirst,
}

struct ShellParser<'t> {
    rest: &'t str,
    line: ParsedCommand,
    expects: Expects,
}

impl ShellParser<'_> {
    /// Reads one word or operator. Returns `false` at the end of the text.
    fn step(&mut self) -> Result<bool, &'static str> {
        // A backslash before a line end joins two lines, wherever it stands.
        while let Some(rest) = [" ", "\t", "\\\n"].iter().find_map(|blank| self.rest.strip_prefix(blank)) {
            self.rest = rest;
        }
        let Some(c) = self.rest.chars().next() else { return Ok(false) };
        match c {
            '\n' | ';' | '&' | '|' => self.operator()?,
            '<' | '>' => self.redirection()?,
            '#' => self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]),
            '(' | ')' => return Err("a subshell or a function"),
            _ => self.word()?,
        }
        Ok(true)
    }

    /// Refuses a redirection that is followed by something else than its file.
    fn expect_no_target(&self) -> Result<(), &'static str> {
        match self.expects {
            Expects::Target | Expects::TargetFirst => Err("a redirection without a file"),
            Expects::Program | Expects::Argument => Ok(()),
        }
    }

    fn operator(&mut self) -> Result<(), &'static str> {
        self.expect_no_target()?;
        // The `&` of `&>` is taken alone, too. Some shells end the command there, and the word after the file is then
        // another program.
        self.rest = &self.rest[1..];
        self.expects = Expects::Program;
        Ok(())
    }

    fn redirection(&mut self) -> Result<(), &'static str> {
        self.expect_no_target()?;
        // Checked first, because a single `<` would match it, too.
        if self.rest.starts_with("<<") {
            return Err("a here-document");
        }
        if self.rest.starts_with("<(") || self.rest.starts_with(">(") {
            return Err("a substitution");
        }
        let known = [">>", ">|", ">&", "<&", "<>"];
        let length = if known.iter().any(|known| self.rest.starts_with(known)) { 2 } else { 1 };
        self.rest = &self.rest[length..];
        self.expects = if self.expects == Expects::Program { Expects::TargetFirst } else { Expects::Target };
        Ok(())
    }

    fn word(&mut self) -> Result<(), &'static str> {
        let Word { text, quoted, expands } = self.read_word()?;
        // In `2>file` the number belongs to the redirection.
        let is_number = !quoted && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && self.rest.starts_with(['<', '>']) {
            // Of a longer number, some shells make a redirection and others, as dash does, a word and so a program.
            return if text.len() == 1 {
                Ok(())
            } else {
                Err("a redirection whose descriptor has several digits")
            };
        }
        match self.expects {
            // `[` is a program although it looks like a pattern for file names.
            Expects::Program if expands && text != "[" => {
                return Err("a program whose name is only known when it runs");
            }
            Expects::Program if !quoted && RESERVED.contains(&text.as_str()) => {
                return Err("a compound command");
            }
            // A variable set in front of a program can change which program runs, as `PATH` does.
            Expects::Program if is_assignment(&text) => return Err("a variable that is set"),
            Expects::Program => {
                self.line.programs.push(text.clone());
                self.expects = Expects::Argument;
            }
            Expects::TargetFirst => self.expects = Expects::Program,
            Expects::Target | Expects::Argument => self.expects = Expects::Argument,
        }
        self.line.words.push(text);
        Ok(())
    }

    fn read_word(&mut self) -> Result<Word, &'static str> {
        let mut word = Word::default();
        loop {
            let Some(c) = self.rest.chars().next() else { return Ok(word) };
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' => return Ok(word),
                '(' | ')' => return Err("a subshell or a function"),
                '\'' => {
                    let inner = &self.rest[1..];
                    let end = inner.find('\'').ok_or("a quote that does not end")?;
                    word.text.push_str(&inner[..end]);
                    word.quoted = true;
                    self.rest = &inner[end + 1..];
                }
                '"' => self.double_quoted(&mut word)?,
                '\\' => {
                    let escaped = self.rest[1..].chars().next().ok_or("a backslash at its end")?;
                    if escaped != '\n' {
                        word.text.push(escaped);
                        word.quoted = true;
                    }
                    self.rest = &self.rest[1 + escaped.len_utf8()..];
                }
                '$' | '`' => self.expansion(&mut word)?,
                // Characters from which the shell makes file names or several words.
                '*' | '?' | '[' | '{' | '}' | '~' => {
                    word.expands = true;
                    self.push(&mut word, c);
                }
                _ => self.push(&mut word, c),
            }
        }
    }

    fn push(&mut self, word: &mut Word, c: char) {
        word.text.push(c);
        self.rest = &self.rest[c.len_utf8()..];
    }

    fn double_quoted(&mut self, word: &mut Word) -> Result<(), &'static str> {
        word.quoted = true;
        self.rest = &self.rest[1..];
        loop {
            match self.rest.chars().next().ok_or("a quote that does not end")? {
                '"' => {
                    self.rest = &self.rest[1..];
                    return Ok(());
                }
                '\\' => {
                    let escaped = self.rest[1..].chars().next().ok_or("a quote that does not end")?;
                    // Inside double quotes a backslash before any other character stands for itself.
                    if !matches!(escaped, '"' | '\\' | '$' | '`' | '\n') {
                        word.text.push('\\');
                    }
                    if escaped != '\n' {
                        word.text.push(escaped);
                    }
                    self.rest = &self.rest[1 + escaped.len_utf8()..];
                }
                '$' | '`' => self.expansion(word)?,
                c => self.push(word, c),
            }
        }
    }

    /// Reads an expansion. A plain variable is only a value, so it is accepted. Everything else after a dollar sign is
    /// refused, because it may run something.
    fn expansion(&mut self, word: &mut Word) -> Result<(), &'static str> {
        if self.rest.starts_with('`') {
            return Err("a substitution");
        }
        match self.rest[1..].chars().next() {
            // A backslash may be a line break in the middle of `$(`.
            Some('(' | '{' | '\'' | '"' | '[' | '\\') => return Err("a substitution"),
            Some(c) if c.is_ascii_alphanumeric() || "_@*#?-$!".contains(c) => word.expands = true,
            _ => {}
        }
        self.push(word, '$');
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Word {
    text: String,
    quoted: bool,
    /// `true` if the shell replaces the word or parts of it.
    expands: bool,
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        // `x+=1` and `x[1]=2` are assignments, too.
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = name.split('[').next().unwrap_or_default();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Words that start or join compound commands, or that hide the program behind them.
const RESERVED: [&str; 20] = [
    "!", "{", "}", "[[", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case",
    "esac", "function", "select", "time", "coproc",
];

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
