//! What every object carries beside its spec and status.

use std::{collections::BTreeMap, fmt, sync::Arc};

use super::OwnerReference;
use crate::Timestamp;

/// One incarnation of an object. A name may be used again; a uid never is.
///
/// The default is the empty uid of an object that was never stored.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What every object carries beside its spec and status.
///
/// The store sets uid, revision, generation and the two timestamps; what a writer puts there is compared or
/// ignored, never stored.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ObjectMeta {
    /// The name, unique within kind and namespace.
    pub name: String,
    /// The namespace; none means cluster-wide.
    pub namespace: Option<String>,
    /// The incarnation. Empty until the object is stored.
    pub uid: Uid,
    /// The store's version of this object.
    pub revision: Revision,
    /// The version of the wanted state: raised by a changed spec and by the mark of deletion, by nothing else.
    pub generation: u64,
    /// Short texts to select by.
    pub labels: BTreeMap<String, String>,
    /// Texts that are not selected by.
    pub annotations: BTreeMap<String, String>,
    /// Who owns this object; a child is collected when all its owners are gone.
    pub owner_references: Vec<OwnerReference>,
    /// Who has to agree before the object may go.
    pub finalizers: Vec<String>,
    /// When it was created, by the writer's clock.
    pub created_at: Option<Timestamp>,
    /// When it was marked for deletion. The object goes when the last finalizer goes.
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
