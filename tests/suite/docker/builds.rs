//! Builds of packages that work against the store, other agents and the machine, each in a real engine.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flock::nix_store::{Attribute, NixError, PackageStore};
use flock::provider::BoxFuture;
use flock::sandbox::egress::Dialer;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::sandbox::{id, output};
use crate::support::docker::{self, Team, docker as docker_command};

/// Tries what a build must not be able to do, and writes down what it could.
const HOSTILE: &str = r#"
mkdir -p $out/bin
say() { echo "$*" >> $out/report; }
say "uid $(id -u)"
say "capabilities $(grep CapEff /proc/self/status | cut -f 2)"
say "interfaces $(ls /sys/class/net | tr '\n' ' ')"
for place in /etc /usr /nix / /root /var /home; do touch $place/planted 2>/dev/null && say "wrote $place"; done
ls /nix/var/nix/profiles/per-agent/other >/dev/null 2>&1 && say "sees the profile of another agent"
mkdir -p /nix/var/nix/profiles/per-agent
ln -sfn $out /nix/var/nix/profiles/per-agent/other
chmod -R u+w $tool 2>/dev/null && say "made the tool writable"
echo '#!/bin/sh' 2>/dev/null > $tool/bin/tool && say "wrote the tool"
rm -rf $tool 2>/dev/null
mkdir -p $later/bin
printf '#!/bin/sh\necho poisoned\n' > $later/bin/later
chmod 755 $later/bin/later
printf '%s\n\n0\n' $later | NIX_REMOTE=local nix-store --register-validity 2>/dev/null
for socket in /var/run/docker.sock /run/docker.sock /nix/var/nix/daemon-socket/socket; do
  [ -e $socket ] && say "sees $socket"
done
python3 - <<'END' >> $out/report
import socket
for host, port in [("169.254.169.254", 80), ("172.17.0.1", 22), ("172.17.0.1", 80), ("1.1.1.1", 443),
                   ("127.0.0.1", 3128), ("10.0.0.1", 80)]:
    try:
        socket.create_connection((host, port), 2)
        print("reached", host, port)
    except ConnectionRefusedError:
        if host != "127.0.0.1":
            print("was answered by", host, port)
    except OSError:
        pass
END
env | grep -i proxy >> $out/report
cp /bin/sh $out/bin/rootsh
chmod 4755 $out/bin/rootsh 2>/dev/null
printf '#!/bin/sh\necho evil\n' > $out/bin/evil
chmod 755 $out/bin/evil
exit 0
"#;

/// Looks at the network from a build whose content is fixed, which may fetch.
const FETCHING: &str = r#"
code() { curl -s -o /dev/null -w '%{http_code} ' "$@" || :; }
{ code http://169.254.169.254/latest; code http://inside.example/; code http://10.0.0.1/; code http://files.example/data
  code --noproxy '*' --max-time 3 http://169.254.169.254/; echo; } > $out
"#;
const SEEN: &str = "403 403 403 200 000 \n";
const DATA: &str = "fetched for a package\n";

/// A flake of well-meant and hostile packages.
fn flake(folder: &Path) -> PathBuf {
    let flake = folder.join("flake");
    std::fs::create_dir_all(&flake).unwrap();
    std::fs::write(flake.join("hostile.sh"), HOSTILE).unwrap();
    std::fs::write(flake.join("fetching.sh"), FETCHING).unwrap();
    let hash = |text: &str| flock::id::hex(&Sha256::digest(text));
    let text = format!(
        r#"{{ outputs = {{ self }}: let
  plain = builtins.unsafeDiscardStringContext;
  build = name: more: derivation ({{ inherit name; system = "x86_64-linux"; builder = "/bin/sh"; PATH = "/usr/bin:/bin"; }} // more);
  program = name: build name {{ args = [ "-c" "mkdir -p $out/bin; printf '#!/bin/sh\necho ${{name}} from the store\n' > $out/bin/${{name}}; chmod 755 $out/bin/${{name}}" ]; }};
  fixed = hash: {{ outputHashMode = "flat"; outputHashAlgo = "sha256"; outputHash = hash; }};
in {{ packages.x86_64-linux = rec {{
  tool = program "tool";
  later = program "later";
  a = program "a"; b = program "b"; c = program "c";
  evil = build "evil" {{ args = [ ./hostile.sh ]; tool = plain tool.outPath; later = plain later.outPath; }};
  uses = build "uses" {{ outputs = [ "out" "lib" ]; inherit tool;
    args = [ "-c" "mkdir -p $out/bin $lib; echo part > $lib/part; printf '#!/bin/sh\n%s/bin/tool; cat %s/part\n' $tool $lib > $out/bin/uses; chmod 755 $out/bin/uses" ]; }};
  eater = build "eater" {{ args = [ "-c" "python3 -c 'x = b\"x\" * (6 << 30)'" ]; }};
  forker = build "forker" {{ args = [ "-c" "python3 -c '
import os, sys, time
count = 0
while True:
    try:
        if os.fork() == 0:
            os.closerange(0, 3)
            time.sleep(600)
    except OSError:
        sys.exit(\"could not fork after \" + str(count))
    count += 1
'" ]; }};
  endless = build "endless" {{ args = [ "-c" "while :; do sleep 600; done" ]; }};
  data = derivation ({{ name = "data"; system = "builtin"; builder = "builtin:fetchurl"; url = "http://files.example/data"; executable = false; unpack = false; }} // fixed "{data}");
  seen = build "seen" (fixed "{seen}" // {{ args = [ ./fetching.sh ]; impureEnvVars = [ "http_proxy" ]; }});
  other = build "other" (fixed "{data}" // {{ args = [ "-c" "echo something else > $out" ]; }});
  reader = build "reader" {{ inherit data seen; args = [ "-c" "mkdir -p $out/share; cat $data $seen > $out/share/read" ]; }};
  nested = import (build "nested" {{ args = [ "-c" "echo 1 > $out" ]; }});
}}; }}; }}"#,
        data = hash(DATA),
        seen = hash(SEEN),
    );
    std::fs::write(flake.join("flake.nix"), text).unwrap();
    flake
}

fn packages(names: &[&str]) -> Vec<Attribute> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

async fn install(store: &PackageStore, agent: &str, package: &str) -> Result<Vec<Attribute>, NixError> {
    let never = CancellationToken::new();
    let (agent, packages) = (id(agent), packages(&[package]));
    let installed = store.install(&agent, &packages, &never, &|_| {});
    let Ok(result) = tokio::time::timeout(INSTALL_LIMIT, installed).await else {
        let containers = docker_command(&["ps", "-a", "--no-trunc"]);
        panic!("{package} is not installed after {} s:\n{containers}", INSTALL_LIMIT.as_secs());
    };
    result
}

/// Far more than any of these builds takes beside other tests, and far less than flock gives to one.
const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// A team whose packages come from [`flake`], each agent with its profile on its PATH.
fn team(agents: &[&str], folder: &Path) -> Option<Team> {
    let team = Team::new(agents)?;
    let flake = flake(folder);
    team.configure(|config| {
        config.nix_flake = Some(format!("path:{}", flake.display()));
        for agent in config.agents.iter_mut() {
            let path =
                format!("/nix/var/nix/profiles/per-agent/{}/bin:/usr/local/bin:/usr/bin:/bin", agent.id);
            agent.docker.env.insert("PATH".to_owned(), path);
        }
    });
    Some(team)
}

/// What the engine has of this team's builds: containers and unfinished folders.
fn left(team: &Team) -> String {
    let label = format!("label=flock.home={}", team.home.root().display());
    let containers = docker_command(&[
        "ps",
        "-a",
        "--filter",
        &label,
        "--filter",
        "label=flock.build",
        "--format",
        "{{.Names}}",
    ]);
    let volumes = docker_command(&["volume", "ls", "-q", "--filter", &label]);
    let overlays: Vec<&str> = volumes.lines().filter(|name| !name.starts_with("flock-nix")).collect();
    let daemon = flock::sandbox::names::store(&team.home);
    let folders = docker_command(&[
        "exec",
        &daemon,
        "sh",
        "-c",
        "ls /build /nix/var/nix/gcroots/flock | grep -E '^[0-9a-f]{8}' || :",
    ]);
    [containers, overlays.join("\n"), folders].concat()
}

#[test]
fn a_build_gives_a_content_to_its_own_outputs_and_to_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let Some(team) = team(&["coder", "other"], folder.path()) else { return };
    let (store, sandbox) = (team.store(), team.sandbox());
    docker::block_on(async {
        install(&store, "other", "tool").await.unwrap();
        let profile = "readlink -f /nix/var/nix/profiles/per-agent/other";
        let before = output(&sandbox, "other", profile).await;
        install(&store, "coder", "evil").await.unwrap();
        let report = output(&sandbox, "coder", "cat /nix/var/nix/profiles/per-agent/coder/report").await;
        let user = flock::nix_store::build_user();
        assert_eq!(report, format!("uid {user}\ncapabilities 0000000000000000\ninterfaces lo"));
        assert_eq!(output(&sandbox, "coder", "evil; stat -L -c %a $(which rootsh)").await, "evil\n555");
        // The other agent has what it had, and gets what its packages are made to be.
        assert_eq!(output(&sandbox, "other", profile).await, before);
        assert_eq!(output(&sandbox, "other", "tool").await, "tool from the store");
        install(&store, "other", "later").await.unwrap();
        assert_eq!(output(&sandbox, "other", "later").await, "later from the store");
        assert_eq!(left(&team), "");
        // The store's own container has no network either, and what it has of rights is for files.
        let daemon = flock::sandbox::names::store(&team.home);
        let facts = "{{.HostConfig.NetworkMode}} {{.HostConfig.ReadonlyRootfs}}";
        assert_eq!(docker_command(&["inspect", "-f", facts, &daemon]), "none true");
    });
}

#[test]
fn a_build_that_takes_all_it_can_get_ends_within_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let Some(team) = team(&["coder"], folder.path()) else { return };
    let (store, sandbox) = (team.store(), team.sandbox());
    docker::block_on(async {
        let error = install(&store, "coder", "forker").await.unwrap_err().to_string();
        let count = error.split("could not fork after ").nth(1).expect(&error);
        let count: i64 = count.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
        assert!(count < flock::nix_store::PIDS, "{error}");
        let error = install(&store, "coder", "eater").await.unwrap_err();
        let is_about_memory = match &error {
            NixError::Nix { tail, .. } => tail.contains("killed") || tail.contains("failed with exit code"),
            NixError::Lost { .. } => true,
            _ => false,
        };
        assert!(is_about_memory, "{error}");
        // Nothing may be built while a flake is evaluated.
        let error = install(&store, "coder", "nested").await.unwrap_err().to_string();
        assert!(error.contains("import-from-derivation") || error.contains("allow-import"), "{error}");
        assert_eq!(left(&team), "");
        install(&store, "coder", "tool").await.unwrap();
        assert_eq!(output(&sandbox, "coder", "tool").await, "tool from the store");
    });
}

/// Leads public addresses to a server of this test.
struct Elsewhere {
    server: SocketAddr,
    connected: Mutex<Vec<SocketAddr>>,
}

impl Dialer for Elsewhere {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        let address = match name {
            "files.example" => Some("93.184.215.14"),
            "inside.example" => Some("169.254.169.254"),
            _ => None,
        };
        let found = address.map(|address| vec![SocketAddr::new(address.parse().unwrap(), port)]);
        Box::pin(async move { found.ok_or_else(|| io::Error::other("no such name")) })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        self.connected.lock().unwrap().push(address);
        Box::pin(TcpStream::connect(self.server))
    }
}

async fn server() -> SocketAddr {
    serve(Arc::new(Mutex::new(DATA.as_bytes().to_vec()))).await
}

/// Answers every request with the content as it is then.
async fn serve(content: Arc<Mutex<Vec<u8>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let content = content.lock().unwrap().clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                let length = content.len();
                let answer =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).await?;
                stream.write_all(&content).await
            });
        }
    });
    address
}

#[test]
fn only_what_is_fixed_by_a_hash_is_fetched_and_only_from_public_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let Some(team) = team(&["coder"], folder.path()) else { return };
    docker::block_on(async {
        let dial = Arc::new(Elsewhere { server: server().await, connected: Mutex::default() });
        let store = team.store().with_dial(Arc::clone(&dial) as Arc<dyn Dialer>);
        install(&store, "coder", "reader").await.unwrap();
        let read = "cat /nix/var/nix/profiles/per-agent/coder/share/read";
        assert_eq!(output(&team.sandbox(), "coder", read).await, format!("{DATA}{SEEN}").trim());
        let connected = dial.connected.lock().unwrap().clone();
        assert!(connected.iter().all(|address| address.ip().to_string() == "93.184.215.14"), "{connected:?}");
        let error = install(&store, "coder", "other").await.unwrap_err().to_string();
        assert!(error.contains("hash mismatch"), "{error}");
        assert_eq!(left(&team), "");
    });
}

#[test]
fn what_a_package_needs_is_found_in_its_files_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let Some(team) = team(&["coder"], folder.path()) else { return };
    let (store, sandbox, never) = (team.store(), team.sandbox(), CancellationToken::new());
    docker::block_on(async {
        install(&store, "coder", "uses").await.unwrap();
        store.gc(Some(0), &never, &|_| {}).await.unwrap();
        assert_eq!(output(&sandbox, "coder", "uses").await, "tool from the store\npart");
        let daemon = flock::sandbox::names::store(&team.home);
        let derivations = docker_command(&["exec", &daemon, "sh", "-c", "ls /nix/store | grep -c drv$ || :"]);
        assert_eq!(derivations, "0", "what only the build needed is collected");
    });
}

#[test]
fn a_build_that_is_stopped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(team) = team(&["coder"], folder.path()) else { return };
    let (store, sandbox) = (team.store(), team.sandbox());
    docker::block_on(async {
        install(&store, "coder", "tool").await.unwrap();
        let cancel = CancellationToken::new();
        let wanted = packages(&["endless"]);
        let coder = id("coder");
        let built = |line: &str| {
            if line.starts_with("building endless") {
                cancel.cancel();
            }
        };
        let end = store.install(&coder, &wanted, &cancel, &built).await;
        assert!(matches!(end, Err(NixError::Cancelled { .. })), "{end:?}");
        assert_eq!(left(&team), "");
        assert_eq!(output(&sandbox, "coder", "tool").await, "tool from the store");
        // Who no longer waits for it ends it, too.
        let started = tokio::sync::Notify::new();
        let never = CancellationToken::new();
        let told = |line: &str| {
            if line.starts_with("building endless") {
                started.notify_one();
            }
        };
        tokio::select! {
            end = store.install(&coder, &wanted, &never, &told) => panic!("{end:?}"),
            () = started.notified() => {}
        }
        let limit = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            store.ensure().await.unwrap();
            let left = left(&team);
            if left.is_empty() {
                break;
            }
            assert!(tokio::time::Instant::now() < limit, "{left}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

#[test]
fn several_install_and_collect_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let Some(team) = team(&["coder", "other", "third"], folder.path()) else { return };
    // Two processes of one home: the gateway and the command line.
    let (store, second, sandbox) = (team.store(), team.store(), team.sandbox());
    docker::block_on(async {
        store.ensure().await.unwrap();
        let never = CancellationToken::new();
        let (one, two, three, gone) = tokio::join!(
            install(&store, "coder", "a"),
            install(&second, "other", "b"),
            install(&store, "third", "c"),
            second.gc(Some(0), &never, &|_| {}),
        );
        one.unwrap();
        two.unwrap();
        three.unwrap();
        gone.unwrap();
        for (agent, package) in [("coder", "a"), ("other", "b"), ("third", "c")] {
            assert_eq!(output(&sandbox, agent, package).await, format!("{package} from the store"));
        }
        assert_eq!(left(&team), "");
    });
}

#[test]
fn a_set_that_changed_is_refused_until_its_pin_is_moved() {
    let folder = tempfile::tempdir().unwrap();
    let Some(team) = team(&["coder"], folder.path()) else { return };
    let (store, sandbox, never) = (team.store(), team.sandbox(), CancellationToken::new());
    docker::block_on(async {
        install(&store, "coder", "a").await.unwrap();
        let text = folder.path().join("flake/flake.nix");
        let changed = std::fs::read_to_string(&text).unwrap().replace("from the store", "from another set");
        std::fs::write(&text, changed).unwrap();
        let error = install(&store, "coder", "b").await.unwrap_err();
        assert!(matches!(error, NixError::Changed { .. }), "{error}");
        assert_eq!(output(&sandbox, "coder", "a").await, "a from the store");
        let pin = store.pin(None, &never, &|_| {}).await.unwrap();
        assert_eq!(flock::nix_store::Pin::read(&team.home, Some(&pin.flake)).unwrap(), Some(pin));
        // The same name from the new content takes the old one's place, and one step back is the old one.
        install(&store, "coder", "a").await.unwrap();
        assert_eq!(output(&sandbox, "coder", "a").await, "a from another set");
        assert_eq!(store.installed(&id("coder")).await.unwrap().len(), 1);
        store.rollback(&id("coder")).await.unwrap();
        assert_eq!(output(&sandbox, "coder", "a").await, "a from the store");
    });
}

/// A flake as an archive, gzipped, that a server gives out.
fn archive(text: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let set = folder.path().join("set");
    std::fs::create_dir(&set).unwrap();
    std::fs::write(set.join("flake.nix"), text).unwrap();
    let packed = std::process::Command::new("tar")
        .args(["-cz", "--sort=name", "--mtime=@0", "-C"])
        .arg(folder.path())
        .arg("set")
        .output()
        .unwrap();
    assert!(packed.status.success());
    packed.stdout
}

#[test]
fn a_fetched_set_is_locked_once_and_refused_with_another_content() {
    let Some(team) = Team::new(&["coder"]) else { return };
    let flake = "http://files.example/set.tar.gz";
    team.configure(|config| config.nix_flake = Some(flake.to_owned()));
    let set = |said: &str| {
        archive(&format!(
            r#"{{ outputs = {{ self }}: {{ packages.x86_64-linux.a = derivation {{ name = "a"; system = "x86_64-linux"; builder = "/bin/sh"; PATH = "/usr/bin:/bin";
               args = [ "-c" "mkdir -p $out/bin; printf '#!/bin/sh\necho {said}\n' > $out/bin/a; chmod 755 $out/bin/a" ]; }}; }}; }}"#
        ))
    };
    docker::block_on(async {
        let content = Arc::new(Mutex::new(set("one")));
        let dial =
            Arc::new(Elsewhere { server: serve(Arc::clone(&content)).await, connected: Mutex::default() });
        let store = team.store().with_dial(Arc::clone(&dial) as Arc<dyn Dialer>);
        assert_eq!(flock::nix_store::Pin::read(&team.home, Some(flake)).unwrap(), None);
        install(&store, "coder", "a").await.unwrap();
        let pin = flock::nix_store::Pin::read(&team.home, Some(flake)).unwrap().unwrap();
        assert!(pin.nar_hash.starts_with("sha256-"), "{pin:?}");
        let run = "/nix/var/nix/profiles/per-agent/coder/bin/a";
        assert_eq!(output(&team.sandbox(), "coder", run).await, "one");
        // A new store of the same home has to fetch it again, and what comes is another content.
        *content.lock().unwrap() = set("two");
        docker::remove_all(&team.engine, &team.home).await.unwrap();
        let error = install(&store, "coder", "a").await.unwrap_err();
        assert!(
            error.to_string().contains("differs from the pinned content")
                || error.to_string().contains("hash"),
            "{error}"
        );
        assert_eq!(store.installed(&id("coder")).await.unwrap(), []);
        let moved = store.pin(None, &CancellationToken::new(), &|_| {}).await.unwrap();
        assert_ne!(moved.nar_hash, pin.nar_hash);
        install(&store, "coder", "a").await.unwrap();
        assert_eq!(output(&team.sandbox(), "coder", run).await, "two");
    });
}
