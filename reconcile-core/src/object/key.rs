//! The name of an object within its kind.
//!
//! One allocation holds namespace and name, so that a clone is a reference count and a key in three tables
//! costs three pointers.

use std::{cmp::Ordering, fmt, sync::Arc};

/// Between namespace and name inside the one allocation. Neither may contain it.
const SEPARATOR: char = '\0';

/// The name of an object within its kind: an optional namespace, and a name. Cheap to clone.
///
/// A key without a namespace is cluster-wide. Keys sort cluster-wide ones first, then by namespace and name.
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
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// `name`, or `namespace`, [`SEPARATOR`], `name`.
    text: Arc<str>,
}

impl ObjectKey {
    /// A cluster-wide name. A NUL character, which no stored name can contain, is replaced.
    pub fn new(name: &str) -> Self {
        ObjectKey { text: clean(name).as_ref().into() }
    }

    /// A name within a namespace. A NUL character, which no stored name can contain, is replaced.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        let (namespace, name) = (clean(namespace), clean(name));
        let mut text = String::with_capacity(namespace.len() + 1 + name.len());
        text.push_str(&namespace);
        text.push(SEPARATOR);
        text.push_str(&name);
        ObjectKey { text: text.into() }
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
        self.text.split_once(SEPARATOR).map(|(namespace, _)| namespace)
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        self.text.split_once(SEPARATOR).map_or(&self.text, |(_, name)| name)
    }
}

/// The separator inside a part would make two different keys equal.
fn clean(part: &str) -> std::borrow::Cow<'_, str> {
    if part.contains(SEPARATOR) { part.replace(SEPARATOR, "\u{fffd}").into() } else { part.into() }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.namespace(), self.name()).cmp(&(other.namespace(), other.name()))
    }
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
