//! The std error that carries a class, and the extension trait that makes one.
//!
//! Promises: the class that is said last counts, and saying it again does not nest; the wrapped error stays
//! reachable for `downcast_ref`; a clone is a reference count.
//!
//! Not here: how a class is found in a chain; that is in the module above.

use std::{borrow::Cow, error::Error as StdError, fmt, sync::Arc, time::Duration};

use super::{BoxError, Retry, class_of, write_causes};

/// A std error with a class: what [`ResultExt`] returns, and what reports and handles give out. Cheap to clone.
///
/// `Display` prints the wrapped error, after what was being done if that was said; `{:#}` prints its causes as
/// well. The wrapped error is [`get_ref`](Self::get_ref). `source()` leads to the class: it goes on with the
/// wrapped error's own causes where the class is found among them, and is the class node, a [`Retry`], where the
/// class was said here.
///
/// # Examples
///
/// ```
/// use reconcile_core::{ObjectKey, ReconcileError, Retry, StoreError, StoreFault};
///
/// let stale = StoreError::new("update", "Web", &ObjectKey::new("web"), StoreFault::Conflict);
/// let error = ReconcileError::new(Retry::Never, stale).while_doing("scaling down");
/// assert_eq!(error.retry(), Retry::Never);
/// assert_eq!(error.to_string(), "scaling down: cannot update Web web");
/// assert_eq!(format!("{error:#}"), "scaling down: cannot update Web web: the object was changed meanwhile");
/// assert!(error.get_ref().is::<StoreError>());
/// ```
#[derive(Clone)]
pub struct ReconcileError {
    /// The class, whatever the wrapped error's own is.
    retry: Retry,
    /// The class that `source`'s causes have. Found once: a walk in every `source()` would make a chain of many
    /// such errors cost its square, and each of its walks the same again.
    below: Retry,
    /// The wrapped error. Shared, so that a report of it is cheap to keep.
    source: Arc<BoxError>,
    /// What was being done, outermost first; printed in front of `source`.
    doing: Option<Cow<'static, str>>,
}

impl ReconcileError {
    /// Wraps an error and says its class.
    pub fn new(retry: Retry, source: impl Into<BoxError>) -> Self {
        let source = source.into();
        let below = source.source().map_or(Retry::Backoff, class_of);
        ReconcileError { retry, below, source: Arc::new(source), doing: None }
    }

    /// The class.
    pub fn retry(&self) -> Retry {
        self.retry
    }

    /// The wrapped error, for `downcast_ref`.
    pub fn get_ref(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &**self.source
    }

    /// The same error under a sentence of what was being done.
    pub fn while_doing(mut self, doing: impl Into<Cow<'static, str>>) -> Self {
        let doing = doing.into();
        self.doing = Some(match self.doing.take() {
            None => doing,
            Some(inner) => Cow::Owned(format!("{doing}: {inner}")),
        });
        self
    }
}

impl fmt::Display for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(doing) = &self.doing {
            write!(f, "{doing}: ")?;
        }
        write!(f, "{}", self.source)?;
        if f.alternate() { write_causes(&**self.source, f) } else { Ok(()) }
    }
}

impl fmt::Debug for ReconcileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileError")
            .field("retry", &self.retry)
            .field("doing", &self.doing)
            .field("source", &self.source)
            .finish()
    }
}

impl StdError for ReconcileError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        // `Display` has printed the wrapped error, so the chain goes on below it, if the class is there. Else
        // the class itself is the next node, so that the walk finds it before any class further down.
        if self.below == self.retry { self.source.source() } else { Some(&self.retry) }
    }
}

/// Says the class of an error where it arises.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Error, ResultExt};
/// use std::time::Duration;
///
/// fn call(busy: bool) -> Result<(), Error> {
///     let answer = if busy { Err("busy") } else { Ok(()) };
///     answer.while_doing("asking the registrar").retry_after(Duration::from_secs(30))?;
///     Ok(())
/// }
///
/// assert_eq!(call(true).unwrap_err().to_string(), "asking the registrar: busy");
/// ```
pub trait ResultExt<T>: Sized {
    /// Retrying the same input is useless: no retry until the input changes.
    ///
    /// # Errors
    ///
    /// The same error, with the class.
    fn permanent(self) -> Result<T, ReconcileError>;

    /// The other side said when to come back: retry after `delay`, at least the backoff's base.
    ///
    /// # Errors
    ///
    /// The same error, with the class.
    fn retry_after(self, delay: Duration) -> Result<T, ReconcileError>;

    /// Says what was being done. Keeps the class that the error has.
    ///
    /// # Errors
    ///
    /// The same error, under the sentence.
    fn while_doing(self, doing: impl Into<Cow<'static, str>>) -> Result<T, ReconcileError>;
}

impl<T, E: Into<BoxError>> ResultExt<T> for Result<T, E> {
    fn permanent(self) -> Result<T, ReconcileError> {
        self.map_err(|error| rewrap(error.into(), Some(Retry::Never)))
    }

    fn retry_after(self, delay: Duration) -> Result<T, ReconcileError> {
        self.map_err(|error| rewrap(error.into(), Some(Retry::After(delay))))
    }

    fn while_doing(self, doing: impl Into<Cow<'static, str>>) -> Result<T, ReconcileError> {
        self.map_err(|error| rewrap(error.into(), None).while_doing(doing))
    }
}

/// Sets the class of an error that is already a [`ReconcileError`] in place, so that chained calls do not nest.
pub(super) fn rewrap(error: BoxError, retry: Option<Retry>) -> ReconcileError {
    match error.downcast::<ReconcileError>() {
        Ok(mut known) => {
            known.retry = retry.unwrap_or(known.retry);
            *known
        }
        Err(error) => {
            let retry = retry.unwrap_or_else(|| class_of(&*error));
            ReconcileError::new(retry, error)
        }
    }
}
