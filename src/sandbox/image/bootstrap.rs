//! Makes images from the host's own package sources if no registry answers. debootstrap makes one system, which becomes
//! the sandbox's image. The store's packages are then installed into the same system for the other image.
//!
//! The work is done by a single root shell in mount and process namespaces of its own. Its standard input is a pipe
//! that this process holds. When flock ends, for whatever reason, the pipe closes and the shell ends, and with its
//! namespaces every process and mount it made.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use bollard::query_parameters::CreateImageOptionsBuilder;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use nix::unistd::Uid;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio_util::io::ReaderStream;

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
/// package source, [`ImageError::NeedsRoot`] if root rights cannot be had, and [`ImageError::Step`] if a script or the
/// import fails.
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
    let first = recipes[0];
    let step = |recipe, step| move |detail: String| sink(ImageProgress { recipe, step, detail });
    // An earlier run may have been killed halfway.
    run("removing what an interrupted run left", REMOVE, &root, &[], &step(first, ImageStage::Bootstrapping))
        .await?;
    let made = make_in(engine, home, recipes, &root, &distribution, sink).await;
    // Removed after a failure, too. The first error is the one that is reported.
    let removed = run("removing the temporary system", REMOVE, &root, &[], &|_| {}).await;
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
    let detail = |detail: String| {
        sink(ImageProgress { recipe: recipes[0], step: ImageStage::Bootstrapping, detail });
    };
    run("debootstrap", BOOTSTRAP, root, &arguments, &detail).await?;
    for recipe in recipes.iter().copied() {
        let install = format!("{}{}", recipe::INSTALL, recipe::CLEAN);
        let keys = keys.join("\n");
        let mut arguments = vec![list.as_str(), keys.as_str(), install.as_str()];
        arguments.extend(recipe.packages());
        let detail = |detail: String| sink(ImageProgress { recipe, step: ImageStage::Installing, detail });
        run("installing packages", INSTALL, root, &arguments, &detail).await?;
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
        .repo(recipe.repository())
        .tag(&recipe.tag(home))
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

/// Runs one of the scripts below as root, with the pipe whose closing ends it.
async fn run(
    what: &'static str,
    script: &str,
    root: &Path,
    arguments: &[&str],
    line: &(dyn Fn(String) + Send + Sync),
) -> Result<(), ImageError> {
    let failed = |tail: String| ImageError::Step { what, tail };
    let mut command = as_root("sh");
    command
        .args(["-c", WATCHED_SCRIPT, "flock-image", script])
        .arg(root)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // The script ends its whole process group, which must not be the group of flock.
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    // Kept open until the script has ended.
    let _pipe = child.stdin.take();
    let mut tail = std::collections::VecDeque::new();
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).split(b'\n');
        while let Ok(Some(bytes)) = lines.next_segment().await {
            let text: String = String::from_utf8_lossy(&bytes).trim().chars().take(300).collect();
            if text.is_empty() {
                continue;
            }
            tail.push_back(text.clone());
            if tail.len() > TAIL_LINES {
                tail.pop_front();
            }
            line(text);
        }
    }
    let status = child.wait().await.map_err(|error| failed(error.to_string()))?;
    if status.success() {
        return Ok(());
    }
    let lines: Vec<String> = tail.into();
    Err(failed(if lines.is_empty() { status.to_string() } else { lines.join("; ") }))
}

/// Returns a command that runs as root. If sudo is needed, a shell passes on the proxy variables that sudo would
/// remove.
fn as_root(program: &str) -> Command {
    if Uid::effective().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("sh");
    command.args(["-c", SUDO, "sudo", program]);
    command
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

const TAIL_LINES: usize = 8;

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

/// Removes the system. Mounts go first, because an interrupted run without namespaces of its own may have left some.
const REMOVE: &str = "\
root=$1
while mount=$(awk -v root=\"$root/\" 'index($5, root) == 1 { print $5; exit }' /proc/self/mountinfo) && [ -n \"$mount\" ]; do
  umount -l \"$mount\"
done
rm -rf --one-file-system -- \"$root\"
";

const BOOTSTRAP: &str = "\
root=$1 check=$2 components=$3 suite=$4 mirror=$5
proxy=
if command -v apt-config >/dev/null; then eval \"$(apt-config shell proxy Acquire::http::Proxy)\"; fi
case $proxy in http*) export http_proxy=\"$proxy\";; esac
mkdir -p \"$root\"
exec debootstrap --variant=minbase --include=ca-certificates \"$check\" \"$components\" \"$suite\" \"$root\" \"$mirror\"
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
env HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  chroot \"$root\" sh -euc \"$install\" flock-image \"$@\" || ended=$?
umount \"$root/proc\" 2>/dev/null || :
mv \"$root/etc/hosts.flock\" \"$root/etc/hosts\"
: > \"$root/etc/resolv.conf\"
rm -f \"$root/usr/sbin/policy-rc.d\"
exit $ended
";
