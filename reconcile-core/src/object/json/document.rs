//! An object as a store holds it, with everything that somebody else wrote.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Absent, JsonError, check_kind, error::subject, keep, parse, read, reads_as, unread, write};
use crate::{Faults, ObjectMeta, Resource};

/// A stored object: read leniently, and written again without losing what this version of the program does
/// not know.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Object, Spec, object::json::Document};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// struct WebSpec { replicas: u32 }
/// impl Spec for WebSpec {
///     const KIND: &'static str = "Web";
///     type Status = ();
/// }
///
/// let bytes = br#"{"kind": "Web", "metadata": {"name": "web"}, "spec": {"replicas": 3, "color": "red"}}"#;
/// let document = Document::from_slice("Web", bytes)?;
/// let mut web: Object<WebSpec> = document.read()?;
/// web.spec.replicas = 4;
/// let bytes = document.rewrite(&web)?.to_vec();
/// assert_eq!(
///     String::from_utf8_lossy(&bytes),
///     r#"{"kind":"Web","metadata":{"name":"web"},"spec":{"color":"red","replicas":4},"status":null}"#
/// );
/// # Ok::<(), reconcile_core::object::json::JsonError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Always a JSON object; its kind is given or absent, never another one than whoever made it said.
    value: Value,
}

impl Document {
    /// The document of an object that was never stored.
    ///
    /// # Errors
    ///
    /// If the object cannot be written as a JSON object.
    pub fn new<R: Resource + Serialize>(object: &R) -> Result<Self, JsonError> {
        Ok(Document { value: write(object)? })
    }

    /// A stored document of a kind.
    ///
    /// # Errors
    ///
    /// If the bytes are not a JSON object, or name another kind.
    pub fn from_slice(kind: &'static str, bytes: &[u8]) -> Result<Self, JsonError> {
        let value = parse(kind, bytes)?;
        if let Err((path, message)) = check_kind(kind, &value, Absent::IsFine) {
            let mut faults = Faults::default();
            faults.add(path, message);
            return Err(JsonError::new(subject(kind, &value), faults));
        }
        Ok(Document { value })
    }

    /// The object, with defaults applied, as on every read (rule 7 of [`store`](crate::store)).
    ///
    /// # Errors
    ///
    /// If the document does not fit the type. Then it is unreadable, and its [`meta`](Self::meta) may still be.
    pub fn read<R: Resource + DeserializeOwned>(&self) -> Result<R, JsonError> {
        let mut object: R = self.read_as_stored()?;
        object.set_defaults();
        Ok(object)
    }

    fn read_as_stored<R: Resource + DeserializeOwned>(&self) -> Result<R, JsonError> {
        read(&self.value).map_err(|faults| JsonError::new(subject(R::KIND, &self.value), faults))
    }

    /// The metadata alone, for an object that cannot be read; none if that cannot be read either.
    pub fn meta(&self) -> Option<ObjectMeta> {
        self.value.get("metadata").and_then(|metadata| read(metadata).ok())
    }

    /// The document with another state of the same object. Fields that the type does not know stay where they
    /// were: at the top, in metadata, spec and status, and in their inner objects; in a list, with the item that
    /// is still equal or still has the same name.
    ///
    /// An unknown field is dropped where keeping it would change what the new document says, such as when it
    /// belongs to the variant of an enum that the new state has left.
    ///
    /// # Errors
    ///
    /// If the object cannot be written as a JSON object. If this document cannot be read as `R`, that is the
    /// error: what cannot be read must not be overwritten.
    pub fn rewrite<R>(&self, new: &R) -> Result<Self, JsonError>
    where
        R: Resource + Serialize + DeserializeOwned,
    {
        let old: R = self.read_as_stored()?;
        let back = write(&old)?;
        let plain = write(new)?;
        let unread = unread::find(&self.value, &back, &|other| reads_as(other, &old));
        let paths = [unread.fields, unread.untried].concat();
        if paths.is_empty() {
            return Ok(Document { value: plain });
        }
        let new: R = Document { value: plain.clone() }.read_as_stored()?;
        let mut kept = plain.clone();
        keep::put_back(&paths, &self.value, &back, &mut kept);
        if reads_as(&kept, &new) {
            return Ok(Document { value: kept });
        }
        // Some of them would be read: keep those that would not.
        let mut kept = plain;
        for path in paths {
            let mut more = kept.clone();
            keep::put_back(&[path], &self.value, &back, &mut more);
            if reads_as(&more, &new) {
                kept = more;
            }
        }
        Ok(Document { value: kept })
    }

    /// The document with other metadata, beside a spec and status that cannot be read.
    ///
    /// # Errors
    ///
    /// If the metadata of this document cannot be read: what cannot be read must not be overwritten.
    pub fn rewrite_meta(&self, new: &ObjectMeta) -> Result<Self, JsonError> {
        let fault = |message: &str| {
            let mut faults = Faults::default();
            faults.add("metadata", message);
            JsonError::new(subject("object", &self.value), faults)
        };
        let to_value = |meta: &ObjectMeta| {
            serde_json::to_value(meta).map_err(|error| fault(&format!("cannot be written: {error}")))
        };
        let stored = self.value.get("metadata").ok_or_else(|| fault("is missing"))?;
        let old: ObjectMeta = read(stored).map_err(|faults| fault(&format!("cannot be read: {faults}")))?;
        let (back, mut metadata) = (to_value(&old)?, to_value(new)?);
        let same = |other: &Value| read::<ObjectMeta>(other).is_ok_and(|other| other == old);
        let unread = unread::find(stored, &back, &same);
        keep::put_back(&[unread.fields, unread.untried].concat(), stored, &back, &mut metadata);
        let mut value = self.value.clone();
        if let Some(place) = value.get_mut("metadata") {
            *place = metadata;
        }
        Ok(Document { value })
    }

    /// The bytes to store, without white space. Keys are in order, unless something else in the program turns
    /// on the `preserve_order` feature of `serde_json`.
    pub fn to_vec(&self) -> Vec<u8> {
        self.value.to_string().into_bytes()
    }

    /// The document as a JSON value.
    pub fn as_value(&self) -> &Value {
        &self.value
    }
}
