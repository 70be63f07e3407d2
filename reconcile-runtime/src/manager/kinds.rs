//! The kinds of a manager: one cache each, and what does not fit together.
//!
//! # Invariants
//!
//! 1. The kinds of `known` differ in name and in type; a kind's number is its place among them.
//! 2. An `Api` that does not fit is given out all the same, on a cache of its own that nothing fills; its fault
//!    is in `faults`, by which the manager refuses to run, and refuses each controller that uses it.

use std::{any::TypeId, sync::Arc};

use reconcile_core::{Resource, Store, store::Scope};

use crate::{
    Api, ConfigError, Environment,
    cache::{AnyKind, Kind, KindSettings},
    controller::KindId,
};

#[derive(Default)]
pub(super) struct Kinds {
    known: Vec<Known>,
    /// Of the kinds that do not fit, in the order in which they were asked for.
    faults: Vec<(KindId, ConfigError)>,
}

struct Known {
    id: KindId,
    kind: Arc<dyn AnyKind>,
    type_name: &'static str,
    store: Arc<str>,
    scope: Scope,
}

impl Kinds {
    pub(super) fn api<R: Resource>(
        &mut self,
        store: impl Store<R>,
        scope: Scope,
        env: &Environment,
    ) -> Api<R> {
        let store_id = store.guarantees().store_id;
        let known = self.known.iter().find(|known| known.kind.name() == R::KIND);
        let fault = match known {
            None if R::KIND.is_empty() => {
                Some(ConfigError::EmptyKind { type_name: std::any::type_name::<R>() })
            }
            None => None,
            Some(known) => match known.misfit::<R>(&store_id, &scope) {
                Some(fault) => Some(fault),
                None => {
                    let kind = known.kind.clone().into_any().downcast::<Kind<R>>();
                    return Api::new(kind.expect("a kind with objects of type `R` is a `Kind<R>`"));
                }
            },
        };
        let number = u32::try_from(self.known.len()).expect("a manager has fewer than 2^32 kinds");
        let settings = KindSettings { scope: scope.clone(), ..KindSettings::default() };
        let kind = Kind::new(Arc::new(store) as Arc<dyn Store<R>>, env.clone(), number, settings);
        let id = KindId::at(&kind);
        match fault {
            Some(fault) => self.faults.push((id, fault)), // invariant 2
            None => self.known.push(Known {
                id,
                kind: kind.clone(),
                type_name: std::any::type_name::<R>(),
                store: store_id,
                scope,
            }),
        }
        Api::new(kind)
    }

    /// The place of a kind; the fault of one that does not fit; or `unknown` of its name.
    pub(super) fn find(
        &self,
        id: KindId,
        unknown: impl FnOnce(&'static str) -> ConfigError,
    ) -> Result<usize, ConfigError> {
        if let Some(place) = self.known.iter().position(|known| known.id == id) {
            return Ok(place);
        }
        let fault = self.faults.iter().find(|(faulty, _)| *faulty == id);
        Err(fault.map_or_else(|| unknown(id.name()), |(_, fault)| fault.clone()))
    }

    /// The first thing that does not fit, whether or not a controller uses it.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.faults.first().map_or(Ok(()), |(_, fault)| Err(fault.clone()))
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.known.iter().map(|known| known.kind.name()).collect()
    }

    /// The kinds, in their order.
    pub(super) fn into_known(self) -> Vec<Arc<dyn AnyKind>> {
        self.known.into_iter().map(|known| known.kind).collect()
    }
}

impl Known {
    /// Why a request for a kind of this name cannot be given this one.
    fn misfit<R: Resource>(&self, store: &Arc<str>, scope: &Scope) -> Option<ConfigError> {
        if self.kind.object_type() != TypeId::of::<R>() {
            let second = std::any::type_name::<R>();
            return Some(ConfigError::TwoTypes { kind: R::KIND, first: self.type_name, second });
        }
        if self.store != *store {
            let (first, second) = (self.store.clone(), store.clone());
            return Some(ConfigError::TwoStores { kind: R::KIND, first, second });
        }
        (self.scope != *scope).then_some(ConfigError::TwoScopes { kind: R::KIND })
    }
}
