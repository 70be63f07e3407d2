//! What every object carries beside its spec and status.
//!
//! Promises: identity is the uid; a name is free again once its object is gone. All of it is plain data, and
//! two equal metadata mean that nothing changed.
//!
//! Not here: which names are good ([`validate_meta`](super::validate_meta)), and who may change what
//! ([`decide`](crate::store::decide)).

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::OwnerReference;
use crate::Timestamp;

/// One incarnation of an object. A name may be used again; a uid never is.
///
/// The default is the empty uid of an object that was never stored.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Uid(Arc<str>);

impl Uid {
    /// A uid from its text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Uid(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the uid of an object that was never stored.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Uid {
    fn default() -> Self {
        Uid(Arc::from(""))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Uid::new(text)
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        Uid::new(text)
    }
}

/// A version of a store: every write and every delete that changes something gets a higher one.
///
/// Compare revisions of one store (of one kind where the store says so), never of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Revision(pub u64);

#[cfg(feature = "serde")]
impl Revision {
    /// The revision of an object that was never stored is left out of its JSON.
    fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

#[cfg(feature = "serde")]
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What every object carries beside its spec and status.
///
/// The store sets uid, revision, generation and the two timestamps; what a writer puts there is compared or
/// ignored, never stored.
///
/// # Examples
///
/// ```
/// use reconcile_core::ObjectMeta;
///
/// let mut meta = ObjectMeta::new("web");
/// meta.finalizers.push("volumes".into());
/// assert!(meta.has_finalizer("volumes") && !meta.is_deleting() && meta.controller().is_none());
/// assert!(meta.uid.is_empty(), "it was never stored");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "camelCase"))]
#[non_exhaustive]
pub struct ObjectMeta {
    /// The name, unique within kind and namespace.
    pub name: String,
    /// The namespace; none means cluster-wide.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub namespace: Option<String>,
    /// The incarnation. Empty until the object is stored.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Uid::is_empty"))]
    pub uid: Uid,
    /// The store's version of this object.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Revision::is_zero"))]
    pub revision: Revision,
    /// The version of the wanted state: raised by a changed spec and by the mark of deletion, by nothing else.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero"))]
    pub generation: u64,
    /// Short texts to select by.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "BTreeMap::is_empty"))]
    pub labels: BTreeMap<String, String>,
    /// Texts that are not selected by.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "BTreeMap::is_empty"))]
    pub annotations: BTreeMap<String, String>,
    /// Who owns this object; a child is collected when all its owners are gone.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub owner_references: Vec<OwnerReference>,
    /// Who has to agree before the object may go.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub finalizers: Vec<String>,
    /// When it was created, by the writer's clock.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub created_at: Option<Timestamp>,
    /// When it was marked for deletion. The object goes when the last finalizer goes.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub deleted_at: Option<Timestamp>,
}

impl ObjectMeta {
    /// Metadata with a name, cluster-wide.
    pub fn new(name: impl Into<String>) -> Self {
        ObjectMeta { name: name.into(), ..ObjectMeta::default() }
    }

    /// Whether the object is marked for deletion.
    pub fn is_deleting(&self) -> bool {
        self.deleted_at.is_some()
    }

    /// The owner reference marked as the controller, if there is one.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    /// Whether it carries this finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| name == finalizer)
    }
}
