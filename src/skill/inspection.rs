//! The contents of a skill, for the person who decides about it: scripts, hosts, tools, commands, and characters that nobody
//! sees. Pure. It can find too much, and a text can always name something in other words.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::Serialize;

use super::arguments::SkillTemplate;
use super::content::{SkillContent, SkillFile};
use super::front_matter::{FrontMatter, SkillArgument};
use crate::clean;

/// The most items of each list.
const MAX_ITEMS: usize = 200;
const MAX_DESCRIPTION: usize = 1_000;
const MAX_URL: usize = 300;

/// The contents of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inspection {
    /// The name in the front matter, which need not be valid.
    pub(crate) name: Option<String>,
    pub(crate) description: String,
    pub(crate) files: Vec<InspectedFile>,
    /// Number of bytes of all files.
    pub(crate) bytes: u64,
    /// The hosts that texts name, with the files that name them.
    pub(crate) hosts: BTreeMap<String, BTreeSet<String>>,
    /// The addresses that texts name.
    pub(crate) urls: BTreeSet<String>,
    /// The tools that the front matter names. Naming one gives no agent a right to it.
    pub(crate) tools: Vec<String>,
    /// The arguments that its text takes.
    pub(crate) arguments: Vec<SkillArgument>,
    /// The names of flock's own tools in texts.
    pub(crate) flock_tools: BTreeSet<String>,
    /// Commands in texts that reach the network, install programs, or change the machine, with the files that name them.
    pub(crate) commands: BTreeMap<String, BTreeSet<String>>,
    /// Lines with characters that nobody sees.
    pub(crate) hidden: Vec<HiddenText>,
    /// Hidden files and folders of the source, which are not imported.
    pub(crate) left_out: Vec<String>,
    /// `true` if a list has more items than are named here.
    pub(crate) is_cut: bool,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InspectedFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// `false` if it is no text.
    pub(crate) is_text: bool,
    /// The reasons why it counts as a program. Empty for other files.
    pub(crate) script: Vec<String>,
}

/// A line with characters that nobody sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HiddenText {
    pub(crate) file: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// The characters, as in `U+202E`.
    pub(crate) characters: Vec<String>,
}

/// Returns what a skill contains.
#[must_use]
pub(crate) fn inspect(content: &SkillContent) -> Inspection {
    let front = FrontMatter::parse(content.instructions());
    let description = front.description.clone().unwrap_or_else(|| first_line(front.body));
    let mut found = Inspection {
        name: front.name.as_deref().map(|name| clean::label(name, 100)),
        description: clean::label(&description, MAX_DESCRIPTION),
        bytes: content.bytes(),
        tools: front.tools.into_iter().map(|(name, _)| name).collect(),
        arguments: SkillTemplate::parse(content.instructions()).arguments().to_vec(),
        left_out: content.left_out().to_vec(),
        ..Inspection::default()
    };
    for (path, file) in content.files() {
        let text = file.text();
        found.files.push(InspectedFile {
            path: path.clone(),
            bytes: file.bytes.len() as u64,
            is_text: text.is_some(),
            script: script_signs(path, file),
        });
        if let Some(text) = text {
            found.read(path, text);
        }
    }
    found
}

/// Returns the first line that is not a heading.
fn first_line(body: &str) -> String {
    let mut lines = body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().unwrap_or_default().to_owned()
}

impl Inspection {
    fn read(&mut self, path: &str, text: &str) {
        for url in urls(text) {
            if self.urls.len() >= MAX_ITEMS {
                self.is_cut = true;
                break;
            }
            self.urls.insert(clean::summary(url, MAX_URL));
        }
        let in_urls = urls(text).filter_map(host_of_url);
        let words = || text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')));
        let bare = words().filter_map(bare_host);
        for host in in_urls.chain(bare) {
            self.is_cut |= note(&mut self.hosts, host, path);
        }
        for word in words() {
            // A name may end a sentence.
            let word = word.trim_matches(['.', '-']);
            if COMMANDS.contains(&word) {
                self.is_cut |= note(&mut self.commands, word.to_owned(), path);
            } else if word.starts_with("flock_") && word.len() <= 64 && self.flock_tools.len() < MAX_ITEMS {
                self.flock_tools.insert(word.to_owned());
            }
        }
        self.find_hidden(path, text);
    }

    fn find_hidden(&mut self, path: &str, text: &str) {
        // Editors put a byte order mark at the beginning of a file, and a carriage return at the end of a line.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (at, line) in text.split('\n').enumerate() {
            let line = line.strip_suffix('\r').unwrap_or(line);
            if clean::strip_invisible(line).len() == line.len() {
                continue;
            }
            if self.hidden.len() >= MAX_ITEMS {
                self.is_cut = true;
                return;
            }
            let characters: BTreeSet<char> =
                line.chars().filter(|c| *c != '\t' && clean::is_ignorable(*c)).collect();
            let characters = characters.into_iter().take(20).map(|c| format!("U+{:04X}", u32::from(c)));
            self.hidden.push(HiddenText {
                file: path.to_owned(),
                line: at + 1,
                characters: characters.collect(),
            });
        }
    }
}

/// Adds a file to an item. Returns `true` if there are too many items.
fn note(items: &mut BTreeMap<String, BTreeSet<String>>, item: String, path: &str) -> bool {
    if items.len() >= MAX_ITEMS && !items.contains_key(&item) {
        return true;
    }
    items.entry(item).or_default().insert(path.to_owned());
    false
}

/// Returns the reasons why a file counts as a program.
fn script_signs(path: &str, file: &SkillFile) -> Vec<String> {
    let mut signs = Vec::new();
    if file.is_executable {
        signs.push("executable".to_owned());
    }
    if file.bytes.starts_with(b"#!") {
        let end = file.bytes.iter().position(|byte| *byte == b'\n').unwrap_or(file.bytes.len());
        signs.push(clean::summary(&String::from_utf8_lossy(&file.bytes[..end]), 80));
    }
    if file.bytes.starts_with(b"\x7fELF") {
        signs.push("a compiled program".to_owned());
    }
    let ending = path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map(|(_, ending)| ending);
    if let Some(ending) = ending.map(str::to_ascii_lowercase).filter(|ending| ENDINGS.contains(&&**ending)) {
        signs.push(format!(".{ending}"));
    }
    signs
}

/// Returns the addresses in a text.
fn urls(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("://").filter_map(move |(at, mark)| {
        let before = &text.as_bytes()[..at];
        let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let length = before.iter().rev().take(20).take_while(|byte| is_scheme(byte)).count();
        let rest = &text[at + mark.len()..];
        let is_end = |c: char| {
            c.is_whitespace() || c.is_control() || "\"'`<>()[]{}|\\^".contains(c) || clean::is_unseen(c)
        };
        let end = rest.find(is_end).unwrap_or(rest.len());
        let rest = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '*']);
        (length > 0 && !rest.is_empty()).then(|| &text[at - length..at + mark.len() + rest.len()])
    })
}

/// Returns the host of an address, in small letters.
fn host_of_url(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    // The port is left out, unless the host is an IPv6 address.
    let host = host.split_once(':').filter(|(_, port)| !port.contains(':')).map_or(host, |(host, _)| host);
    (!host.is_empty()).then(|| clean::label(&host.to_lowercase(), 253))
}

/// Returns a word in small letters if it looks like a host.
fn bare_host(word: &str) -> Option<String> {
    let word = word.trim_matches(['.', '-']);
    if word.parse::<Ipv4Addr>().is_ok() {
        return Some(word.to_owned());
    }
    let (name, top) = word.rsplit_once('.')?;
    let top = top.to_ascii_lowercase();
    let is_host = TOP_DOMAINS.contains(&&*top)
        && word.len() <= 253
        && !word.contains('_')
        && name.split('.').all(|label| !label.is_empty());
    is_host.then(|| word.to_ascii_lowercase())
}

/// Endings of files that programs run.
const ENDINGS: [&str; 32] = [
    "sh", "bash", "zsh", "fish", "ksh", "py", "pyc", "pyw", "rb", "pl", "pm", "php", "lua", "r", "js", "mjs",
    "cjs", "ts", "tsx", "jsx", "ps1", "bat", "cmd", "vbs", "exe", "dll", "so", "dylib", "jar", "wasm", "awk",
    "tcl",
];

/// Top-level domains of hosts that stand in a text without a scheme. Only those that hardly occur as the ending of a file.
const TOP_DOMAINS: [&str; 14] =
    ["com", "org", "net", "io", "dev", "app", "cloud", "xyz", "info", "biz", "co", "site", "online", "onion"];

/// Commands that reach the network, install programs, run texts as programs, or change the machine.
const COMMANDS: [&str; 44] = [
    "apt",
    "apt-get",
    "base64",
    "brew",
    "bunx",
    "cargo",
    "chmod",
    "chown",
    "crontab",
    "curl",
    "dd",
    "docker",
    "eval",
    "ftp",
    "git",
    "kubectl",
    "mkfs",
    "nc",
    "ncat",
    "netcat",
    "nohup",
    "npm",
    "npx",
    "openssl",
    "pip",
    "pip3",
    "pipx",
    "pnpm",
    "podman",
    "powershell",
    "rclone",
    "rm",
    "rsync",
    "scp",
    "sftp",
    "socat",
    "ssh",
    "su",
    "sudo",
    "systemctl",
    "telnet",
    "uvx",
    "wget",
    "yarn",
];
