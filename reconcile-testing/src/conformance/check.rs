//! How a case says that a store broke a rule.

use std::{error::Error as StdError, fmt};

use reconcile_core::{StoreError, StoreFault};

/// What a case gives: nothing, or how the store broke a rule.
pub(super) type Check<T = ()> = Result<T, Failure>;

/// A store broke a rule: which, at which operation, what was expected, and what came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The case, filled in by the runner.
    case: &'static str,
    /// The text of the rule that the case checks, filled in by the runner.
    rule: &'static str,
    operation: String,
    expected: String,
    got: String,
}

impl Failure {
    pub(super) fn new(
        operation: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
    ) -> Self {
        Failure {
            case: "",
            rule: "",
            operation: operation.into(),
            expected: expected.into(),
            got: got.into(),
        }
    }

    pub(super) fn of(mut self, case: &'static str, rule: &'static str) -> Self {
        (self.case, self.rule) = (case, rule);
        self
    }

    /// The name of the case.
    pub fn case(&self) -> &'static str {
        self.case
    }

    /// What was done when it came out.
    pub fn operation(&self) -> &str {
        &self.operation
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { case, rule, operation, expected, got } = self;
        write!(f, "{case}: the store breaks {rule}\n  at:       {operation}\n")?;
        write!(f, "  expected: {expected}\n  got:      {got}")
    }
}

impl StdError for Failure {}

/// An operation that must succeed.
pub(super) fn ok<T>(operation: impl Into<String>, result: Result<T, StoreError>) -> Check<T> {
    result.map_err(|error| Failure::new(operation, "success", told(&error)))
}

/// An operation that must be refused with a fault. Gives the error.
pub(super) fn refused<T: fmt::Debug>(
    operation: impl Into<String>,
    fault: StoreFault,
    result: Result<T, StoreError>,
) -> Check<StoreError> {
    match result {
        Err(error) if error.fault() == fault => Ok(error),
        Err(error) => Err(Failure::new(operation, format!("the fault {fault:?}"), told(&error))),
        Ok(answer) => {
            Err(Failure::new(operation, format!("the fault {fault:?}"), format!("success: {answer:?}")))
        }
    }
}

/// Two things that must be equal.
pub(super) fn same<T: fmt::Debug + PartialEq>(operation: impl Into<String>, got: T, expected: T) -> Check {
    if got == expected {
        Ok(())
    } else {
        Err(Failure::new(operation, format!("{expected:?}"), format!("{got:?}")))
    }
}

/// Something that must hold. What came is told only if it does not.
pub(super) fn holds(
    operation: impl Into<String>,
    expected: impl Into<String>,
    condition: bool,
    got: impl FnOnce() -> String,
) -> Check {
    if condition { Ok(()) } else { Err(Failure::new(operation, expected, got())) }
}

/// An error with its fault, on one line.
pub(super) fn told(error: &StoreError) -> String {
    format!("the fault {:?}: {error}", error.fault())
}
