//! Names of runtimes on the command line.

use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::openclaw::RUNTIME;
use crate::runtime::NATIVE;
use crate::runtime::program::{self, Program, acp};

/// Returns the parser of a runtime's name: one that this build knows, or a program that speaks ACP.
pub(super) fn parser() -> RuntimeParser {
    RuntimeParser(
        [NATIVE, RUNTIME].into_iter().chain(program::PROGRAMS.map(Program::name)).collect::<Vec<_>>().into(),
    )
}

/// A parser of runtimes' names.
#[derive(Clone, Debug)]
pub(super) struct RuntimeParser(PossibleValuesParser);

impl TypedValueParser for RuntimeParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        match value.to_str().filter(|name| name.starts_with(acp::PREFIX)) {
            None => self.0.parse_ref(command, arg, value),
            Some(name) => match acp::check(name) {
                Ok(_) => Ok(name.to_owned()),
                Err(why) => {
                    let text = format!("the runtime {} {why}\n", crate::clean::summary(name, 80));
                    Err(clap::Error::raw(clap::error::ErrorKind::ValueValidation, text).with_cmd(command))
                }
            },
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = clap::builder::PossibleValue> + '_>> {
        self.0.possible_values()
    }
}
