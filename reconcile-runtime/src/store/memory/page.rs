//! Page tokens of a store in memory. Pure.
//!
//! A token says where the listing began (a cursor) and the last key that was looked at. No state is kept for
//! a listing that is under way, however long it takes.

use reconcile_core::{ObjectKey, Revision, store::PageToken};

/// Where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    /// The revision of the first page's cursor: every page repeats it.
    pub(super) revision: Revision,
    /// The check of the first page's cursor.
    pub(super) check: Vec<u8>,
    /// The last key that was looked at.
    pub(super) after: ObjectKey,
}

impl Position {
    /// As a token for listings of `kind`.
    pub(super) fn token(&self, kind: &str) -> PageToken {
        let mut bytes = self.revision.0.to_le_bytes().to_vec();
        put(&mut bytes, kind.as_bytes());
        put(&mut bytes, &self.check);
        put(&mut bytes, self.after.name().as_bytes());
        if let Some(namespace) = self.after.namespace() {
            put(&mut bytes, namespace.as_bytes());
        }
        PageToken::new(bytes)
    }

    /// From a token; none if it is not one for listings of `kind`.
    pub(super) fn from_token(token: &PageToken, kind: &str) -> Option<Position> {
        let (revision, mut rest) = token.as_bytes().split_first_chunk()?;
        if take(&mut rest)? != kind.as_bytes() {
            return None;
        }
        let check = take(&mut rest)?.to_vec();
        let name = std::str::from_utf8(take(&mut rest)?).ok()?;
        let namespace =
            if rest.is_empty() { None } else { Some(std::str::from_utf8(take(&mut rest)?).ok()?) };
        Some(Position {
            revision: Revision(u64::from_le_bytes(*revision)),
            check,
            after: ObjectKey::in_namespace(namespace, name),
        })
    }
}

/// Adds a part, after its length.
fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
    bytes.extend_from_slice(part);
}

/// Takes a part off the front.
fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_token_reads_back_as_what_it_was_made_of(
            revision: u64,
            check: Vec<u8>,
            namespace in proptest::option::of("[a-z/-]{0,8}"),
            name in "[a-z./-]{0,8}",
        ) {
            let after = ObjectKey::in_namespace(namespace.as_deref(), &name);
            let position = Position { revision: Revision(revision), check, after };
            prop_assert_eq!(Position::from_token(&position.token("Web"), "Web"), Some(position.clone()));
            prop_assert_eq!(Position::from_token(&position.token("Web"), "Pod"), None);
        }

        #[test]
        fn foreign_bytes_are_refused_or_read_but_never_panic(bytes: Vec<u8>) {
            let _ = Position::from_token(&PageToken::new(bytes), "Web");
        }
    }
}
