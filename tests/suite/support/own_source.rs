//! A git repository that stands in for flock's source: a real crate named `flock`, which a real cargo builds in a second.
//! Its program says its own version and hands everything else on to the built flock, except for the faults that a test asks
//! for.

use std::path::{Path, PathBuf};

use git2::{Commit, IndexAddOption, Repository, RepositoryInitOptions, Signature};

/// What a version does wrong, as Rust that runs before anything is handed on. `args` has its arguments.
pub const TRIAL_FAILS: &str =
    r#"if args == ["gateway", "check"] { eprintln!("this home is not mine"); std::process::exit(1); }"#;
/// It knows less of the database than is there.
pub const OLD_SCHEMA: &str =
    r#"if args == ["gateway", "check"] { println!("{{\"schema\": 1}}"); std::process::exit(0); }"#;
/// It is another one than it should be.
pub const WRONG_VERSION: &str =
    r#"if args == ["--version"] { println!("flock 1.0.0 (aaaaaaaaaaaa)"); return; }"#;
/// It is not able to start.
pub const SICK: &str =
    r#"if args.contains(&"start") { eprintln!("error: it feels sick"); std::process::exit(1); }"#;

/// Hangs the first time that it is asked for this verb, until its parent is gone: until then there is no file at `marker`.
pub fn hangs_once(verb: &str, marker: &Path) -> String {
    format!(
        r#"if args.contains(&{verb:?}) && !std::path::Path::new({marker:?}).exists() {{
            std::fs::write({marker:?}, "x").unwrap();
            let parent = std::os::unix::process::parent_id();
            while std::os::unix::process::parent_id() == parent {{
                std::thread::sleep(std::time::Duration::from_millis(20));
            }}
            return;
        }}"#
    )
}

/// The repository.
pub struct OwnSource {
    dir: tempfile::TempDir,
    repository: Repository,
    real: PathBuf,
}

impl OwnSource {
    /// An empty one; what it hands on goes to the program `real`.
    pub fn new(real: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("flock-source-").tempdir().unwrap();
        let mut options = RepositoryInitOptions::new();
        options.initial_head("main");
        let repository = Repository::init_opts(dir.path(), &options).unwrap();
        Self { dir, repository, real: real.to_owned() }
    }

    /// Its folder, as an argument.
    pub fn path(&self) -> String {
        self.dir.path().canonicalize().unwrap().display().to_string()
    }

    /// Writes a file; [`OwnSource::commit`] takes it up.
    pub fn write(&self, path: &str, text: &str) {
        let file = self.dir.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    /// Commits a version with a fault; the commit.
    pub fn release(&self, version: &str, fault: &str) -> String {
        self.package("flock", version);
        let real = &self.real;
        self.write(
            "src/main.rs",
            &format!(
                r#"use std::os::unix::process::CommandExt as _;
fn main() {{
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    {fault}
    if args == ["--version"] {{
        println!("flock {{}} ({{}})", env!("CARGO_PKG_VERSION"), env!("FLOCK_COMMIT"));
        return;
    }}
    panic!("{{}}", std::process::Command::new({real:?}).args(&args).exec());
}}
"#
            ),
        );
        self.commit(version)
    }

    /// Writes the manifest of a package.
    pub fn package(&self, name: &str, version: &str) {
        self.write(
            "Cargo.toml",
            &format!(
                "[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2021\"\n\n[workspace]\n"
            ),
        );
        let lock = format!("version = 3\n\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n");
        self.write("Cargo.lock", &lock);
    }

    /// Commits all there is; the commit.
    pub fn commit(&self, message: &str) -> String {
        let mut index = self.repository.index().unwrap();
        index.add_all(["*"], IndexAddOption::DEFAULT, None).unwrap();
        index.update_all(["*"], None).unwrap();
        index.write().unwrap();
        let tree = self.repository.find_tree(index.write_tree().unwrap()).unwrap();
        let who = Signature::now("Ann", "ann@example.org").unwrap();
        let parent = self.repository.head().ok().and_then(|head| head.peel_to_commit().ok());
        let parents: Vec<&Commit<'_>> = parent.iter().collect();
        self.repository.commit(Some("HEAD"), &who, &who, message, &tree, &parents).unwrap().to_string()
    }
}
