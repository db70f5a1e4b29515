//! Command lines that fetch a package and run it: `npx`, `uvx`, `pipx run`. Other programs write them into the files that
//! describe servers.

use super::spec::Request;
use crate::config::PackageSource;
use crate::config::mcp_package::is_version;

/// Reads the command line of a server as a package and the arguments of its program. `None` if it is another program, or
/// has an option that flock does not know.
#[must_use]
pub(crate) fn of_run_line(command: &[String]) -> Option<(Request, Vec<String>)> {
    let (program, rest) = command.split_first()?;
    let program =
        program.rsplit('/').next().unwrap_or_default().trim_end_matches(".cmd").trim_end_matches(".exe");
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    match (program, words.as_slice()) {
        ("npx", rest) => npx(rest),
        ("npm", ["exec" | "x", rest @ ..]) => npx(rest),
        ("uvx", rest) => uvx(rest),
        ("uv", ["tool", "run", rest @ ..]) => uvx(rest),
        ("pipx", ["run", rest @ ..]) => pipx(rest),
        _ => None,
    }
}

/// The options before the package: what they say, and where they end.
#[derive(Default)]
struct Options<'a> {
    package: Option<&'a str>,
    with: Vec<&'a str>,
}

/// Takes options off the front. `value` are those with a value that names the package, `with` those that add one, and
/// `plain` those that change nothing here.
fn options<'a>(
    mut words: &'a [&'a str],
    (value, with, plain): (&[&str], &[&str], &[&str]),
) -> Option<(Options<'a>, &'a [&'a str])> {
    let mut found = Options::default();
    while let Some((first, rest)) = words.split_first() {
        if *first == "--" {
            return Some((found, rest));
        }
        if !first.starts_with('-') {
            break;
        }
        let (name, inline) = first.split_once('=').map_or((*first, None), |(name, text)| (name, Some(text)));
        words = rest;
        if plain.contains(&name) && inline.is_none() {
            continue;
        }
        let text = match inline {
            Some(text) => text,
            None => {
                let (next, rest) = words.split_first()?;
                words = rest;
                next
            }
        };
        if value.contains(&name) {
            // npx takes several packages. Which of them has the program is not said.
            if found.package.replace(text).is_some() {
                return None;
            }
        } else if with.contains(&name) {
            found.with.push(text);
        } else {
            return None;
        }
    }
    Some((found, words))
}

fn npx(words: &[&str]) -> Option<(Request, Vec<String>)> {
    let (options, rest) = options(words, (&["-p", "--package"], &[], &["-y", "--yes", "-q", "--quiet"]))?;
    let (first, arguments) = rest.split_first()?;
    let found = match options.package {
        None => Request::parse(PackageSource::Npm, first).ok()?,
        Some(package) => {
            Request { bin: Some((*first).to_owned()), ..Request::parse(PackageSource::Npm, package).ok()? }
        }
    };
    // `npm exec` has a `--` between the package and its arguments.
    let arguments = arguments.strip_prefix(&["--"]).unwrap_or(arguments);
    Some((found, owned(arguments)))
}

fn uvx(words: &[&str]) -> Option<(Request, Vec<String>)> {
    let plain = ["-q", "--quiet", "--isolated", "--no-cache", "--refresh"];
    let (options, rest) = options(words, (&["--from"], &["--with", "-w"], &plain))?;
    let (first, arguments) = rest.split_first()?;
    let found = match options.package {
        None => versioned(first)?,
        Some(package) => Request { bin: Some((*first).to_owned()), ..versioned(package)? },
    };
    let with: Vec<String> = options.with.iter().flat_map(|text| text.split(',')).map(str::to_owned).collect();
    Some((found.with(&with).ok()?, owned(arguments)))
}

fn pipx(words: &[&str]) -> Option<(Request, Vec<String>)> {
    let (options, rest) = options(words, (&["--spec"], &["--with"], &["--quiet", "-q", "--no-cache"]))?;
    let (first, arguments) = rest.split_first()?;
    let found = match options.package {
        None => Request::parse(PackageSource::Pypi, first).ok()?,
        Some(package) => {
            Request { bin: Some((*first).to_owned()), ..Request::parse(PackageSource::Pypi, package).ok()? }
        }
    };
    let with: Vec<String> = options.with.iter().map(|text| (*text).to_owned()).collect();
    Some((found.with(&with).ok()?, owned(arguments)))
}

/// Reads a package of `PyPI` with the version as uv writes it: `NAME@VERSION` or `NAME@latest`.
fn versioned(text: &str) -> Option<Request> {
    let Some((name, version)) = text.split_once('@') else {
        return Request::parse(PackageSource::Pypi, text).ok();
    };
    let found = Request::parse(PackageSource::Pypi, name).ok()?;
    (version == "latest" || is_version(version)).then(|| found.to(version).ok()).flatten()
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<(String, Option<String>, String)> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        of_run_line(&words).map(|(found, arguments)| (found.text(), found.bin, arguments.join(" ")))
    }

    #[test]
    fn the_lines_of_other_programs_become_packages() {
        for (line, package, bin, arguments) in [
            ("npx -y @a/b /data", "@a/b@latest", None, "/data"),
            ("npx --yes @a/b@1.2.3 -y x", "@a/b@1.2.3", None, "-y x"),
            ("/usr/bin/npx a", "a@latest", None, ""),
            ("npx -y -p @a/b tool --flag", "@a/b@latest", Some("tool"), "--flag"),
            ("npx --package=@a/b@2 -- tool", "@a/b@2", Some("tool"), ""),
            ("npm exec -y a -- --flag", "a@latest", None, "--flag"),
            ("uvx mcp-server-time --local-timezone=UTC", "mcp-server-time", None, "--local-timezone=UTC"),
            ("uvx mcp-server-time@2026.1", "mcp-server-time==2026.1", None, ""),
            ("uvx --from a[x]==1 tool y", "a[x]==1", Some("tool"), "y"),
            ("uv tool run a@latest", "a", None, ""),
            ("pipx run a b", "a", None, "b"),
            ("pipx run --spec a==1 tool", "a==1", Some("tool"), ""),
        ] {
            let wanted = (package.to_owned(), bin.map(str::to_owned), arguments.to_owned());
            assert_eq!(read(line), Some(wanted), "{line}");
        }
        let with: Vec<String> = ["uvx", "--with", "mcp<2,x", "a"].map(str::to_owned).to_vec();
        assert_eq!(of_run_line(&with).unwrap().0.with, ["mcp<2", "x"]);
    }

    #[test]
    fn other_programs_and_unknown_options_are_left_alone() {
        for line in [
            "node x.js",
            "npx",
            "npx -y",
            "npx --registry http://x a",
            "npx -y github:a/b",
            "npx -c id",
            "npx -p a -p b c",
            "uvx --index-url http://x a",
            "uvx git+https://x",
            "uvx --python 3.13 a",
            "uv run a",
            "pipx install a",
            "npx ./x",
            "docker run x",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
