//! Finds the paths that the text of a shell command names. It does not run a shell: a path that is assembled while the
//! command runs is not visible in the text. [`CommandPaths::is_dynamic`] tells that there may be such paths.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The paths in the text of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandPaths {
    /// Absolute paths. For a path with a wildcard or a variable, the folder before it.
    pub absolute: BTreeSet<PathBuf>,
    /// Words that may be paths relative to a folder that the command enters.
    pub relative: BTreeSet<String>,
    /// `true` if parts of the command are only known when it runs.
    pub is_dynamic: bool,
}

/// Within a word, a path may begin after these characters or end before them, as in a list, a mapping or an assignment.
const SEPARATORS: [char; 15] = [':', ',', '=', '@', '+', '%', '(', ')', '{', '}', '[', ']', '"', '\'', '`'];
/// Characters that a shell replaces by something else.
const EXPANSION_CHARS: [char; 6] = ['*', '?', '[', '{', '$', '`'];
/// Maximum length of a path in the kernel.
const MAX_PATH: usize = 4096;
/// Maximum number of absolute paths in one command.
pub(crate) const MAX_PATHS: usize = 256;

/// Parses a command that runs in the folder `cwd` with this environment. Returns `None` if it names more than
/// [`MAX_PATHS`] paths.
#[must_use]
pub(crate) fn read(command: &str, cwd: &Path, env: &BTreeMap<String, String>) -> Option<CommandPaths> {
    let mut named = CommandPaths { is_dynamic: command.contains('`'), ..CommandPaths::default() };
    let mut words = split_words(command);
    // A quoted text may itself be a command or a program with paths in it.
    words.extend(
        command.split(|c: char| c.is_whitespace() || "'\"\\;&|<>(),`".contains(c)).map(str::to_owned),
    );
    for word in words {
        let word = expand(&word, env);
        named.is_dynamic |= word.contains(['$', '`']);
        for from in path_starts(&word) {
            let part = &word[from..];
            let end = part.find(SEPARATORS).unwrap_or(part.len());
            named.add(&expand(&part[..end], env), cwd);
            // A file name may contain such a character itself.
            if from == 0 || part.starts_with(['/', '~', '.', '$']) {
                named.add(&expand(part, env), cwd);
            }
        }
        if named.absolute.len() > MAX_PATHS {
            return None;
        }
    }
    Some(named)
}

impl CommandPaths {
    fn add(&mut self, part: &str, cwd: &Path) {
        if part.is_empty() || part.len() > MAX_PATH || part.contains('\0') || self.absolute.len() > MAX_PATHS
        {
            return;
        }
        let plain = match part.find(EXPANSION_CHARS) {
            Some(open) => part[..open].rfind('/').map_or("", |slash| &part[..=slash]),
            None => part,
        };
        if plain.starts_with('/') {
            // Both forms are kept, because `..` after a symbolic link leads elsewhere than the text says.
            self.absolute.insert(plain.into());
            self.absolute.insert(normalize(Path::new(plain)));
        } else if plain.starts_with("..") || plain.starts_with("./") {
            self.absolute.insert(normalize(&cwd.join(plain)));
            self.relative.insert(plain.to_owned());
        } else if !plain.is_empty() {
            self.relative.insert(plain.to_owned());
        }
    }
}

/// Returns the words of a command without their quotes.
fn split_words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut letters = command.chars();
    while let Some(c) = letters.next() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            // A backslash at the end of a line continues the word.
            (None | Some('"'), '\\') => word.extend(letters.next().filter(|next| *next != '\n')),
            (None, c) if c.is_whitespace() || ";&|<>()`".contains(c) => words.push(std::mem::take(&mut word)),
            (_, c) => word.push(c),
        }
    }
    words.push(word);
    words
}

/// Replaces `~` and the known variables in a word.
fn expand(word: &str, env: &BTreeMap<String, String>) -> String {
    let home = env.get("HOME").map_or("", String::as_str);
    let user = env.get("USER").map_or("", String::as_str);
    let mut word = match word.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        Some(rest) if !user.is_empty() && rest.split('/').next() == Some(user) => {
            format!("{home}{}", &rest[user.len()..])
        }
        _ => word.to_owned(),
    };
    for (name, value) in env {
        let braced = format!("${{{name}}}");
        if word.contains(&braced) {
            word = word.replace(&braced, value);
        }
        let bare = format!("${name}");
        while let Some(at) = word.match_indices(&bare).map(|(at, _)| at).find(|at| {
            let after = word[at + bare.len()..].chars().next();
            !after.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
        }) {
            word.replace_range(at..at + bare.len(), value);
            if value.contains(&bare) {
                break;
            }
        }
    }
    word
}

/// Returns the positions in a word at which a path may begin.
fn path_starts(word: &str) -> Vec<usize> {
    // An option with its value in one word, for example `-I/usr/include`.
    let is_option = word.starts_with('-') && word[1..].starts_with(|c: char| c.is_ascii_alphabetic());
    let within = word.char_indices().filter(|(_, c)| SEPARATORS.contains(c)).map(|(at, c)| at + c.len_utf8());
    let mut all: Vec<usize> = within.chain(is_option.then_some(2)).filter(|at| *at < word.len()).collect();
    all.push(0);
    all
}

/// Removes `.` and `..` from a path by its text alone.
#[must_use]
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(command: &str) -> CommandPaths {
        let env = BTreeMap::from([
            ("HOME".to_owned(), "/home/ann".to_owned()),
            ("USER".to_owned(), "ann".to_owned()),
        ]);
        read(command, Path::new("/home/ann/.flock/run/commands/r-1"), &env).unwrap()
    }

    #[test]
    fn more_than_the_maximum_of_paths_is_refused() {
        let env = BTreeMap::new();
        for command in ["=/a".repeat(2730), "/a ".repeat(2730), (0..1000).map(|n| format!("/{n} ")).collect()]
        {
            let found = read(&command, Path::new("/x"), &env);
            assert!(found.is_none_or(|found| found.absolute.len() <= MAX_PATHS));
        }
    }

    #[test]
    fn a_path_is_found_however_it_is_written() {
        for command in [
            "sh /home/ann/w/x.sh",
            "sh ~/w/x.sh",
            "sh ~ann/w/x.sh",
            "sh $HOME/w/x.sh",
            "sh ${HOME}/w/x.sh",
            "sh \"$HOME\"/w/'x'.sh",
            "sh /home/an\\n/w/x.sh",
            "sh '/home/ann/w/x.sh'",
            "make -f/home/ann/w/x.sh",
            "make --file=/home/ann/w/x.sh",
            "env A=1:/home/ann/w/x.sh:/b true",
            "true;/home/ann/w/x.sh&",
            "sh -c 'cd / && sh /home/ann/w/x.sh'",
            "python3 -c \"exec(open('/home/ann/w/x.sh').read())\"",
            "cat</home/ann/w/x.sh",
            "echo $(cat /home/ann/w/x.sh)",
            "echo `cat /home/ann/w/x.sh`",
            "sh ../../../../w/x.sh",
            "sh ./../../../../w/x.sh",
            "sh /tmp/../home/ann/w/x.sh",
            "curl file:///home/ann/w/x.sh -d @/home/ann/w/x.sh",
        ] {
            let found = named(command);
            assert!(found.absolute.contains(Path::new("/home/ann/w/x.sh")), "{command}: {found:?}");
        }
    }

    #[test]
    fn a_wildcard_or_variable_gives_the_folder_before_it() {
        for command in ["cat /home/ann/w/*/x", "cat /home/ann/w/$A/x", "cat /home/ann/w/{a,b}", "cat ~/w/a?"]
        {
            let found = named(command);
            assert!(found.absolute.contains(Path::new("/home/ann/w/")), "{command}: {found:?}");
        }
    }

    #[test]
    fn dynamic_parts_are_reported() {
        for command in ["sh $X", "sh $(echo x)", "sh `echo x`", "D=/a; sh $D/x"] {
            assert!(named(command).is_dynamic, "{command}");
        }
        for command in ["df -h", "cat ~/x $HOME/y ${HOME}", "echo '*'"] {
            assert!(!named(command).is_dynamic, "{command}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(command in "([a-z/.~$'\"\\\\=:*@ {}\n-]|HOME|é|\\PC){0,60}") {
            let Some(found) = read(&command, Path::new("/x"), &BTreeMap::new()) else { return Ok(()) };
            proptest::prop_assert!(found.absolute.iter().all(|path| path.is_absolute()));
        }
    }
}
