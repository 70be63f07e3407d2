//! Selecting objects by their labels.
//!
//! Promises: a selector is a plain conjunction of equalities, so that a store can answer it from an index; the
//! empty one selects everything.
//!
//! Not here: sets and negations. A filter on the objects does those.

use std::{collections::BTreeMap, fmt};

/// Labels that an object must have. The empty selector selects everything.
///
/// # Examples
///
/// ```
/// use reconcile_core::LabelSelector;
/// use std::collections::BTreeMap;
///
/// let selector = LabelSelector::default().with("app", "web");
/// let labels = BTreeMap::from([("app".to_string(), "web".to_string()), ("tier".into(), "front".into())]);
/// assert!(selector.matches(&labels));
/// assert!(!selector.with("tier", "back").matches(&labels));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct LabelSelector {
    /// All of these, each with this value.
    labels: BTreeMap<String, String>,
}

impl LabelSelector {
    /// Also asks for this label.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Whether the labels have everything that is asked for.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
    }

    /// Whether it asks for nothing, and so selects everything.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// What is asked for.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }
}

impl From<BTreeMap<String, String>> for LabelSelector {
    fn from(labels: BTreeMap<String, String>) -> Self {
        LabelSelector { labels }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.labels.iter().enumerate() {
            write!(f, "{}{name}={value}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}
