//! The connection on which the server tells a gateway about the changes of others.
//!
//! It is a task on the thread of the connections. A broken connection is replaced, and after each new one there is a notice
//! that some may have been lost. A connection that died silently is found by a question every few seconds.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{AsyncMessage, Client, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::PostgresError;
use super::server::{self, Server};
use super::settings::Settings;
use super::text::quoted;
use crate::config::secret;
use crate::error::chain;
use crate::home::Home;
use crate::store::notice::{Notice, NoticeBoard};

/// The time between two questions to the server.
const QUESTION_INTERVAL: Duration = Duration::from_secs(5);
/// The time for an answer, and for a new connection.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// The pause before a new connection.
const PAUSE: Duration = Duration::from_millis(500);

/// The listening task. Dropping it ends the connection.
pub(super) struct Listener {
    _stop: DropGuard,
}

/// The parts of a server that a new connection needs. The task must not keep the server itself: its thread would wait for
/// itself if the task were the last to let go of it.
struct Place {
    settings: Settings,
    home: Home,
    secret: String,
    tls: MakeRustlsConnect,
}

impl Listener {
    /// Begins to pass the server's notices to `board`. It does not wait for the connection.
    pub(super) fn start(server: &Arc<Server>, board: NoticeBoard) -> Self {
        let (settings, home, secret, tls) = server.parts();
        let place = Place { settings, home, secret, tls };
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        server.spawn(async move {
            // It ends by its cancellation alone.
            stopped.run_until_cancelled(listen_always(&place, &board)).await;
        });
        Self { _stop: stop.drop_guard() }
    }
}

async fn listen_always(place: &Place, board: &NoticeBoard) {
    let mut has_failed = false;
    loop {
        let Err(error) = listen(place, board, &mut has_failed).await;
        if !has_failed {
            tracing::warn!(error = chain(&error), "no notices come from PostgreSQL for a while");
        }
        has_failed = true;
        tokio::time::sleep(PAUSE).await;
    }
}

/// Makes a connection, and passes its notices on until it breaks. `has_failed` is unset once the connection is there.
async fn listen(
    place: &Place,
    board: &NoticeBoard,
    has_failed: &mut bool,
) -> Result<Infallible, PostgresError> {
    let password = secret::get(&place.home, &place.secret);
    let password = password.map_err(|error| PostgresError::Settings(chain(&error)))?;
    let config = place.settings.with_password(password.as_deref());
    let connected = tokio::time::timeout(
        ANSWER_LIMIT,
        server::connect(config, place.settings.encryption, place.tls.clone()),
    )
    .await;
    let (client, connection) = connected.map_err(|_| PostgresError::NoAnswer(ANSWER_LIMIT))??;
    let keep = async {
        ask(&client, &format!("LISTEN {}", quoted(&place.settings.channel()))).await?;
        // From now on nothing is lost, and before now anything may have been.
        board.put_up(Notice::Lost);
        *has_failed = false;
        keep(&client).await
    };
    // The messages are read while an answer is waited for: it is one of them.
    tokio::select! {
        ended = hear(connection, board) => ended,
        ended = keep => ended,
    }
}

/// Passes the notices of a connection on until it ends.
async fn hear<S: AsyncRead + AsyncWrite + Unpin>(
    mut connection: Connection<Socket, S>,
    board: &NoticeBoard,
) -> Result<Infallible, PostgresError> {
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    while let Some(message) = messages.next().await {
        if let AsyncMessage::Notification(found) = message?
            && let Some(notice) = Notice::parse(found.payload())
        {
            board.put_up(notice);
        }
    }
    Err(PostgresError::Connection("the server closed it".to_owned()))
}

/// Asks the server every few seconds if it is there, until it is not.
async fn keep(client: &Client) -> Result<Infallible, PostgresError> {
    loop {
        tokio::time::sleep(QUESTION_INTERVAL).await;
        ask(client, "SELECT 1").await?;
    }
}

async fn ask(client: &Client, question: &str) -> Result<(), PostgresError> {
    let answer = tokio::time::timeout(ANSWER_LIMIT, client.batch_execute(question)).await;
    answer.map_err(|_| PostgresError::NoAnswer(ANSWER_LIMIT))??;
    Ok(())
}
