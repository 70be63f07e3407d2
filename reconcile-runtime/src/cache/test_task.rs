//! A future that a test polls by hand, and whose wake-ups it counts.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

pub(crate) struct TestTask<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    wakes: Arc<Wakes>,
    output: Option<T>,
}

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn task<T>(future: impl Future<Output = T> + Send + 'static) -> TestTask<T> {
    TestTask { future: Box::pin(future), wakes: Arc::new(Wakes(AtomicUsize::new(0))), output: None }
}

impl<T> TestTask<T> {
    /// Polls once; whether it has ended. Forgets earlier wake-ups.
    pub(crate) fn poll(&mut self) -> bool {
        self.wakes.0.store(0, Ordering::SeqCst);
        let waker = Waker::from(self.wakes.clone());
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => {
                self.output = Some(output);
                true
            }
            Poll::Pending => false,
        }
    }

    /// Whether it was woken since the last poll.
    pub(crate) fn woken(&self) -> bool {
        self.wakes.0.load(Ordering::SeqCst) > 0
    }
}
