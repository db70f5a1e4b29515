//! Names of people who come from other platforms.

use crate::id::Party;

/// Maximum length of a person's name, which is that of [`Party`]'s grammar less the room for a suffix.
const MAX_NAME: usize = 58;

/// Returns the names under which a person can be known in flock, the best one first, made from the account's user name.
///
/// Letters become lower case, and what a name can't contain becomes a `-`. The further names have suffixes from `-2`
/// on: accounts are told apart by their ids, so two people may have one user name, and nobody may get the name of
/// another person by choosing it. Names that `is_reserved` are left out.
pub(crate) fn names_for<F>(username: &str, is_reserved: F) -> impl Iterator<Item = Party> + use<F>
where
    F: Fn(&Party) -> bool,
{
    let base = normalised(username);
    (1_u64..)
        .map(move |number| if number == 1 { base.clone() } else { format!("{base}-{number}") })
        .map(|name| Party::human(&name))
        .filter(move |party| !is_reserved(party))
}

/// Returns `true` if a name is among those that no newcomer gets, in capital letters or not.
pub(crate) fn is_among(party: &Party, reserved: &[Party]) -> bool {
    let name = party.to_string();
    reserved.iter().any(|taken| taken.to_string().eq_ignore_ascii_case(&name))
}

fn normalised(username: &str) -> String {
    let mut name = String::new();
    for c in username.to_lowercase().chars() {
        let c = if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') { c } else { '-' };
        // Runs of separators become one, so that names that look alike are alike.
        if c.is_ascii_alphanumeric() || name.chars().last().is_some_and(|last| last.is_ascii_alphanumeric()) {
            name.push(c);
        }
        if name.len() == MAX_NAME {
            break;
        }
    }
    let name = name.trim_end_matches(['-', '_', '.']);
    if name.is_empty() { "guest".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(username: &str) -> String {
        names_for(username, |_| false).next().unwrap().to_string()
    }

    #[test]
    fn a_user_name_becomes_a_name_of_the_grammar() {
        for (username, name) in [
            ("alice", "human:alice"),
            ("Alice B.", "human:alice-b"),
            ("__x__", "human:x"),
            ("a..--b", "human:a.b"),
            ("@room", "human:room"),
            ("\u{202e}evil\u{200b}", "human:evil"),
            ("가나다", "human:guest"),
            ("", "human:guest"),
        ] {
            assert_eq!(first(username), name, "{username:?}");
            assert!(first(username).parse::<Party>().is_ok(), "{username:?}");
        }
        assert!(first(&"x".repeat(500)).parse::<Party>().is_ok());
    }

    #[test]
    fn further_names_have_suffixes_and_reserved_ones_are_left_out() {
        let reserved = ["human:ann", "human:ann-2"];
        let mut names = names_for("Ann", |party| reserved.contains(&party.to_string().as_str()));
        assert_eq!(names.next().unwrap().to_string(), "human:ann-3");
        assert_eq!(names.next().unwrap().to_string(), "human:ann-4");
    }

    #[test]
    fn nobody_gets_an_approvers_name_by_other_capital_letters() {
        let reserved = [Party::human("Ann"), Party::human("owner")];
        let mut names = names_for("ann", |party| is_among(party, &reserved));
        assert_eq!(names.next().unwrap().to_string(), "human:ann-2");
        let mut names = names_for("OWNER", |party| is_among(party, &reserved));
        assert_eq!(names.next().unwrap().to_string(), "human:owner-2");
    }
}
