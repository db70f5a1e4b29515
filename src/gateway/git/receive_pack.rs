//! Answers `git push`: reads which branches are to be changed, has the pack checked and stored, and reports the result,
//! which git shows for each branch.

use std::io::{self, Read};
use std::path::Path;

use super::packet::{self, Band, Packet};
use crate::id::AgentId;
use crate::project::{ObjectId, ProjectError, Push, PushLimits, PushReport, RefChange, incoming};

/// The beginning of a push.
#[derive(Debug)]
struct PushRequest {
    changes: Vec<RefChange>,
    has_sideband: bool,
    has_report: bool,
    is_atomic: bool,
}

/// The answer to a push.
pub(super) struct PushAnswer {
    pub bytes: Vec<u8>,
    /// The push with its report. `None` if there was nothing to push.
    pub report: Option<(Push, PushReport)>,
}

/// Takes a push and returns the answer to it, with the report. An empty request has no report.
///
/// # Errors
///
/// Returns an error if the repository can't be read or written. Then no branch was changed that the agent was told of.
pub(super) fn answer(
    folder: &Path,
    agent: &AgentId,
    body: &mut dyn Read,
    limits: &PushLimits,
) -> Result<PushAnswer, ProjectError> {
    let request = match read(body) {
        Ok(Some(request)) => request,
        Ok(None) => return Ok(PushAnswer { bytes: Vec::new(), report: None }),
        Err(error) => {
            let bytes = error_answer(&format!("the push can't be read: {error}"));
            return Ok(PushAnswer { bytes, report: None });
        }
    };
    let needs_pack = request.changes.iter().any(|change| change.new.is_some());
    let push = Push { agent: agent.clone(), changes: request.changes.clone(), is_atomic: request.is_atomic };
    let report = incoming::receive(folder, &push, needs_pack.then_some(body), limits)?;
    Ok(PushAnswer { bytes: written(&request, &report), report: Some((push, report)) })
}

fn read(body: &mut dyn Read) -> io::Result<Option<PushRequest>> {
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let mut changes = Vec::new();
    let mut capabilities = None;
    loop {
        let content = match packet::read(body)? {
            Some(Packet::Data(content)) => content,
            Some(Packet::Flush) => break,
            None if changes.is_empty() => break,
            None => return Err(bad("it breaks off")),
        };
        let mut parts = packet::line(&content).splitn(2, |byte| *byte == 0);
        let command = parts.next().unwrap_or_default();
        if capabilities.is_none() {
            let said = parts.next().unwrap_or_default();
            capabilities = Some(String::from_utf8_lossy(said).into_owned());
        }
        if changes.len() >= MAX_COMMANDS {
            return Err(bad("it changes too many branches"));
        }
        let text = std::str::from_utf8(command).map_err(|_| bad("a branch's name is not text"))?;
        changes.push(change(text).ok_or_else(|| bad("it has an unknown line"))?);
    }
    let Some(capabilities) = capabilities else { return Ok(None) };
    let has = |name| capabilities.split(' ').any(|capability| capability == name);
    Ok(Some(PushRequest {
        changes,
        has_sideband: has("side-band-64k"),
        has_report: has("report-status"),
        is_atomic: has("atomic"),
    }))
}

/// Reads `old new name`. A row of zeros stands for no commit.
fn change(text: &str) -> Option<RefChange> {
    let mut parts = text.splitn(3, ' ');
    let mut id = || -> Option<Option<ObjectId>> {
        let part = parts.next().filter(|part| part.len() == 40)?;
        let id: ObjectId = part.parse().ok()?;
        Some((!id.is_zero()).then_some(id))
    };
    let (old, new) = (id()?, id()?);
    let name = parts.next().filter(|name| !name.is_empty() && name.len() <= MAX_NAME)?;
    Some(RefChange { name: name.to_owned(), old, new })
}

fn written(request: &PushRequest, report: &PushReport) -> Vec<u8> {
    if !request.has_report {
        return Vec::new();
    }
    let mut lines = Vec::new();
    match &report.pack {
        Ok(()) => packet::push_line(&mut lines, "unpack ok"),
        Err(why) => packet::push_line(&mut lines, &format!("unpack {}", shown(why))),
    }
    for (name, result) in &report.references {
        match result {
            Ok(()) => packet::push_line(&mut lines, &format!("ok {name}")),
            Err(why) => packet::push_line(&mut lines, &format!("ng {name} {}", shown(why))),
        }
    }
    packet::flush(&mut lines);
    if !request.has_sideband {
        return lines;
    }
    let mut answer = Vec::new();
    if let Err(why) = &report.pack {
        let text = format!("this push is refused: {}\n", shown(why));
        packet::push_band(&mut answer, Band::Progress, text.as_bytes());
    }
    packet::push_band(&mut answer, Band::Data, &lines);
    packet::flush(&mut answer);
    answer
}

/// Returns the answer to a push that can't be read.
pub(super) fn error_answer(why: &str) -> Vec<u8> {
    let mut answer = Vec::new();
    packet::push_band(&mut answer, Band::Error, format!("flock: {}\n", shown(why)).as_bytes());
    packet::flush(&mut answer);
    answer
}

/// Returns a reason as one short line: parts of it may come from the agent.
fn shown(why: &str) -> String {
    crate::clean::summary(why, MAX_REASON)
}

/// Limit on the number of references that one push names.
const MAX_COMMANDS: usize = 1_000;
/// Limit on the length of a reference's name.
const MAX_NAME: usize = 512;
/// Limit on the characters of a reason.
const MAX_REASON: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_read_and_anything_else_is_not() {
        let (zero, one) = ("0".repeat(40), "1".repeat(40));
        let read_text = |lines: &[&str]| {
            let mut bytes = Vec::new();
            lines.iter().for_each(|line| packet::push(&mut bytes, line.as_bytes()));
            packet::flush(&mut bytes);
            read(&mut &bytes[..])
        };
        let first = format!("{zero} {one} refs/heads/a\0 report-status side-band-64k agent=git/2");
        let request = read_text(&[&first, &format!("{one} {zero} refs/heads/b\n")]).unwrap().unwrap();
        assert!(request.has_report && request.has_sideband && !request.is_atomic);
        let one_id = Some(one.parse().unwrap());
        let change = |name: &str, old, new| RefChange { name: name.to_owned(), old, new };
        assert_eq!(
            request.changes,
            [change("refs/heads/a", None, one_id), change("refs/heads/b", one_id, None)]
        );
        assert!(read_text(&[]).unwrap().is_none());
        for bad in
            ["", "x", &format!("{zero} {one}"), &format!("{zero} {one} "), &format!("1 {one} a"), "shallow x"]
        {
            assert!(read_text(&[bad]).is_err(), "{bad}");
        }
        assert!(read_text(&[&format!("{zero} {one} {}", "x".repeat(600))]).is_err());
    }
}
