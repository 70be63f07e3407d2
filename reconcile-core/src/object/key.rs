//! The name of an object within its kind.
//!
//! One allocation holds namespace and name, so that a clone is a reference count and a key in three tables
//! costs three pointers. The text is chosen so that comparing it as bytes is comparing the keys: an ordered
//! table compares some forty keys per insert.

use std::{fmt, sync::Arc};

/// Between namespace and name inside the one allocation. Neither may contain it, and no character is less, so
/// a namespace sorts before every longer one.
const SEPARATOR: char = '\0';

/// The name of an object within its kind: an optional namespace, and a name. Cheap to clone.
///
/// A key without a namespace, which is the same as an empty one, is cluster-wide. Keys sort cluster-wide ones first, then by namespace and name.
/// A key is not validated: a store refuses to create an object under a bad name.
///
/// # Examples
///
/// ```
/// use reconcile_core::ObjectKey;
///
/// let node = ObjectKey::new("node-1");
/// let web = ObjectKey::namespaced("default", "web");
/// assert_eq!(web.to_string(), "default/web");
/// assert_eq!((web.namespace(), web.name()), (Some("default"), "web"));
/// assert!(node < web);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The namespace, empty for a cluster-wide key; [`SEPARATOR`]; the name.
    text: Arc<str>,
}

impl ObjectKey {
    /// A cluster-wide name. A NUL character, which no stored name can contain, is replaced.
    pub fn new(name: &str) -> Self {
        ObjectKey::namespaced("", name)
    }

    /// A name within a namespace. A NUL character, which no stored name can contain, is replaced.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        ObjectKey { text: join(&clean(namespace), &clean(name)) }
    }

    /// With or without a namespace.
    pub fn in_namespace(namespace: Option<&str>, name: &str) -> Self {
        match namespace {
            Some(namespace) => ObjectKey::namespaced(namespace, name),
            None => ObjectKey::new(name),
        }
    }

    /// The namespace, or `None` for a cluster-wide object.
    pub fn namespace(&self) -> Option<&str> {
        let (namespace, _) = self.text.split_once(SEPARATOR)?;
        if namespace.is_empty() { None } else { Some(namespace) }
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        self.text.split_once(SEPARATOR).map_or(&self.text, |(_, name)| name)
    }
}

/// Texts up to this length are joined on the stack, so that a key costs one allocation and not two: nearly all
/// namespaces and names together are shorter.
const ON_STACK: usize = 96;

fn join(namespace: &str, name: &str) -> Arc<str> {
    let mut stack = [0; ON_STACK];
    match join_into(&mut stack, namespace, name) {
        Some(text) => text.into(),
        None => [namespace, name].join("\0").into(),
    }
}

/// Joins in zeroed memory, where the separator stands already. None if there is too little of it.
fn join_into<'a>(zeroed: &'a mut [u8], namespace: &str, name: &str) -> Option<&'a str> {
    let start = namespace.len() + 1;
    let end = start + name.len();
    zeroed.get_mut(..namespace.len())?.copy_from_slice(namespace.as_bytes());
    zeroed.get_mut(start..end)?.copy_from_slice(name.as_bytes());
    std::str::from_utf8(zeroed.get(..end)?).ok()
}

/// The separator inside a part would make two different keys equal.
fn clean(part: &str) -> std::borrow::Cow<'_, str> {
    if part.contains(SEPARATOR) { part.replace(SEPARATOR, "\u{fffd}").into() } else { part.into() }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = self.namespace() {
            write!(f, "{namespace}/")?;
        }
        f.write_str(self.name())
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_sort_cluster_wide_ones_first_then_by_namespace_and_name(
            one in (proptest::option::of("[!-~\u{e9}]{1,3}"), "[!-~\u{e9}]{0,3}"),
            two in (proptest::option::of("[!-~\u{e9}]{1,3}"), "[!-~\u{e9}]{0,3}"),
        ) {
            let key = |(namespace, name): &(Option<String>, String)| {
                let key = ObjectKey::in_namespace(namespace.as_deref(), name);
                assert_eq!((key.namespace(), key.name()), (namespace.as_deref(), name.as_str()));
                key
            };
            prop_assert_eq!(key(&one).cmp(&key(&two)), one.cmp(&two));
        }
    }

    #[test]
    fn an_empty_namespace_is_none() {
        assert_eq!(ObjectKey::namespaced("", "web"), ObjectKey::new("web"));
        assert_eq!(ObjectKey::new("web").namespace(), None);
    }

    #[test]
    fn a_separator_inside_a_part_makes_no_two_keys_equal() {
        assert_ne!(ObjectKey::new("a\0b"), ObjectKey::namespaced("a", "b"));
        assert_eq!(ObjectKey::namespaced("a", "b\0c").name(), "b\u{fffd}c");
    }
}
