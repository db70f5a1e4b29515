//! Discord's permissions: who may do what in a channel.

use super::model::{Channel, Guild, Overwrite};

/// Lets a role do everything, whatever a channel denies.
const ADMINISTRATOR: u64 = 1 << 3;
pub(super) const VIEW_CHANNEL: u64 = 1 << 10;
const SEND_MESSAGES: u64 = 1 << 11;
const READ_MESSAGE_HISTORY: u64 = 1 << 16;
const SEND_MESSAGES_IN_THREADS: u64 = 1 << 38;

/// The overwrites of roles.
const OF_ROLE: u64 = 0;

/// Returns what a member with these roles may do in a channel of the server. For a thread, `channel` is its parent.
pub(super) fn of_member(guild: &Guild, channel: &Channel, account: &str, roles: &[String]) -> u64 {
    if guild.owner_id == account {
        return u64::MAX;
    }
    let has = |role: &str| role == guild.id || roles.iter().any(|own| own == role);
    let base =
        guild.roles.iter().filter(|role| has(&role.id)).fold(0, |all, role| all | bits(&role.permissions));
    if base & ADMINISTRATOR != 0 {
        return u64::MAX;
    }
    // The server's overwrite comes first, then those of all roles together, then the account's own.
    let of_everyone = |one: &Overwrite| one.kind == OF_ROLE && one.id == guild.id;
    let of_roles = |one: &Overwrite| one.kind == OF_ROLE && one.id != guild.id && has(&one.id);
    let of_account = |one: &Overwrite| one.kind != OF_ROLE && one.id == account;
    let mut allowed = applied(channel, base, of_everyone);
    allowed = applied(channel, allowed, of_roles);
    applied(channel, allowed, of_account)
}

fn applied(channel: &Channel, allowed: u64, which: impl Fn(&Overwrite) -> bool) -> u64 {
    let chosen = channel.permission_overwrites.iter().filter(|one| which(one));
    let (allow, deny) =
        chosen.fold((0, 0), |(allow, deny), one| (allow | bits(&one.allow), deny | bits(&one.deny)));
    allowed & !deny | allow
}

/// Returns the names of those permissions that flock needs in a channel and does not have.
pub(super) fn missing(allowed: u64, is_thread: bool) -> Vec<&'static str> {
    let send = if is_thread {
        (SEND_MESSAGES_IN_THREADS, "Send Messages in Threads")
    } else {
        (SEND_MESSAGES, "Send Messages")
    };
    [(VIEW_CHANNEL, "View Channel"), send, (READ_MESSAGE_HISTORY, "Read Message History")]
        .into_iter()
        .filter(|(bit, _)| allowed & bit == 0)
        .map(|(_, name)| name)
        .collect()
}

/// Returns those who can see a channel that not everybody can see, but for flock's bot: accounts, and `role:ID`.
/// `None` if everybody can.
pub(super) fn members(guild: &Guild, channel: &Channel, bot: &str) -> Option<Vec<String>> {
    if of_member(guild, channel, "", &[]) & VIEW_CHANNEL != 0 {
        return None;
    }
    let own_role =
        |id: &str| guild.roles.iter().any(|role| role.id == id && role.tags.bot_id.as_deref() == Some(bot));
    let sees = |one: &&Overwrite| bits(&one.allow) & VIEW_CHANNEL != 0 && one.id != bot && !own_role(&one.id);
    let named = |one: &Overwrite| {
        if one.kind == OF_ROLE { format!("role:{}", one.id) } else { one.id.clone() }
    };
    Some(channel.permission_overwrites.iter().filter(sees).map(named).collect())
}

/// Reads permissions, which Discord writes as a number in a string.
fn bits(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL: u64 = VIEW_CHANNEL | SEND_MESSAGES | READ_MESSAGE_HISTORY;

    fn guild(everyone: u64) -> Guild {
        let roles = json!([
            {"id": "g", "name": "@everyone", "permissions": everyone.to_string()},
            {"id": "staff", "permissions": "0"},
            {"id": "own", "permissions": "0", "tags": {"bot_id": "bot"}},
            {"id": "boss", "permissions": "8"},
        ]);
        serde_json::from_value(json!({"id": "g", "owner_id": "owner", "roles": roles})).unwrap()
    }

    fn channel(overwrites: serde_json::Value) -> Channel {
        serde_json::from_value(json!({"id": "c", "permission_overwrites": overwrites})).unwrap()
    }

    fn view(kind: u64, id: &str, is_allowed: bool) -> serde_json::Value {
        let (allow, deny) = if is_allowed { ("1024", "0") } else { ("0", "1024") };
        json!({"id": id, "type": kind, "allow": allow, "deny": deny})
    }

    #[test]
    fn a_private_channel_has_the_members_that_it_lets_in() {
        let private = channel(json!([
            view(0, "g", false),
            view(0, "staff", true),
            view(0, "own", true),
            view(1, "ann", true),
            view(1, "bot", true),
            view(1, "ben", false),
        ]));
        assert_eq!(
            members(&guild(ALL), &private, "bot"),
            Some(vec!["role:staff".to_owned(), "ann".to_owned()])
        );
        assert_eq!(members(&guild(ALL), &channel(json!([])), "bot"), None);
        assert_eq!(members(&guild(0), &channel(json!([])), "bot"), Some(Vec::new()));
    }

    #[test]
    fn overwrites_apply_from_the_server_to_the_account() {
        let roles = ["staff".to_owned()];
        let closed = channel(json!([view(0, "g", false), view(0, "staff", true)]));
        assert_eq!(of_member(&guild(ALL), &closed, "bot", &roles), ALL);
        assert_eq!(of_member(&guild(ALL), &closed, "bot", &[]), ALL & !VIEW_CHANNEL);
        let shut = channel(json!([view(1, "bot", false), view(0, "staff", true)]));
        assert_eq!(of_member(&guild(ALL), &shut, "bot", &roles) & VIEW_CHANNEL, 0);
        assert_eq!(of_member(&guild(0), &shut, "owner", &[]), u64::MAX);
        assert_eq!(of_member(&guild(0), &shut, "bot", &["boss".to_owned()]), u64::MAX);
    }

    #[test]
    fn missing_permissions_are_named_as_discord_names_them() {
        assert_eq!(missing(ALL, false), Vec::<&str>::new());
        assert_eq!(missing(VIEW_CHANNEL, false), ["Send Messages", "Read Message History"]);
        assert_eq!(missing(ALL, true), ["Send Messages in Threads"]);
    }
}
