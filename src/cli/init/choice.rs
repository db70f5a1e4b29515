//! The choice of the model for the agents of a new home: the given one, else one found on this machine, else the answer
//! of the person at the terminal.

use super::super::{Context, Failure};
use super::model_detection::{self, DetectedKey, DetectedModel};
use super::openclaw;
use crate::home::Home;
use crate::id::ModelRef;
use crate::ui::ask::{self, SelectItem};

/// The choices for a new home.
#[derive(Debug, Default)]
pub(crate) struct InitChoice {
    /// The default model. `None` keeps the present one.
    pub model: Option<ModelRef>,
    /// The base URL of its provider, if flock does not know it.
    pub base_url: Option<String>,
    /// A key to store in the home.
    pub key: Option<DetectedKey>,
    /// `true` if the person wants OpenClaw as well.
    pub openclaw: bool,
}

impl From<DetectedModel> for InitChoice {
    fn from(found: DetectedModel) -> Self {
        Self { model: Some(found.model), base_url: found.base_url, key: found.key, ..Self::default() }
    }
}

/// Makes the choices. Only a new home needs them, and only a person at a terminal is asked.
///
/// # Errors
///
/// Returns an error if the person cancels.
pub(crate) fn choose(
    given: Option<&ModelRef>,
    home: &Home,
    fresh: bool,
    asks_gateway: bool,
    context: &Context,
) -> Result<InitChoice, Failure> {
    // An existing home keeps its model unless another one is given, so that `init` can safely be repeated.
    if given.is_some() || !fresh {
        return Ok(InitChoice { model: given.cloned(), ..InitChoice::default() });
    }
    let found = context.block_on(async { Ok(model_detection::models().await) })?;
    if context.may_ask() {
        return ask_person(home, found, asks_gateway);
    }
    let mut choice = match found.into_iter().next() {
        Some(found) => {
            context.printer.say(format!("agents use {}: {}", found.model, found.source));
            InitChoice::from(found)
        }
        None => {
            let text = format!("agents use {}; --model chooses another one", model_detection::USUAL);
            context.printer.say(text);
            InitChoice { model: Some(model_detection::USUAL.parse()?), ..InitChoice::default() }
        }
    };
    // A key is written to disk only if a person has agreed to it.
    if let Some(key) = choice.key.take() {
        context.printer.say(format!(
            "the key stays in {}; to keep it in the home: flock config set models.providers.{}.apiKey -",
            key.variable, key.provider
        ));
    }
    Ok(choice)
}

fn ask_person(home: &Home, found: Vec<DetectedModel>, asks_gateway: bool) -> Result<InitChoice, Failure> {
    ask::begin(&format!("Setting up flock in {}", home.root().display()));
    let mut items: Vec<SelectItem> = found
        .iter()
        .map(|found| SelectItem { label: found.model.to_string(), note: found.source.clone() })
        .collect();
    let demo = items.len();
    items.push(SelectItem {
        label: DEMO_MODEL.to_owned(),
        note: "a written conversation, to try flock without an account".to_owned(),
    });
    items.push(SelectItem { label: "another model".to_owned(), note: "provider/model".to_owned() });
    let place = ask::choose("Which model shall the agents use?", &items, 0)?;
    let mut choice = match found.into_iter().nth(place) {
        Some(found) => ask_key_storage(found.into())?,
        None if place == demo => InitChoice { model: Some(DEMO_MODEL.parse()?), ..InitChoice::default() },
        // The last entry of the list is a model that the person types.
        None => {
            let check = |text: &str| text.parse::<ModelRef>().map(drop).map_err(|error| error.to_string());
            let text = ask::text("Name of the model, as provider/model", model_detection::USUAL, check)?;
            InitChoice { model: Some(text.parse()?), ..InitChoice::default() }
        }
    };
    if asks_gateway {
        choice.openclaw = ask::confirm(openclaw::QUESTION, false)?;
    }
    ask::end("That is all there is to ask");
    Ok(choice)
}

fn ask_key_storage(mut choice: InitChoice) -> Result<InitChoice, Failure> {
    if let Some(key) = &choice.key {
        let question =
            format!("Keep the key of {} in the home, so that flock has it at every start?", key.variable);
        if !ask::confirm(&question, true)? {
            choice.key = None;
        }
    }
    Ok(choice)
}

const DEMO_MODEL: &str = "script/demo";
