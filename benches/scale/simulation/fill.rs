//! Fills a database as a team would have left it, without taking the team's time: rows are inserted in bulk, by texts
//! that both databases know. The audit stays empty, so it is whole.

use std::fmt::Write as _;

use flock::clock::unix_ms;
use flock::id::{SessionKey, SessionKind, TurnId};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::Plan;
use super::database::Connection;
use super::world::{Popularity, agent, channel, members, text};

/// Rows of one statement.
const ROWS: usize = 1_000;
/// Statements of one transaction.
const STATEMENTS: usize = 50;
/// One in so many members has not been given the last message of its channel.
const BEHIND: usize = 1_000;

/// Inserts channels, members, messages, positions and sessions.
pub fn fill(plan: Plan, connection: &Connection) {
    let mut rng = StdRng::seed_from_u64(plan.seed);
    let popularity = Popularity::new(plan.channels());
    let total = plan.channels() * plan.messages;
    let length = |channel: usize| popularity.part(channel, total);
    let at = unix_ms() - 86_400_000;
    let pairs = || (0..plan.channels()).flat_map(move |c| members(plan, c).map(move |member| (c, member)));

    let mut rows = Rows::new(connection, "channel (id, name, topic, created_by, created_at, last_seq)");
    for number in 0..plan.channels() {
        let id = channel(number);
        rows.add(format_args!("'{id}', '{id}', 'a topic', 'human:ann', {at}, {}", length(number)));
    }
    rows.end();
    let mut rows = Rows::new(connection, "member (channel, member, joined_at)");
    for (number, member) in pairs() {
        rows.add(format_args!("'{}', '{}', {at}", channel(number), agent(member)));
    }
    rows.end();
    let columns = "message (channel, seq, author, content, created_at, wake, turn)";
    let mut rows = Rows::new(connection, columns);
    for number in 0..plan.channels() {
        let (id, of_channel): (_, Vec<usize>) = (channel(number), members(plan, number).collect());
        for seq in 1..=length(number) {
            let said = text(&mut rng);
            // A person writes, and the agents answer.
            match seq % 5 {
                1 => rows.add(format_args!("'{id}', {seq}, 'human:ann', '{said}', {at}, 2, NULL")),
                place => {
                    let (author, turn) = (agent(of_channel[place]), TurnId::new());
                    rows.add(format_args!("'{id}', {seq}, '{author}', '{said}', {at}, 1, '{turn}'"));
                }
            }
        }
    }
    rows.end();
    let mut rows = Rows::new(connection, "delivery (agent, channel, delivered_seq)");
    for (place, (number, member)) in pairs().enumerate() {
        let seq = length(number) - usize::from(place % BEHIND == 0);
        rows.add(format_args!("'{}', '{}', {seq}", agent(member), channel(number)));
    }
    rows.end();
    // An agent works in a tenth of its channels.
    let columns = "session (key, file, agent, kind, created_at, updated_at, turns)";
    let mut rows = Rows::new(connection, columns);
    for (number, member) in pairs().filter(|(number, _)| number % 10 == 0) {
        let (of, place) = (agent(member), channel(number));
        let key = SessionKey::new(&of, SessionKind::Channel, place.as_str());
        rows.add(format_args!("'{key}', '{of}-{place}', '{of}', 'channel', {at}, {at}, 3"));
    }
    rows.end();
    connection.analyze();
}

/// The rows of one table that are being inserted.
struct Rows<'c> {
    connection: &'c Connection,
    /// The table and its columns.
    table: &'static str,
    text: String,
    rows: usize,
    statements: usize,
}

impl<'c> Rows<'c> {
    fn new(connection: &'c Connection, table: &'static str) -> Self {
        connection.run("BEGIN");
        Self { connection, table, text: String::new(), rows: 0, statements: 0 }
    }

    /// Adds a row: its values in the order of the columns. None of them has a quotation mark.
    fn add(&mut self, values: std::fmt::Arguments<'_>) {
        let begin = match self.rows {
            0 => format!("INSERT INTO {} VALUES ", self.table),
            _ => ", ".to_owned(),
        };
        write!(self.text, "{begin}({values})").unwrap();
        self.rows += 1;
        if self.rows == ROWS {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.rows == 0 {
            return;
        }
        self.connection.run(&self.text);
        self.text.clear();
        self.rows = 0;
        self.statements += 1;
        if self.statements.is_multiple_of(STATEMENTS) {
            self.connection.run("COMMIT; BEGIN");
        }
    }

    fn end(mut self) {
        self.flush();
        self.connection.run("COMMIT");
    }
}
