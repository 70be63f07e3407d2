//! Names of the synthetic objects, the way back from a name to a number, and the order of a listing.
//!
//! They are made without the formatting machinery: five formatted strings would cost more than an engine's whole
//! cycle, and the making of the objects is what no engine answers for.

use super::NAMESPACES;

/// `object-0000042`: nineteen characters with the namespace, like names in the wild.
pub(super) fn name(id: u32) -> String {
    numbered("object-", id.into(), 7)
}

/// One of a hundred.
pub(super) fn namespace(id: u32) -> String {
    numbered("ns-", (id % NAMESPACES).into(), 2)
}

/// Thirty-six characters, like the real ones.
pub(super) fn uid(id: u32) -> String {
    numbered("00000000-0000-4000-8000-", id.into(), 12)
}

/// A text with a number behind it, of so many digits at least.
pub(super) fn numbered(text: &str, number: u64, digits: usize) -> String {
    let wide = digits.max(number.checked_ilog10().map_or(1, |log| log as usize + 1));
    let mut name = String::with_capacity(text.len() + wide);
    name.push_str(text);
    let mut unit = 10_u64.pow(u32::try_from(wide - 1).unwrap_or(0).min(u64::MAX.ilog10()));
    // Digits beyond the largest unit are zeros.
    name.extend(std::iter::repeat_n('0', wide.saturating_sub(unit.ilog10() as usize + 1)));
    while unit > 0 {
        name.push(char::from(b'0' + (number / unit % 10) as u8));
        unit /= 10;
    }
    name
}

/// The number in a name; `None` for a name that [`name`] did not make.
pub(super) fn id_of(name: &str) -> Option<u32> {
    name.strip_prefix("object-")?.parse().ok()
}

/// The numbers from place `from` on of a listing of `0..objects` in key order: as stores list, and so for every
/// engine, since the order decides how often the counting of runs misses the processor's cache.
pub(super) fn in_key_order(objects: u32, from: u32) -> impl Iterator<Item = u32> + Send + use<> {
    (from..objects).map(move |place| at_place(objects, place))
}

/// The first `long` namespaces hold one object more than the others.
fn at_place(objects: u32, place: u32) -> u32 {
    let (each, long) = (objects / NAMESPACES, objects % NAMESPACES);
    let in_long = long * (each + 1);
    let (namespace, nth) = match place.checked_sub(in_long) {
        None => (place / (each + 1), place % (each + 1)),
        // With nothing in the short ones, all places are in the long ones.
        Some(rest) => (long + rest / each.max(1), rest % each.max(1)),
    };
    nth * NAMESPACES + namespace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_its_number_back() {
        for id in [0, 7, 9_999_999, 10_000_000, u32::MAX] {
            assert_eq!(id_of(&name(id)), Some(id));
        }
        assert_eq!(id_of("object-"), None);
        assert_eq!(id_of("other-1"), None);
        assert_eq!(uid(3).len(), 36);
        for number in [0, 9, 10, 4_294_967_295, u64::MAX] {
            for digits in [0, 1, 2, 7, 12, 25] {
                assert_eq!(numbered("a-", number, digits), format!("a-{number:0digits$}"));
            }
        }
    }

    #[test]
    fn a_listing_has_every_object_once_and_in_key_order() {
        for objects in [0, 1, 7, 99, 100, 101, 250, 1000, 1234] {
            let listed: Vec<u32> = in_key_order(objects, 0).collect();
            let mut sorted: Vec<u32> = (0..objects).collect();
            sorted.sort_by_key(|id| (namespace(*id), name(*id)));
            assert_eq!(listed, sorted, "{objects} objects");
            let rest: Vec<u32> = in_key_order(objects, objects / 2).collect();
            assert_eq!(Some(rest.as_slice()), listed.get(objects as usize / 2..), "{objects} objects");
        }
    }
}
