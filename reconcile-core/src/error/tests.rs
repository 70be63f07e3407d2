//! A class survives every wrapper that keeps its source reachable.

use std::{error::Error as StdError, fmt, time::Duration};

use anyhow::Context as _;

use super::*;
use crate::{Cancelled, ObjectKey, Run, StoreError};

fn conflict() -> StoreError {
    StoreError::new("update", "Web", &ObjectKey::namespaced("default", "web"), StoreFault::Conflict)
}

fn number() -> std::num::ParseIntError {
    "x".parse::<u32>().unwrap_err()
}

#[derive(Debug, thiserror::Error)]
enum Wrapper {
    #[error("the store would not")]
    Store(#[from] StoreError),
    #[error(transparent)]
    Classified(#[from] ReconcileError),
    #[error(transparent)]
    Any(#[from] anyhow::Error),
    #[error("three levels")]
    Deep(#[source] Box<Wrapper>),
}

/// Goes through `?`, as a user's code does.
fn class<E>(error: E) -> Retry
where
    Error: From<E>,
{
    fn run<E>(error: E) -> Result<(), Error>
    where
        Error: From<E>,
    {
        Err(error)?;
        Ok(())
    }
    run(error).unwrap_err().retry()
}

#[test]
fn an_error_without_a_class_backs_off() {
    assert_eq!(class("a text"), Retry::Backoff);
    assert_eq!(class(String::from("a text")), Retry::Backoff);
    assert_eq!(class(number()), Retry::Backoff);
    assert_eq!(class(anyhow::anyhow!("a text").context("more")), Retry::Backoff);
    assert_eq!(class(BoxError::from("boxed")), Retry::Backoff);
}

#[test]
fn every_store_fault_has_its_class() {
    let rows = [
        (StoreFault::NotFound, Retry::Conflict),
        (StoreFault::AlreadyExists, Retry::Conflict),
        (StoreFault::Conflict, Retry::Conflict),
        (StoreFault::Invalid, Retry::Never),
        (StoreFault::TooLarge, Retry::Never),
        (StoreFault::Reentrant, Retry::Never),
        (StoreFault::Fenced, Retry::NextTerm),
        (StoreFault::Expired, Retry::Backoff),
        (StoreFault::Unavailable, Retry::Backoff),
        (StoreFault::Unreadable, Retry::Backoff),
        (StoreFault::Indeterminate, Retry::Backoff),
    ];
    for (fault, retry) in rows {
        let error = Error::from(StoreError::of_kind("list", "Web", fault));
        assert_eq!((error.retry(), error.store_fault()), (retry, Some(fault)));
        assert_eq!(class(fault), retry);
    }
}

#[test]
fn a_class_survives_wrapping() {
    let never = || Err::<(), _>(number()).permanent().unwrap_err();
    let boxed: Box<dyn StdError + Send + Sync> = Box::new(conflict());
    let rows = [
        ("plain", class(conflict()), Retry::Conflict),
        ("boxed", class(boxed), Retry::Conflict),
        ("anyhow", class(anyhow::Error::from(conflict())), Retry::Conflict),
        (
            "anyhow with context",
            class(anyhow::Error::from(conflict()).context("a").context("b")),
            Retry::Conflict,
        ),
        (
            "anyhow context on a result",
            class(Err::<(), _>(conflict()).context("a").unwrap_err()),
            Retry::Conflict,
        ),
        ("from", class(Wrapper::from(conflict())), Retry::Conflict),
        ("transparent", class(Wrapper::from(never())), Retry::Never),
        ("transparent anyhow", class(Wrapper::from(anyhow::Error::from(conflict()))), Retry::Conflict),
        ("deep", class(Wrapper::Deep(Box::new(Wrapper::Deep(Box::new(conflict().into()))))), Retry::Conflict),
        ("classified", class(never()), Retry::Never),
        ("classified in anyhow", class(anyhow::Error::from(never()).context("a")), Retry::Never),
        ("the class itself", class(Retry::NextTerm), Retry::NextTerm),
        (
            "the class as a source of anyhow",
            class(anyhow::Error::from(Retry::Never).context("a")),
            Retry::Never,
        ),
    ];
    for (row, got, expected) in rows {
        assert_eq!(got, expected, "{row}");
    }
}

#[test]
fn the_class_that_is_said_last_counts() {
    let failed = || Err::<(), _>(conflict());
    let after = Retry::After(Duration::from_secs(3));
    let rows = [
        ("over the store's", class(failed().permanent().unwrap_err()), Retry::Never),
        ("again", class(failed().permanent().retry_after(Duration::from_secs(3)).unwrap_err()), after),
        (
            "and back",
            class(failed().retry_after(Duration::from_secs(3)).permanent().unwrap_err()),
            Retry::Never,
        ),
        (
            "through anyhow",
            class(failed().permanent().context("a").retry_after(Duration::from_secs(3)).unwrap_err()),
            after,
        ),
        ("transparent", class(Wrapper::from(failed().permanent().unwrap_err())), Retry::Never),
        ("an explicit backoff", class(ReconcileError::new(Retry::Backoff, conflict())), Retry::Backoff),
        (
            "while_doing says none",
            class(failed().while_doing("a").while_doing("b").unwrap_err()),
            Retry::Conflict,
        ),
        ("with_retry", Error::from(conflict()).with_retry(Retry::Never).retry(), Retry::Never),
    ];
    for (row, got, expected) in rows {
        assert_eq!(got, expected, "{row}");
    }
}

#[test]
fn calls_in_a_chain_do_not_nest() {
    let error = Err::<(), _>(conflict()).while_doing("inner").permanent().while_doing("outer").unwrap_err();
    assert!(error.get_ref().is::<StoreError>());
    assert_eq!(error.to_string(), "outer: inner: cannot update Web default/web");
    let error = Error::from(error).into_reconcile_error();
    assert!(error.get_ref().is::<StoreError>(), "nor does the way through Error");
}

#[test]
fn the_class_is_a_node_of_the_chain() {
    let said = ReconcileError::new(Retry::Never, conflict());
    assert_eq!(said.source().unwrap().downcast_ref::<Retry>(), Some(&Retry::Never));
    let found = Err::<(), _>(conflict()).while_doing("a").unwrap_err();
    assert_eq!(found.source().unwrap().downcast_ref::<StoreFault>(), Some(&StoreFault::Conflict));
    let none = Err::<(), _>("a text").while_doing("a").unwrap_err();
    assert!(none.source().is_none());
}

#[test]
fn a_boxed_error_keeps_the_class_that_was_said() {
    fn main_like(error: Error) -> Result<(), Box<dyn StdError>> {
        Err(error)?;
        Ok(())
    }
    let boxed = main_like(Error::from(conflict()).with_retry(Retry::Never)).unwrap_err();
    assert_eq!(class_of(&*boxed), Retry::Never);
    let boxed = main_like(Error::from(conflict())).unwrap_err();
    assert!(boxed.is::<StoreError>(), "an error that needs no wrapper gets none");
    let report = anyhow::Error::from(Error::from(conflict()).with_retry(Retry::Never).into_reconcile_error());
    assert_eq!(class(report), Retry::Never);
}

#[test]
fn the_stores_fault_is_found_behind_a_class() {
    let fault = |error: Error| error.store_fault();
    let wrapped = Err::<(), _>(conflict()).permanent().unwrap_err();
    assert_eq!(fault(wrapped.clone().into()), Some(StoreFault::Conflict));
    assert_eq!(fault(anyhow::Error::from(wrapped).context("a").into()), Some(StoreFault::Conflict));
    assert_eq!(fault(ReconcileError::new(Retry::Never, StoreFault::Fenced).into()), Some(StoreFault::Fenced));
    assert_eq!(fault("a text".into()), None);
}

#[test]
fn display_prints_one_level_and_the_alternate_all_of_them() {
    let error = Error::from(Wrapper::from(conflict()));
    assert_eq!(error.to_string(), "the store would not");
    let all = "the store would not: cannot update Web default/web: the object was changed meanwhile";
    assert_eq!(format!("{error:#}"), all);
    let error = error.into_reconcile_error().while_doing("scaling");
    assert_eq!(error.to_string(), "scaling: the store would not");
    assert_eq!(format!("{error:#}"), format!("scaling: {all}"));
    let outer = anyhow::Error::from(error).context("outer");
    assert_eq!(format!("{:#}", Error::from(outer)), format!("outer: scaling: {all}"));
    let permanent = Error::from(Err::<(), _>(number()).permanent().unwrap_err());
    assert_eq!(format!("{permanent:#}"), "invalid digit found in string", "a class is no cause");
}

#[derive(Debug)]
struct Cycle;

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("again")
    }
}

impl StdError for Cycle {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&Cycle)
    }
}

#[test]
fn a_chain_that_never_ends_is_given_up() {
    let error = Error::from(Cycle);
    assert_eq!((error.retry(), error.store_fault()), (Retry::Backoff, None));
    assert!(format!("{error:#}").matches("again").count() <= CHAIN_LIMIT + 1);
    let error = error.into_reconcile_error();
    assert_eq!(class(error.clone()), Retry::Backoff);
    assert_eq!(class(Err::<(), _>(error).permanent().unwrap_err()), Retry::Never);
}

#[test]
fn a_long_chain_of_classes_is_walked_in_a_line() {
    let mut error = ReconcileError::new(Retry::Never, "innermost");
    for level in 0..1000 {
        error = ReconcileError::new(Retry::Never, Wrapper::Deep(Box::new(error.into())))
            .while_doing(level.to_string());
    }
    assert_eq!(class(error), Retry::Never);
}

#[test]
fn r6_a_cancelled_run_is_no_failure() {
    let (run, control) = Run::builder().build();
    control.stop();
    let cancelled: Cancelled =
        futures::executor::block_on(run.until_cancelled(std::future::pending::<()>())).unwrap_err();
    assert_eq!(class(cancelled), Retry::Cancelled);
    assert_eq!(class(anyhow::Error::from(cancelled).context("waiting")), Retry::Cancelled);
    assert_eq!(class(Err::<(), _>(cancelled).while_doing("waiting").unwrap_err()), Retry::Cancelled);
}
