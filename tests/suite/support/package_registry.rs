//! A registry of packages of a test's own: npm's and `PyPI`'s requests over HTTP, with real archives. It can lie.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256, Sha512};

use super::home::TempHome;

/// Stands for Node and npm.
const NODE: &str = include_str!("../../fixtures/mcp/node.py");
/// Stands for pip.
const PIP: &str = include_str!("../../fixtures/mcp/pip.py");

/// A registry on a port of this machine.
pub struct PackageRegistry {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The packages of npm: the name, and each version with its manifest.
    npm: BTreeMap<String, BTreeMap<String, Value>>,
    /// The projects of `PyPI`: the name, and the files.
    pypi: BTreeMap<String, Vec<Value>>,
    /// All archives by the last part of their paths.
    archives: BTreeMap<String, Vec<u8>>,
    requests: Vec<String>,
    /// Archives that are said to be at another address, and those that are said to be this long.
    redirects: BTreeMap<String, String>,
    lengths: BTreeMap<String, usize>,
}

impl PackageRegistry {
    /// Starts an empty registry, which lives as long as the test.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, &shared));
            }
        });
        Self { port, state }
    }

    /// Gives a home the stand-ins for Node, npm and pip, which the registry does not have.
    pub fn stand_ins(home: &TempHome) {
        let write = |path: &Path, text: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            let program = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(path, program).unwrap();
        };
        let folders = flock::mcp::tool_folders(&flock::home::Home::new(home.path(), None));
        write(&folders["node"].join("bin/node"), NODE);
        write(&folders["npm"].join("bin/npm-cli.js"), "");
        write(&folders["pip"].join("pip/__init__.py"), "");
        write(&folders["pip"].join("pip/__main__.py"), PIP);
    }

    /// The variables that lead flock to it.
    pub fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("FLOCK_NPM_REGISTRY", format!("http://127.0.0.1:{}/npm", self.port)),
            ("FLOCK_PYPI_INDEX", format!("http://127.0.0.1:{}/simple/", self.port)),
        ]
    }

    /// Publishes a package of npm with these files, each with its path below the package.
    pub fn npm(&self, name: &str, version: &str, manifest: Value, files: &[(&str, &str)]) {
        let mut manifest = manifest;
        manifest["name"] = json!(name);
        manifest["version"] = json!(version);
        let text = manifest.to_string();
        let mut all = vec![("package.json", text.as_str())];
        all.extend_from_slice(files);
        self.npm_archive(name, version, manifest, tarball(&all));
    }

    /// Publishes a package of npm with this archive.
    pub fn npm_archive(&self, name: &str, version: &str, mut manifest: Value, archive: Vec<u8>) {
        let file = format!("{}-{version}.tgz", name.rsplit('/').next().unwrap());
        manifest["dist"] = json!({
            "integrity": format!("sha512-{}", STANDARD.encode(Sha512::digest(&archive))),
            "tarball": format!("http://127.0.0.1:{}/npm/{name}/-/{file}", self.port),
        });
        let mut state = self.state.lock().unwrap();
        state.archives.insert(file, archive);
        state.npm.entry(name.to_owned()).or_default().insert(version.to_owned(), manifest);
    }

    /// Publishes a wheel with these files and what it requires.
    pub fn wheel(&self, name: &str, version: &str, requires: &[&str], files: &[(&str, &str)]) {
        let module = name.replace('-', "_");
        let info = format!("{module}-{version}.dist-info");
        let requires: String = requires.iter().map(|one| format!("Requires-Dist: {one}\n")).collect();
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}");
        let paths: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (path.replace("INFO", &info), *text))
            .chain([(format!("{info}/METADATA"), metadata.as_str())])
            .collect();
        self.file(name, &format!("{module}-{version}-py3-none-any.whl"), zipped(&paths));
    }

    /// Publishes a file of a project of `PyPI`.
    pub fn file(&self, name: &str, file: &str, bytes: Vec<u8>) {
        let listed = json!({
            "filename": file,
            "url": format!("../../files/{file}"),
            "hashes": {"sha256": flock::id::hex(&Sha256::digest(&bytes))},
        });
        let mut state = self.state.lock().unwrap();
        state.archives.insert(file.to_owned(), bytes);
        state.pypi.entry(name.to_owned()).or_default().push(listed);
    }

    /// Replaces an archive, whatever hash was announced.
    pub fn swap(&self, file: &str, bytes: Vec<u8>) -> Vec<u8> {
        self.state.lock().unwrap().archives.insert(file.to_owned(), bytes).expect("it was published")
    }

    /// Answers for an archive with another address. With an empty one, it answers as before.
    pub fn redirect(&self, file: &str, to: &str) {
        let mut state = self.state.lock().unwrap();
        state.redirects.insert(file.to_owned(), to.to_owned());
        state.redirects.retain(|_, to| !to.is_empty());
    }

    /// Announces another length for an archive. With 0, it announces the right one.
    pub fn announce(&self, file: &str, length: usize) {
        let mut state = self.state.lock().unwrap();
        state.lengths.insert(file.to_owned(), length);
        state.lengths.retain(|_, length| *length > 0);
    }

    /// Publishes two wheels, and writes a lock of them and the configuration that pins it, as an installation leaves them.
    /// The server is `notes`.
    pub fn lock_test_server(&self, home: &TempHome) {
        if self.state.lock().unwrap().archives.is_empty() {
            let points =
                [("a.py", "def main(): pass"), ("INFO/entry_points.txt", "[console_scripts]\nx = a:main\n")];
            self.wheel("test-server", "1.0", &["helper"], &points);
            self.wheel("helper", "1.0", &[], &[("helper.py", "one")]);
        }
        self.lock(home, &self.address("/files/helper-1.0-py3-none-any.whl"));
    }

    /// Writes the same lock with an address of another service on this machine for one of the wheels.
    pub fn lock_elsewhere(&self, home: &TempHome) {
        self.lock(home, &format!("http://localhost:{}/secret/helper-1.0-py3-none-any.whl", self.port));
    }

    fn lock(&self, home: &TempHome, helper: &str) {
        let server = "test_server-1.0-py3-none-any.whl";
        let wheel = |name: &str, file: &str, url: &str| json!({"name": name, "version": "1.0", "url": url, "integrity": format!("sha256:{}", self.sha256(file))});
        let lock = json!({"format": 1, "request": {"source": "pypi", "name": "test-server", "range": "==1.0"},
            "version": "1.0", "runtime": {"python": {"path": "/usr/bin/python3", "version": "3.11"}},
            "packages": [wheel("test-server", server, &self.address(&format!("/files/{server}"))),
                wheel("helper", "helper-1.0-py3-none-any.whl", helper)]});
        let bytes = lock.to_string();
        let hash = flock::id::hex(&Sha256::digest(&bytes));
        std::fs::create_dir_all(home.file("mcp/notes/locks")).unwrap();
        std::fs::write(home.file(format!("mcp/notes/locks/{hash}.json")), bytes).unwrap();
        let mut config = home.config();
        config["plugins"]["entries"]["flock"]["config"]["mcpServers"]["notes"] = json!({
            "command": ["/usr/bin/python3", "/package/run.py", "a:main", "--flag"],
            "package": {"source": "pypi", "name": "test-server", "version": "1.0", "lock": hash},
        });
        std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    }

    /// The address of a path.
    pub fn address(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The SHA-256 of an archive.
    pub fn sha256(&self, file: &str) -> String {
        flock::id::hex(&Sha256::digest(&self.state.lock().unwrap().archives[file]))
    }

    /// The paths that were asked for.
    pub fn requests(&self) -> Vec<String> {
        self.state.lock().unwrap().requests.clone()
    }
}

/// A tarball as npm makes them.
pub fn tarball(files: &[(&str, &str)]) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        let path = if path.starts_with("..") { (*path).to_owned() } else { format!("package/{path}") };
        // Written as it is, because the library refuses hostile paths.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_cksum();
        archive.append(&header, text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// A tarball that consists of one symbolic link and a file that goes through it.
pub fn tarball_with_link(link: &str, to: &str, manifest: &str) -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    archive.append_link(&mut header, format!("package/{link}"), to).unwrap();
    for (path, text) in [(format!("{link}/planted"), "planted"), ("package.json".to_owned(), manifest)] {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        archive.append_data(&mut header, format!("package/{path}"), text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// A wheel is a zip archive.
pub fn zipped(files: &[(String, &str)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (path, text) in files {
        archive.start_file(path.as_str(), zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn serve(stream: &TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    let mut length = 0usize;
    if reader.read_line(&mut line).is_err() {
        return;
    }
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).is_err() || header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
    }
    let _ = std::io::copy(&mut reader.take(length as u64), &mut std::io::sink());
    let path = line.split(' ').nth(1).unwrap_or_default().replace("%2f", "/");
    let answer = answer(&path, state);
    let (mut status, bytes) = answer.map_or((404, b"not found".to_vec()), |bytes| (200, bytes));
    let file = path.rsplit('/').next().unwrap_or_default();
    let (redirect, length) = {
        let state = state.lock().unwrap();
        (state.redirects.get(file).cloned(), state.lengths.get(file).copied())
    };
    let location = redirect.map(|to| format!("location: {to}\r\n")).unwrap_or_default();
    if !location.is_empty() {
        status = 302;
    }
    let length = length.unwrap_or(bytes.len());
    let head =
        format!("HTTP/1.1 {status} X\r\n{location}content-length: {length}\r\nconnection: close\r\n\r\n");
    let mut stream = stream;
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&bytes));
}

fn answer(path: &str, state: &Mutex<State>) -> Option<Vec<u8>> {
    let mut state = state.lock().unwrap();
    state.requests.push(path.to_owned());
    if let Some(rest) = path.strip_prefix("/npm/") {
        if rest.contains("/-/") {
            return state.archives.get(rest.rsplit('/').next()?).cloned();
        }
        let versions = state.npm.get(rest)?;
        let latest = versions.keys().next_back()?;
        let document = json!({"name": rest, "dist-tags": {"latest": latest}, "versions": versions});
        return Some(document.to_string().into_bytes());
    }
    if let Some(file) = path.strip_prefix("/files/") {
        return state.archives.get(file).cloned();
    }
    let name = path.strip_prefix("/simple/")?.trim_end_matches('/');
    let files = state.pypi.get(name)?;
    Some(json!({"name": name, "files": files}).to_string().into_bytes())
}
