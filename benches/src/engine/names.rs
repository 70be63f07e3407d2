//! Names of the synthetic objects, and the way back from a name to a number.

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
}
