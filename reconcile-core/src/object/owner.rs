//! Who owns an object.
//!
//! Promises: ownership is judged by the uid, so a new object under the name of a dead owner owns nothing;
//! kind and key only say where to look for it.
//!
//! Not here: collecting children whose owners are gone; that is the runtime's.

use std::sync::Arc;

use super::{ObjectKey, ObjectMeta, Resource, Uid};

/// One owner of an object. The uid decides; kind and key say where to look.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Object, OwnerReference, Spec, Uid};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct Web;
/// impl Spec for Web {
///     const KIND: &'static str = "Web";
///     type Status = ();
/// }
///
/// let mut web = Object::new("web", Web);
/// web.meta.uid = Uid::from("u1");
/// let owner = OwnerReference::controller_of(&web);
/// assert_eq!((&*owner.kind, owner.key.name(), owner.uid.as_str()), ("Web", "web", "u1"));
/// assert!(owner.controller && owner.blocking);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(from = "super::json::OwnerForm", into = "super::json::OwnerForm")
)]
#[non_exhaustive]
pub struct OwnerReference {
    /// The owner's kind.
    pub kind: Arc<str>,
    /// The owner's name. An owner lives in the child's namespace, or in none.
    pub key: ObjectKey,
    /// The owner's incarnation.
    pub uid: Uid,
    /// Whether this owner manages the object. At most one does, and the child's events wake it.
    pub controller: bool,
    /// Whether a foreground deletion of the owner waits for this child.
    pub blocking: bool,
}

impl OwnerReference {
    /// A reference to an owner that manages the object, and waits for it when it is deleted in the foreground.
    pub fn controller_of(owner: &impl Owner) -> Self {
        OwnerReference { controller: true, blocking: true, ..OwnerReference::plain(owner) }
    }

    /// A reference to an owner that only keeps the object alive.
    pub fn plain(owner: &impl Owner) -> Self {
        OwnerReference {
            kind: owner.kind().into(),
            key: owner.owner_key(),
            uid: owner.owner_meta().uid.clone(),
            controller: false,
            blocking: false,
        }
    }
}

/// Anything that can own objects: every [`Resource`], also behind an `Arc`.
pub trait Owner {
    /// The kind of the owner.
    fn kind(&self) -> &'static str;

    /// The metadata of the owner.
    fn owner_meta(&self) -> &ObjectMeta;

    /// The key of the owner.
    fn owner_key(&self) -> ObjectKey {
        let meta = self.owner_meta();
        ObjectKey::in_namespace(meta.namespace.as_deref(), &meta.name)
    }
}

impl<R: Resource> Owner for R {
    fn kind(&self) -> &'static str {
        R::KIND
    }

    fn owner_meta(&self) -> &ObjectMeta {
        self.meta()
    }
}

impl<R: Resource> Owner for Arc<R> {
    fn kind(&self) -> &'static str {
        R::KIND
    }

    fn owner_meta(&self) -> &ObjectMeta {
        (**self).meta()
    }
}
