use super::*;

const HOUR: i64 = DAY / 24;
const T: i64 = 1_000 * DAY;

const fn seen(at: i64) -> ClockState {
    ClockState { seen_at: at, jump: None }
}

fn is_doubted((verdict, _): (ClockVerdict, ClockState)) -> bool {
    matches!(verdict, ClockVerdict::Doubted { .. })
}

#[test]
fn a_clock_that_advances_normally_is_trusted() {
    for (note, newest, since) in [
        (ClockState::default(), None, None),
        (ClockState::default(), Some(T - HOUR), None),
        (seen(T - 30 * DAY), Some(T - HOUR), None),
        (seen(T - HOUR), Some(T - 30 * DAY), None),
        (seen(T - 3 * DAY), Some(T - 9 * DAY), Some(3 * DAY)),
        // A clock that was set back deletes fewer records.
        (seen(T + 40 * DAY), Some(T + 40 * DAY), None),
    ] {
        assert_eq!(judge(note, newest, since, T), (ClockVerdict::Believed, seen(T)), "{note:?} {newest:?}");
    }
}

#[test]
fn a_clock_that_is_forty_days_ahead_deletes_nothing_until_the_next_day() {
    let jumped = T + 40 * DAY;
    let jump = ClockJump { found_at: jumped, from: T };
    let (verdict, note) = judge(seen(T - HOUR), Some(T), None, jumped);
    assert_eq!(verdict, ClockVerdict::Doubted { jump, new: true });
    // Rows that were written meanwhile confirm nothing, because they carry the time of the same clock.
    let again = judge(note, Some(jumped + HOUR), None, jumped + 2 * HOUR);
    assert_eq!(again.0, ClockVerdict::Doubted { jump, new: false });
    assert!(is_doubted(judge(again.1, Some(jumped), Some(HOUR), jumped + DAY - 1)));
    assert_eq!(
        judge(again.1, Some(jumped), None, jumped + DAY),
        (ClockVerdict::Believed, seen(jumped + DAY))
    );
    // The clock was corrected. Records that are old by it may be deleted.
    assert_eq!(judge(again.1, Some(jumped), None, T + DAY), (ClockVerdict::Believed, seen(T + DAY)));
}

#[test]
fn a_clock_that_jumps_while_the_process_runs_is_doubted() {
    assert!(!is_doubted(judge(seen(T), Some(T), Some(DAY), T + DAY + HOUR)));
    assert!(is_doubted(judge(seen(T), Some(T + 40 * DAY), Some(DAY), T + 41 * DAY)));
}

#[test]
fn a_person_can_confirm_the_clock() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path().to_owned(), None);
    std::fs::create_dir_all(home.data()).unwrap();
    assert_eq!(read(&home).unwrap(), ClockState::default());
    let (_, note) = judge(seen(T), Some(T), None, T + 40 * DAY);
    write(&home, &note).unwrap();
    assert_eq!(read(&home).unwrap(), note);
    assert!(confirm(&home, T + 40 * DAY).unwrap());
    assert!(!is_doubted(judge(read(&home).unwrap(), Some(T), None, T + 40 * DAY + HOUR)));
    assert!(!confirm(&home, T).unwrap());
    std::fs::write(home.clock(), "{").unwrap();
    assert_eq!(read(&home).unwrap(), ClockState::default());
}
