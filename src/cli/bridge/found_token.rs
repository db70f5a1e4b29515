//! Tokens of platforms that are on this machine already: in the environment, and among OpenClaw's settings.

use serde_json::Value;

use crate::bridge::Credentials;
use crate::cli::token_file;
use crate::config::{self, PlatformName, secret};
use crate::env::{self, Var};
use crate::home::Home;

/// A token that was found.
pub(super) struct FoundToken {
    /// The place, as a text for people.
    pub(super) source: String,
    pub(super) credentials: Credentials,
}

/// Returns the token in the environment, if the variables of the platform have one.
pub(super) fn in_environment(platform: PlatformName) -> Option<FoundToken> {
    let (token, app_token) = variables(platform)?;
    let names = [Some(token), app_token].into_iter().flatten().map(|variable| variable.name);
    let source = names.collect::<Vec<_>>().join(" and ");
    let read = |variable: Var| usable(&variable.get()?);
    found(source, read(token), app_token.map(read))
}

/// Returns the names of the variables that hold a platform's tokens, for a hint. `None` if it has none.
pub(super) fn variable_names(platform: PlatformName) -> Option<String> {
    let (token, app_token) = variables(platform)?;
    Some(app_token.map_or(token.name.to_owned(), |app| format!("{} and {}", token.name, app.name)))
}

/// Returns the variables of the bot's token and of Slack's second token.
fn variables(platform: PlatformName) -> Option<(Var, Option<Var>)> {
    match platform {
        PlatformName::Discord => Some((env::DISCORD_BOT_TOKEN, None)),
        PlatformName::Slack => Some((env::SLACK_BOT_TOKEN, Some(env::SLACK_APP_TOKEN))),
        PlatformName::Telegram => Some((env::TELEGRAM_BOT_TOKEN, None)),
        // Homeservers are many, and a token of one must not be sent to another.
        PlatformName::Matrix => None,
    }
}

/// Returns the token in OpenClaw's own settings for the platform, which `config.json` may have too.
pub(super) fn in_openclaw(home: &Home, platform: PlatformName) -> Option<FoundToken> {
    // An unreadable configuration is reported by the command itself.
    let (_, document) = config::file::read_document(home).ok()?;
    in_document(&document, platform)
}

fn in_document(document: &Value, platform: PlatformName) -> Option<FoundToken> {
    let (token, app_token) = match platform {
        PlatformName::Discord => ("token", None),
        PlatformName::Slack => ("botToken", Some("appToken")),
        PlatformName::Telegram => ("botToken", None),
        PlatformName::Matrix => return None,
    };
    let settings = &document["channels"][platform.as_str()];
    // A reference is not the token itself.
    let read = |key: &str| settings[key].as_str().filter(|text| !secret::is_reference(text)).and_then(usable);
    found(format!("channels.{}.{token} of config.json", platform.as_str()), read(token), app_token.map(read))
}

fn usable(text: &str) -> Option<String> {
    token_file::check(text).ok()
}

/// Joins the parts. A platform with two tokens needs both.
fn found(source: String, token: Option<String>, app_token: Option<Option<String>>) -> Option<FoundToken> {
    let app_token = match app_token {
        None => None,
        Some(found) => Some(found?),
    };
    Some(FoundToken { source, credentials: Credentials { token: token?, app_token } })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn openclaws_settings_have_a_token_under_its_own_names() {
        let document = json!({"channels": {
            "discord": {"token": "discord-token"},
            "slack": {"botToken": "xoxb-12345"},
            "telegram": {"botToken": "${TELEGRAM_BOT_TOKEN}"},
            "matrix": {"accessToken": "matrix-token"},
        }});
        let token = |platform| in_document(&document, platform).map(|found| found.credentials.token);
        assert_eq!(token(PlatformName::Discord).as_deref(), Some("discord-token"));
        // Slack needs two tokens, a reference is none, and a Matrix token belongs to one homeserver.
        for platform in [PlatformName::Slack, PlatformName::Telegram, PlatformName::Matrix] {
            assert_eq!(token(platform), None, "{platform:?}");
        }
        assert!(in_document(&json!({"channels": []}), PlatformName::Discord).is_none());
    }
}
