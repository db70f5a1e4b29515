//! The section with the day and its time zone. It leaves out the time of day, which would make every prompt a new one;
//! each message has its own time beside it.

use crate::agent::prompt::PromptContext;

/// Returns the section's text.
pub(super) fn text(context: &PromptContext<'_>) -> String {
    format!(
        "## Current Date & Time\n\n{} when this session began. Each message has its own time.",
        date(context)
    )
}

/// Returns the day on which the session began, as in `2026-03-22, Sunday (Asia/Seoul, +09:00)`.
pub(in crate::agent::prompt) fn date(context: &PromptContext<'_>) -> String {
    let zone = context.zone.iana_name().unwrap_or("local time");
    match jiff::Timestamp::from_millisecond(context.began) {
        Ok(time) => {
            let time = time.to_zoned(context.zone.clone());
            format!("{} ({zone}, {})", time.strftime("%Y-%m-%d, %A"), time.strftime("%:z"))
        }
        Err(_) => format!("An unknown day ({zone})"),
    }
}
