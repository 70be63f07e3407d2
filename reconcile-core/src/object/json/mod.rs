//! The JSON form of objects: `{"kind","metadata","spec","status"}`.
//!
//! Metadata has the keys that people know: `name`, `namespace`, `uid`, `revision`, `generation`, `labels`,
//! `annotations`, `ownerReferences`, `finalizers`, `createdAt`, `deletedAt`; empty ones are left out. There are
//! two ways of reading it, because there are two kinds of writers:
//!
//! - **A person** ([`parse_typed`]) is told of everything that would have no effect: unknown fields at any depth,
//!   each with its path, fields that are given twice, and another kind. What the store sets, and the status, may
//!   be absent.
//! - **A store** ([`Document`]) may hold what a newer version of the program wrote: unknown fields are passed
//!   over, and kept when the object is written again.
//!
//! The types need nothing but serde's derives. Whoever puts `deny_unknown_fields` on a spec makes the stored
//! objects of a newer version unreadable; it is not needed here.
//!
//! Promise: a float reads back as the very one that was written, so that reading is no change.
//!
//! Not here: YAML, which a program can turn into a JSON value first ([`parse_typed_value`]); and validation,
//! which the store does on writing.

mod document;
mod duplicates;
mod error;
mod form;
mod keep;
mod path;
mod unread;

#[cfg(test)]
mod tests;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use document::Document;
pub use error::JsonError;

pub(in crate::object) use form::OwnerForm;

use path::Path;

use super::validate::shown;
use crate::{Faults, Resource};

/// Reads an object that a person wrote. No defaults are applied: that is the store's part.
///
/// # Errors
///
/// All of these at once, each with its path: fields that are not known, fields that are given twice. Alone,
/// since nothing else can be said then: a text that is not JSON, a kind that is absent or another one, and the
/// first value of a wrong type, or missing field.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Object, Spec, object::json::parse_typed};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// struct WebSpec { replicas: u32, #[serde(default)] image: Option<String> }
/// impl Spec for WebSpec {
///     const KIND: &'static str = "Web";
///     type Status = ();
/// }
///
/// let text = r#"{"kind": "Web", "metadata": {"name": "web"}, "spec": {"replicas": 3}}"#;
/// let web: Object<WebSpec> = parse_typed(text)?;
/// assert_eq!(web.spec.replicas, 3);
///
/// let text = r#"{"kind": "Web", "metadata": {"name": "web", "label": {}}, "spec": {"replicas": 3, "imgae": "x"}}"#;
/// let error = parse_typed::<Object<WebSpec>>(text).unwrap_err();
/// let paths: Vec<&str> = error.faults().iter().map(|fault| fault.path.as_str()).collect();
/// assert_eq!(paths, ["metadata.label", "spec.imgae"]);
/// # Ok::<(), reconcile_core::object::json::JsonError>(())
/// ```
pub fn parse_typed<R>(text: &str) -> Result<R, JsonError>
where
    R: Resource + Serialize + DeserializeOwned,
{
    let value = parse(R::KIND, text.as_bytes())?;
    let mut faults = Faults::default();
    duplicates::find(text, &mut faults).map_err(|error| not_json(R::KIND, &error))?;
    strict(&value, faults)
}

/// Like [`parse_typed`], from a value: for documents that were not JSON before, such as YAML. Whether a field
/// was given twice is then for that parser to say.
///
/// # Errors
///
/// As [`parse_typed`].
pub fn parse_typed_value<R>(value: &Value) -> Result<R, JsonError>
where
    R: Resource + Serialize + DeserializeOwned,
{
    strict(value, Faults::default())
}

fn strict<R>(value: &Value, mut faults: Faults) -> Result<R, JsonError>
where
    R: Resource + Serialize + DeserializeOwned,
{
    let subject = || error::subject(R::KIND, value);
    if let Err((path, message)) = check_kind(R::KIND, value, Absent::IsAFault) {
        faults.add(path, message);
        return Err(JsonError::new(subject(), faults));
    }
    let object: R = match read(value) {
        Ok(object) => object,
        Err(fault) => {
            faults.merge(fault);
            return Err(JsonError::new(subject(), faults));
        }
    };
    let back = write(&object)?;
    let unread = unread::find(value, &back, &|other| reads_as(other, &object));
    for path in unread.fields.iter().filter(|path| **path != Path::key("kind")) {
        faults.add(path.render(), "is not known");
    }
    for path in &unread.untried {
        faults.add(path.render(), "cannot be checked: too many fields do not come back as they were given");
    }
    if faults.is_empty() { Ok(object) } else { Err(JsonError::new(subject(), faults)) }
}

/// What a document without a kind is.
#[derive(PartialEq)]
enum Absent {
    IsAFault,
    IsFine,
}

fn check_kind(kind: &str, value: &Value, absent: Absent) -> Result<(), (&'static str, String)> {
    let Value::Object(fields) = value else {
        return Err((
            "document",
            format!("is {}, expected an object with kind, metadata and spec", what(value)),
        ));
    };
    match fields.get("kind") {
        Some(Value::String(given)) if given == kind => Ok(()),
        Some(given) => Err(("kind", format!("is {}, expected {}", what(given), shown(kind)))),
        None if absent == Absent::IsFine => Ok(()),
        None => Err(("kind", format!("is missing, expected {}", shown(kind)))),
    }
}

/// A value in a few words: it may be a whole file.
fn what(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "a boolean".into(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => shown(text),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    }
}

/// Reads leniently.
fn read<R: DeserializeOwned>(value: &Value) -> Result<R, Faults> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut faults = Faults::default();
        faults.add(Path::from(error.path()).render(), error.inner().to_string());
        faults
    })
}

/// Writes an object, with its kind.
fn write<R: Resource + Serialize>(object: &R) -> Result<Value, JsonError> {
    let fault = |message: String| {
        let mut faults = Faults::default();
        faults.add("document", message);
        JsonError::new(format!("{} {}", R::KIND, object.key()), faults)
    };
    let mut value =
        serde_json::to_value(object).map_err(|error| fault(format!("cannot be written: {error}")))?;
    match &mut value {
        // A struct of the user's own need not carry its kind.
        Value::Object(fields) => fields.entry("kind").or_insert_with(|| R::KIND.into()),
        _ => return Err(fault("is written as something that is no JSON object".into())),
    };
    Ok(value)
}

/// Whether `value` reads as the same object.
fn reads_as<R>(value: &Value, object: &R) -> bool
where
    R: Resource + Serialize + DeserializeOwned,
{
    let equal = |a: &R, b: &R| a.meta() == b.meta() && a.spec_eq(b) && a.status() == b.status();
    let Ok(other) = R::deserialize(value) else { return false };
    // What is not equal to itself, such as a NaN in a default, is compared by what it is written as.
    if equal(object, object) && !equal(object, &other) {
        return false;
    }
    match (serde_json::to_value(object), serde_json::to_value(&other)) {
        (Ok(one), Ok(two)) => one == two,
        _ => false,
    }
}

fn parse(kind: &'static str, bytes: &[u8]) -> Result<Value, JsonError> {
    serde_json::from_slice(bytes).map_err(|error| not_json(kind, &error))
}

fn not_json(kind: &'static str, error: &serde_json::Error) -> JsonError {
    let mut faults = Faults::default();
    faults.add("document", format!("is not JSON: {error}"));
    JsonError::new(kind.to_owned(), faults)
}
