//! Why a write was refused.

use std::{error::Error as StdError, fmt, sync::Arc};

use crate::{Faults, Resource, StoreError, StoreFault, store::Write};

/// A write that is against the rules.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Refused {
    /// Which rule.
    pub fault: StoreFault,
    /// What is wrong with the object, if it is `Invalid`.
    pub faults: Faults,
    /// What is stored instead, and what to do about it, where there is something to say.
    pub detail: Option<Arc<str>>,
}

impl Refused {
    /// Refused for faults of the object, all of them at once.
    pub fn invalid(faults: Faults) -> Self {
        Refused { fault: StoreFault::Invalid, faults, detail: None }
    }

    /// Refused, with what is stored instead and what to do about it.
    pub fn because(fault: StoreFault, detail: impl Into<Arc<str>>) -> Self {
        Refused { fault, faults: Faults::default(), detail: Some(detail.into()) }
    }

    /// As the error of an operation.
    pub fn into_error<R: Resource>(self, write: &Write<R>) -> StoreError {
        let error = StoreError::new(write.operation(), R::KIND, &write.key(), self.fault);
        let error = error.with_faults(self.faults);
        match self.detail {
            Some(detail) => error.because(detail),
            None => error,
        }
    }
}

impl From<StoreFault> for Refused {
    fn from(fault: StoreFault) -> Self {
        Refused { fault, faults: Faults::default(), detail: None }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")?;
        if !self.faults.is_empty() {
            write!(f, ": {}", self.faults)?;
        }
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        Ok(())
    }
}

impl StdError for Refused {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.fault)
    }
}
