//! Schedules of a gateway whose clock is set while it runs, and which is stopped for a while as by a machine that is suspended.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::process::Command;

use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::schedules::history;
use super::stage::{LIMIT, Served, log_text, said};
use crate::support::home::{TempHome, finish};
use crate::support::preload;
use crate::support::wait_until;

/// A home, and the clock that its gateway sees.
struct House {
    home: TempHome,
    library: PathBuf,
    clock: File,
}

impl House {
    /// A home with the channel `quiet`, in which nobody has to answer. `None` where nothing compiles C.
    fn at(time: &str) -> Option<Self> {
        let home = TempHome::new().init();
        let library = preload::library("team/wall_clock.c", &home.outside())?;
        let clock = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(home.outside().join("clock"))
            .unwrap();
        let house = Self { home, library, clock };
        house.set(time);
        house.home.flock(["channel", "create", "quiet", "--topic", "x", "--member", "human:ann"]).ok();
        Some(house)
    }

    /// Sets the clock. It goes on from this time.
    fn set(&self, time: &str) {
        let time: Timestamp = time.parse().unwrap();
        let ahead = time.as_nanosecond() - Timestamp::now().as_nanosecond();
        self.clock.write_all_at(&i64::try_from(ahead).unwrap().to_ne_bytes(), 0).unwrap();
    }

    /// Waits until the clock is past this time.
    fn until_past(&self, time: &str) {
        let time: Timestamp = time.parse().unwrap();
        wait_until(&format!("it is {time}"), LIMIT, || {
            let mut ahead = [0; 8];
            self.clock.read_exact_at(&mut ahead, 0).unwrap();
            let ahead = jiff::SignedDuration::from_nanos(i64::from_ne_bytes(ahead));
            let now = Timestamp::now().checked_add(ahead).unwrap();
            if now > time { Ok(()) } else { Err(now.to_string()) }
        });
    }

    fn command(&self) -> Command {
        let mut command = self.home.command();
        command.env("LD_PRELOAD", &self.library).env("WALL_CLOCK", self.home.outside().join("clock"));
        command
    }

    fn serve(&self) -> Served {
        Served::start_as(&self.home, self.command())
    }

    /// Adds a schedule of the channel, with its name and its times.
    fn add(&self, name: &str, times: &[&str]) {
        let mut command = self.command();
        command.args(["schedule", "add", "quiet", "--name", name]).args(times).arg("look");
        finish(&mut command).ok();
    }

    /// The times of a schedule and what became of them, as they were handled one after the other.
    fn rows(&self, name: &str) -> Vec<String> {
        let time = |at: &serde_json::Value| {
            let at = Timestamp::from_millisecond(at.as_i64().unwrap()).unwrap();
            at.strftime("%d %H:%M").to_string()
        };
        let row = |row: &serde_json::Value| {
            let (outcome, count) = (row["outcome"].as_str().unwrap(), row["count"].as_u64().unwrap());
            if count == 1 {
                format!("{} {outcome}", time(&row["slot"]))
            } else {
                format!("{} to {} {outcome} {count}", time(&row["slot"]), time(&row["last"]))
            }
        };
        history(&self.home, name).iter().rev().map(row).collect()
    }

    /// Waits until exactly this became of the times of a schedule.
    fn until(&self, name: &str, expected: &[&str]) {
        wait_until(&format!("the times of {name} are {expected:?}"), LIMIT, || {
            let rows = self.rows(name);
            if rows == expected { Ok(()) } else { Err(format!("{rows:?}\n{}", log_text(&self.home))) }
        });
    }

    /// How often the channel was given each message of a schedule.
    fn messages(&self) -> BTreeMap<String, usize> {
        let mut messages = BTreeMap::new();
        for (author, text) in said(&self.home, "quiet") {
            if let Some(message) = text.strip_suffix("\nlook") {
                assert_eq!(author, "system", "{text}");
                *messages.entry(message.to_owned()).or_default() += 1;
            }
        }
        messages
    }

    /// Compares the messages that the channel was given.
    fn was_given(&self, expected: &[(&str, usize)]) {
        let expected: BTreeMap<String, usize> =
            expected.iter().map(|(message, count)| ((*message).to_owned(), *count)).collect();
        assert_eq!(self.messages(), expected, "{}", log_text(&self.home));
    }
}

const HOURLY: [&str; 3] = ["0 * * * *", "--tz", "UTC"];

#[test]
fn a_clock_that_is_set_forward_and_back_loses_no_time_and_repeats_none() {
    let Some(house) = House::at("2027-01-12T03:00:00Z") else { return };
    let served = house.serve();
    // The gateway waits for nothing yet.
    house.set("2027-01-12T06:20:00Z");
    house.add("soon", &["--at", "2027-01-12T06:20:02Z"]);
    house.until("soon", &["12 06:20 ran"]);

    for policy in ["once", "skip", "all"] {
        house.add(policy, &[&HOURLY[..], &["--missed", policy]].concat());
    }
    house.set("2027-01-12T09:20:00Z");
    house.until("once", &["12 07:00 to 12 08:00 missed 2", "12 09:00 ran"]);
    house.until("skip", &["12 07:00 to 12 09:00 missed 3"]);
    house.until("all", &["12 07:00 ran", "12 08:00 ran", "12 09:00 ran"]);
    let mut given = vec![
        ("[Schedule soon]", 1),
        ("[Schedule once, due at 2027-01-12 09:00 UTC]", 1),
        ("[Schedule all, due at 2027-01-12 07:00 UTC]", 1),
        ("[Schedule all, due at 2027-01-12 08:00 UTC]", 1),
        ("[Schedule all, due at 2027-01-12 09:00 UTC]", 1),
    ];
    house.was_given(&given);
    // The next time is reached by itself.
    house.set("2027-01-12T09:59:59Z");
    house.until("skip", &["12 07:00 to 12 09:00 missed 3", "12 10:00 ran"]);
    house.until("once", &["12 07:00 to 12 08:00 missed 2", "12 09:00 ran", "12 10:00 ran"]);
    house.until("all", &["12 07:00 ran", "12 08:00 ran", "12 09:00 ran", "12 10:00 ran"]);

    house.set("2027-01-12T08:20:00Z");
    // It did not exist when the clock was ahead, so each of its runs says that the gateway has looked at the others, too.
    house.add("witness", &HOURLY);
    house.set("2027-01-12T08:59:59Z");
    house.until("witness", &["12 09:00 ran"]);
    // What was only recorded as missed, because the clock was ahead, has come again.
    house.until("skip", &["12 07:00 to 12 08:00 missed 2", "12 10:00 ran", "12 09:00 ran"]);
    house.set("2027-01-12T09:59:59Z");
    house.until("witness", &["12 09:00 ran", "12 10:00 ran"]);
    // The same over a restart.
    served.kill();
    house.set("2027-01-12T09:20:00Z");
    let _served = house.serve();
    house.set("2027-01-12T10:59:59Z");
    house.until("witness", &["12 09:00 ran", "12 10:00 ran", "12 11:00 ran"]);
    house.until("once", &["12 07:00 to 12 08:00 missed 2", "12 09:00 ran", "12 10:00 ran", "12 11:00 ran"]);
    house.until("skip", &["12 07:00 to 12 08:00 missed 2", "12 10:00 ran", "12 09:00 ran", "12 11:00 ran"]);
    house.until("all", &["12 07:00 ran", "12 08:00 ran", "12 09:00 ran", "12 10:00 ran", "12 11:00 ran"]);
    given.extend([
        ("[Schedule once]", 2),
        ("[Schedule skip]", 3),
        ("[Schedule all]", 2),
        ("[Schedule witness]", 3),
    ]);
    house.was_given(&given);
}

#[test]
fn a_machine_that_was_suspended_runs_or_records_the_times_that_passed() {
    let Some(house) = House::at("2027-01-12T12:20:00Z") else { return };
    let served = house.serve();
    let gateway = Pid::from_raw(i32::try_from(served.pid()).unwrap());
    for policy in ["once", "skip", "all"] {
        house.add(policy, &[&HOURLY[..], &["--missed", policy]].concat());
    }
    for (name, time) in [("first", "2027-01-12T12:30:02Z"), ("second", "2027-01-12T12:30:03Z")] {
        house.add(name, &["--at", time]);
    }
    // These times pass without a clock that is set.
    house.set("2027-01-12T12:30:00Z");
    kill(gateway, Signal::SIGSTOP).unwrap();
    house.until_past("2027-01-12T12:30:03Z");
    kill(gateway, Signal::SIGCONT).unwrap();
    house.until("first", &["12 12:30 ran"]);
    house.until("second", &["12 12:30 ran"]);

    kill(gateway, Signal::SIGSTOP).unwrap();
    house.set("2027-01-12T15:20:00Z");
    kill(gateway, Signal::SIGCONT).unwrap();
    house.until("once", &["12 13:00 to 12 14:00 missed 2", "12 15:00 ran"]);
    house.until("skip", &["12 13:00 to 12 15:00 missed 3"]);
    house.until("all", &["12 13:00 ran", "12 14:00 ran", "12 15:00 ran"]);
    house.set("2027-01-12T15:59:59Z");
    house.until("once", &["12 13:00 to 12 14:00 missed 2", "12 15:00 ran", "12 16:00 ran"]);
    house.until("skip", &["12 13:00 to 12 15:00 missed 3", "12 16:00 ran"]);
    house.until("all", &["12 13:00 ran", "12 14:00 ran", "12 15:00 ran", "12 16:00 ran"]);
    house.was_given(&[
        ("[Schedule first]", 1),
        ("[Schedule second]", 1),
        ("[Schedule once, due at 2027-01-12 15:00 UTC]", 1),
        ("[Schedule once]", 1),
        ("[Schedule skip]", 1),
        ("[Schedule all, due at 2027-01-12 13:00 UTC]", 1),
        ("[Schedule all, due at 2027-01-12 14:00 UTC]", 1),
        ("[Schedule all, due at 2027-01-12 15:00 UTC]", 1),
        ("[Schedule all]", 1),
    ]);
}

#[test]
fn a_change_to_or_from_summer_time_runs_each_local_time_once() {
    // 2027-03-28, 01:00 UTC: 02:00 to 03:00 does not exist in Berlin.
    let Some(house) = House::at("2027-03-27T23:10:00Z") else { return };
    let berlin = |pattern: &'static str| [pattern, "--tz", "Europe/Berlin"];
    let served = house.serve();
    house.add("skipped", &berlin("30 2 * * *"));
    house.add("morning", &berlin("0 5 * * *"));
    house.add("hourly", &berlin("30 * * * *"));
    for time in [
        "2027-03-27T23:30:01Z",
        "2027-03-28T00:30:01Z",
        // Here the change comes by itself.
        "2027-03-28T00:59:59Z",
    ] {
        house.set(time);
        house.until("skipped", if time.ends_with("00:59:59Z") { &["28 01:00 ran"] } else { &[] });
    }
    house.set("2027-03-28T01:30:01Z");
    house.until("hourly", &["27 23:30 ran", "28 00:30 ran", "28 01:30 ran"]);
    house.set("2027-03-28T02:59:59Z");
    house.until("morning", &["28 03:00 ran"]);
    // The next day, in summer time, at its own local time.
    house.set("2027-03-29T00:30:01Z");
    house.until("skipped", &["28 01:00 ran", "29 00:30 ran"]);
    served.kill();

    // 2027-10-31, 01:00 UTC: 02:00 to 03:00 comes twice. Both are an hour of a gateway that runs all the time.
    let Some(house) = House::at("2027-10-30T23:40:00Z") else { return };
    let _served = house.serve();
    house.add("repeated", &berlin("30 2 * * *"));
    house.add("morning", &berlin("0 5 * * *"));
    house.add("hourly", &berlin("30 * * * *"));
    house.set("2027-10-31T00:29:59Z");
    house.until("repeated", &["31 00:30 ran"]);
    house.set("2027-10-31T01:29:59Z");
    house.until("hourly", &["31 00:30 ran", "31 01:30 ran"]);
    house.set("2027-10-31T03:59:59Z");
    house.until("morning", &["31 04:00 ran"]);
    house.until("repeated", &["31 00:30 ran"]);
    house.set("2027-11-01T01:30:01Z");
    house.until("repeated", &["31 00:30 ran", "01 01:30 ran"]);
}
