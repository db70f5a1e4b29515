//! The files that the checks of a task use: those that the commands name, the scripts that these run, what a test in the shell
//! reads into its own process, and the data that tests compare with.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::names;
use super::words::{modules, path_values, places, relative, words};
use crate::receipt::Checks;
use crate::receipt::tree::Tree;
use crate::sandbox::check::{TreeFileKind, TreeSource as _};

/// The files that the checks name, run or read.
pub(super) struct Named {
    /// Files that a command runs or names.
    pub files: BTreeSet<PathBuf>,
    /// Paths that the owner declared as those of the checks.
    pub declared: Vec<PathBuf>,
    /// Links that a command names, and that the base does not have.
    pub links: BTreeSet<PathBuf>,
    /// Files of data that a test of the base names.
    pub data: BTreeSet<PathBuf>,
    /// Files that a script of the checks or a test in the shell reads into its own process.
    pub sourced: BTreeSet<PathBuf>,
    /// Python programs that a command or a script of the checks runs.
    pub programs: BTreeSet<PathBuf>,
    /// Folders in which a command looks for programs.
    pub search: BTreeSet<PathBuf>,
    /// Python files that a test of the base may import.
    pub imported: BTreeSet<PathBuf>,
    /// Links that the base does not have.
    pub new_links: Vec<PathBuf>,
    /// `true` if a command or a test runs the examples in texts as tests.
    pub has_doctests: bool,
}

impl Named {
    pub fn of(checks: &Checks, base: &Tree, delivered: &Tree) -> Self {
        let mut named = Self {
            files: BTreeSet::new(),
            declared: checks.files.iter().map(|path| PathBuf::from(path.trim_end_matches('/'))).collect(),
            links: BTreeSet::new(),
            data: BTreeSet::new(),
            imported: BTreeSet::new(),
            sourced: BTreeSet::new(),
            programs: BTreeSet::new(),
            search: BTreeSet::new(),
            new_links: new_links(base, delivered),
            has_doctests: checks.commands.iter().any(|command| command.contains("doctest")),
        };
        named.read_tests(base);
        for command in &checks.commands {
            for path in words(command).iter().filter_map(|word| relative(Path::new(word))) {
                named.add(&path, base, delivered, 0);
            }
            for path in by_parts(command, [base, delivered]) {
                named.add(&path, base, delivered, 0);
            }
            for module in modules(command) {
                if base.file(&module).is_some() || delivered.file(&module).is_some() {
                    named.add(&module, base, delivered, 0);
                }
            }
        }
        let tools = ["make", "just", "npm", "tox", "nox", "task", "rake"];
        if checks
            .commands
            .iter()
            .flat_map(|command| words(command))
            .any(|word| tools.contains(&word.as_str()))
        {
            for name in
                ["Makefile", "makefile", "GNUmakefile", "justfile", "package.json", "tox.ini", "Rakefile"]
            {
                named.follow(Path::new(name), [base, delivered], 0);
            }
        }
        for path in named.files.clone() {
            named.follow(&path, [base, delivered], 0);
        }
        named.programs.extend(named.files.iter().filter(|path| names::is_python(path)).cloned());
        for command in &checks.commands {
            named.read_search(Path::new(""), command, delivered);
        }
        for path in named.declared.clone() {
            named.look_at_links(&path, base, delivered, 0);
        }
        named
    }

    /// Reads the tests of the base: what they compare with is theirs, wherever it is.
    fn read_tests(&mut self, base: &Tree) {
        let data: Vec<&Path> = base
            .files()
            .iter()
            .map(|file| file.path.as_path())
            .filter(|path| names::is_expectation(path))
            .collect();
        for file in base
            .files()
            .iter()
            .filter(|file| names::is_test(&file.path) || names::is_configuration(&file.path))
        {
            let Some(text) = base.text(&file.path) else { continue };
            self.has_doctests |= text.contains("doctest");
            self.imported.extend(text.lines().flat_map(imports));
            if data.is_empty() || !names::is_test(&file.path) {
                continue;
            }
            let words: BTreeSet<String> = text.lines().flat_map(words).collect();
            let is_named = |path: &&&Path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                words.iter().any(|word| word.rsplit('/').next() == Some(&*name))
            };
            self.data.extend(data.iter().filter(is_named).map(|path| path.to_path_buf()));
        }
    }

    /// Adds the folders that a text puts into `PATH`.
    fn read_search(&mut self, folder: &Path, text: &str, delivered: &Tree) {
        for value in text.lines().flat_map(path_values) {
            let found = words(value).into_iter().flat_map(|word| places(folder, &word));
            let is_folder = |path: &PathBuf| delivered.file(path).is_none() && delivered.has(path);
            self.search.extend(found.filter(is_folder));
        }
    }

    /// Adds the files that a script reads into its own process, and those that these read. They can change everything in it.
    fn read_sourced(&mut self, folder: &Path, text: &str, trees: [&Tree; 2], depth: usize) {
        for line in text.lines() {
            for found in sourced(line).iter().flat_map(|word| places(folder, word)) {
                let texts: Vec<String> = trees.iter().filter_map(|tree| tree.text(&found)).collect();
                if texts.is_empty() || !self.sourced.insert(found.clone()) || depth > 4 {
                    continue;
                }
                let above = found.parent().unwrap_or(Path::new("")).to_owned();
                for text in texts {
                    self.read_sourced(&above, &text, trees, depth + 1);
                }
            }
        }
    }

    /// Returns `true` if a new Python file stands beside a program of the checks, which finds it in place of another module of
    /// the base.
    pub fn shadows(&self, path: &Path, base: &Tree) -> bool {
        self.programs.iter().filter_map(|program| program.parent()).any(|folder| {
            let Ok(rest) = path.strip_prefix(folder) else { return false };
            let Some(first) = rest.components().next().filter(|_| !folder.as_os_str().is_empty()) else {
                return false;
            };
            let name = PathBuf::from(first.as_os_str());
            let module = name.with_extension("");
            names::is_python(path)
                && !base.has(&folder.join(&name))
                && (base.file(&module.with_extension("py")).is_some() || base.has(&module))
        })
    }

    /// Adds the scripts that a script of the checks runs. What a test runs is the code under test, so tests are not followed.
    fn follow(&mut self, path: &Path, trees: [&Tree; 2], depth: usize) {
        let is_test = names::is_test(path);
        let folder = path.parent().unwrap_or(Path::new(""));
        for tree in trees {
            let Some(text) = tree.text(path) else { continue };
            if !self.new_links.is_empty() {
                for found in text.lines().flat_map(words).flat_map(|word| places(folder, &word)) {
                    let links = self.new_links.iter().filter(|link| found.starts_with(link));
                    self.links.extend(links.cloned());
                }
            }
            if is_shell(path, &text) {
                self.read_sourced(folder, &text, trees, 0);
                self.read_search(folder, &text, trees[1]);
                let python = text.lines().flat_map(words).flat_map(|word| places(folder, &word));
                self.programs.extend(python.filter(|found| names::is_python(found)));
            }
            let is_script = depth == 0 && !names::is_python(path) || is_shell(path, &text);
            if is_test || !is_script || depth > 4 {
                continue;
            }
            for found in text.lines().flat_map(words).flat_map(|word| places(folder, &word)) {
                let is_shell =
                    trees.iter().any(|tree| tree.text(&found).is_some_and(|text| is_shell(&found, &text)));
                let is_near = found.parent() == Some(folder) || names::is_check_script(&found);
                if is_shell && is_near && self.files.insert(found.clone()) {
                    self.follow(&found, trees, depth + 1);
                }
            }
        }
    }

    /// Returns `true` if a file belongs to a package with the name of a Python program that a command names.
    pub fn hides_a_program(&self, path: &Path) -> bool {
        let programs = self.files.iter().filter(|file| names::is_python(file));
        programs.into_iter().any(|file| path.starts_with(file.with_extension("")))
    }

    /// Returns `true` if Python looks for modules in the folder of a file: it is no package, or a script there is run.
    pub fn is_searched(&self, path: &Path, delivered: &Tree) -> bool {
        let folder = |path: &Path| path.parent().unwrap_or(Path::new("")).to_owned();
        let is_package = path.file_name().is_some_and(|name| name == "__init__.py");
        let place = if is_package { folder(&folder(path)) } else { folder(path) };
        delivered.file(&place.join("__init__.py")).is_none()
            || self.files.iter().any(|file| names::is_python(file) && folder(file) == place)
    }

    fn add(&mut self, path: &Path, base: &Tree, delivered: &Tree, depth: usize) {
        self.look_at_links(path, base, delivered, depth);
        // A file that only one of the two trees has counts as well: the branch may have added or deleted it.
        if base.file(path).is_some() || delivered.file(path).is_some() {
            self.files.insert(path.to_owned());
        }
    }

    /// Follows a path through the links of the delivered tree. The files that they lead to are the checks' as well.
    fn look_at_links(&mut self, path: &Path, base: &Tree, delivered: &Tree, depth: usize) {
        for above in path.ancestors().filter(|above| !above.as_os_str().is_empty()) {
            let Some(file) = delivered.file(above).filter(|file| file.kind == TreeFileKind::Link) else {
                continue;
            };
            let target = String::from_utf8_lossy(&delivered.content(file).unwrap_or_default()).into_owned();
            let target = above.parent().unwrap_or(Path::new("")).join(target);
            let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
            let inside = relative(&target.join(rest));
            let is_new = base.file(above) != Some(file);
            if is_new || inside.is_none() || depth > 8 {
                self.links.insert(above.to_owned());
            }
            if let Some(inside) = inside.filter(|_| depth <= 8) {
                self.declared.push(inside.clone());
                self.add(&inside, base, delivered, depth + 1);
            }
        }
        // A test that a folder holds may be a link, too.
        for file in delivered.files().iter().filter(|file| file.path.starts_with(path)) {
            if file.kind == TreeFileKind::Link && base.file(&file.path) != Some(file) {
                self.links.insert(file.path.clone());
            }
        }
    }
}

/// Returns the links that only the delivered tree has.
fn new_links(base: &Tree, delivered: &Tree) -> Vec<PathBuf> {
    let links = delivered.files().iter().filter(|file| file.kind == TreeFileKind::Link);
    links.filter(|file| base.file(&file.path) != Some(file)).map(|file| file.path.clone()).collect()
}

/// Returns the words that follow `.` or `source` where a command begins.
fn sourced(line: &str) -> Vec<String> {
    let keywords = ["then ", "do ", "else ", "! "];
    let begins = line.match_indices([';', '&', '|', '{', '(']).map(|(at, _)| at + 1);
    let commands = std::iter::once(0).chain(begins).map(|at| line[at..].trim_start());
    let read = commands.filter_map(|command| {
        let plain =
            keywords.iter().find_map(|word| command.strip_prefix(word)).unwrap_or(command).trim_start();
        plain.strip_prefix(". ").or_else(|| plain.strip_prefix("source "))
    });
    // The path may have a command in it, so it ends only where another one surely begins.
    read.flat_map(|rest| words(rest.split([';', '&']).next().unwrap_or_default())).collect()
}

/// Returns the files that a line of Python may import.
fn imports(line: &str) -> Vec<PathBuf> {
    let parts: Vec<String> = words(line);
    let Some(first) = parts.first().filter(|first| matches!(first.as_str(), "from" | "import")) else {
        return Vec::new();
    };
    let file = |name: String| PathBuf::from(name.replace('.', "/") + ".py");
    let all = parts.iter().skip(1).map(|name| file(name.clone()));
    let below = parts.iter().skip(3).map(|name| file(format!("{}.{name}", parts[1])));
    if first == "from" { all.chain(below).collect() } else { all.collect() }
}

/// Returns the files that a command names by a pattern, such as `*_check.py`, or by parts that variables join.
fn by_parts(command: &str, trees: [&Tree; 2]) -> BTreeSet<PathBuf> {
    let patterns: Vec<Vec<&str>> = command
        .split([' ', '\'', '"', '/', ';', '(', ')'])
        .filter(|word| word.contains('*') && word.len() > 2 && !is_all_code(word))
        .map(|word| word.split('*').collect())
        .collect();
    let words: BTreeSet<String> = words(command).into_iter().collect();
    // The names in a program on the command line are what it uses, and not what is run.
    let is_program = words.contains("-c");
    let is_named = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let above = path.parent().unwrap_or(Path::new(""));
        let is_joined = !above.as_os_str().is_empty()
            && !is_program
            && words.contains(&*stem)
            && above.iter().all(|part| words.contains(&*part.to_string_lossy()));
        is_joined || patterns.iter().any(|parts| fits(&name, parts))
    };
    let files = trees.into_iter().flat_map(|tree| tree.files());
    files.filter(|file| is_named(&file.path)).map(|file| file.path.clone()).collect()
}

/// Returns `true` for a pattern such as `*.py`, which names all code, and so nothing that is the checks' own.
fn is_all_code(pattern: &str) -> bool {
    const CODE: [&str; 16] =
        ["py", "js", "ts", "mjs", "jsx", "tsx", "rs", "go", "c", "h", "cc", "cpp", "java", "rb", "php", "sh"];
    pattern.strip_prefix("*.").is_some_and(|ending| CODE.contains(&ending) || ending.starts_with('*'))
}

/// Returns `true` if a name has the parts of a pattern between its stars.
fn fits(name: &str, parts: &[&str]) -> bool {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    name.len() >= first.len() + last.len() && name.starts_with(first) && name.ends_with(last)
}

/// Returns `true` if a file is a shell script.
fn is_shell(path: &Path, text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    let has_ending =
        path.extension().is_some_and(|ending| ending == "sh" || ending == "bash" || ending == "mk");
    has_ending || (first.starts_with("#!") && first.contains("sh"))
}
