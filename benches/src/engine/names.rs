//! Names of the synthetic objects, the way back from a name to a number, and the order of a listing.

use super::NAMESPACES;

/// `object-0000042`: nineteen characters with the namespace, like names in the wild.
pub(super) fn name(id: u32) -> String {
    format!("object-{id:07}")
}

/// One of a hundred.
pub(super) fn namespace(id: u32) -> String {
    format!("ns-{:02}", id % NAMESPACES)
}

/// Thirty-six characters, like the real ones.
pub(super) fn uid(id: u32) -> String {
    format!("00000000-0000-4000-8000-{id:012}")
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
