//! The JSON forms of the types whose Rust form is another one.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};

use crate::{Object, ObjectKey, ObjectMeta, OwnerReference, Spec, Uid};

// === Object ===

/// `{"kind","metadata","spec","status"}`, to write.
#[derive(Serialize)]
struct Written<'a, S, T> {
    kind: &'static str,
    metadata: &'a ObjectMeta,
    spec: &'a S,
    status: &'a T,
}

/// `{"kind","metadata","spec","status"}`, to read: a status may be absent, since who writes an object by hand
/// reports nothing; and so may the kind, which whoever asks for this type has said already.
#[derive(Deserialize)]
struct Read<S, T> {
    #[serde(default)]
    kind: Option<String>,
    metadata: ObjectMeta,
    spec: S,
    // `Option` takes a `null` as absent: the form of a status that is a unit.
    #[serde(default)]
    status: Option<T>,
}

impl<S> Serialize for Object<S>
where
    S: Spec + Serialize,
    S::Status: Serialize,
{
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        Written { kind: S::KIND, metadata: &self.meta, spec: &self.spec, status: &self.status }
            .serialize(serializer)
    }
}

/// Reads leniently: fields that nobody knows are passed over. [`parse_typed`](super::parse_typed) is the strict
/// way, and [`Document`](super::Document) the one that keeps them.
impl<'de, S> Deserialize<'de> for Object<S>
where
    S: Spec + Deserialize<'de>,
    S::Status: Deserialize<'de>,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read { kind, metadata, spec, status } = Read::<S, S::Status>::deserialize(deserializer)?;
        match kind {
            Some(kind) if kind != S::KIND => {
                Err(de::Error::custom(format_args!("the kind is {kind:?}, expected {:?}", S::KIND)))
            }
            _ => Ok(Object { meta: metadata, spec, status: status.unwrap_or_default() }),
        }
    }
}

// === OwnerReference ===

/// An owner with its key in two fields, as people know it.
#[derive(Clone, Serialize, Deserialize)]
pub(in crate::object) struct OwnerForm {
    kind: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    uid: Uid,
    #[serde(default, skip_serializing_if = "is_false")]
    controller: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    blocking: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl From<OwnerReference> for OwnerForm {
    fn from(owner: OwnerReference) -> Self {
        OwnerForm {
            kind: owner.kind,
            namespace: owner.key.namespace().map(Into::into),
            name: owner.key.name().into(),
            uid: owner.uid,
            controller: owner.controller,
            blocking: owner.blocking,
        }
    }
}

impl From<OwnerForm> for OwnerReference {
    fn from(form: OwnerForm) -> Self {
        OwnerReference {
            kind: form.kind,
            key: ObjectKey::in_namespace(form.namespace.as_deref(), &form.name),
            uid: form.uid,
            controller: form.controller,
            blocking: form.blocking,
        }
    }
}

// === ObjectKey ===

/// As it is printed: `name` or `namespace/name`. A key with a slash in one of its parts, which no stored object
/// has, is refused, since it would read back as another one.
impl Serialize for ObjectKey {
    fn serialize<W: Serializer>(&self, serializer: W) -> Result<W::Ok, W::Error> {
        if self.name().contains('/') || self.namespace().is_some_and(|namespace| namespace.contains('/')) {
            return Err(ser::Error::custom(format_args!("the key {self} has a slash in one of its parts")));
        }
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.split_once('/') {
            None => Ok(ObjectKey::new(&text)),
            Some((namespace, name)) if !name.contains('/') => Ok(ObjectKey::namespaced(namespace, name)),
            Some(_) => Err(de::Error::custom(format_args!(
                "{text:?} has more than one slash, expected \"name\" or \"namespace/name\""
            ))),
        }
    }
}
