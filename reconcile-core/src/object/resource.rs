//! What a kind of object is: the trait, and the ready-made struct that most kinds use.
//!
//! Promises asked of a kind: comparing is cheap and has no side effects, defaults are idempotent, validation
//! looks at nothing but its arguments. A value that is not equal to itself, such as a NaN in a status, would be
//! a change at every write; keep it out.
//!
//! Not here: when the hooks run; that is rule 7 of [`store`](crate::store).

use std::fmt;

use super::{Faults, ObjectKey, ObjectMeta};

/// A kind of object. Implement it for a struct of your own, or use [`Object`] with a [`Spec`].
///
/// # Examples
///
/// ```
/// use reconcile_core::{Faults, ObjectMeta, Resource};
///
/// #[derive(Clone, Debug)]
/// struct Node { meta: ObjectMeta, address: String, ready: bool }
///
/// impl Resource for Node {
///     const KIND: &'static str = "Node";
///     type Status = bool;
///     fn meta(&self) -> &ObjectMeta { &self.meta }
///     fn meta_mut(&mut self) -> &mut ObjectMeta { &mut self.meta }
///     fn status(&self) -> &bool { &self.ready }
///     fn status_mut(&mut self) -> &mut bool { &mut self.ready }
///     fn spec_eq(&self, other: &Self) -> bool { self.address == other.address }
///     fn validate(&self, _old: Option<&Self>, faults: &mut Faults) {
///         if self.address.is_empty() {
///             faults.add("address", "must not be empty");
///         }
///     }
/// }
///
/// let node = Node { meta: ObjectMeta::new("node-1"), address: String::new(), ready: false };
/// let mut faults = Faults::default();
/// node.validate(None, &mut faults);
/// assert_eq!(faults.to_string(), "address: must not be empty");
/// ```
pub trait Resource: Clone + fmt::Debug + Send + Sync + 'static {
    /// The name of the kind, unique within a store.
    const KIND: &'static str;

    /// What the controllers report.
    type Status: Clone + PartialEq + fmt::Debug + Send + Sync + 'static;

    /// The metadata.
    fn meta(&self) -> &ObjectMeta;

    /// The metadata, to change.
    fn meta_mut(&mut self) -> &mut ObjectMeta;

    /// The reported state.
    fn status(&self) -> &Self::Status;

    /// The reported state, to change.
    fn status_mut(&mut self) -> &mut Self::Status;

    /// Whether both want the same. A change of it raises the generation. Compare everything but metadata and
    /// status: a field that is left out here is not stored by an update that changes nothing else.
    fn spec_eq(&self, other: &Self) -> bool;

    /// Fills in what was left out of the spec. Must be idempotent; runs on create, on a changed spec, and on reading.
    fn set_defaults(&mut self) {}

    /// Adds what is wrong with the spec to `faults`, each with its field path. `old` is the stored object on
    /// an update. Runs on create and on a changed spec only.
    fn validate(&self, old: Option<&Self>, faults: &mut Faults) {
        let _ = (old, faults);
    }

    /// The key, from the metadata.
    fn key(&self) -> ObjectKey {
        let meta = self.meta();
        ObjectKey::in_namespace(meta.namespace.as_deref(), &meta.name)
    }
}

/// The wanted state of a kind that uses [`Object`].
///
/// # Examples
///
/// ```
/// use reconcile_core::{Faults, ObjectMeta, Spec};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct WebSpec { replicas: u32, image: String }
///
/// impl Spec for WebSpec {
///     const KIND: &'static str = "Web";
///     type Status = ();
///     fn set_defaults(&mut self, _meta: &ObjectMeta) {
///         if self.image.is_empty() {
///             self.image = "nginx".into();
///         }
///     }
///     fn validate(&self, _meta: &ObjectMeta, old: Option<&Self>, faults: &mut Faults) {
///         if old.is_some_and(|old| old.image != self.image) {
///             faults.add("spec.image", "cannot change: create another object");
///         }
///     }
/// }
/// ```
pub trait Spec: Clone + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// The name of the kind, unique within a store.
    const KIND: &'static str;

    /// What the controllers report.
    type Status: Clone + PartialEq + fmt::Debug + Default + Send + Sync + 'static;

    /// Fills in what was left out. Must be idempotent.
    fn set_defaults(&mut self, meta: &ObjectMeta) {
        let _ = meta;
    }

    /// Adds what is wrong to `faults`, with field paths such as `spec.replicas`.
    fn validate(&self, meta: &ObjectMeta, old: Option<&Self>, faults: &mut Faults) {
        let _ = (meta, old, faults);
    }
}

/// An object: metadata, wanted state, reported state.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Object, Resource, Spec};
///
/// #[derive(Clone, Debug, PartialEq)]
/// struct WebSpec { replicas: usize }
/// #[derive(Clone, Debug, Default, PartialEq)]
/// struct WebStatus { ready: usize }
/// impl Spec for WebSpec {
///     const KIND: &'static str = "Web";
///     type Status = WebStatus;
/// }
///
/// let web = Object::new("web", WebSpec { replicas: 3 }).namespace("default").label("app", "web");
/// assert_eq!(web.key().to_string(), "default/web");
/// assert_eq!(web.status.ready, 0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Object<S: Spec> {
    /// Name, identity, versions, labels, owners.
    pub meta: ObjectMeta,
    /// The wanted state.
    pub spec: S,
    /// The reported state.
    pub status: S::Status,
}

impl<S: Spec> Object<S> {
    /// A new object, cluster-wide, with the default status.
    pub fn new(name: impl Into<String>, spec: S) -> Self {
        Object { meta: ObjectMeta::new(name), spec, status: S::Status::default() }
    }

    /// Sets the namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.meta.namespace = Some(namespace.into());
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.meta.labels.insert(name.into(), value.into());
        self
    }
}

impl<S: Spec> Resource for Object<S> {
    const KIND: &'static str = S::KIND;
    type Status = S::Status;

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }

    fn status(&self) -> &S::Status {
        &self.status
    }

    fn status_mut(&mut self) -> &mut S::Status {
        &mut self.status
    }

    fn spec_eq(&self, other: &Self) -> bool {
        self.spec == other.spec
    }

    fn set_defaults(&mut self) {
        self.spec.set_defaults(&self.meta);
    }

    fn validate(&self, old: Option<&Self>, faults: &mut Faults) {
        self.spec.validate(&self.meta, old.map(|old| &old.spec), faults);
    }
}
