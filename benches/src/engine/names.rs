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
pub(super) fn uid<T>(id: u32, use_it: impl FnOnce(&str) -> T) -> T {
    with_numbered("00000000-0000-4000-8000-", id.into(), 12, use_it)
}

/// Digits of the largest number.
const LONGEST: usize = 20;
/// Texts of this length at most are put together without the heap.
const ROOM: usize = 64;

/// A text with a number behind it, of so many digits at least (and of twenty at most), to be copied to wherever it
/// is to stay.
pub(super) fn with_numbered<T>(text: &str, number: u64, digits: usize, use_it: impl FnOnce(&str) -> T) -> T {
    let mut figures = [b'0'; LONGEST];
    let mut rest = number;
    let mut first = LONGEST;
    for (at, figure) in figures.iter_mut().enumerate().rev() {
        if rest == 0 && LONGEST - at > digits.max(1) {
            break;
        }
        *figure += (rest % 10) as u8;
        rest /= 10;
        first = at;
    }
    let figures = figures.get(first..).unwrap_or(&[]);
    let length = text.len() + figures.len();
    let mut room = [0; ROOM];
    let Some(whole) = room.get_mut(..length) else { return use_it(&format!("{text}{number:0digits$}")) };
    let (head, tail) = whole.split_at_mut(text.len());
    head.copy_from_slice(text.as_bytes());
    tail.copy_from_slice(figures);
    use_it(std::str::from_utf8(whole).expect("a text with digits behind it is text"))
}

pub(super) fn numbered(text: &str, number: u64, digits: usize) -> String {
    with_numbered(text, number, digits, str::to_owned)
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
        assert_eq!(uid(3, str::len), 36);
        for number in [0, 9, 10, 4_294_967_295, u64::MAX] {
            for digits in [0, 1, 2, 7, 12, LONGEST] {
                for text in ["", "a-", &"long".repeat(20)] {
                    assert_eq!(numbered(text, number, digits), format!("{text}{number:0digits$}"));
                }
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
