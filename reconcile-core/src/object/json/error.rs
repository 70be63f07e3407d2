//! Why a document is not an object.

use std::{error::Error as StdError, fmt};

use serde_json::Value;

use crate::{Faults, Retry};

/// A document cannot be read as an object, or an object cannot be written as a document. Its class is
/// [`Retry::Never`]: the same text does not become better.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonError {
    /// Kind and name, as far as they are known.
    subject: String,
    /// What is wrong; never empty.
    faults: Faults,
}

impl JsonError {
    pub(super) fn new(subject: String, faults: Faults) -> Self {
        JsonError { subject, faults }
    }

    /// Everything that is wrong, each with its path.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

/// Kind and name of a document that cannot be read, to say which of many it was.
pub(super) fn subject(kind: &str, value: &Value) -> String {
    let text =
        |key: &str| value.get("metadata").and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
    match (text("namespace"), text("name")) {
        (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
        (None, Some(name)) => format!("{kind} {name}"),
        (_, None) => kind.to_owned(),
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad JSON of {}: {}", self.subject, self.faults)
    }
}

impl StdError for JsonError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&Retry::Never)
    }
}
