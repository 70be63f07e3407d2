//! What can be wrong with a controller or a manager before it runs.
//!
//! Each fault has a variant of its own that names the value and what to do. They are found when a controller
//! is added, or at the start of the run for kinds that no controller uses; nothing runs until all are mended.

use std::sync::Arc;

/// A controller or a manager is not well put together. Wording is not part of the contract; variants are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A controller has no name. Logs, metrics and explanations would have nothing to call it.
    #[error("a controller has an empty name; give it one that is unique in its manager")]
    EmptyName,

    /// Two controllers of one manager have one name.
    #[error("there are two controllers named `{name}` in one manager; give each a name of its own")]
    DuplicateName {
        /// The name.
        name: Arc<str>,
    },

    /// A controller that may run nothing at once.
    #[error("controller `{controller}` has a concurrency of zero and would never run; use at least 1")]
    ZeroConcurrency {
        /// The controller.
        controller: Arc<str>,
    },

    /// A duration of zero where it would mean "all the time" or "never".
    #[error("controller `{controller}` sets `{setting}` to zero; {advice}")]
    ZeroDuration {
        /// The controller.
        controller: Arc<str>,
        /// The setting, by the name of its method.
        setting: &'static str,
        /// What to do instead.
        advice: &'static str,
    },

    /// A keyed controller that nothing would ever wake.
    #[error(
        "controller `{controller}` has no source and would never run; give it a `trigger`, `resync_from` or \
         `watches`, or say `enqueued_by_hand` if only its handle wakes it"
    )]
    NoSource {
        /// The controller.
        controller: Arc<str>,
    },

    /// A finalizer that no store would take, or that means something else.
    #[error("controller `{controller}` uses the finalizer `{finalizer}`: {why}")]
    BadFinalizer {
        /// The controller.
        controller: Arc<str>,
        /// The finalizer.
        finalizer: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },

    /// One kind was asked for from two stores: a key would name two objects.
    #[error(
        "kind `{kind}` is in two stores of one manager, `{first}` and `{second}`: a key would be an object of \
         two stores; use one store for it, or a manager each"
    )]
    TwoStores {
        /// The kind.
        kind: &'static str,
        /// The store that it was first asked for from.
        first: Arc<str>,
        /// The other one.
        second: Arc<str>,
    },

    /// Two Rust types have one `KIND`.
    #[error(
        "the types `{first}` and `{second}` both have the kind `{kind}` in one manager; give each type a \
         `KIND` of its own"
    )]
    TwoTypes {
        /// The kind.
        kind: &'static str,
        /// The type that it was first used with.
        first: &'static str,
        /// The other one.
        second: &'static str,
    },

    /// One kind was asked for with two scopes: they would share one cache.
    #[error(
        "kind `{kind}` is asked for with two scopes in one manager, but has one cache; use one scope, or a \
         manager each"
    )]
    TwoScopes {
        /// The kind.
        kind: &'static str,
    },

    /// A type whose `KIND` is the empty text.
    #[error("the type `{type_name}` has an empty `KIND`; give it one that is unique in its store")]
    EmptyKind {
        /// The type.
        type_name: &'static str,
    },

    /// A controller uses an `Api` that this manager did not make: nothing would fill its cache.
    #[error(
        "controller `{controller}` uses an `Api` of kind `{kind}` that is not of this manager; make it with \
         `Manager::api` of the manager that runs the controller"
    )]
    ForeignApi {
        /// The controller.
        controller: Arc<str>,
        /// The kind.
        kind: &'static str,
    },

    /// A controller says that it needs only kinds of which this manager does not know one.
    #[error(
        "controller `{controller}` says `needs_only` with kind `{kind}`, which is not a kind of this manager; \
         name kinds that were made with its `Manager::api`"
    )]
    UnknownKind {
        /// The controller.
        controller: Arc<str>,
        /// The kind.
        kind: &'static str,
    },
}
