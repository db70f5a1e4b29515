//! The error that a program gets as JSON for a command line that is not valid.

use std::ffi::OsString;

use super::{Failure, command};
use crate::error::Kind;

/// Converts clap's error: the message is its first paragraph, and the hint is the help of the verb concerned.
pub(crate) fn failure(error: &clap::Error, args: &[OsString]) -> Failure {
    let text = error.to_string();
    // The first paragraph is complete. It may have several lines, for example one for each missing argument.
    let said: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let said = said.join(" ");
    let message = said.strip_prefix("error: ").unwrap_or(&said);
    Failure::new(Kind::Usage, message).hint(format!("{} --help", named_verbs(args)))
}

/// Returns the verbs that the command line names, such as `flock config set`.
fn named_verbs(args: &[OsString]) -> String {
    let root = command();
    let mut at = &root;
    let mut names = vec![root.get_name()];
    let mut words = args.iter().skip(1).filter_map(|arg| arg.to_str());
    while let Some(word) = words.next() {
        // These two global options take a value, which could be taken for a verb.
        if ["--home", "--color"].contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            let Some(found) = at.find_subcommand(word) else { break };
            names.push(found.get_name());
            at = found;
        }
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn told(line: &str) -> (String, String) {
        let args: Vec<OsString> = std::iter::once("flock").chain(line.split(' ')).map(Into::into).collect();
        let failure = failure(&super::super::Cli::try_parse_from(&args).unwrap_err(), &args);
        (failure.message, failure.hint.unwrap())
    }

    #[test]
    fn a_missing_argument_is_named_with_its_verb() {
        let (message, hint) = told("add --json");
        assert_eq!(message, "the following required arguments were not provided: <ID>");
        assert_eq!(hint, "flock add --help");
        let (message, hint) = told("--home list config set gateway.bind");
        assert!(message.ends_with(": <VALUE>"), "{message}");
        assert_eq!(hint, "flock config set --help");
        assert_eq!(told("rm -x list").1, "flock remove --help");
        assert_eq!(told("lsit --json"), ("unrecognized subcommand 'lsit'".into(), "flock --help".into()));
        let (message, hint) = told("list --color sometimes");
        assert!(message.ends_with("[possible values: auto, always, never]"), "{message}");
        assert_eq!(hint, "flock list --help");
    }
}
