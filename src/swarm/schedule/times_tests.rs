//! The times of patterns in zones whose clocks change, against a model that goes through the minutes one by one.

use std::collections::BTreeSet;

use jiff::civil::{Date, DateTime};
use jiff::tz::AmbiguousOffset;
use proptest::prelude::*;

use super::*;

/// Zones with different changes: an hour at two and at three, half an hour, none, and one that is behind.
const ZONES: [&str; 5] =
    ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Seoul", "Pacific/Chatham"];

fn local_times(pattern: &str, zone: &str) -> LocalTimes {
    LocalTimes { pattern: CronPattern::parse(pattern).unwrap(), zone: find_zone(zone).unwrap() }
}

fn at(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

fn between(times: &LocalTimes, from: i64, until: i64) -> Vec<i64> {
    let mut found = Vec::new();
    let mut last = from;
    while let Some(next) = times.next_after(last).filter(|next| *next <= until) {
        assert!(next > last, "time goes on");
        found.push(next);
        last = next;
    }
    found
}

fn shown(times: &LocalTimes, from: &str, until: &str) -> Vec<String> {
    let times = between(times, at(from), at(until));
    times
        .into_iter()
        .map(|at| Timestamp::from_millisecond(at).unwrap().strftime("%dT%H:%M").to_string())
        .collect()
}

/// A pattern as the model reads it: the sets of its fields, without croner.
#[derive(Clone, Debug)]
struct Model {
    minutes: BTreeSet<i8>,
    hours: BTreeSet<i8>,
    is_hourly: bool,
    weekdays: BTreeSet<i8>,
    text: String,
}

impl Model {
    fn fits(&self, local: DateTime) -> bool {
        self.minutes.contains(&local.minute())
            && self.hours.contains(&local.hour())
            && self.weekdays.contains(&local.weekday().to_sunday_zero_offset())
    }

    /// Returns the times by looking at every local minute of the days, one after the other.
    fn times(&self, zone: &TimeZone, from: i64, until: i64) -> BTreeSet<i64> {
        let mut found = BTreeSet::new();
        let begin = TimeZone::UTC.to_datetime(Timestamp::from_millisecond(from).unwrap());
        let mut local = begin.date().yesterday().unwrap().at(0, 0, 0, 0);
        let last =
            TimeZone::UTC.to_datetime(Timestamp::from_millisecond(until).unwrap()).date().tomorrow().unwrap();
        while local.date() <= last {
            if self.fits(local) {
                match zone.to_ambiguous_timestamp(local).offset() {
                    AmbiguousOffset::Unambiguous { offset } => {
                        found.insert(offset.to_timestamp(local).unwrap());
                    }
                    AmbiguousOffset::Fold { before, after } => {
                        found.insert(before.to_timestamp(local).unwrap());
                        if self.is_hourly {
                            found.insert(after.to_timestamp(local).unwrap());
                        }
                    }
                    // The first moment of the new offset is found by going through the seconds.
                    AmbiguousOffset::Gap { before, .. } if !self.is_hourly => {
                        let mut moment = before.to_timestamp(local).unwrap();
                        while zone.to_offset(moment) != before {
                            moment = moment.checked_sub(jiff::SignedDuration::from_secs(1)).unwrap();
                        }
                        found.insert(moment.checked_add(jiff::SignedDuration::from_secs(1)).unwrap());
                    }
                    AmbiguousOffset::Gap { .. } => {}
                }
            }
            local = local.checked_add(jiff::SignedDuration::from_mins(1)).unwrap();
        }
        let found = found.into_iter().map(|at| at.as_millisecond());
        found.filter(|at| *at > from && *at <= until).collect()
    }
}

fn model() -> impl Strategy<Value = Model> {
    let minutes = prop_oneof![
        Just(("*".to_owned(), (0..60).collect::<BTreeSet<i8>>())),
        (1..31_i8)
            .prop_map(|step| (format!("*/{step}"), (0..60).step_by(step.unsigned_abs().into()).collect())),
        proptest::collection::btree_set(0..60_i8, 1..3).prop_map(|set| (list(&set), set)),
    ];
    let hours = prop_oneof![
        Just(("*".to_owned(), (0..24).collect::<BTreeSet<i8>>())),
        (1..6_i8)
            .prop_map(|step| (format!("*/{step}"), (0..24).step_by(step.unsigned_abs().into()).collect())),
        // The hours around the changes.
        proptest::collection::btree_set(0..5_i8, 1..3).prop_map(|set| (list(&set), set)),
    ];
    let weekdays = prop_oneof![
        Just(("*".to_owned(), (0..7).collect::<BTreeSet<i8>>())),
        proptest::collection::btree_set(0..7_i8, 1..3).prop_map(|set| (list(&set), set)),
    ];
    (minutes, hours, weekdays).prop_map(|((minute, minutes), (hour, hours), (weekday, weekdays))| Model {
        is_hourly: hour.starts_with('*'),
        text: format!("{minute} {hour} * * {weekday}"),
        minutes,
        hours,
        weekdays,
    })
}

fn list(set: &BTreeSet<i8>) -> String {
    set.iter().map(i8::to_string).collect::<Vec<_>>().join(",")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_times_are_those_of_a_model_that_looks_at_every_minute(
        model in model(),
        zone in proptest::sample::select(&ZONES[..]),
        // The days around the changes of two years, and any others.
        start in prop_oneof![
            proptest::sample::select(&["2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31",
                "2027-03-13", "2027-03-27", "2027-04-03", "2027-10-02", "2027-10-30", "2027-11-06"][..])
                .prop_map(|day| at(&format!("{day}T00:00:00Z"))),
            (0..730_i64).prop_map(|day| at("2026-01-01T00:00:00Z") + day * 86_400_000),
        ],
        shift in 0..86_400_000_i64,
    ) {
        let times = local_times(&model.text, zone);
        let (from, until) = (start + shift, start + shift + 3 * 86_400_000);
        let found: BTreeSet<i64> = between(&times, from, until).into_iter().collect();
        prop_assert_eq!(found, model.times(&times.zone, from, until), "{} in {}", model.text, zone);
    }
}

/// One item of the field of the days of a month, without croner.
#[derive(Clone, Debug)]
enum MonthDay {
    Day(i8),
    /// The workday of the month that is nearest to a day: `15W`.
    Nearest(i8),
    Last,
    LastWorkday,
}

impl MonthDay {
    fn text(&self) -> String {
        match self {
            Self::Day(day) => day.to_string(),
            Self::Nearest(day) => format!("{day}W"),
            Self::Last => "L".to_owned(),
            Self::LastWorkday => "LW".to_owned(),
        }
    }

    fn fits(&self, date: Date) -> bool {
        let of_month = (1..=date.days_in_month()).map(|day| date.with().day(day).build().unwrap());
        let is_workday = |date: &Date| (1..=5).contains(&date.weekday().to_sunday_zero_offset());
        match self {
            Self::Day(day) => date.day() == *day,
            Self::Last => date.day() == date.days_in_month(),
            Self::LastWorkday => of_month.rev().find(is_workday) == Some(date),
            Self::Nearest(day) => {
                let nearest = of_month.filter(is_workday).min_by_key(|date| (date.day() - day).abs());
                *day <= date.days_in_month() && nearest == Some(date)
            }
        }
    }
}

/// One item of the field of the days of a week.
#[derive(Clone, Debug)]
enum WeekDay {
    Day(i8),
    /// The nth of its kind in a month: `1#2`.
    Nth(i8, i8),
    /// The last of its kind in a month: `5L`.
    Last(i8),
}

impl WeekDay {
    fn text(&self) -> String {
        match self {
            Self::Day(day) => day.to_string(),
            Self::Nth(day, nth) => format!("{day}#{nth}"),
            Self::Last(day) => format!("{day}L"),
        }
    }

    fn fits(&self, date: Date) -> bool {
        let (Self::Day(day) | Self::Nth(day, _) | Self::Last(day)) = self;
        let alike: Vec<i8> =
            (1..=date.days_in_month()).filter(|other| (date.day() - other) % 7 == 0).collect();
        date.weekday().to_sunday_zero_offset() == *day
            && match self {
                Self::Day(_) => true,
                Self::Nth(_, nth) => alike.get(usize::from(nth.unsigned_abs()) - 1) == Some(&date.day()),
                Self::Last(_) => alike.last() == Some(&date.day()),
            }
    }
}

/// The fields of a pattern that choose days. An empty one is `*`.
#[derive(Clone, Debug)]
struct Days {
    of_month: Vec<MonthDay>,
    months: BTreeSet<i8>,
    of_week: Vec<WeekDay>,
}

impl Days {
    fn pattern(&self) -> String {
        let field = |items: Vec<String>| if items.is_empty() { "*".to_owned() } else { items.join(",") };
        let of_month = field(self.of_month.iter().map(MonthDay::text).collect());
        let months = field(self.months.iter().map(i8::to_string).collect());
        let of_week = field(self.of_week.iter().map(WeekDay::text).collect());
        format!("0 12 {of_month} {months} {of_week}")
    }

    fn fits(&self, date: Date) -> bool {
        let of_month = self.of_month.iter().any(|item| item.fits(date));
        let of_week = self.of_week.iter().any(|item| item.fits(date));
        let fits = match (self.of_month.is_empty(), self.of_week.is_empty()) {
            (true, true) => true,
            (false, true) => of_month,
            (true, false) => of_week,
            (false, false) => of_month || of_week,
        };
        fits && (self.months.is_empty() || self.months.contains(&date.month()))
    }
}

fn days() -> impl Strategy<Value = Days> {
    let of_month = prop_oneof![
        4 => (1..32_i8).prop_map(MonthDay::Day),
        2 => (1..32_i8).prop_map(MonthDay::Nearest),
        1 => Just(MonthDay::Last),
        1 => Just(MonthDay::LastWorkday),
    ];
    let of_week = prop_oneof![
        2 => (0..7_i8).prop_map(WeekDay::Day),
        1 => (0..7_i8, 1..6_i8).prop_map(|(day, nth)| WeekDay::Nth(day, nth)),
        1 => (0..7_i8).prop_map(WeekDay::Last),
    ];
    let of_month =
        proptest::collection::vec(of_month, 0..3).prop_filter("L and LW are refused together", |items| {
            let has = |wanted: fn(&MonthDay) -> bool| items.iter().any(wanted);
            !(has(|item| matches!(item, MonthDay::Last)) && has(|item| matches!(item, MonthDay::LastWorkday)))
        });
    let of_week = proptest::collection::vec(of_week, 0..3);
    (of_month, proptest::collection::btree_set(1..13_i8, 0..4), of_week)
        .prop_map(|(of_month, months, of_week)| Days { of_month, months, of_week })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_days_are_those_of_a_model_that_looks_at_every_day(days in days()) {
        let times = local_times(&days.pattern(), "UTC");
        // With a leap day.
        let (first, last) = (jiff::civil::date(2027, 1, 1), jiff::civil::date(2028, 12, 31));
        let noon = |date: Date| TimeZone::UTC.to_timestamp(date.at(12, 0, 0, 0)).unwrap().as_millisecond();
        let wanted: Vec<i64> = first.series(jiff::Span::new().days(1)).take_while(|date| *date <= last)
            .filter(|date| days.fits(*date)).map(noon).collect();
        prop_assert_eq!(between(&times, noon(first) - 1, noon(last)), wanted, "{}", days.pattern());
    }
}

#[test]
fn nicknames_stand_for_their_patterns() {
    let (from, until) = (at("2027-01-01T12:00:00Z"), at("2029-01-01T12:00:00Z"));
    for (nickname, pattern) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
    ] {
        let times = |text: &str| between(&local_times(text, "Europe/Berlin"), from, until);
        assert!(times(nickname).len() >= 2, "{nickname}");
        assert_eq!(times(nickname), times(pattern), "{nickname}");
    }
}

#[test]
fn two_years_of_a_fixed_time_have_one_run_a_day() {
    for zone in ZONES {
        for pattern in ["30 2 * * *", "0 3 * * *", "45 1 * * *", "0 0 * * *"] {
            let times = local_times(pattern, zone);
            // Noon of the first day to noon of the last, in every zone.
            let found = between(&times, at("2026-01-01T23:00:00Z"), at("2028-01-01T23:00:00Z"));
            assert_eq!(found.len(), 730, "{pattern} in {zone}");
        }
    }
}

#[test]
fn a_local_time_that_does_not_exist_runs_once_at_the_change() {
    // In Berlin 2:00 to 3:00 is left out at 1:00 UTC.
    let (from, until) = ("2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");
    assert_eq!(shown(&local_times("30 2 * * *", "Europe/Berlin"), from, until), ["29T01:00"]);
    assert_eq!(
        shown(&local_times("0,15,30,45 2,3 * * *", "Europe/Berlin"), from, until)[..2],
        ["29T01:00", "29T01:15"]
    );
    assert_eq!(
        shown(&local_times("30 * * * *", "Europe/Berlin"), "2026-03-28T23:45:00Z", "2026-03-29T02:00:00Z"),
        ["29T00:30", "29T01:30"],
        "an hourly one goes on every hour"
    );
    // At Lord Howe half an hour is left out.
    let (from, until) = ("2026-10-03T12:00:00Z", "2026-10-03T18:00:00Z");
    assert_eq!(shown(&local_times("10 2 * * *", "Australia/Lord_Howe"), from, until), ["03T15:30"]);
}

#[test]
fn a_local_time_that_exists_twice_runs_once() {
    let (from, until) = ("2026-10-24T23:30:00Z", "2026-10-25T02:30:00Z");
    assert_eq!(shown(&local_times("30 2 * * *", "Europe/Berlin"), from, until), ["25T00:30"]);
    assert_eq!(
        shown(&local_times("30 * * * *", "Europe/Berlin"), from, until),
        ["25T00:30", "25T01:30", "25T02:30"],
        "an hourly one runs in both"
    );
}

#[test]
fn rare_days_are_found_and_impossible_ones_end_the_search() {
    let leap = local_times("0 0 29 2 *", "Europe/Berlin");
    assert_eq!(between(&leap, at("2026-01-01T00:00:00Z"), at("2033-01-01T00:00:00Z")).len(), 2);
    assert_eq!(local_times("0 0 30 2 *", "Europe/Berlin").next_after(at("2026-01-01T00:00:00Z")), None);
}

#[test]
fn single_local_times_follow_the_same_rules() {
    let berlin = find_zone("Europe/Berlin").unwrap();
    let moment = |local: &str| moment(local.parse().unwrap(), &berlin).unwrap();
    assert_eq!(moment("2026-03-29T02:30"), at("2026-03-29T01:00:00Z"));
    assert_eq!(moment("2026-10-25T02:30"), at("2026-10-25T00:30:00Z"));
    assert_eq!(moment("2026-07-01T12:00"), at("2026-07-01T10:00:00Z"));
}

#[test]
fn an_interval_is_measured_in_elapsed_time() {
    let every = Times::Every { from: 1_000, period: 60_000 };
    assert_eq!(every.next_after(0), Some(61_000), "the first one is a whole interval later");
    assert_eq!(every.next_after(61_000), Some(121_000));
    assert_eq!(every.next_after(-999_999), Some(61_000));
    let once = Times::At(5);
    assert_eq!((once.next_after(4), once.next_after(5)), (Some(5), None));
    assert_eq!(Times::Never.next_after(0), None);
}
