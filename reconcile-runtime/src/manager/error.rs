//! Why a manager's run ended before it was asked to.

use std::{sync::Arc, time::Duration};

use crate::controller::ConfigError;

/// A manager could not go on.
///
/// Not among them: a run that had to be dropped at the end of the grace time. A stop that was asked for is a
/// success; the dropped keys are logged, and named by [`ManagerStatus::dropped`](crate::ManagerStatus::dropped).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// What was put together does not fit together.
    #[error("the manager is not well put together")]
    Config(#[from] ConfigError),

    /// A kind had no complete listing within the sync limit.
    #[error(
        "kind `{kind}` was not synced within {waited:?}{}; check the store, or raise the limit with \
         `Manager::sync_limit`{}",
        because(.last_error.as_deref()),
        beside(.others)
    )]
    NotSynced {
        /// The first of them, in the order in which the kinds were added.
        kind: Arc<str>,
        /// The sync limit.
        waited: Duration,
        /// What the store said last about it.
        last_error: Option<String>,
        /// The other kinds that are not synced.
        others: Vec<Arc<str>>,
    },

    /// A loop that the manager cannot do without kept ending.
    #[error("{name} was given up after {restarts} restarts: {last_end}")]
    LoopFailed {
        /// Which loop.
        name: String,
        /// How often it was restarted in all.
        restarts: u64,
        /// Why its last life ended.
        last_end: String,
    },
}

fn because(last_error: Option<&str>) -> String {
    last_error.map_or_else(String::new, |error| format!(": {error}"))
}

fn beside(others: &[Arc<str>]) -> String {
    if others.is_empty() { String::new() } else { format!(" (also not synced: {})", others.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r11_an_unsynced_kind_is_named_with_what_the_store_said() {
        let error = RunError::NotSynced {
            kind: "Pod".into(),
            waited: Duration::from_secs(120),
            last_error: Some("cannot list Pod: denied".into()),
            others: vec!["Node".into()],
        };
        let text = error.to_string();
        for part in ["`Pod`", "120s", "cannot list Pod: denied", "Manager::sync_limit", "Node"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
