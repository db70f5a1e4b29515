//! Files that the messages of a channel name: what people sent is in the `inbox` of the channel's agents, and what an
//! agent links is in its own workspace.
//!
//! An agent can change all of them at any time, so nothing here is known of a file before it is opened.

use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::attachment::{self, MAX_FILE, MAX_FILES};
use crate::config::Config;
use crate::home::beneath::BeneathError;
use crate::id::{AgentId, Party};
use crate::picture;
use crate::sandbox::workspace_files::Workspaces;
use crate::store::Channel;

/// Number of first bytes that tell the type of a picture.
const BEGINNING: u64 = 32;

/// A file that a message names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageFile {
    /// The name for people. It may have any character that a name can have.
    pub name: String,
    /// Relative to a workspace.
    path: PathBuf,
    /// The agents in whose workspaces it is looked for, in this order, each with the folder.
    workspaces: Vec<(AgentId, PathBuf)>,
}

/// A file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundFile {
    pub bytes: u64,
    /// The media type, if it begins like a picture that browsers show.
    pub media_type: Option<&'static str>,
}

impl MessageFile {
    /// Returns the facts about the file, or `None` if no workspace that can be opened has a regular file there.
    #[must_use]
    pub(crate) fn find(&self, ways: &Workspaces) -> Option<FoundFile> {
        self.workspaces.iter().find_map(|(agent, folder)| {
            let workspace = ways.open(agent, folder).ok()?;
            let (beginning, bytes) = workspace.beginning(&self.path, BEGINNING).ok()?;
            let media_type = picture::sniff(&beginning).map(|header| header.media_type);
            Some(FoundFile { bytes, media_type })
        })
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// Returns [`BeneathError::TooLarge`] if it has more than [`MAX_FILE`] bytes, and another error if no workspace has
    /// a regular file there.
    pub(crate) fn read(&self, ways: &Workspaces) -> Result<Vec<u8>, BeneathError> {
        let mut reason = BeneathError::NotFound { path: self.path.clone() };
        for (agent, folder) in &self.workspaces {
            let workspace = ways.open(agent, folder).map_err(BeneathError::from);
            match workspace.and_then(|files| files.read(&self.path, MAX_FILE as u64)) {
                Ok(content) => return Ok(content),
                // That another workspace lacks the file says less than why it can't be read where it is.
                Err(BeneathError::NotFound { .. }) => {}
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }
}

/// Returns the files that a message of a channel names, at most [`MAX_FILES`].
#[must_use]
pub(crate) fn of_message(config: &Config, channel: &Channel, author: &Party, text: &str) -> Vec<MessageFile> {
    match author {
        Party::System => Vec::new(),
        Party::Agent(id) => {
            let Some(agent) = config.agent(id) else { return Vec::new() };
            let links = local_links(text).into_iter().take(MAX_FILES);
            let file = |path: PathBuf| MessageFile {
                name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
                workspaces: vec![(agent.id.clone(), agent.workspace.clone())],
                path,
            };
            links.map(file).collect()
        }
        Party::Human(_) => {
            let places = attachment::places(channel.id.as_str(), text);
            if places.is_empty() {
                return Vec::new();
            }
            let agents = channel.agents().filter_map(|id| config.agent(id));
            let workspaces: Vec<(AgentId, PathBuf)> =
                agents.map(|agent| (agent.id.clone(), agent.workspace.clone())).collect();
            let file = |path: PathBuf| MessageFile {
                name: attachment::sent_name(&path),
                workspaces: workspaces.clone(),
                path,
            };
            places.into_iter().map(file).collect()
        }
    }
}

/// Returns the paths of links and pictures that lead into the author's workspace: relative ones, and those below
/// `/workspace`.
#[must_use]
pub(crate) fn local_links(markdown: &str) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = Vec::new();
    // Most messages have no link at all, in any of the ways to write one.
    if !markdown.contains(']') {
        return paths;
    }
    for event in Parser::new_ext(markdown, Options::empty()) {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else {
            continue;
        };
        let path = dest_url.strip_prefix("/workspace/").unwrap_or(&dest_url);
        let is_local = !path.is_empty() && !path.starts_with(['/', '#', '?']) && !path.contains(':');
        let path = Path::new(path);
        if is_local && !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_into_the_workspace_are_found() {
        let markdown = "[a](out/a.pdf) ![b](/workspace/b.png) [c](https://e.org/c) [d](/etc/passwd) [e](#e) [a](out/a.pdf)";
        assert_eq!(local_links(markdown), [Path::new("out/a.pdf"), Path::new("b.png")]);
        assert_eq!(local_links("[x]\n\n[x]: out/x.txt"), [Path::new("out/x.txt")]);
    }

    #[test]
    fn a_file_is_found_in_the_first_workspace_that_has_it_and_never_outside() {
        let folder = tempfile::tempdir().unwrap();
        let workspaces = ["one", "two"].map(|name| folder.path().join(name));
        for workspace in &workspaces {
            std::fs::create_dir(workspace).unwrap();
        }
        let file = |path: &str| MessageFile {
            name: path.to_owned(),
            path: path.into(),
            workspaces: workspaces.iter().map(|folder| ("coder".parse().unwrap(), folder.clone())).collect(),
        };
        std::fs::write(workspaces[1].join("a.txt"), b"\x89PNG\r\n\x1a\n and more").unwrap();
        let ways = Workspaces::of_this_machine();
        let found = file("a.txt").find(&ways).unwrap();
        assert_eq!(found, FoundFile { bytes: 17, media_type: Some("image/png") });
        assert_eq!(file("a.txt").read(&ways).unwrap().len(), 17);
        std::fs::write(folder.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), workspaces[0].join("link")).unwrap();
        nix::unistd::mkfifo(&workspaces[0].join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for wrong in ["link", "pipe", "../secret", ".", "gone"] {
            assert!(file(wrong).find(&ways).is_none() && file(wrong).read(&ways).is_err(), "{wrong}");
        }
        let long = std::fs::File::create(workspaces[0].join("long")).unwrap();
        long.set_len(MAX_FILE as u64 + 1).unwrap();
        assert!(matches!(file("long").read(&ways), Err(BeneathError::TooLarge { .. })));
    }
}
