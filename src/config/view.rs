//! Reads values from the JSON document. Every error names the path of its key.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A mistake in the document, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the key, as in `agents.list[0].model`.
    pub at: String,
    /// Continues a sentence that begins with the key, as in `must be a text`.
    pub message: String,
}

/// A place in the document and its path. There may be no value.
#[derive(Clone)]
pub(super) struct View<'a> {
    pub(super) value: Option<&'a Value>,
    at: String,
    /// Records the paths that are looked up.
    asked: Option<&'a LookupLog>,
}

/// Paths that were looked up.
pub(super) type LookupLog = RefCell<BTreeSet<String>>;

impl<'a> View<'a> {
    pub(super) fn new(value: Option<&'a Value>, at: &str, asked: Option<&'a LookupLog>) -> Self {
        Self { value, at: at.to_owned(), asked }
    }

    /// Returns an error if the object has a key that is not in `names`.
    pub(super) fn only(&self, names: &[&str]) -> Result<(), Problem> {
        match self.entries()?.into_iter().find(|(name, _)| !names.contains(&name.as_str())) {
            Some((name, entry)) => Err(entry.problem(&unknown_reason(&name, names))),
            None => Ok(()),
        }
    }

    /// Returns the error with this message about this place.
    pub(super) fn problem(&self, message: &str) -> Problem {
        Problem { at: self.at.clone(), message: message.to_owned() }
    }

    pub(super) fn get(&self, name: &str) -> Result<Self, Problem> {
        let at = if self.at.is_empty() { name.to_owned() } else { format!("{}.{name}", self.at) };
        let value = match self.value {
            None => None,
            // `null` counts as missing.
            Some(Value::Object(object)) => object.get(name).filter(|value| !value.is_null()),
            Some(_) => return Err(self.problem("must be an object")),
        };
        // A missing key is recorded too: it is a key that flock knows.
        if let Some(asked) = self.asked {
            asked.borrow_mut().insert(at.clone());
        }
        Ok(Self { value, at, asked: self.asked })
    }

    pub(super) fn entries(&self) -> Result<Vec<(String, Self)>, Problem> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Value::Object(object)) => {
                object.keys().map(|name| Ok((name.clone(), self.get(name)?))).collect()
            }
            Some(_) => Err(self.problem("must be an object")),
        }
    }

    pub(super) fn items(&self) -> Result<Vec<Self>, Problem> {
        match self.value {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => Ok(items
                .iter()
                .enumerate()
                .map(|(index, value)| View {
                    value: Some(value),
                    at: format!("{}[{index}]", self.at),
                    asked: self.asked,
                })
                .collect()),
            Some(_) => Err(self.problem("must be a list")),
        }
    }

    pub(super) fn text(&self) -> Result<Option<String>, Problem> {
        self.convert(|value| value.as_str().map(str::to_owned), "must be a text")
    }

    pub(super) fn required_text(&self) -> Result<&'a str, Problem> {
        match self.value {
            // A text of blanks counts as empty.
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
            None => Err(self.problem("is missing")),
            Some(_) => Err(self.problem("must be a text that is not empty")),
        }
    }

    pub(super) fn texts(&self) -> Result<Vec<String>, Problem> {
        self.items()?.iter().map(|item| item.required_text().map(str::to_owned)).collect()
    }

    pub(super) fn flag(&self) -> Result<Option<bool>, Problem> {
        self.convert(Value::as_bool, "must be true or false")
    }

    pub(super) fn number(&self) -> Result<Option<u64>, Problem> {
        self.convert(Value::as_u64, "must be a whole number from 0")
    }

    /// Returns a whole number in a range, which is `what`, as in `a number of days`.
    pub(super) fn within<T: TryFrom<u64>>(
        &self,
        range: RangeInclusive<u64>,
        what: &str,
    ) -> Result<Option<T>, Problem> {
        let Some(number) = self.number()? else { return Ok(None) };
        let found = T::try_from(number).ok().filter(|_| range.contains(&number));
        let message = || format!("must be {what} from {} to {}", range.start(), range.end());
        found.map(Some).ok_or_else(|| self.problem(&message()))
    }

    /// Returns what `convert` makes of the value. `message` is the error if that is nothing.
    pub(super) fn convert<T>(
        &self,
        convert: impl FnOnce(&Value) -> Option<T>,
        message: &str,
    ) -> Result<Option<T>, Problem> {
        self.value.map(|value| convert(value).ok_or_else(|| self.problem(message))).transpose()
    }

    /// Returns a text, or an error if the text does not fit.
    pub(super) fn text_if(
        &self,
        fits: impl FnOnce(&str) -> bool,
        message: &str,
    ) -> Result<Option<String>, Problem> {
        let found = self.text()?;
        if found.as_deref().is_none_or(fits) { Ok(found) } else { Err(self.problem(message)) }
    }

    /// Parses a text with a grammar of its own, such as an id.
    pub(super) fn parsed<T: FromStr<Err: Display>>(&self) -> Result<T, Problem> {
        self.required_text()?.parse().map_err(|error| self.problem(&format!("is not usable: {error}")))
    }

    pub(super) fn word<T: DeserializeOwned>(&self, choices: &str) -> Result<Option<T>, Problem> {
        self.convert(|value| T::deserialize(value).ok(), &format!("must be {choices}"))
    }
}

/// Returns the message about an unknown key, with the most similar known name.
pub(super) fn unknown_reason(name: &str, names: &[&str]) -> String {
    let likeness = |known: &&str| strsim::jaro_winkler(&name.to_lowercase(), &known.to_lowercase());
    let near = names
        .iter()
        .map(|known| (likeness(known), *known))
        // Only a close match is suggested. Otherwise the list of all names helps more.
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match near {
        Some((_, near)) => format!("is not known: did you mean {near}?"),
        None => format!("is not known here: use {}", names.join(", ")),
    }
}
