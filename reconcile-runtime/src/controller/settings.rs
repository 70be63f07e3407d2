//! How a controller runs, beside what wakes it; and what can be wrong with it.

use std::{fmt, sync::Arc, time::Duration};

use reconcile_core::{Error, Retry};

use super::{error::ConfigError, kind::KindId};
use crate::queue::QueueConfig;

/// How many keys run at once if nothing is said: enough that slow runs do not hold up the others, few enough
/// that a small machine or a remote API is not flooded.
pub(super) const DEFAULT_CONCURRENCY: usize = 16;
/// How long a run may take if nothing is said. Long for a control loop's step, short enough that a run that
/// hangs is found by a person who waits for it.
pub(super) const DEFAULT_RUN_LIMIT: Duration = Duration::from_secs(5 * 60);
/// How often all keys are signalled if nothing is said. Ten hours: as a safety net it must cost nothing, and
/// what it catches has waited since the last night at worst.
pub(super) const DEFAULT_RESYNC: Duration = Duration::from_secs(10 * 3600);

/// Sets the class of foreign errors.
pub(crate) type Classify = Arc<dyn Fn(&Error) -> Option<Retry> + Send + Sync>;

/// How a controller runs.
pub(super) struct Settings {
    pub(super) concurrency: usize,
    pub(super) run_limit: Option<Duration>,
    /// Of the primary; without one it means nothing.
    pub(super) resync_every: Option<Duration>,
    pub(super) queue: QueueConfig,
    pub(super) classify: Option<Classify>,
    /// Which kinds it waits for; none means all.
    pub(super) needs: Option<Vec<KindId>>,
    /// Whether its handle alone may wake it.
    pub(super) sources: Sources,
    pub(super) finalizer: Option<&'static str>,
    /// Set by the first `resync_from` with a period of zero.
    pub(super) zero_resync_from: Option<&'static str>,
}

/// Whether a controller needs a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sources {
    Needed,
    EnqueuedByHand,
}

impl Settings {
    pub(super) fn new(name: Arc<str>) -> Self {
        Settings {
            concurrency: DEFAULT_CONCURRENCY,
            run_limit: Some(DEFAULT_RUN_LIMIT),
            resync_every: Some(DEFAULT_RESYNC),
            queue: QueueConfig::new(name),
            classify: None,
            needs: None,
            sources: Sources::Needed,
            finalizer: None,
            zero_resync_from: None,
        }
    }

    /// What is wrong with the settings by themselves. `sources` is how many sources there are.
    pub(super) fn check(&self, sources: usize) -> Result<(), ConfigError> {
        let controller = || self.queue.name.clone();
        let zero = |setting, advice| ConfigError::ZeroDuration { controller: controller(), setting, advice };
        if self.queue.name.trim().is_empty() {
            return Err(ConfigError::EmptyName);
        }
        if self.concurrency == 0 {
            return Err(ConfigError::ZeroConcurrency { controller: controller() });
        }
        if self.run_limit == Some(Duration::ZERO) {
            return Err(zero("run_limit", "no run could end; use `no_run_limit` for runs without a limit"));
        }
        if self.resync_every == Some(Duration::ZERO) {
            return Err(zero("resync_every", "it would never rest; use `no_resync` to turn it off"));
        }
        if let Some(setting) = self.zero_resync_from {
            return Err(zero(setting, "it would never rest; use the longest period that you can bear"));
        }
        if self.queue.retry_budget.is_some_and(|budget| budget.interval().is_zero()) {
            return Err(zero("retry_budget", "it would limit nothing; leave it out, or use an interval"));
        }
        if sources == 0 && self.sources == Sources::Needed {
            return Err(ConfigError::NoSource { controller: controller() });
        }
        if let Some(finalizer) = self.finalizer
            && let Some(why) = super::managed::finalizer_fault(finalizer)
        {
            return Err(ConfigError::BadFinalizer { controller: controller(), finalizer, why });
        }
        Ok(())
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("concurrency", &self.concurrency)
            .field("run_limit", &self.run_limit)
            .field("resync_every", &self.resync_every)
            .field("queue", &self.queue)
            .field("needs", &self.needs)
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RetryBudget;

    /// What the check says of settings changed like this, with one source.
    fn check(change: impl FnOnce(&mut Settings)) -> Option<ConfigError> {
        let mut settings = Settings::new("web".into());
        change(&mut settings);
        settings.check(1).err()
    }

    #[test]
    fn settings_that_cannot_work_are_named_with_the_controller_and_what_to_do() {
        let zero = |change: fn(&mut Settings), setting: &str| match check(change) {
            Some(ConfigError::ZeroDuration { controller, setting: named, .. }) => {
                assert_eq!((&*controller, named), ("web", setting));
            }
            other => panic!("{setting}: {other:?}"),
        };
        zero(|settings| settings.run_limit = Some(Duration::ZERO), "run_limit");
        zero(|settings| settings.resync_every = Some(Duration::ZERO), "resync_every");
        zero(|settings| settings.zero_resync_from = Some("resync_from"), "resync_from");
        zero(
            |settings| settings.queue.retry_budget = Some(RetryBudget::new(1, Duration::ZERO)),
            "retry_budget",
        );
        assert_eq!(
            check(|settings| settings.concurrency = 0),
            Some(ConfigError::ZeroConcurrency { controller: "web".into() })
        );
        assert_eq!(check(|settings| settings.queue.name = " ".into()), Some(ConfigError::EmptyName));
        assert!(matches!(
            check(|settings| settings.finalizer = Some("")),
            Some(ConfigError::BadFinalizer { .. })
        ));
        assert_eq!(check(|_| ()), None);
    }

    #[test]
    fn a_controller_without_a_source_says_so_or_is_refused() {
        let mut settings = Settings::new("web".into());
        assert_eq!(settings.check(0), Err(ConfigError::NoSource { controller: "web".into() }));
        settings.sources = Sources::EnqueuedByHand;
        assert_eq!(settings.check(0), Ok(()));
    }
}
