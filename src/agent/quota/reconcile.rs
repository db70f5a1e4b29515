//! Decides what becomes of a park that several gateways know: by the database, in which all of them write it, and by what this
//! one has seen since its last look there. It is pure.

use super::parks::Park;

/// Returns the park as it is from now on, or `None` if it has ended. `known` is what the database had at the last look,
/// `own` is what this gateway has now, and `found` is what the database has now.
///
/// A change of one side counts. If both have changed, the later refusal counts, because it tells what holds now.
pub(crate) fn reconcile(known: Option<&Park>, own: Option<&Park>, found: Option<&Park>) -> Option<Park> {
    match (own, found) {
        (None, None) => None,
        // It was not known here. Or it has ended here, which is not written yet, and was refused elsewhere since.
        (None, Some(found)) => known.is_none_or(|known| known != found).then(|| found.clone()),
        // It was refused here for the first time, or once more after another gateway's call was answered.
        (Some(own), None) => known.is_none_or(|known| own.refusals > known.refusals).then(|| own.clone()),
        (Some(own), Some(found)) if known == Some(own) => Some(found.clone()),
        (Some(own), Some(found)) if known == Some(found) => Some(own.clone()),
        (Some(own), Some(found)) => {
            let later = if own.noted > found.noted { own } else { found };
            Some(Park { since: own.since.min(found.since), ..later.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Credential;

    fn park(since: i64, noted: i64, refusals: u32) -> Park {
        Park {
            credential: Credential { id: "key:1".to_owned(), name: "lab".to_owned() },
            model: "lab/m".parse().unwrap(),
            since,
            noted,
            until: noted + 100,
            is_named: true,
            refusals,
            reason: "used up".to_owned(),
        }
    }

    #[test]
    fn the_side_that_has_changed_counts() {
        let (old, new) = (park(1, 1, 1), park(1, 200, 2));
        let table = [
            // Nothing has changed, or one side has.
            (Some(&old), Some(&old), Some(&old), Some(&old)),
            (Some(&old), Some(&new), Some(&old), Some(&new)),
            (Some(&old), Some(&old), Some(&new), Some(&new)),
            // It began here, elsewhere, or at both.
            (None, Some(&new), None, Some(&new)),
            (None, None, Some(&new), Some(&new)),
            (None, Some(&new), Some(&new), Some(&new)),
            // It ended here, elsewhere, or at both.
            (Some(&old), None, Some(&old), None),
            (Some(&old), Some(&old), None, None),
            (Some(&old), None, None, None),
            // It ended at one, and was refused at the other.
            (Some(&old), None, Some(&new), Some(&new)),
            (Some(&old), Some(&new), None, Some(&new)),
        ];
        for (number, (known, own, found, expected)) in table.into_iter().enumerate() {
            assert_eq!(reconcile(known, own, found).as_ref(), expected, "{number}");
        }
    }

    #[test]
    fn of_two_refusals_the_later_one_counts_and_the_first_stays_the_first() {
        let (one, two) = (park(5, 5, 1), park(7, 7, 1));
        for (own, found) in [(&one, &two), (&two, &one)] {
            let expected = Some(park(5, 7, 1)).map(|park| Park { until: 107, ..park });
            assert_eq!(reconcile(None, Some(own), Some(found)), expected);
        }
        // A clock that was set moves a park, and that is no refusal: what ended elsewhere stays ended.
        let moved = Park { noted: 3, until: 90, ..one.clone() };
        assert_eq!(reconcile(Some(&one), Some(&moved), None), None);
    }
}
