//! The queue of a controller.
use super::{QueueConfig, Signal};
use crate::Environment;
use reconcile_core::{Cause, Key};
use std::{
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

/// A queue.
pub(crate) struct Queue<K: Key> {
    shared: Arc<Shared>,
    key: PhantomData<fn(K)>,
}
struct Shared {
    closed: AtomicBool,
    wake: Notify,
}
impl<K: Key> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Queue { shared: self.shared.clone(), key: PhantomData }
    }
}
impl<K: Key> Queue<K> {
    pub(crate) fn new(config: QueueConfig, env: &Environment) -> Self {
        let _ = (config, env);
        Queue {
            shared: Arc::new(Shared { closed: AtomicBool::new(false), wake: Notify::new() }),
            key: PhantomData,
        }
    }
    pub(crate) fn signal(&self, key: K, signal: Signal) {
        let _ = (key, signal);
    }
    pub(crate) fn pause_key(&self, key: K, cause: Cause) {
        let _ = (key, cause);
    }
    pub(crate) fn resume_key(&self, key: K, cause: Cause) {
        let _ = (key, cause);
    }
    pub(crate) fn close(&self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.wake.notify_waiters();
    }
    pub(crate) fn abandon(&self) {}
    pub(crate) async fn drained(&self) {
        self.run_timers().await;
    }
    pub(crate) async fn run_timers(&self) {
        let waiting = self.shared.wake.notified();
        if !self.shared.closed.load(Ordering::SeqCst) {
            waiting.await;
        }
    }
    pub(crate) fn running(&self) -> Vec<String> {
        Vec::new()
    }
}
