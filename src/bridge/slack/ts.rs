//! Timestamps of messages, which are their ids within a channel.

use std::fmt;
use std::str::FromStr;

/// A timestamp in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ts(u64);

/// Microseconds in a second.
const SECOND: u64 = 1_000_000;

impl Ts {
    /// Returns the timestamp of a time in Unix milliseconds.
    pub(super) fn from_ms(ms: i64) -> Self {
        Self(u64::try_from(ms).unwrap_or(0).saturating_mul(1000))
    }

    /// Returns the time in Unix milliseconds.
    pub(super) fn ms(self) -> i64 {
        i64::try_from(self.0 / 1000).unwrap_or(i64::MAX)
    }

    /// Returns the timestamp that is this many seconds earlier.
    pub(super) const fn before(self, seconds: u64) -> Self {
        Self(self.0.saturating_sub(seconds.saturating_mul(SECOND)))
    }
}

impl FromStr for Ts {
    type Err = ();

    /// Reads the form `SECONDS.MICROSECONDS`, which always has six digits behind the point.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (seconds, micros) = text.split_once('.').ok_or(())?;
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !(1..=12).contains(&seconds.len())
            || micros.len() != 6
            || !are_digits(seconds)
            || !are_digits(micros)
        {
            return Err(());
        }
        let seconds: u64 = seconds.parse().map_err(|_| ())?;
        let micros: u64 = micros.parse().map_err(|_| ())?;
        Ok(Self(seconds * SECOND + micros))
    }
}

impl fmt::Display for Ts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / SECOND, self.0 % SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_read_and_written() {
        let ts: Ts = "1700000000.000120".parse().unwrap();
        assert_eq!((ts.to_string().as_str(), ts.ms()), ("1700000000.000120", 1_700_000_000_000));
        assert_eq!(Ts::from_ms(1_700_000_000_123).to_string(), "1700000000.123000");
        assert_eq!(ts.before(1).to_string(), "1699999999.000120");
        assert_eq!(Ts::from_ms(-1).before(5).to_string(), "0.000000");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "1", "1.1", "1.1234567", "-1.123456", "1.12345é", "9999999999999.000000", "+1.000000"]
        {
            assert!(text.parse::<Ts>().is_err(), "{text}");
        }
    }
}
