//! `flock bridge add` and `remove`: the account on a platform.

use serde_json::json;

use super::found_token;
use crate::bridge::{self, Credentials};
use crate::cli::{Context, Exit, Failure, token_file};
use crate::config::bridges::{self, BridgeSecret};
use crate::config::{self, Bridge, PlatformName, secret};
use crate::error::Kind;
use crate::home::Home;
use crate::ui::{StyledLine, TextStyle, ask};

/// Add an account on a platform
///
/// The token is checked at once, and stored in secrets/ of the home.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  flock bridge add matrix --homeserver https://matrix.example.org --token-file token.txt

docs/bridges.md says how to make the account and its token.")]
pub(super) struct AddArgs {
    /// Platform
    platform: PlatformName,
    /// Name of the bridge [default: the platform's]
    #[arg(long)]
    name: Option<String>,
    /// URL of the Matrix homeserver
    #[arg(long, value_name = "URL", required_if_eq("platform", "matrix"))]
    homeserver: Option<String>,
    /// URL of the platform's API, if it is not the public one
    #[arg(long, value_name = "URL", conflicts_with = "homeserver")]
    api: Option<String>,
    /// File with the account's token, or "-" for stdin [default: asks]
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
    /// File with Slack's app-level token [default: asks]
    #[arg(long, value_name = "FILE")]
    app_token_file: Option<String>,
    /// Use the token of DISCORD_BOT_TOKEN, SLACK_BOT_TOKEN and SLACK_APP_TOKEN, or TELEGRAM_BOT_TOKEN
    #[arg(long, conflicts_with_all = ["token_file", "app_token_file"])]
    from_env: bool,
    /// Give the bridge that has this name a new token; its links and what waits to be sent stay
    #[arg(long)]
    replace: bool,
}

impl AddArgs {
    fn token(file: Option<&str>, prompt: &str) -> Result<String, Failure> {
        match file {
            Some(file) => token_file::read(file),
            None => Ok(ask::secret(prompt)?.trim().to_owned()),
        }
    }

    /// Returns the bridge that is added, or the known one whose token is replaced.
    fn bridge(&self, name: &str, known: Option<&Bridge>) -> Result<Bridge, Failure> {
        let api = self.homeserver.as_ref().or(self.api.as_ref());
        let new = Bridge {
            api: api.map(|url| url.trim_end_matches('/').to_owned()),
            ..Bridge::new(name, self.platform)
        };
        let refused = |text: String, hint: String| Err(Failure::new(Kind::Conflict, text).hint(hint));
        match known {
            None if !self.replace => Ok(new),
            None => refused(format!("there is no bridge {name}"), "flock bridge list".to_owned()),
            Some(known) if !self.replace => {
                let hint = format!("flock bridge add {} --name {name} --replace", known.platform.as_str());
                refused(format!("there is a bridge {name} already; --replace gives it a new token"), hint)
            }
            // The links have ids of the platform and of its place, so another one is another bridge.
            Some(known) if known.platform != new.platform || known.api != new.api => {
                let place = known.api.as_deref().unwrap_or(known.platform.as_str());
                let text =
                    format!("the bridge {name} is an account at {place}, so no other one can take its place");
                refused(text, format!("flock bridge remove {name}"))
            }
            Some(known) => Ok(known.clone()),
        }
    }

    fn credentials(&self, home: &Home, context: &Context) -> Result<Credentials, Failure> {
        let platform = self.platform;
        let in_environment = found_token::in_environment(platform);
        if self.from_env {
            let Some(variables) = found_token::variable_names(platform) else {
                let text = format!("no variable of the environment has a token of {}", platform.as_str());
                return Err(Failure::new(Kind::Usage, text).hint("flock bridge add --help"));
            };
            let missing = || Failure::new(Kind::Failed, format!("{variables} has no token"));
            return in_environment.map(|found| found.credentials).ok_or_else(missing);
        }
        if self.token_file.is_none() && self.app_token_file.is_none() {
            if context.may_ask() {
                let found = in_environment.into_iter().chain(found_token::in_openclaw(home, platform));
                for found in found {
                    if ask::confirm(&format!("Use the token of {}?", found.source), true)? {
                        return Ok(found.credentials);
                    }
                }
            } else {
                // A token that lies about is not used by itself: it may be of another account.
                let text = "no token was given, and nobody can be asked for it";
                let hint = match in_environment {
                    Some(_) => format!("flock bridge add {} --from-env", platform.as_str()),
                    None => format!("flock bridge add {} --token-file FILE", platform.as_str()),
                };
                return Err(Failure::new(Kind::Failed, text).hint(hint));
            }
        }
        let (token, prompt) = (self.token_file.as_deref(), "Token of the account");
        if self.platform != PlatformName::Slack {
            return Ok(Credentials { token: Self::token(token, prompt)?, app_token: None });
        }
        Ok(Credentials {
            token: Self::token(token, "Bot token (xoxb-…)")?,
            app_token: Some(Self::token(self.app_token_file.as_deref(), "App-level token (xapp-…)")?),
        })
    }
}

pub(super) fn add(wanted: &AddArgs, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let name = wanted.name.as_deref().unwrap_or(wanted.platform.as_str());
    if !bridges::is_name(name) {
        let text =
            format!("{name:?} can't be the name of a bridge: use 1 to 32 lower-case letters, digits and '-'");
        return Err(Failure::new(Kind::Usage, text));
    }
    let known = config::read(&home)?.bridges.into_iter().find(|known| known.name == name);
    let bridge = wanted.bridge(name, known.as_ref())?;
    let credentials = wanted.credentials(&home, context)?;
    let failed = |error: &bridge::platform::PlatformError| {
        let place = bridge.api.as_deref().unwrap_or(bridge.platform.as_str());
        let text = format!("failed to sign in at {place}: {error}");
        Failure::new(Kind::Failed, text).hint("see docs/bridges.md for how to get a token")
    };
    let platform =
        bridge::with_credentials(&home, &bridge, credentials.clone()).map_err(|error| failed(&error))?;
    let account = context.block_on(async { platform.identify().await.map_err(|error| failed(&error)) })?;
    // The tokens are stored first: a bridge without one would fail until somebody looks.
    secret::set(&home, &BridgeSecret::Token.name(name), &credentials.token)?;
    if let Some(token) = &credentials.app_token {
        secret::set(&home, &BridgeSecret::AppToken.name(name), token)?;
    }
    let done = if known.is_some() { "gave a new token to" } else { "added" };
    if known.is_none() {
        bridges::add(&home, &bridge)?;
    }
    if context.printer.is_json() {
        context.printer.json(&json!({"name": name, "platform": bridge.platform, "account": account.id}));
        return Ok(Exit::Done);
    }
    let line = StyledLine::new().with(TextStyle::Good, done).plain(" ").accent(name);
    context.printer.line(line.plain(format!(", which is {}", account.name)));
    if known.is_some() {
        return Ok(Exit::Done);
    }
    let place = if bridge.platform == PlatformName::Matrix { "ROOM" } else { "CHANNEL" };
    context.printer.say(format!("Next: flock bridge link CHANNEL {name}:{place}"));
    Ok(Exit::Done)
}
