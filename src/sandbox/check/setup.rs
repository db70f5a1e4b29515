//! The results of setup steps, kept in the home by the hash of everything that a step reads: its command, the hosts that
//! it may reach, the files of the tree that it sees, the sandbox and the image.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::container::host_error;
use super::files::path_bytes;
use super::{CheckEnd, CheckError, CheckSandbox, CommandReport, SetupReport, SetupStep, TreeFile};
use crate::home::{Home, atomic};
use crate::id::hex;
use crate::sandbox::Output;

/// Number of results that are kept.
const KEPT: usize = 12;
/// Version of this file's format and of the way a step is run.
const VERSION: &str = "flock-setup-1";

/// The record beside a result.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SetupRecord {
    /// The SHA-256 of the archive.
    result: String,
    output: String,
    took_ms: u64,
}

/// Returns the files of the tree that the step sees, or `None` if it sees all.
pub(super) fn inputs(step: &SetupStep, files: &[TreeFile]) -> Option<BTreeSet<PathBuf>> {
    if step.inputs.is_empty() {
        return None;
    }
    let named = |file: &&TreeFile| step.inputs.iter().any(|input| file.path.starts_with(input));
    Some(files.iter().filter(named).map(|file| file.path.clone()).collect())
}

/// Returns the hash of everything that the step reads.
pub(super) fn key(step: &SetupStep, files: &[TreeFile], sandbox: &CheckSandbox, image: &str) -> String {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    let mut egress = step.egress.clone();
    egress.sort();
    egress.dedup();
    add(VERSION.as_bytes());
    add(step.command.as_bytes());
    add(egress.join("\n").as_bytes());
    add(&serde_json::to_vec(sandbox).unwrap_or_default());
    add(image.as_bytes());
    let only = inputs(step, files);
    for file in files.iter().filter(|file| only.as_ref().is_none_or(|only| only.contains(&file.path))) {
        add(&path_bytes(&file.path));
        add(format!("{:?} {}", file.kind, file.id).as_bytes());
    }
    hex(&hash.finalize())
}

/// Returns the path of a result's archive.
pub(super) fn archive(home: &Home, key: &str) -> PathBuf {
    home.check_setups().join(format!("{key}.tar"))
}

fn record(home: &Home, key: &str) -> PathBuf {
    home.check_setups().join(format!("{key}.json"))
}

/// Returns the result of an earlier run, if its archive is as it was written.
pub(super) fn find(home: &Home, step: &SetupStep, key: &str) -> Result<Option<SetupReport>, CheckError> {
    let Some(bytes) = atomic::read(&record(home, key), 64 << 10)? else { return Ok(None) };
    let Ok(found) = serde_json::from_slice::<SetupRecord>(&bytes) else { return Ok(None) };
    if hash(home, key).ok().as_ref() != Some(&found.result) {
        tracing::warn!(key, "the kept result of a setup step is damaged and is made anew");
        return Ok(None);
    }
    Ok(Some(SetupReport {
        key: key.to_owned(),
        result: found.result,
        cached: true,
        run: CommandReport {
            command: step.command.clone(),
            end: CheckEnd::Exited(0),
            took: Duration::from_millis(found.took_ms),
            digest: found.output,
            output: Output::default(),
            changed: Vec::new(),
        },
    }))
}

/// Records a result whose archive has been written, and returns its hash. The oldest results are deleted.
pub(super) fn keep(home: &Home, key: &str, run: &CommandReport) -> Result<String, CheckError> {
    let path = archive(home, key);
    let result = hash(home, key).map_err(host_error(&path))?;
    let took_ms = u64::try_from(run.took.as_millis()).unwrap_or(u64::MAX);
    let found = SetupRecord { result: result.clone(), output: run.digest.clone(), took_ms };
    atomic::write(&record(home, key), &serde_json::to_vec(&found).unwrap_or_default(), 0o600)?;
    forget_oldest(home, key);
    Ok(result)
}

/// Returns the SHA-256 of an archive.
fn hash(home: &Home, key: &str) -> std::io::Result<String> {
    let mut file = fs_err::File::open(archive(home, key))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(&buffer[..count]),
        }
    }
}

fn forget_oldest(home: &Home, newest: &str) {
    let mut found: Vec<_> = fs_err::read_dir(home.check_setups())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_str()?.strip_suffix(".json")?.to_owned();
            Some((entry.metadata().ok()?.modified().ok()?, name))
        })
        .filter(|(_, name)| name != newest)
        .collect();
    found.sort();
    for (_, key) in found.iter().rev().skip(KEPT - 1) {
        // The record first: an archive without one is not used.
        let _ = fs_err::remove_file(record(home, key));
        let _ = fs_err::remove_file(archive(home, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::check::TreeFileKind;
    use crate::sandbox::testing;

    fn file(path: &str, id: &str) -> TreeFile {
        TreeFile { path: path.into(), kind: TreeFileKind::File, id: id.to_owned() }
    }

    #[test]
    fn a_key_depends_on_all_that_the_step_reads_and_on_nothing_else() {
        let sandbox = CheckSandbox::of(&testing::agent("a", "/w".into()), Vec::new());
        let step = SetupStep {
            command: "pip install -r requirements.txt".to_owned(),
            egress: vec!["pypi.org".to_owned(), "files.pythonhosted.org".to_owned()],
            inputs: vec!["requirements.txt".to_owned()],
        };
        let files = [file("lib.py", "1"), file("requirements.txt", "2")];
        let first = key(&step, &files, &sandbox, "sha256:a");
        let same = [file("lib.py", "3"), file("requirements.txt", "2")];
        assert_eq!(key(&step, &same, &sandbox, "sha256:a"), first, "it does not see lib.py");
        let reversed = SetupStep { egress: step.egress.iter().rev().cloned().collect(), ..step.clone() };
        assert_eq!(key(&reversed, &files, &sandbox, "sha256:a"), first);
        let all = SetupStep { inputs: Vec::new(), ..step.clone() };
        let more = SetupStep { egress: vec!["pypi.org".to_owned()], ..step.clone() };
        let small = CheckSandbox { memory: 1, ..sandbox.clone() };
        let changed = [file("lib.py", "1"), file("requirements.txt", "4")];
        let others = [
            key(&all, &files, &sandbox, "sha256:a"),
            key(&all, &same, &sandbox, "sha256:a"),
            key(&more, &files, &sandbox, "sha256:a"),
            key(&step, &files, &small, "sha256:a"),
            key(&step, &files, &sandbox, "sha256:b"),
            key(&step, &changed, &sandbox, "sha256:a"),
        ];
        let distinct: BTreeSet<&String> = others.iter().chain([&first]).collect();
        assert_eq!(distinct.len(), 7);
    }

    #[test]
    fn a_damaged_result_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        std::fs::create_dir_all(home.check_setups()).unwrap();
        let step = SetupStep { command: "true".to_owned(), egress: Vec::new(), inputs: Vec::new() };
        let run = CommandReport::not_run("true");
        for at in 0..KEPT + 3 {
            let key = format!("{at:064}");
            std::fs::write(archive(&home, &key), "archive").unwrap();
            keep(&home, &key, &run).unwrap();
            assert!(find(&home, &step, &key).unwrap().unwrap().cached);
        }
        assert_eq!(std::fs::read_dir(home.check_setups()).unwrap().count(), 2 * KEPT);
        let last = format!("{:064}", KEPT + 2);
        std::fs::write(archive(&home, &last), "another").unwrap();
        assert!(find(&home, &step, &last).unwrap().is_none());
    }
}
