//! Makes images from the host's own package sources if no registry answers. debootstrap makes one system, which becomes
//! the sandbox's image. The store's packages are then installed into the same system for the other image.
//!
//! The scripts below do the work, as [`Script`] runs them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use bollard::query_parameters::CreateImageOptionsBuilder;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use nix::unistd::Uid;
use tokio::process::{Child, Command};
use tokio_util::io::ReaderStream;

use super::script::{PAUSES, Script, as_root};
use super::sources::{self, AptSource, Distribution};
use super::work_folder::WorkFolder;
use super::{ImageError, ImageProgress, ImageStage, ProgressSink, Recipe, ready, recipe};
use crate::env;
use crate::home::Home;
use crate::sandbox::engine::Engine;
use crate::sandbox::names;

/// Makes the images of `recipes`. `registry` says why nothing could be pulled, for the error messages.
///
/// # Errors
///
/// Returns [`ImageError::Missing`] without debootstrap or tar, [`ImageError::NoSources`] if the host has no usable
/// package source, [`ImageError::NeedsRoot`] if root rights cannot be had, [`ImageError::Download`] if the sources do
/// not give what is needed, and [`ImageError::Step`] if a script or the import fails.
pub async fn make(
    engine: &Engine,
    home: &Home,
    recipes: &[Recipe],
    work: &WorkFolder,
    registry: &str,
    sink: ProgressSink<'_>,
) -> Result<(), ImageError> {
    let registry = || registry.to_owned();
    for tool in ["debootstrap", "tar"] {
        if !is_installed(tool) {
            return Err(ImageError::Missing { tool, registry: registry() });
        }
    }
    let distribution = distribution().ok_or_else(|| ImageError::NoSources { registry: registry() })?;
    if !Uid::effective().is_root() && !sudo_works().await {
        return Err(ImageError::NeedsRoot { registry: registry() });
    }
    let root = work.root();
    let made = make_in(engine, home, recipes, &root, &distribution, sink).await;
    // Removed after a failure, too. The first error is the one that is reported.
    let removed = removal(&root).run(&|_| {}).await;
    made.and(removed)
}

async fn make_in(
    engine: &Engine,
    home: &Home,
    recipes: &[Recipe],
    root: &Path,
    distribution: &Distribution,
    sink: ProgressSink<'_>,
) -> Result<(), ImageError> {
    let main = &distribution.main;
    let list = distribution.list(|key| format!("/etc/apt/keyrings/flock-{}", file_name(key)));
    let keys: Vec<String> = std::iter::once(main)
        .chain(&distribution.updates)
        .filter_map(|source| source.signed_by.clone())
        .collect();
    // The host may trust a source unsigned, name its key file, or leave the key to debootstrap's own keyring.
    let check = match (&main.signed_by, main.trusted) {
        (_, true) => "--no-check-gpg".to_owned(),
        (Some(key), _) => format!("--keyring={key}"),
        (None, _) => "--force-check-gpg".to_owned(),
    };
    let components = format!("--components={}", main.components.join(","));
    let arguments = [check.as_str(), &components, &main.suite, &main.uri];
    let report = |recipe| move |step, detail| sink(ImageProgress { recipe, step, detail });
    let script = Script { what: "debootstrap", text: &bootstrap(), root, arguments: &arguments };
    script.insist(ImageStage::Bootstrapping, &PAUSES, &report(recipes[0])).await?;
    for recipe in recipes.iter().copied() {
        let install = format!("{}{}", recipe::INSTALL, recipe::CLEAN);
        let keys = keys.join("\n");
        let mut arguments = vec![list.as_str(), keys.as_str(), install.as_str()];
        arguments.extend(recipe.packages());
        let script = Script { what: "installing packages", text: INSTALL, root, arguments: &arguments };
        script.insist(ImageStage::Installing, &PAUSES, &report(recipe)).await?;
        import(engine, home, recipe, root, sink).await?;
        ready(sink, recipe, &recipe.reference(home));
    }
    Ok(())
}

/// Streams the system to the engine. The engine creates an image only if the stream ends well, and it sets label and
/// tag in the same step, so there is never half an image.
async fn import(
    engine: &Engine,
    home: &Home,
    recipe: Recipe,
    root: &Path,
    sink: ProgressSink<'_>,
) -> Result<(), ImageError> {
    let detail = recipe.reference(home);
    sink(ImageProgress { recipe, step: ImageStage::Importing, detail });
    let failed = |tail: String| ImageError::Step { what: "importing the image", tail };
    let mut tar = as_root("tar");
    // Mounts, devices and runtime files of the host do not belong into the image.
    tar.args(["--one-file-system", "--numeric-owner", "--exclude=./dev/*", "--exclude=./proc/*"])
        .args(["--exclude=./sys/*", "--exclude=./run/*", "-C"])
        .arg(root)
        .args(["-c", "."])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut tar = tar.spawn().map_err(|error| failed(error.to_string()))?;
    let Some(stdout) = tar.stdout.take() else { return Err(failed("no output".to_owned())) };
    // The end of the stream waits for tar's exit status. If tar fails, the request must break off, because a stream
    // that merely ends would become an incomplete image.
    let verdict = futures_util::stream::once(async move { wait_for_exit(tar).await })
        .try_filter(|_| std::future::ready(false));
    let body = ReaderStream::with_capacity(stdout, 256 << 10).chain(verdict);
    let options = CreateImageOptionsBuilder::default()
        .from_src("-")
        // Podman knows no tag beside the name.
        .repo(&recipe.reference(home))
        .changes(vec![format!("LABEL {}={}", names::LABEL_RECIPE, recipe.hash())])
        .build();
    let client = engine.client()?;
    let mut answers =
        std::pin::pin!(client.create_image(Some(options), Some(bollard::body_try_stream(body)), None));
    while let Some(answer) = answers.next().await {
        answer.map_err(|error| engine.error("import the image", error))?;
    }
    Ok(())
}

async fn wait_for_exit(mut tar: Child) -> std::io::Result<Bytes> {
    let status = tar.wait().await?;
    if status.success() { Ok(Bytes::new()) } else { Err(std::io::Error::other(format!("tar: {status}"))) }
}

/// Returns the script that removes the system.
fn removal(root: &Path) -> Script<'_> {
    Script { what: "removing the temporary system", text: REMOVE, root, arguments: &[] }
}

/// Returns the text of the script that makes the system. It first removes what a failed attempt, or a run that was
/// killed, has left.
fn bootstrap() -> String {
    format!("{REMOVE}{BOOTSTRAP}")
}

async fn sudo_works() -> bool {
    let mut command = Command::new("sudo");
    command.args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().await.is_ok_and(|status| status.success())
}

/// Returns `true` if a program is installed. The PATH of a user may lack the administrator's folders, so they are
/// added.
fn is_installed(tool: &str) -> bool {
    let path =
        format!("{}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin", env::PATH.get().unwrap_or_default());
    which::which_in(tool, Some(path), "/").is_ok()
}

fn distribution() -> Option<Distribution> {
    let mut found: Vec<AptSource> = Vec::new();
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs_err::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
    }
    files.sort();
    for file in files {
        let Ok(text) = fs_err::read_to_string(&file) else { continue };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => found.extend(sources::parse_list(&text)),
            Some("sources") => found.extend(sources::parse_deb822(&text)),
            _ => {}
        }
    }
    let release = fs_err::read_to_string("/etc/os-release").unwrap_or_default();
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Distribution::find(&found, codename.map(|name| name.trim_matches('"')))
}

fn file_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

/// Removes the system. Mounts go first, because an interrupted run without namespaces of its own may have left some.
const REMOVE: &str = "\
root=$1
while mount=$(awk -v root=\"$root/\" 'index($5, root) == 1 { print $5; exit }' /proc/self/mountinfo) && [ -n \"$mount\" ]; do
  umount -l \"$mount\"
done
rm -rf --one-file-system -- \"$root\"
";

/// Makes the system. debootstrap says what failed, but the reason, such as a full disk, is only in its log. The lines
/// with ` URL:` there are downloads that succeeded.
const BOOTSTRAP: &str = "\
root=$1 check=$2 components=$3 suite=$4 mirror=$5
proxy=
if command -v apt-config >/dev/null; then eval \"$(apt-config shell proxy Acquire::http::Proxy)\"; fi
case $proxy in http*) export http_proxy=\"$proxy\";; esac
mkdir -p \"$root\"
ended=0
debootstrap --variant=minbase --include=ca-certificates \"$check\" \"$components\" \"$suite\" \"$root\" \"$mirror\" ||
  ended=$?
if [ $ended != 0 ]; then
  grep -v ' URL:' \"$root/debootstrap/debootstrap.log\" 2>/dev/null | tail -n 3
fi
exit $ended
";

const INSTALL: &str = "\
root=$1 list=$2 keys=$3 install=$4
shift 4
proxy=
if command -v apt-config >/dev/null; then eval \"$(apt-config shell proxy Acquire::http::Proxy)\"; fi
case $proxy in http*) export http_proxy=\"$proxy\";; esac
mkdir -p \"$root/etc/apt/keyrings\"
printf '%s\\n' \"$keys\" | while IFS= read -r key; do
  if [ -n \"$key\" ]; then cp \"$key\" \"$root/etc/apt/keyrings/flock-${key##*/}\"; fi
done
chmod -R a+rX \"$root/etc/apt/keyrings\"
printf '%s' \"$list\" > \"$root/etc/apt/sources.list\"
cat /etc/resolv.conf > \"$root/etc/resolv.conf\" 2>/dev/null || :
cp \"$root/etc/hosts\" \"$root/etc/hosts.flock\" 2>/dev/null || : > \"$root/etc/hosts.flock\"
cat /etc/hosts > \"$root/etc/hosts\" 2>/dev/null || :
printf '#!/bin/sh\\nexit 101\\n' > \"$root/usr/sbin/policy-rc.d\"
chmod 755 \"$root/usr/sbin/policy-rc.d\"
mount -t proc proc \"$root/proc\" 2>/dev/null || :
ended=0
env HOME=/root TMPDIR=/tmp PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  chroot \"$root\" sh -euc \"$install\" flock-image \"$@\" || ended=$?
umount \"$root/proc\" 2>/dev/null || :
mv \"$root/etc/hosts.flock\" \"$root/etc/hosts\"
: > \"$root/etc/resolv.conf\"
rm -f \"$root/usr/sbin/policy-rc.d\"
exit $ended
";

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use tempfile::TempDir;
    use tokio::sync::Notify;

    use super::*;
    use crate::error::Explain as _;

    const AT_ONCE: [Duration; 2] = [Duration::ZERO; 2];

    /// A debootstrap that does what a test says.
    struct StandIn {
        folder: TempDir,
        text: String,
        /// The reasons of further attempts.
        reasons: Mutex<Vec<String>>,
        retrying: Notify,
    }

    impl StandIn {
        /// `body` is a shell script. `$runs` in it has one letter for each attempt, and `$log` is the log. Returns
        /// `None` without the rights of root, which the scripts need.
        fn new(body: &str) -> Option<Self> {
            // A function of the shell, because another test's fork could hold a program's file open for writing.
            let stand_in = format!(
                r#"debootstrap() (
  [ -z "$(ls -A "$6")" ] || {{ echo "E: the folder is not empty"; exit 1; }}
  printf x >> "$6.runs"
  runs=$(cat "$6.runs") log=$6/debootstrap/debootstrap.log
  mkdir "$6/debootstrap"
  {body}
)
"#
            );
            Uid::effective().is_root().then(|| Self {
                folder: tempfile::tempdir().unwrap(),
                text: format!("{stand_in}{}", bootstrap()),
                reasons: Mutex::default(),
                retrying: Notify::new(),
            })
        }

        fn root(&self) -> PathBuf {
            self.folder.path().join("root")
        }

        async fn bootstrap(&self, pauses: &[Duration]) -> Result<(), ImageError> {
            let report = |step: ImageStage, detail: String| {
                if step == ImageStage::Retrying {
                    self.reasons.lock().unwrap().push(detail);
                    self.retrying.notify_one();
                }
            };
            let root = self.root();
            let arguments =
                ["--no-check-gpg", "--components=main", "bookworm", "http://mirror.example/debian"];
            let script = Script { what: "debootstrap", text: &self.text, root: &root, arguments: &arguments };
            script.insist(ImageStage::Bootstrapping, pauses, &report).await
        }

        fn attempts(&self) -> usize {
            fs_err::read_to_string(self.folder.path().join("root.runs")).unwrap().len()
        }

        fn reasons(&self) -> Vec<String> {
            self.reasons.lock().unwrap().clone()
        }
    }

    #[tokio::test]
    async fn a_download_that_fails_once_is_tried_again_in_an_empty_folder() {
        let body =
            "[ $runs != x ] || { echo 'E: Failed getting release file http://mirror.example/R'; exit 1; }";
        let Some(stand_in) = StandIn::new(body) else { return };
        stand_in.bootstrap(&AT_ONCE).await.unwrap();
        assert_eq!(stand_in.attempts(), 2);
        assert_eq!(stand_in.reasons(), ["Failed getting release file http://mirror.example/R"]);
    }

    #[tokio::test]
    async fn a_download_that_always_fails_is_tried_three_times_and_leaves_nothing() {
        let body = "\
echo 'http://mirror.example/I URL:http://mirror.example/I [1/1] -> \"I\" [1]
failed: Connection timed out.' > \"$log\"
echo \"E: Couldn't download packages: libc6\"
exit 1";
        let Some(stand_in) = StandIn::new(body) else { return };
        let error = stand_in.bootstrap(&AT_ONCE).await.unwrap_err();
        assert!(matches!(error, ImageError::Download { .. }), "{error:?}");
        let text = "debootstrap failed: E: Couldn't download packages: libc6; failed: Connection timed out.";
        assert_eq!(error.to_string(), text);
        assert!(error.hint().unwrap().contains("`sudo apt-get update`"), "{error:?}");
        assert_eq!(stand_in.attempts(), 3);
        assert_eq!(stand_in.reasons(), ["Couldn't download packages: libc6"; 2]);
        let root = stand_in.root();
        assert!(root.exists());
        removal(&root).run(&|_| {}).await.unwrap();
        assert!(!root.exists());
    }

    #[tokio::test]
    async fn a_failure_that_does_not_pass_is_reported_at_once() {
        for body in [
            "echo 'E: Release signed by unknown key (key id 1)'; exit 1",
            "echo 'x: Write error: No space left on device' > $log; echo \"E: Couldn't download http://x/P\"; exit 1",
        ] {
            let Some(stand_in) = StandIn::new(body) else { return };
            let error = stand_in.bootstrap(&AT_ONCE).await.unwrap_err();
            assert!(matches!(error, ImageError::Step { .. }), "{error:?}");
            assert_eq!(stand_in.attempts(), 1, "{error}");
            assert_eq!(stand_in.reasons(), Vec::<String>::new());
        }
    }

    #[tokio::test]
    async fn nothing_more_is_tried_once_the_caller_has_stopped_waiting() {
        let Some(stand_in) = StandIn::new("echo 'E: Failed getting release file http://x/R'; exit 1") else {
            return;
        };
        let pauses = [Duration::from_secs(3600)];
        tokio::select! {
            ended = stand_in.bootstrap(&pauses) => panic!("{ended:?}"),
            () = stand_in.retrying.notified() => {}
        }
        assert_eq!(stand_in.attempts(), 1);
    }
}
