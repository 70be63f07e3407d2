//! Errors of a run, and the class that decides about the retry.
//!
//! Promises: `?` works on anything that turns into a boxed error, and a class set deep inside survives every
//! wrapper that keeps its source reachable (`anyhow` with and without context, `#[from]`,
//! `#[error(transparent)]`), because it is found by walking the `source()` chain for a public class node.
//!
//! Not here: what the runtime does with a class; that is the table on [`Reconciler`](crate::Reconciler).

mod classified;

#[cfg(test)]
mod tests;

use std::{error::Error as StdError, fmt, time::Duration};

pub use classified::{ReconcileError, ResultExt};

use crate::store::StoreFault;

/// Any error, boxed.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// The class of an error: what a retry could achieve, and when.
///
/// It is a std error itself, so that it can be a node of a `source()` chain: that is how a class travels
/// through wrappers that know nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// Unknown or transient: retry with backoff. The class of every error that names none.
    Backoff,
    /// The other side said when to come back.
    After(Duration),
    /// Retrying the same input is useless.
    Never,
    /// Somebody else was quicker: read again and retry at once.
    Conflict,
    /// The run ended because it was cancelled or superseded: not the key's fault.
    Cancelled,
    /// This term is over: the next leader's term runs the key again.
    NextTerm,
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Retry::Backoff => f.write_str("retry with backoff"),
            Retry::After(delay) => write!(f, "retry after {delay:?}"),
            Retry::Never => f.write_str("permanent"),
            Retry::Conflict => f.write_str("somebody else was quicker"),
            Retry::Cancelled => f.write_str("cancelled"),
            Retry::NextTerm => f.write_str("no longer the leader"),
        }
    }
}

impl StdError for Retry {}

/// The error of a run: any error, with its class.
///
/// It is not a std error itself, so that `?` can turn every std error, `anyhow::Error` and string into it.
/// [`ReconcileError`] is the std error to store or to pass on. `{:#}` prints the causes as well.
///
/// # Examples
///
/// ```
/// use reconcile_core::{Error, ResultExt, Retry};
///
/// fn parse(text: &str) -> Result<u16, Error> {
///     Ok(text.parse::<u16>().permanent()?)
/// }
///
/// let error = parse("many").unwrap_err();
/// assert_eq!(error.retry(), Retry::Never);
/// assert_eq!(error.to_string(), "invalid digit found in string");
/// ```
pub struct Error {
    /// Found in `source` when it was wrapped, unless it was said later.
    retry: Retry,
    /// The wrapped error, with its causes.
    source: BoxError,
}

impl Error {
    /// The class found in the source chain, or [`Retry::Backoff`].
    pub fn retry(&self) -> Retry {
        self.retry
    }

    /// The store's fault, if a store refused an operation.
    pub fn store_fault(&self) -> Option<StoreFault> {
        // Into a `ReconcileError`, not past it: its class may stand in front of the store's.
        walk(Some(&*self.source), |node| match node.downcast_ref::<ReconcileError>() {
            Some(classified) => Some(classified.get_ref()),
            None => node.source(),
        })
        .find_map(|node| node.downcast_ref::<StoreFault>().copied())
    }

    /// The wrapped error.
    pub fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        &*self.source
    }

    /// The same error with another class.
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// As a std error that keeps the class.
    pub fn into_reconcile_error(self) -> ReconcileError {
        classified::rewrap(self.source, Some(self.retry))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        if f.alternate() { write_causes(&*self.source, f) } else { Ok(()) }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("retry", &self.retry).field("source", &self.source).finish()
    }
}

impl<E: Into<BoxError> + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let source: BoxError = error.into();
        let retry = class_of(&*source);
        Error { retry, source }
    }
}

impl From<Error> for Box<dyn StdError> {
    fn from(error: Error) -> Self {
        // A class that was said later is not in the chain, and would be lost.
        if class_of(&*error.source) == error.retry {
            error.source
        } else {
            Box::new(error.into_reconcile_error())
        }
    }
}

/// The class of the first class node in the chain.
pub(crate) fn class_of(error: &Dyn) -> Retry {
    walk(Some(error), |node| node.source())
        .find_map(|node| {
            let class = node.downcast_ref::<Retry>().copied();
            class.or_else(|| node.downcast_ref::<StoreFault>().map(StoreFault::retry))
        })
        .unwrap_or(Retry::Backoff)
}

type Dyn = dyn StdError + 'static;

/// The longest chain that is walked: a `source()` that returns itself would otherwise never end.
const CHAIN_LIMIT: usize = 64;

fn walk<'a>(
    first: Option<&'a Dyn>,
    next: fn(&'a Dyn) -> Option<&'a Dyn>,
) -> impl Iterator<Item = &'a Dyn> + use<'a> {
    std::iter::successors(first, move |node| next(*node)).take(CHAIN_LIMIT)
}

/// Prints what is below `error`, each level after a colon. Class nodes are for programs and are left out.
fn write_causes(error: &Dyn, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    /// A `ReconcileError` has printed what it wraps, so the next level is below that.
    fn below(node: &Dyn) -> Option<&Dyn> {
        match node.downcast_ref::<ReconcileError>() {
            Some(classified) => classified.get_ref().source(),
            None => node.source(),
        }
    }
    for cause in walk(below(error), below).filter(|node| !node.is::<Retry>()) {
        write!(f, ": {cause}")?;
    }
    Ok(())
}
