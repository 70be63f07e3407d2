//! Why a key runs: merged and bounded, for logs and explanations.
//!
//! Promises: the memory of a [`Causes`] is bounded whatever is added, and the first cause allocates nothing.
//!
//! Not here: a decision. A reconciler acts on the state it reads; two causes that were merged are one.

use std::{borrow::Cow, fmt};

use crate::ObjectKey;

/// What kind of thing made a key run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CauseKind {
    /// The object was there when the runtime started.
    Initial,
    /// An object appeared.
    Added,
    /// An object changed.
    Updated,
    /// An object is gone.
    Deleted,
    /// A trigger stream named the key.
    Trigger,
    /// Somebody asked for it explicitly.
    Enqueued,
    /// The periodic safety net.
    Resync,
    /// The last run asked for another one at once.
    Requeue,
    /// A timer that the last run had asked for.
    Timer,
    /// The last run failed.
    Retry,
    /// A pause ended.
    Resumed,
}

impl CauseKind {
    /// One word, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            CauseKind::Initial => "initial",
            CauseKind::Added => "added",
            CauseKind::Updated => "updated",
            CauseKind::Deleted => "deleted",
            CauseKind::Trigger => "trigger",
            CauseKind::Enqueued => "enqueued",
            CauseKind::Resync => "resync",
            CauseKind::Requeue => "requeue",
            CauseKind::Timer => "timer",
            CauseKind::Retry => "retry",
            CauseKind::Resumed => "resumed",
        }
    }
}

impl fmt::Display for CauseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One reason for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cause {
    /// What happened.
    pub kind: CauseKind,
    /// Where: a kind of object, or the name of a trigger.
    pub source: Cow<'static, str>,
    /// To which object, when it was one.
    pub object: Option<ObjectKey>,
}

impl Cause {
    /// A cause without an object.
    #[inline]
    pub fn new(kind: CauseKind, source: impl Into<Cow<'static, str>>) -> Self {
        Cause { kind, source: source.into(), object: None }
    }

    /// A cause that names the object.
    #[inline]
    pub fn of_object(kind: CauseKind, source: impl Into<Cow<'static, str>>, object: ObjectKey) -> Self {
        Cause { kind, source: source.into(), object: Some(object) }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.object, self.source.is_empty()) {
            (Some(object), _) => write!(f, "{} {object} {}", self.source, self.kind),
            (None, false) => write!(f, "{} {}", self.source, self.kind),
            (None, true) => write!(f, "{}", self.kind),
        }
    }
}

/// The causes of a run: the first few different ones, and how many signals were merged in all.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Cause, CauseKind, Causes};
///
/// let mut causes = Causes::default();
/// for _ in 0..3 {
///     causes.add(Cause::new(CauseKind::Trigger, "hosts"));
/// }
/// causes.add(Cause::new(CauseKind::Resync, ""));
/// assert_eq!(causes.to_string(), "hosts trigger, resync (4 signals)");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Causes {
    /// The oldest, inline: most runs have one cause, and it must not cost an allocation.
    first: Option<Cause>,
    /// The others, different from `first` and from each other.
    more: Vec<Cause>,
    /// All that were added, also those that were merged or not kept; saturating.
    signals: u32,
}

impl Causes {
    /// How many different causes are kept. Enough for a sentence; a key that is signalled by a thousand
    /// children must not hold a thousand names.
    pub const KEPT: usize = 4;

    /// Adds one signal. Equal causes are merged; beyond [`KEPT`](Self::KEPT) only the count goes on.
    #[inline]
    pub fn add(&mut self, cause: Cause) {
        self.signals = self.signals.saturating_add(1);
        match &self.first {
            None => self.first = Some(cause),
            Some(first) => {
                let room = self.more.len() + 1 < Self::KEPT;
                if room && *first != cause && !self.more.contains(&cause) {
                    self.more.push(cause);
                }
            }
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: Causes) {
        let counted = self.signals.saturating_add(other.signals);
        for cause in other.first.into_iter().chain(other.more) {
            self.add(cause);
        }
        self.signals = counted;
    }

    /// The causes that were kept, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Cause> {
        self.first.iter().chain(&self.more)
    }

    /// How many signals were merged, kept or not.
    pub fn signals(&self) -> u32 {
        self.signals
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, cause) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{cause}")?;
        }
        let signals = usize::try_from(self.signals).unwrap_or(usize::MAX);
        if signals > self.iter().count() { write!(f, " ({} signals)", self.signals) } else { Ok(()) }
    }
}
