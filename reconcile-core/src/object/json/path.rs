//! Where in a document something is, and how a fault says it.

use serde_json::Value;
use serde_path_to_error::Segment;

use crate::object::validate::shown;

/// One step down a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// The steps from the top of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path(pub(super) Vec<Step>);

impl Path {
    pub(super) fn key(key: &str) -> Self {
        Path(vec![Step::Key(key.to_owned())])
    }

    /// What is there.
    pub(super) fn in_mut<'a>(&self, top: &'a mut Value) -> Option<&'a mut Value> {
        self.0.iter().try_fold(top, |at, step| match step {
            Step::Key(key) => at.get_mut(key),
            Step::Index(index) => at.get_mut(*index),
        })
    }

    /// As a person would write it: `spec.ports[0].name`, `metadata.labels["app"]`.
    pub(super) fn render(&self) -> String {
        let mut out = String::new();
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => out.push_str(&format!("[{index}]")),
                Step::Key(key) if depth > 0 && self.in_texts(depth) => {
                    out.push_str(&format!("[{}]", shown(key)));
                }
                Step::Key(key) if !is_word(key) => out.push_str(&format!("[{}]", shown(key))),
                Step::Key(key) => {
                    if depth > 0 {
                        out.push('.');
                    }
                    out.push_str(key);
                }
            }
        }
        if out.is_empty() { "document".to_owned() } else { out }
    }

    /// Whether the step at `depth` is the name of a label or annotation, as `validate_meta` quotes them.
    fn in_texts(&self, depth: usize) -> bool {
        let is = |at: usize, names: &[&str]| matches!(self.0.get(at), Some(Step::Key(key)) if names.contains(&key.as_str()));
        depth == 2 && is(0, &["metadata"]) && is(1, &["labels", "annotations"])
    }
}

/// Whether a key reads as a field behind a dot.
fn is_word(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

impl From<&serde_path_to_error::Path> for Path {
    fn from(path: &serde_path_to_error::Path) -> Self {
        let steps = path.iter().filter_map(|segment| match segment {
            Segment::Seq { index } => Some(Step::Index(*index)),
            Segment::Map { key } => Some(Step::Key(key.clone())),
            Segment::Enum { variant } => Some(Step::Key(variant.clone())),
            Segment::Unknown => None,
        });
        Path(steps.collect())
    }
}
