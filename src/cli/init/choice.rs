//! Which model the agents of a new home use: what was given, else what is found here, else what a person at
//! the terminal says.

use super::super::{Context, Failure, models};
use crate::home::Home;
use crate::id::ModelRef;
use crate::ui::ask::{self, Item};

/// What was decided.
#[derive(Debug, Default)]
pub struct Choice {
    /// The default model; `None` leaves what is there.
    pub model: Option<ModelRef>,
    /// Keys to be stored, by provider.
    pub keys: Vec<(&'static str, String)>,
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
    context: &Context,
) -> Result<Choice, Failure> {
    if given.is_some() || !fresh {
        return Ok(Choice { model: given.cloned(), keys: Vec::new() });
    }
    let found = models::found(context);
    if !context.may_ask() {
        let model = match found.into_iter().next() {
            Some(found) => found.model,
            None => models::USUAL.parse()?,
        };
        context.printer.say(format!("agents use {model}; --model chooses another one"));
        return Ok(Choice { model: Some(model), keys: Vec::new() });
    }
    ask_person(home, found)
}

fn ask_person(home: &Home, found: Vec<models::Found>) -> Result<Choice, Failure> {
    ask::begin(&format!("Setting up flock in {}", home.root().display()));
    let mut items: Vec<Item> = found
        .iter()
        .map(|found| Item { label: found.model.to_string(), note: found.source.clone() })
        .collect();
    items.push(Item {
        label: "script/demo".to_owned(),
        note: "a written conversation, to try flock without an account".to_owned(),
    });
    items.push(Item { label: "another model".to_owned(), note: "provider/model".to_owned() });
    let place = ask::choose("Which model shall the agents use?", &items)?;
    let mut choice = Choice::default();
    match found.into_iter().nth(place) {
        Some(found) => {
            if let Some((provider, variable, key)) = found.key {
                let question = format!(
                    "Keep the key of {variable} in the home's secrets/, so that flock has it without the variable?"
                );
                if ask::confirm(&question, true)? {
                    choice.keys.push((provider, key));
                }
            }
            choice.model = Some(found.model);
        }
        None if place + 2 == items.len() => choice.model = "script/demo".parse().ok(),
        None => {
            let check = |text: &str| text.parse::<ModelRef>().map(drop).map_err(|error| error.to_string());
            let text = ask::text("Its name, as provider/model", models::USUAL, check)?;
            choice.model = Some(text.parse()?);
        }
    }
    ask::end("That is all there is to ask");
    Ok(choice)
}
