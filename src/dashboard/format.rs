//! Amounts, times and texts as the pages show them.

use jiff::Timestamp;

pub(super) use crate::runtime::trace::with_thousands_separators as count;

/// Returns an amount of money from millionths of a dollar.
pub(super) fn money(micros: u64) -> String {
    // Below a cent, two digits would say nothing.
    let digits = if micros > 0 && micros < 10_000 { 4 } else { 2 };
    let dollars = precise(micros) / 1e6;
    format!("${dollars:.digits$}")
}

/// Returns a number of bytes in the unit that people read.
pub(super) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = precise(number);
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{number} B") } else { format!("{amount:.1} {}", UNITS[unit]) }
}

/// A point of time, for a `<time>` element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// In the form of ISO 8601, for programs.
    pub iso: String,
    /// In this machine's zone, for people without scripts.
    pub local: String,
}

impl Moment {
    /// Creates one from Unix milliseconds.
    pub(super) fn new(at: i64) -> Self {
        let iso = Timestamp::from_millisecond(at).map(|at| format!("{at:.3}")).unwrap_or_default();
        Self { iso, local: crate::clock::local(at) }
    }
}

/// Fills the places `{}` of a text in their order.
pub(super) fn fill(text: &str, values: &[&str]) -> String {
    let mut parts = text.split("{}");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for (at, part) in parts.enumerate() {
        out.push_str(values.get(at).copied().unwrap_or("{}"));
        out.push_str(part);
    }
    out
}

/// Returns a number as a fraction. The error of numbers over 2^53 is far below what is shown.
#[allow(clippy::cast_precision_loss, reason = "the shown digits are far fewer than those that are kept")]
fn precise(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_as_people_read_them() {
        assert_eq!([money(0), money(1_234), money(12_345_678)], ["$0.00", "$0.0012", "$12.35"]);
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [bytes(0), bytes(1_023), bytes(1_536), bytes(3 << 30)],
            ["0 B", "1023 B", "1.5 KiB", "3.0 GiB"]
        );
    }

    #[test]
    fn the_places_of_a_text_are_filled_in_order() {
        assert_eq!(fill("{} of {}", &["1", "2"]), "1 of 2");
        assert_eq!(fill("none", &["1"]), "none");
        assert_eq!(fill("{}", &[]), "{}");
    }

    #[test]
    fn a_moment_is_for_programs_and_for_people() {
        assert_eq!(Moment::new(1_795_300_481_000).iso, "2026-11-21T22:34:41.000Z");
    }
}
