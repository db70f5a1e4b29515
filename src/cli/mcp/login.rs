//! `flock mcp login` and `logout`: the sign-in to a server at a URL, with a browser.

use std::io::IsTerminal as _;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::browser::{BACK, Browser, Visit, VisitEnd};
use super::{add, done, unknown};
use crate::clean::spelled;
use crate::cli::{Context, Exit, Failure, person};
use crate::config::{self, McpServer};
use crate::error::Kind;
use crate::id::McpServerName;
use crate::mcp::oauth::{self, AuthorizationCode, SignIn, SignInChoice, TokenRevocation};
use crate::store::Level;

/// The time that a person has to sign in.
const PATIENCE: Duration = Duration::from_secs(600);

/// Sign in to a server at a URL, with a browser
///
/// flock prints an address. Open it in a browser, and sign in there. The browser then returns to flock on this machine. If it
/// can't, because it is on another machine, paste the address that it ends at.
///
/// A server that refused a call for want of scopes is asked for these, too.
#[derive(Debug, clap::Args)]
pub(super) struct LoginArgs {
    /// Name of the server
    server: McpServerName,
    /// Id of a client that was registered with the authorization server beforehand, or the https address of a document that
    /// describes one [default: flock registers itself]
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Ask for the secret of that client, or read it from stdin
    #[arg(long, requires = "client_id")]
    client_secret: bool,
    /// Scopes to ask for, separated by commas [default: those that the server proposes]
    #[arg(long, value_name = "SCOPE", value_delimiter = ',')]
    scopes: Vec<String>,
    /// Port of this machine that the browser returns to [default: any that is free]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Only read the address that the browser ends at from stdin, and open no port
    #[arg(long)]
    paste: bool,
}

/// Signs in to a server.
///
/// # Errors
///
/// Returns an error if the server has no sign-in, or if the person does not complete it in time.
pub(super) fn login(args: &LoginArgs, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    let server = config.mcp_server(&args.server).ok_or_else(|| unknown(&args.server))?;
    check(args, server)?;
    let client_secret = match args.client_secret {
        true => Some(add::read_secret("the client's secret", context)?),
        false => None,
    };
    let choice =
        SignInChoice { client_id: args.client_id.clone(), client_secret, scopes: args.scopes.clone() };
    let detail = context.block_on(async {
        let listening = |error: std::io::Error| Failure::with_cause("failed to wait for the browser", &error);
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, args.port.unwrap_or(0))).await.map_err(listening)?;
        let port = listener.local_addr().map_err(listening)?.port();
        // Otherwise the port is closed here.
        let browser = (!args.paste).then(|| Browser::wait_at(listener));
        let redirect = format!("http://127.0.0.1:{port}{BACK}");
        let sign_in = SignIn::begin(&home, server, &redirect, choice).await?;
        show(args, &sign_in, context);
        let code = tokio::time::timeout(PATIENCE, code(&sign_in, &redirect, browser, context)).await;
        let code = code.map_err(|_| nobody(args, "nobody signed in within 10 minutes"))??;
        let detail = format!("at {}; scopes: {}", sign_in.authorization_server(), sign_in.scopes().join(" "));
        sign_in.finish(code).await?;
        Ok::<_, Failure>(detail)
    })?;
    context.block_on(person::record(&home, "mcp.login", args.server.as_str(), Level::Yellow, detail))?;
    if context.printer.is_json() {
        context.printer.json_line(&json!({"server": args.server, "signedIn": true}));
    }
    context
        .printer
        .say(format!("signed in to {}; flock mcp test {} lists its tools", args.server, args.server));
    Ok(Exit::Done)
}

/// Checks that the server can have a sign-in, and the choices.
fn check(args: &LoginArgs, server: &McpServer) -> Result<(), Failure> {
    let name = &args.server;
    let Some(remote) = &server.remote else {
        let text = format!("{name} is a program; only a server at a URL has a sign-in");
        return Err(Failure::new(Kind::Usage, text).hint(format!("flock mcp show {name}")));
    };
    if remote.headers.contains_key("authorization") {
        let text = format!(
            "{name} is configured with the header authorization, which would be sent instead of a sign-in's token"
        );
        return Err(Failure::new(Kind::Usage, text).hint(format!("flock mcp show {name}")));
    }
    if args.paste && args.client_secret && !std::io::stdin().is_terminal() {
        let text = "stdin can't have both the client's secret and the address";
        return Err(Failure::new(Kind::Usage, text).hint("flock mcp login --help"));
    }
    Ok(())
}

/// Shows the person where to sign in, and for what.
fn show(args: &LoginArgs, sign_in: &SignIn, context: &Context) {
    let (address, place) = (sign_in.address(), sign_in.authorization_server());
    if context.printer.is_json() {
        let scopes = sign_in.scopes();
        context.printer.json_line(
            &json!({"server": args.server, "open": address, "authorizationServer": place, "scopes": scopes}),
        );
        return;
    }
    let scopes = match sign_in.scopes() {
        [] => "what it gives by itself".to_owned(),
        scopes => format!("the scopes {}", scopes.join(" ")),
    };
    context.printer.say(format!("{} lets you sign in at {}, for {scopes}", args.server, spelled(&place)));
    context.printer.say("open this address in a browser:");
    context.printer.line(spelled(address));
    if args.paste || std::io::stdin().is_terminal() {
        let when = if args.paste { "then" } else { "if the browser can't return to this machine," };
        context.printer.say(format!("{when} paste the address that it ends at"));
    }
}

fn nobody(args: &LoginArgs, text: &str) -> Failure {
    Failure::new(Kind::Failed, text).hint(format!("flock mcp login {}", args.server))
}

/// Waits for the code: from the browser itself, or from the person who pastes an address.
async fn code(
    sign_in: &SignIn,
    redirect: &str,
    mut browser: Option<Browser>,
    context: &Context,
) -> Result<AuthorizationCode, Failure> {
    let must_paste = browser.is_none();
    let mut pasted = (must_paste || std::io::stdin().is_terminal()).then(pasted_lines);
    loop {
        tokio::select! {
            visit = next_visit(browser.as_mut()) => {
                let read = sign_in.answer(&format!("{redirect}?{}", visit.query()));
                let end = match &read {
                    Ok(Some(_)) => VisitEnd::SignedIn,
                    Ok(None) => VisitEnd::Foreign,
                    Err(_) => VisitEnd::Refused,
                };
                visit.answer(end).await;
                if let Some(code) = read? {
                    return Ok(code);
                }
            }
            line = next_line(pasted.as_mut()) => match line {
                Some(line) => match sign_in.answer(line.trim())? {
                    Some(code) => return Ok(code),
                    None => context.printer.warn(&format!("the address that this sign-in ends at begins with {redirect}?")),
                },
                None if must_paste => {
                    return Err(Failure::new(Kind::Usage, "stdin ended without the address").hint("flock mcp login --help"));
                }
                None => pasted = None,
            },
        }
    }
}

async fn next_visit(browser: Option<&mut Browser>) -> Visit {
    match browser {
        Some(browser) => browser.next().await,
        None => std::future::pending().await,
    }
}

async fn next_line(pasted: Option<&mut mpsc::Receiver<String>>) -> Option<String> {
    match pasted {
        Some(pasted) => pasted.recv().await,
        None => std::future::pending().await,
    }
}

/// Reads lines of stdin. The thread may still wait for one when the process ends.
fn pasted_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Ends the sign-in to a server.
///
/// # Errors
///
/// Returns an error if there is no such server, or if its tokens can't be removed.
pub(super) fn logout(server: &McpServerName, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    let found = config.mcp_server(server).ok_or_else(|| unknown(server))?;
    let ended = context.block_on(async { Ok(oauth::sign_out(&home, found).await?) })?;
    let (word, text) = match &ended {
        None => (None, format!("there was no sign-in to {server}")),
        Some(TokenRevocation::Done) => {
            (Some("done"), format!("signed out of {server}; its tokens are revoked"))
        }
        Some(TokenRevocation::NotOffered) => (
            Some("notOffered"),
            format!("the tokens of {server} are removed; it offers no way to revoke them before their end"),
        ),
        Some(TokenRevocation::Failed(reason)) => {
            context.printer.warn(&format!(
                "the tokens of {server} could not be revoked, so it may accept them until their end: {reason}"
            ));
            (Some("failed"), format!("the tokens of {server} are removed"))
        }
    };
    if ended.is_some() {
        let detail = format!("revocation: {}", word.unwrap_or_default());
        context.block_on(person::record(&home, "mcp.logout", server.as_str(), Level::Yellow, detail))?;
    }
    done(context, &json!({"server": server, "was": ended.is_some(), "revocation": word}), &text)
}
