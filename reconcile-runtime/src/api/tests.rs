mod client;
mod losses;
mod lost_runs;
mod writes;

use std::sync::Arc;

use reconcile_core::{Run, StoreError, StoreFault, store::Fence};

use super::scope::RunScope;
use crate::cache::test_task::{TestTask, task};

/// The fault of a result that has to be an error.
#[track_caller]
fn fault<T: std::fmt::Debug>(result: Result<T, StoreError>) -> StoreFault {
    result.unwrap_err().fault()
}

/// A run with a scope, and the scope.
fn run() -> (Run, Arc<RunScope>) {
    run_with(None)
}

fn run_with(fence: Option<Fence>) -> (Run, Arc<RunScope>) {
    let scope = RunScope::new("web".into(), fence);
    let (run, _control) = Run::builder().ambient(scope.clone()).build();
    (run, scope)
}

/// A future of a run, to be polled by hand. It can only move what needs no other task.
fn in_run<T: Send + 'static>(run: &Run, future: impl Future<Output = T> + Send + 'static) -> TestTask<T> {
    task(run.scope(future))
}
