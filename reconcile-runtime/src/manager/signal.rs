//! The usual reasons to stop a process, as a future for [`Manager::run_until`](crate::Manager::run_until).

/// Which signal asked the process to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shutdown {
    /// Ctrl-C, or `SIGINT`.
    Interrupt,
    /// `SIGTERM`.
    Terminate,
}

/// Ends when the process is asked to stop: by Ctrl-C, or on Unix by `SIGTERM`.
///
/// Where a signal cannot be listened to, which is logged as an error, it keeps its default effect: the process
/// ends without grace. Needs a tokio runtime with I/O enabled.
///
/// # Panics
///
/// Outside of such a runtime.
///
/// # Cancel safety
///
/// Dropping the future loses nothing; but once it has been polled, the signals no longer end the process by
/// themselves.
///
/// # Examples
///
/// ```no_run
/// use reconcile_runtime::prelude::*;
///
/// # async fn run(manager: Manager) -> Result<(), RunError> {
/// manager.run_until(shutdown_signal()).await
/// # }
/// ```
pub async fn shutdown_signal() -> Shutdown {
    tokio::select! {
        biased;
        shutdown = terminate() => shutdown,
        shutdown = interrupt() => shutdown,
    }
}

async fn interrupt() -> Shutdown {
    match tokio::signal::ctrl_c().await {
        Ok(()) => Shutdown::Interrupt,
        Err(error) => unavailable("SIGINT", &error).await,
    }
}

#[cfg(unix)]
async fn terminate() -> Shutdown {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => match terminate.recv().await {
            Some(()) => Shutdown::Terminate,
            // The runtime is going down, and everything with it.
            None => std::future::pending().await,
        },
        Err(error) => unavailable("SIGTERM", &error).await,
    }
}

#[cfg(not(unix))]
async fn terminate() -> Shutdown {
    std::future::pending().await
}

async fn unavailable(signal: &str, error: &std::io::Error) -> Shutdown {
    tracing::error!("cannot listen to {signal}, which keeps its default effect: {error}");
    std::future::pending().await
}
