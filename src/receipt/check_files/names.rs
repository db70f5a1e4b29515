//! The names of files that concern tests.

use std::path::Path;

/// Folders whose files are tests or belong to them.
const FOLDERS: [&str; 9] =
    ["test", "tests", "__tests__", "__mocks__", "__snapshots__", "spec", "specs", "testing", "testdata"];

/// Folders whose files run the checks.
const CHECKS: [&str; 2] = ["ci", ".ci"];

/// Words in the name of a script that say that it is part of a check.
const SCRIPTS: [&str; 10] =
    ["test", "check", "lint", "ci", "verify", "step", "common", "helper", "env", "runner"];

/// Endings of files that no interpreter runs. A new one among the tests can't change what the others do.
const DATA: [&str; 24] = [
    "json", "jsonl", "csv", "tsv", "txt", "md", "rst", "html", "xml", "yaml", "yml", "png", "jpg", "gif",
    "svg", "pdf", "bin", "dat", "wav", "zip", "gz", "sql", "snap", "golden",
];

/// Files that decide which tests run, or that a runner or an interpreter loads by itself.
const CONFIGURATION: [&str; 46] = [
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "tox.toml",
    "noxfile.py",
    "setup.cfg",
    "pyproject.toml",
    ".coveragerc",
    "sitecustomize.py",
    "usercustomize.py",
    "package.json",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "babel.config.js",
    ".babelrc",
    "makefile",
    "gnumakefile",
    "justfile",
    ".justfile",
    "taskfile.yml",
    "taskfile.yaml",
    "rakefile",
    "cmakelists.txt",
    "cargo.toml",
    ".cargo/config",
    ".cargo/config.toml",
    ".config/nextest.toml",
    "nextest.toml",
    "build.rs",
    "rust-toolchain",
    "rust-toolchain.toml",
    "go.work",
    "bunfig.toml",
    "deno.json",
    "deno.jsonc",
    "phpunit.xml",
    "phpunit.xml.dist",
    ".rspec",
    "build.gradle",
    "build.gradle.kts",
    "pom.xml",
];

/// Stems of configuration files that have several endings, as in `jest.config.ts`.
const CONFIGURATION_STEMS: [&str; 9] = [
    "jest.config.",
    "vitest.config.",
    "vitest.workspace.",
    "vite.config.",
    ".mocharc.",
    "karma.conf.",
    "playwright.config.",
    "cypress.config.",
    "ava.config.",
];

/// Modules that a test runner imports. Python looks for them in the tree first.
const SHADOWED: [&str; 12] = [
    "pytest",
    "_pytest",
    "py",
    "pluggy",
    "iniconfig",
    "unittest",
    "doctest",
    "nose",
    "nose2",
    "coverage",
    "tox",
    "nox",
];

/// The modules of Python itself that a program can't run without noticing if a file of the tree takes their place.
const PYTHON: &str = "\
abc argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2 calendar cmath cmd code codecs codeop collections \
colorsys compileall concurrent configparser contextlib contextvars copy copyreg csv ctypes curses dataclasses datetime dbm decimal \
difflib dis doctest email encodings enum errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath \
getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac html http imaplib imp importlib inspect io ipaddress itertools json \
keyword linecache locale logging lzma mailbox marshal math mimetypes mmap multiprocessing netrc ntpath numbers opcode operator optparse \
os pathlib pdb pickle pickletools pkgutil platform plistlib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc queue \
quopri random re readline reprlib resource runpy sched secrets select selectors shelve shlex shutil signal site smtplib socket \
socketserver sqlite3 sre_compile sre_constants sre_parse ssl stat statistics string stringprep struct subprocess symtable sys \
sysconfig tarfile tempfile termios textwrap threading time timeit token tokenize tomllib trace traceback tracemalloc tty types typing \
unicodedata unittest urllib uuid venv warnings wave weakref webbrowser xml xmlrpc zipapp zipfile zipimport zlib zoneinfo _weakrefset \
_collections_abc _compat_pickle _sitebuiltins";

/// Folders of installed programs, which a check uses in place of those of the sandbox.
const INSTALLED: [&str; 6] = ["node_modules", ".venv", "venv", "site-packages", ".flock-home", ".tox"];

fn lower_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default()
}

/// Returns the reason why a file is a program or a module of the checks that should not come from the tree.
pub(super) fn program(path: &Path) -> Option<&'static str> {
    let parts: Vec<String> =
        path.components().map(|part| part.as_os_str().to_string_lossy().to_lowercase()).collect();
    if parts.iter().any(|part| INSTALLED.contains(&part.as_str())) {
        return Some("is in a folder of installed programs, which the checks use");
    }
    let stem = parts.first().map(|part| part.trim_end_matches(".py")).unwrap_or_default();
    if SHADOWED.contains(&stem) && (parts.len() > 1 || parts[0].ends_with(".py")) {
        return Some("takes the place of a module of the test runner");
    }
    let name = parts.last()?;
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    if parts.iter().any(|part| part == "__pycache__")
        || ends(&[".pyc", ".pyo", ".pyd", ".so", ".dylib", ".dll"])
    {
        return Some("is compiled code, which is run in place of a text that can be read");
    }
    ends(&[".pth"]).then_some("is run when Python starts")
}

/// Returns `true` if a file has the name of a module of Python itself. It takes the module's place if Python looks for
/// modules in the file's folder.
pub(super) fn is_python_module(path: &Path) -> bool {
    let name = lower_name(path);
    let module = match (name.as_str(), path.parent()) {
        ("__init__.py", Some(folder)) => lower_name(folder),
        _ => name.strip_suffix(".py").unwrap_or_default().to_owned(),
    };
    PYTHON.split_whitespace().any(|known| known == module)
}

/// Returns `true` if a file is in a folder of scripts that run checks.
pub(super) fn runs_checks(path: &Path) -> bool {
    has_folder(path, &CHECKS)
}

/// Returns `true` if the name of a script says that it is part of a check.
pub(super) fn is_check_script(path: &Path) -> bool {
    let name = lower_name(path);
    SCRIPTS.iter().any(|word| name.contains(word))
}

/// Returns `true` if no interpreter runs a file of this name.
pub(super) fn is_data(path: &Path) -> bool {
    let name = lower_name(path);
    name.rsplit_once('.').is_some_and(|(_, ending)| DATA.contains(&ending))
}

/// Returns `true` if a file may hold what a test expects, or how strict it is. Texts for people do not.
pub(super) fn is_expectation(path: &Path) -> bool {
    let name = lower_name(path);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let more =
        ["expected", "out", "ref", "approved", "baseline", "fixture", "ini", "cfg", "conf", "toml", "env"];
    !matches!(ending, "md" | "rst") && (DATA.contains(&ending) || more.contains(&ending))
}

fn has_folder(path: &Path, folders: &[&str]) -> bool {
    path.parent().is_some_and(|above| {
        above.components().any(|part| {
            let part = part.as_os_str().to_string_lossy().to_lowercase();
            folders.contains(&part.as_str())
        })
    })
}

/// Returns `true` if a file decides which tests run.
pub(super) fn is_configuration(path: &Path) -> bool {
    let name = lower_name(path);
    let whole = path.to_string_lossy().to_lowercase();
    let is_named = |known: &&str| match known.contains('/') {
        true => whole == **known || whole.ends_with(&format!("/{known}")),
        false => name == **known,
    };
    CONFIGURATION.iter().any(is_named)
        || CONFIGURATION_STEMS.iter().any(|stem| name.starts_with(stem))
        || name.ends_with(".mk")
}

/// Returns `true` if a file is a test or is in a folder of tests.
pub(in crate::receipt) fn is_test(path: &Path) -> bool {
    has_folder(path, &FOLDERS) || is_test_file(path)
}

/// Returns `true` if a runner takes a file of this name for a test.
pub(in crate::receipt) fn is_test_file(path: &Path) -> bool {
    let name = lower_name(path);
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    match ending {
        "py" => stem.starts_with("test_") || stem.ends_with("_test") || stem == "test" || stem == "tests",
        "go" => stem.ends_with("_test"),
        "rs" => {
            let in_tests = path.parent().and_then(Path::file_name).is_some_and(|name| name == "tests");
            in_tests || stem == "tests" || stem.ends_with("_test") || stem.ends_with("_tests")
        }
        "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "mts" | "cts" => {
            stem.ends_with(".test") || stem.ends_with(".spec") || stem.starts_with("test-") || stem == "test"
        }
        "rb" => stem.ends_with("_spec") || stem.ends_with("_test"),
        "java" | "kt" | "php" | "cs" => stem.ends_with("test") || stem.ends_with("tests"),
        "t" | "bats" => true,
        _ => false,
    }
}

pub(super) fn is_python(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "py" || ending == "pyw")
}

pub(super) fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "rs")
}
