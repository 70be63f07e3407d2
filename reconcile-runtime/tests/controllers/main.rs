//! Controllers on a store in memory, end to end, on virtual time.

mod managed;
mod signals;
mod stop;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reconcile_runtime::{Environment, prelude::*};

#[derive(Clone, Debug, PartialEq)]
struct DbSpec {
    size: u32,
}
#[derive(Clone, Debug, Default, PartialEq)]
struct DbStatus {
    size: u32,
}
impl Spec for DbSpec {
    const KIND: &'static str = "Db";
    type Status = DbStatus;
}
type Db = Object<DbSpec>;

const SECOND: Duration = Duration::from_secs(1);

fn db(name: &str) -> Db {
    Db::new(name, DbSpec { size: 1 })
}

/// Who ran what, in order.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<String>>>);

impl Runs {
    fn add(&self, what: impl ToString) {
        self.lock().push(what.to_string());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remembers the keys it runs.
struct Remember(Runs);

impl Reconciler for Remember {
    type Key = ObjectKey;
    async fn reconcile(&self, key: &ObjectKey, _run: &Run) -> Result<Action, Error> {
        self.0.add(key);
        Ok(Action::await_change())
    }
}

fn manager() -> (Manager, Environment, MemoryStore) {
    let env = Environment::seeded(7);
    (Manager::with_environment(env.clone()), env, MemoryStore::default())
}
