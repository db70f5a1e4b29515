//! Which programs a shell command would run, and which words it holds, as far as its text says.
//!
//! Not a shell: what would need one to be understood (substitutions, here-documents, functions) is refused, so that
//! nothing is taken for a plain word that a shell would run.

/// A command line taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The first word of each simple command, without quotes.
    pub(super) programs: Vec<String>,
    /// All words, those that redirections name among them, without quotes.
    pub(super) words: Vec<String>,
}

/// Takes a command line apart.
///
/// # Errors
///
/// What in it can't be judged by its text.
pub(super) fn parse(text: &str) -> Result<Line, &'static str> {
    let mut reader = Reader { rest: text, line: Line::default(), expects: Expects::Program };
    while reader.step()? {}
    if matches!(reader.expects, Expects::Target | Expects::TargetFirst) {
        return Err("a redirection without a file");
    }
    Ok(reader.line)
}

/// What the next word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Program,
    Argument,
    /// The file of a redirection in front of the program, or after it.
    Target,
    TargetFirst,
}

struct Reader<'t> {
    rest: &'t str,
    line: Line,
    expects: Expects,
}

impl Reader<'_> {
    /// Reads one word or operator; `false` at the end.
    fn step(&mut self) -> Result<bool, &'static str> {
        // A line that goes on in the next one is one line, wherever that is.
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

    fn operator(&mut self) -> Result<(), &'static str> {
        if matches!(self.expects, Expects::Target | Expects::TargetFirst) {
            return Err("a redirection without a file");
        }
        // Of `&>` too: to some shells it ends the command, and what follows the file is a program.
        self.rest = &self.rest[1..];
        self.expects = Expects::Program;
        Ok(())
    }

    fn redirection(&mut self) -> Result<(), &'static str> {
        if matches!(self.expects, Expects::Target | Expects::TargetFirst) {
            return Err("a redirection without a file");
        }
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
        // `2>file`: the number belongs to the redirection.
        let is_number = !quoted && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && self.rest.starts_with(['<', '>']) {
            return Ok(());
        }
        match self.expects {
            Expects::Program if expands && text != "[" => {
                return Err("a program whose name is only known when it runs");
            }
            Expects::Program if !quoted && RESERVED.contains(&text.as_str()) => {
                return Err("a compound command");
            }
            // What is set in front of a program can make it another one, as PATH does.
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
                // What the shell makes file names or several words of.
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
                    // Before other characters a backslash in quotes is one.
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

    /// A variable is a value and nothing that runs; everything else behind a dollar is refused.
    fn expansion(&mut self, word: &mut Word) -> Result<(), &'static str> {
        if self.rest.starts_with('`') {
            return Err("a substitution");
        }
        match self.rest[1..].chars().next() {
            // A backslash may only split the line in the middle of `$(`.
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
    /// Whether the shell makes something else of it.
    expands: bool,
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = name.split('[').next().unwrap_or_default();
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Words that make a command out of commands, or hide one.
const RESERVED: [&str; 20] = [
    "!", "{", "}", "[[", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case",
    "esac", "function", "select", "time", "coproc",
];

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
