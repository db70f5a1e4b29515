//! Which model the agents of a new home use: what was given, else what is found here, else what a person at
//! the terminal says.

use super::super::{Context, Failure};
use super::found::{self, Found, Key};
use super::openclaw;
use crate::home::Home;
use crate::id::ModelRef;
use crate::ui::ask::{self, Item};

/// What was decided.
#[derive(Debug, Default)]
pub struct Choice {
    /// The default model; `None` leaves what is there.
    pub model: Option<ModelRef>,
    /// The address of its provider, where flock does not know it by itself.
    pub base_url: Option<String>,
    /// A key to be stored.
    pub key: Option<Key>,
    /// Whether a person wants OpenClaw as well.
    pub openclaw: bool,
}

impl From<Found> for Choice {
    fn from(found: Found) -> Self {
        Self { model: Some(found.model), base_url: found.base_url, key: found.key, ..Self::default() }
    }
}

/// Decides. Only a new home has something to decide, and only a person at a terminal is asked.
///
/// # Errors
///
/// If the person gives up.
pub fn choose(
    given: Option<&ModelRef>,
    home: &Home,
    fresh: bool,
    asks_gateway: bool,
    context: &Context,
) -> Result<Choice, Failure> {
    if given.is_some() || !fresh {
        return Ok(Choice { model: given.cloned(), ..Choice::default() });
    }
    let found = context.block_on(async { Ok(found::models().await) })?;
    if context.may_ask() {
        return ask_person(home, found, asks_gateway);
    }
    let mut choice = match found.into_iter().next() {
        Some(found) => {
            context.printer.say(format!("agents use {}: {}", found.model, found.source));
            Choice::from(found)
        }
        None => {
            context.printer.say(format!("agents use {}; --model chooses another one", found::USUAL));
            Choice { model: Some(found::USUAL.parse()?), ..Choice::default() }
        }
    };
    // A key is written to disk only for somebody who said so.
    if let Some(key) = choice.key.take() {
        context.printer.say(format!(
            "the key stays in {}; flock config set models.providers.{}.apiKey - keeps it in the home",
            key.variable, key.provider
        ));
    }
    Ok(choice)
}

fn ask_person(home: &Home, found: Vec<Found>, asks_gateway: bool) -> Result<Choice, Failure> {
    ask::begin(&format!("Setting up flock in {}", home.root().display()));
    let mut items: Vec<Item> = found
        .iter()
        .map(|found| Item { label: found.model.to_string(), note: found.source.clone() })
        .collect();
    let demo = items.len();
    items.push(Item {
        label: DEMO.to_owned(),
        note: "a written conversation, to try flock without an account".to_owned(),
    });
    items.push(Item { label: "another model".to_owned(), note: "provider/model".to_owned() });
    let place = ask::choose("Which model shall the agents use?", &items)?;
    let mut choice = match found.into_iter().nth(place) {
        Some(found) => keep_key(found.into())?,
        None if place == demo => Choice { model: Some(DEMO.parse()?), ..Choice::default() },
        None => {
            let check = |text: &str| text.parse::<ModelRef>().map(drop).map_err(|error| error.to_string());
            let text = ask::text("Its name, as provider/model", found::USUAL, check)?;
            Choice { model: Some(text.parse()?), ..Choice::default() }
        }
    };
    if asks_gateway {
        choice.openclaw = ask::confirm(openclaw::QUESTION, false)?;
    }
    ask::end("That is all there is to ask");
    Ok(choice)
}

fn keep_key(mut choice: Choice) -> Result<Choice, Failure> {
    if let Some(key) = &choice.key {
        let question =
            format!("Keep the key of {} in the home, so that flock has it at every start?", key.variable);
        if !ask::confirm(&question, true)? {
            choice.key = None;
        }
    }
    Ok(choice)
}

const DEMO: &str = "script/demo";
