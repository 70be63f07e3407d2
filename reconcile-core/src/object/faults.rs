//! What is wrong with an object, all of it at once, each with its field path.
//!
//! Promise: a fault names the field as a person would write it, so that the answer to a bad object is a list
//! of places to repair, and repairing them all is enough.
//!
//! Not here: which rules there are. Those of the metadata are in [`validate_meta`](super::validate_meta), those
//! of a spec in its own [`Spec::validate`](super::Spec::validate).

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The field, such as `spec.replicas`.
    pub path: String,
    /// What is wrong with it, as the end of a sentence: "must not be negative".
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Everything that is wrong with an object.
///
/// # Examples
///
/// ```
/// use reconcile_core::Faults;
///
/// let mut faults = Faults::default();
/// faults.add("spec.replicas", "must not be negative");
/// faults.add("spec.image", "must not be empty");
/// assert_eq!(faults.to_string(), "spec.replicas: must not be negative; spec.image: must not be empty");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Adds a fault: where, and what.
    pub fn add(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.0.push(Fault { path: path.into(), message: message.into() });
    }

    /// Adds all of `other`, behind those that are there.
    pub fn merge(&mut self, other: Faults) {
        self.0.extend(other.0);
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many faults there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The faults, in the order in which they were found.
    pub fn iter(&self) -> std::slice::Iter<'_, Fault> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Faults {
    type Item = &'a Fault;
    type IntoIter = std::slice::Iter<'a, Fault>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            write!(f, "{}{fault}", if index > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}
