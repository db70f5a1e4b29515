//! `flock dashboard`: opens the gateway's pages in a browser, and lists and ends the sign-ins of browsers.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Subcommand;
use serde::Deserialize;
use serde_json::json;

use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person, team};
use crate::clock;
use crate::env;
use crate::error::Kind;
use crate::gateway::routes::sign_ins::CreateCode;
use crate::home::{Home, atomic};
use crate::store::SignIn;
use crate::supervise::gateway_client::Call;
use crate::ui::{Table, TextStyle};

/// Open the dashboard in a browser
///
/// The gateway serves it on this machine. The browser signs in with a code that is good once and for a minute, and
/// stays signed in for up to 30 days, or until it was not used for 3 days. Without a screen, the address is printed.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Print the address with its code instead of opening a browser
    #[arg(long)]
    print: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the browsers that are signed in, or sign them out
    Sessions(SessionsArgs),
}

#[derive(Debug, clap::Args)]
struct SessionsArgs {
    #[command(subcommand)]
    verb: Option<SessionsVerb>,
}

#[derive(Debug, Subcommand)]
enum SessionsVerb {
    /// List the browsers that are signed in
    List,
    /// Sign a browser out
    Revoke {
        /// Id of the session, as the list shows it
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        /// Sign out all browsers
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

/// Time that the gateway may take.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedCode {
    code: String,
    expires_at: i64,
}

#[derive(Deserialize)]
struct SessionList {
    sessions: Vec<Session>,
}

#[derive(Deserialize)]
struct Session {
    #[serde(flatten)]
    sign_in: SignIn,
    notifications: Option<Notifications>,
}

#[derive(Deserialize)]
struct Notifications {
    result: Option<String>,
    failures: u32,
}

impl Notifications {
    /// Returns how they go, for the table.
    fn summary(&self) -> String {
        match &self.result {
            Some(problem) if self.failures > 0 => format!("failing: {problem}"),
            _ => "on".to_owned(),
        }
    }
}

/// Opens the dashboard, or runs the verb below `dashboard`.
///
/// # Errors
///
/// Returns an error if the gateway is not running or fails, if no browser can be opened, or if there is no such session.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        None => open(args.print, context),
        Some(Verb::Sessions(SessionsArgs { verb: None | Some(SessionsVerb::List) })) => list(context),
        Some(Verb::Sessions(SessionsArgs { verb: Some(SessionsVerb::Revoke { id, .. }) })) => {
            revoke(id.as_deref(), context)
        }
    }
}

fn open(print: bool, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let (created, port) = context.block_on(code(&home, context))?;
    // The address is that of this machine: a tunnel of the owner leads to it.
    let url = format!("http://127.0.0.1:{port}/dashboard?code={}", created.code);
    let has_screen = env::DISPLAY.get_os().or_else(|| env::WAYLAND_DISPLAY.get_os()).is_some();
    if print || context.printer.is_json() || !has_screen {
        context.printer.result(&json!({"url": url, "expiresAt": created.expires_at}), url.as_str());
        return Ok(Exit::Done);
    }
    let file = home.run().join("dashboard.html");
    atomic::write(&file, leading_page(&url).as_bytes(), 0o600)?;
    show(&file)?;
    context
        .printer
        .say("Opened the dashboard in the browser. If it does not appear: flock dashboard --print");
    Ok(Exit::Done)
}

/// Asks the gateway for a code. Returns it with the gateway's port.
async fn code(home: &Home, context: &Context) -> Result<(CreatedCode, u16), Failure> {
    let reconnector = Reconnector::new(home, context);
    let gateway = reconnector.gateway().await?.ok_or_else(team::not_running)?;
    let call = Call::post("/api/dashboard/codes").json(&CreateCode { by: Some(person::name()) })?;
    let ask = async |to: &crate::supervise::gateway_client::Client| {
        let answer = to.ask(call.clone(), TIMEOUT).await?.json::<CreatedCode>(TIMEOUT).await?;
        Ok((answer, to.address().port()))
    };
    // A second code does no harm.
    reconnector.ask(&gateway, Repeat::Safe, ask).await
}

/// Returns a page that leads to the address. The address itself would stand in the arguments of the program that opens
/// the browser, where every user of this machine can read the code.
fn leading_page(url: &str) -> String {
    format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={url}\">\
         <title>flock</title><p><a href=\"{url}\">flock</a></p>\n"
    )
}

fn show(file: &Path) -> Result<(), Failure> {
    const OPENER: &str = "xdg-open";
    let hint = "flock dashboard --print";
    let opener = which::which(OPENER).map_err(|_| {
        Failure::new(Kind::Failed, format!("there is no {OPENER}, which opens browsers")).hint(hint)
    })?;
    let status = Command::new(opener)
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|error| Failure::with_cause(format!("failed to run {OPENER}"), &error).hint(hint))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(Kind::Failed, format!("{OPENER} found no browser ({status})")).hint(hint))
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let reconnector = Reconnector::new(&home, context);
    let call = Call::get("/api/dashboard/sessions");
    let answer = context.block_on(reconnector.send(call, Repeat::Safe, TIMEOUT))?.answer;
    let listed: SessionList = serde_json::from_value(answer.clone())
        .map_err(|error| Failure::with_cause("the gateway answered with something else", &error))?;
    let mut table =
        Table::new(&["SESSION", "PERSON", "BROWSER", "SIGNED IN", "LAST USED", "EXPIRES", "NOTIFICATIONS"]);
    for Session { sign_in: session, notifications } in listed.sessions {
        let expires = session.expires_at();
        let told = notifications.as_ref().map_or_else(|| "off".to_owned(), Notifications::summary);
        table.styled_row(vec![
            (TextStyle::Accent, session.id),
            (TextStyle::Plain, session.person),
            (TextStyle::Plain, session.browser),
            (TextStyle::Plain, clock::local(session.created_at)),
            (TextStyle::Plain, clock::local(session.used_at)),
            (TextStyle::Plain, clock::local(expires)),
            (TextStyle::Plain, told),
        ]);
    }
    context.printer.list(&answer, &table, "No browser is signed in.");
    Ok(Exit::Done)
}

fn revoke(id: Option<&str>, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    // An invalid id is refused here, because it becomes part of a URL path.
    if let Some(wrong) = id.filter(|id| id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    {
        let text = format!("there is no session {:?} of a browser", crate::clean::summary(wrong, 80));
        return Err(Failure::new(Kind::Failed, text).hint("flock dashboard sessions"));
    }
    let by = person::name();
    let call = Call::delete(&match id {
        Some(id) => format!("/api/dashboard/sessions/{id}?by={by}"),
        None => format!("/api/dashboard/sessions?by={by}"),
    });
    let reconnector = Reconnector::new(&home, context);
    let answer = context.block_on(reconnector.send(call, Repeat::Unsent, TIMEOUT))?.answer;
    context.printer.if_json(&answer);
    context.printer.say(match (id, answer["ended"].as_u64().unwrap_or_default()) {
        (Some(id), _) => format!("Signed out the browser with the session {id}."),
        (None, 0) => "No browser was signed in.".to_owned(),
        (None, 1) => "Signed out one browser.".to_owned(),
        (None, ended) => format!("Signed out {ended} browsers."),
    });
    Ok(Exit::Done)
}
