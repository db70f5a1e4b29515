//! Discord's ids, which contain the time at which they were made.

/// Unix milliseconds at which Discord's ids begin.
const EPOCH: i64 = 1_420_070_400_000;
/// Number of bits of an id after its time.
const REST: u32 = 22;

/// Reads an id. `None` if it is not one.
pub(super) fn parse(id: &str) -> Option<u64> {
    // `u64` also reads a sign, which an id never has.
    id.bytes().all(|byte| byte.is_ascii_digit()).then(|| id.parse().ok()).flatten()
}

/// Returns the Unix milliseconds at which an id was made.
pub(super) fn time(id: u64) -> i64 {
    // 42 bits always fit.
    i64::try_from(id >> REST).unwrap_or(i64::MAX).saturating_add(EPOCH)
}

/// Returns the lowest id of a time in Unix milliseconds. All messages since then have higher ones.
pub(super) fn at(time: i64) -> u64 {
    let since = u64::try_from(time.saturating_sub(EPOCH)).unwrap_or(0);
    since.min(u64::MAX >> REST) << REST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_its_time() {
        // The example of Discord's documentation.
        assert_eq!(time(175_928_847_299_117_063), 1_462_015_105_796);
        assert_eq!(time(at(1_462_015_105_796)), 1_462_015_105_796);
        assert!(at(1_462_015_105_796) <= 175_928_847_299_117_063);
    }

    #[test]
    fn times_that_no_id_has_stay_in_the_range() {
        assert_eq!((at(0), at(i64::MIN)), (0, 0));
        assert!(at(i64::MAX) > at(4_000_000_000_000));
        assert!(time(u64::MAX) > 0);
    }

    #[test]
    fn only_digits_are_an_id() {
        assert_eq!(parse("42"), Some(42));
        for text in ["", "+1", "-1", "1a", "99999999999999999999999"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
