//! Shell scripts that make a system as root, each of them one step.
//!
//! A script runs in a single root shell in mount and process namespaces of its own. Its standard input is a pipe that
//! this process holds. When flock ends, for whatever reason, the pipe closes and the shell ends, and with its namespaces
//! every process and mount it made.

use std::collections::VecDeque;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::unistd::Uid;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::{ImageError, ImageStage};

/// The pauses between the attempts of a step that downloads something.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(20)];

/// A script with its arguments.
#[derive(Debug)]
pub(super) struct Script<'a> {
    /// The step, for the error messages.
    pub what: &'static str,
    pub text: &'a str,
    /// The folder of the system, which is the first argument.
    pub root: &'a Path,
    /// The other arguments.
    pub arguments: &'a [&'a str],
}

impl Script<'_> {
    /// Runs the script, and runs it again after each of the pauses as long as something can't be downloaded. `report`
    /// gets its lines with `stage`, and the reason of each further attempt. Dropping the future cancels script and
    /// pause.
    ///
    /// # Errors
    ///
    /// Returns the error of the last attempt. An error other than [`ImageError::Download`] is returned at once.
    pub async fn insist(
        &self,
        stage: ImageStage,
        pauses: &[Duration],
        report: &(dyn Fn(ImageStage, String) + Send + Sync),
    ) -> Result<(), ImageError> {
        let line = |line| report(stage, line);
        for pause in pauses {
            match self.run(&line).await {
                Err(ImageError::Download { reason, .. }) => report(ImageStage::Retrying, reason),
                ended => return ended,
            }
            tokio::time::sleep(*pause).await;
        }
        self.run(&line).await
    }

    /// Runs the script once. `line` gets each line of its output.
    ///
    /// # Errors
    ///
    /// Returns [`ImageError::Download`] if it failed because something could not be downloaded, and
    /// [`ImageError::Step`] if it failed otherwise.
    pub async fn run(&self, line: &(dyn Fn(String) + Send + Sync)) -> Result<(), ImageError> {
        let failed = |error: std::io::Error| ImageError::Step { what: self.what, tail: error.to_string() };
        let mut command = as_root("sh");
        command
            .args(["-c", WATCHED_SCRIPT, "flock-image", self.text])
            .arg(self.root)
            .args(self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // The script ends its whole process group, which must not be the group of flock.
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(failed)?;
        // Kept open until the script has ended.
        let _pipe = child.stdin.take();
        let mut output = ScriptOutput::default();
        if let Some(stdout) = child.stdout.take() {
            let mut lines = BufReader::new(stdout).split(b'\n');
            while let Ok(Some(bytes)) = lines.next_segment().await {
                let text: String = String::from_utf8_lossy(&bytes).trim().chars().take(300).collect();
                if text.is_empty() {
                    continue;
                }
                output.push(text.clone());
                line(text);
            }
        }
        let status = child.wait().await.map_err(failed)?;
        if status.success() { Ok(()) } else { Err(output.into_error(self.what, status)) }
    }
}

/// The end of a script's output, and the signs in all of it that say what kind of failure it was.
#[derive(Debug, Default)]
struct ScriptOutput {
    tail: VecDeque<String>,
    /// The last message about a file that could not be downloaded.
    download: Option<String>,
    is_disk_full: bool,
}

impl ScriptOutput {
    fn push(&mut self, line: String) {
        self.is_disk_full |= DISK_FULL.iter().any(|sign| line.contains(sign));
        let message = line.strip_prefix("E: ").or_else(|| line.strip_prefix("W: "));
        if let Some(message) = message
            && DOWNLOAD_FAILED.iter().any(|start| message.starts_with(start))
        {
            self.download = Some(message.to_owned());
        }
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    fn into_error(self, what: &'static str, status: ExitStatus) -> ImageError {
        let tail = if self.tail.is_empty() { status.to_string() } else { Vec::from(self.tail).join("; ") };
        match self.download {
            // A full disk fails downloads, too, and does not pass.
            Some(reason) if !self.is_disk_full => ImageError::Download { what, reason, tail },
            _ => ImageError::Step { what, tail },
        }
    }
}

/// Returns a command that runs as root. If sudo is needed, a shell passes on the proxy variables that sudo would
/// remove.
pub(super) fn as_root(program: &str) -> Command {
    if Uid::effective().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("sh");
    command.args(["-c", SUDO, "sudo", program]);
    command
}

const TAIL_LINES: usize = 8;

/// The messages of debootstrap and apt about what they could not download.
const DOWNLOAD_FAILED: [&str; 3] = ["Failed getting release ", "Couldn't download ", "Failed to fetch "];

const DISK_FULL: [&str; 2] = ["No space left on device", "Disk quota exceeded"];

const SUDO: &str = "\
exec sudo -n env http_proxy=\"${http_proxy-}\" https_proxy=\"${https_proxy-${HTTPS_PROXY-}}\" \
no_proxy=\"${no_proxy-${NO_PROXY-}}\" \"$@\"";

/// Runs the script `$1` with the other arguments, and ends it when standard input closes. The script gets namespaces of
/// its own if the kernel permits it.
const WATCHED_SCRIPT: &str = "\
export PATH=\"$PATH:/usr/local/sbin:/usr/sbin:/sbin\" LC_ALL=C
umask 022
exec 2>&1
inner='
exec 3<&0
trap \"trap : TERM; kill -TERM 0; exit 143\" TERM
( cat; kill -TERM $$ ) <&3 >/dev/null 2>&1 &
script=$1; shift
sh -euc \"$script\" flock-image \"$@\" </dev/null 3<&- & worker=$!
wait $worker'
if unshare --mount --pid --fork --kill-child --propagation private true 2>/dev/null; then
  exec unshare --mount --pid --fork --kill-child --propagation private sh -c \"$inner\" flock-image \"$@\"
fi
exec sh -c \"$inner\" flock-image \"$@\"
";

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn error(lines: &[&str]) -> ImageError {
        let mut output = ScriptOutput::default();
        for line in lines {
            output.push((*line).to_owned());
        }
        output.into_error("installing packages", ExitStatus::from_raw(100 << 8))
    }

    #[test]
    fn only_a_failed_download_is_worth_another_attempt() {
        let fetch = "E: Failed to fetch http://mirror.example/git.deb  503  Service Unavailable";
        let ImageError::Download { reason, tail, .. } =
            error(&["Get:1 git", fetch, "E: Unable to fetch some"])
        else {
            panic!("not a download")
        };
        assert_eq!(reason, fetch.trim_start_matches("E: "));
        assert_eq!(tail, format!("Get:1 git; {fetch}; E: Unable to fetch some"));
        // An index that is missing is a warning, and what it leads to comes many lines later.
        let mut late =
            vec!["W: Failed to fetch http://mirror.example/InRelease  Temporary failure resolving"];
        late.extend(["Reading package lists..."; TAIL_LINES]);
        late.push("E: Unable to locate package nix-bin");
        assert!(matches!(error(&late), ImageError::Download { .. }));

        for lines in [
            &["E: dpkg was interrupted"][..],
            &["Setting up git", "it says: E: Failed to fetch x"],
            &["E: Failed to fetch x  Error writing to file - write (28: No space left on device)"],
            &["E: Couldn't download packages: git", "tee: x: Disk quota exceeded"],
            &[],
        ] {
            assert!(matches!(error(lines), ImageError::Step { .. }), "{lines:?}");
        }
        assert_eq!(error(&[]).to_string(), "installing packages failed: exit status: 100");
    }
}
