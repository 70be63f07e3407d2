//! Panics of user code, wherever it is called: caught, counted, named, and of no harm to anything else.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{Hash, Hasher},
    pin::Pin,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    task::{Context, Poll},
};

use reconcile_runtime::{ManagerHandle, SourceStatus};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::*;

/// One line of the log: its level, and its fields with those of the spans around it.
#[derive(Debug, Clone)]
struct Line {
    level: Level,
    fields: BTreeMap<String, String>,
}

impl Line {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// Keeps what is logged on this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    lines: Vec<Line>,
    spans: BTreeMap<u64, BTreeMap<String, String>>,
    entered: Vec<u64>,
}

struct Fields<'a>(&'a mut BTreeMap<String, String>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

static SPANS: AtomicU64 = AtomicU64::new(1);

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let id = SPANS.fetch_add(1, Ordering::SeqCst);
        let mut fields = BTreeMap::new();
        // Formatting is user code: not under the lock.
        attributes.record(&mut Fields(&mut fields));
        self.0.lock().unwrap().spans.insert(id, fields);
        span::Id::from_u64(id)
    }

    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        let mut fields = BTreeMap::new();
        values.record(&mut Fields(&mut fields));
        if let Some(known) = self.0.lock().unwrap().spans.get_mut(&id.into_u64()) {
            known.append(&mut fields);
        }
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let mut kept = self.0.lock().unwrap();
        let around = event.parent().map(span::Id::into_u64).or_else(|| kept.entered.last().copied());
        let mut all = around.and_then(|id| kept.spans.get(&id).cloned()).unwrap_or_default();
        all.append(&mut fields);
        kept.lines.push(Line { level: *event.metadata().level(), fields: all });
    }

    fn enter(&self, id: &span::Id) {
        self.0.lock().unwrap().entered.push(id.into_u64());
    }

    fn exit(&self, _: &span::Id) {
        self.0.lock().unwrap().entered.pop();
    }
}

impl Lines {
    /// The lines of this level that say this, and forgets all.
    fn take(&self, level: Level, message: &str) -> Vec<Line> {
        let lines = std::mem::take(&mut self.0.lock().unwrap().lines);
        lines
            .into_iter()
            .filter(|line| line.level == level && line.field("message").contains(message))
            .collect()
    }
}

/// In which part of a run it panics.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Call,
    Poll,
    SecondPoll,
    Drop,
    /// The future is dropped, since the run took longer than its limit.
    DropAtTheLimit,
    /// The payload of the panic panics when it is dropped.
    Payload,
}

const PARTS: [Part; 6] =
    [Part::Call, Part::Poll, Part::SecondPoll, Part::Drop, Part::DropAtTheLimit, Part::Payload];

/// Panics on the key `bad`, in one part of its first run.
struct Bomb {
    part: Part,
    armed: AtomicBool,
}

struct BombFuture {
    part: Option<Part>,
    polls: u32,
}

impl Future for BombFuture {
    type Output = Result<Action, Error>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.polls += 1;
        match (self.part, self.polls) {
            (Some(Part::Poll), _) | (Some(Part::SecondPoll), 2) => panic!("bad field in poll {}", self.polls),
            (Some(Part::Payload), _) => std::panic::panic_any(PanicsInDrop),
            (Some(Part::SecondPoll), _) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            (Some(Part::DropAtTheLimit), _) => Poll::Pending,
            _ => Poll::Ready(Ok(Action::await_change())),
        }
    }
}

impl Drop for BombFuture {
    fn drop(&mut self) {
        if matches!(self.part, Some(Part::Drop | Part::DropAtTheLimit)) {
            panic!("bad field in drop");
        }
    }
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("bad payload");
    }
}

impl Reconciler for Bomb {
    type Key = ObjectKey;
    fn reconcile(&self, key: &ObjectKey, _run: &Run) -> impl Future<Output = Result<Action, Error>> + Send {
        let armed = key.name() == "bad" && self.armed.swap(false, Ordering::SeqCst);
        assert!(!(armed && self.part == Part::Call), "bad field in call");
        BombFuture { part: armed.then_some(self.part), polls: 0 }
    }
}

#[tokio::test(start_paused = true)]
async fn r1_a_panic_of_a_run_is_an_outcome_with_controller_key_run_and_payload() {
    for part in PARTS {
        let (mut manager, env, store) = world();
        let webs = manager.api::<Web>(&store);
        let bomb = Bomb { part, armed: AtomicBool::new(true) };
        let controller = Controller::for_objects("web", &webs, bomb).run_limit(5 * SECOND).concurrency(1);
        let handle = manager.add(controller).unwrap();
        let lines = Lines::default();
        let _logging = tracing::subscriber::set_default(lines.clone());
        let text = match part {
            Part::Call => "bad field in call",
            Part::Poll => "bad field in poll 1",
            Part::SecondPoll => "bad field in poll 2",
            Part::Drop | Part::DropAtTheLimit => "bad field in drop",
            Part::Payload => "a panic without a message",
        };
        let bad = ObjectKey::namespaced("shop", "bad");
        run(manager, async {
            let others = foreign::<Web>(&store, &env);
            others.create(web("bad", 1).namespace("shop")).await.unwrap();
            let report = handle.next_outcome(&bad).await.unwrap();
            assert_eq!(report.kind, OutcomeKind::Panicked, "{part:?}");
            let error = report.error.unwrap().to_string();
            for named in ["run 1 of shop/bad by controller `web`", "panicked: ", text] {
                assert!(error.contains(named), "{named} in {error}, after {part:?}");
            }
            let logged = lines.take(Level::ERROR, "reconcile panicked");
            assert_eq!(logged.len(), 1, "{part:?}");
            let line = &logged[0];
            assert_eq!(
                (line.field("controller"), line.field("key"), line.field("run")),
                ("web", "shop/bad", "1")
            );
            assert!(line.field("error").contains(text), "{part:?}: {line:?}");

            let explained = handle.explain(&bad).to_string();
            assert!(
                explained.contains("backs off after 1 failed run") && explained.contains(text),
                "{explained}"
            );
            let failing = handle.idle().await.failing;
            assert_eq!((failing.len(), &failing[0].0), (1, &bad));
            // The worker lives and runs others; the key is retried.
            others.create(web("good", 1)).await.unwrap();
            handle.converged(&key("good")).await.unwrap();
            assert_eq!(handle.next_outcome(&bad).await.unwrap().kind, OutcomeKind::Done);
            assert_eq!(handle.snapshot().ended(OutcomeKind::Panicked), 1);
        })
        .await;
    }
}

/// Where panics end the process, the panic hook is the last that runs: it finds the run's identity around it.
#[tokio::test(start_paused = true)]
async fn r1_a_panic_hook_sees_controller_key_and_run_of_the_panicking_run() {
    thread_local! {
        static HOOKED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if HOOKED.get() {
            let attempt = Run::current().map(|run| run.attempt());
            tracing::error!(attempt, "the process would end: {info}");
        }
        before(info);
    }));
    let (mut manager, env, store) = world();
    let webs = manager.api::<Web>(&store);
    let bomb = Bomb { part: Part::SecondPoll, armed: AtomicBool::new(true) };
    let handle = manager.add(Controller::for_objects("web", &webs, bomb)).unwrap();
    let lines = Lines::default();
    let _logging = tracing::subscriber::set_default(lines.clone());
    run(manager, async {
        foreign::<Web>(&store, &env).create(web("bad", 1)).await.unwrap();
        HOOKED.set(true);
        assert_eq!(handle.next_outcome(&key("bad")).await.unwrap().kind, OutcomeKind::Panicked);
        HOOKED.set(false);
        let hooked = lines.take(Level::ERROR, "the process would end");
        assert_eq!(hooked.len(), 1);
        let line = &hooked[0];
        let named =
            [line.field("controller"), line.field("object.key"), line.field("run"), line.field("attempt")];
        assert_eq!(named, ["web", "bad", "1", "1"]);
        assert!(line.field("message").contains("bad field in poll 2"));
    })
    .await;
}

/// How a source fares, by its name.
fn source(health: &ManagerHandle, name: &str) -> SourceStatus {
    let controllers = health.status().controllers;
    let mut sources = controllers.into_iter().flat_map(|controller| controller.sources);
    sources.find(|source| &*source.name == name).expect("there is such a source")
}

/// Panics if it is the bad one.
fn check(pod: &Pod, what: &str) {
    assert_ne!(pod.spec.node, "bad", "no such node in {what}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_mapper_filter_or_index_function_is_named_and_everything_else_goes_on() {
    let (mut manager, env, store) = world();
    let pods = manager.api::<Pod>(&store);
    let (runs, filtered, healthy) = (Log::default(), Log::default(), Log::default());
    let by_node = manager.index(&pods, |pod: &Pod| {
        check(pod, "index");
        [pod.spec.node.clone()]
    });
    let mapped = Watch::new(&pods, |pod: &Pod| {
        check(pod, "mapper");
        [pod.key()]
    });
    manager.add(Controller::for_keys("maps", runs_in(&runs)).watches_with(mapped)).unwrap();
    let filter = |change: &Change<Pod>| {
        check(change.object(), "filter");
        true
    };
    manager.add(Controller::for_objects("filters", &pods, runs_in(&filtered)).filter(filter)).unwrap();
    manager.add(Controller::for_objects("healthy", &pods, runs_in(&healthy))).unwrap();
    let (health, lines) = (manager.handle(), Lines::default());
    let _logging = tracing::subscriber::set_default(lines.clone());
    run(manager, async {
        let others = foreign::<Pod>(&store, &env);
        others.create(pod("a", "bad")).await.unwrap();
        others.create(pod("b", "good")).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!(runs.take(), ["run b"]);
        assert_eq!(filtered.take(), ["run a", "run b"], "a change that cannot be judged passes");
        assert_eq!(healthy.take(), ["run a", "run b"]);
        assert_eq!((by_node.get("good").len(), by_node.get("bad").len(), by_node.panics()), (1, 0, 1));
        assert_eq!(health.status().kinds[0].index_panics, 1);
        for (name, part) in [("watch of Pod", "mapper"), ("primary Pod", "filter")] {
            let status = source(&health, name);
            assert_eq!(status.panics, 1, "{name}");
            let last = status.last_panic.expect("it is kept");
            assert!(last.contains(part) && last.contains(&format!("no such node in {part}")), "{last}");
        }
        let errors = lines.take(Level::ERROR, "panicked");
        let of =
            |controller: &str| errors.iter().filter(|line| line.field("controller") == controller).count();
        assert_eq!((of("maps"), of("filters"), of("healthy")), (1, 1, 0));

        // What panicked once is found by its next version: nothing is poisoned.
        others.modify(&key("a"), |pod| pod.spec.node = "good".to_owned()).await.unwrap();
        env.sleep(SECOND).await;
        assert_eq!((runs.take(), healthy.take()), (vec!["run a".to_owned()], vec!["run a".to_owned()]));
        assert_eq!(by_node.get("good").len(), 2);
        assert!(health.readiness().is_ready());
    })
    .await;
}

/// A key and an error whose own code panics when it is told to.
#[derive(Clone)]
struct Touchy {
    number: u32,
    panics_in: Option<Touch>,
    armed: Arc<AtomicBool>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Touch {
    Debug,
    Display,
    Drop,
    Hash,
}

impl Touchy {
    fn touched(&self, touch: Touch) {
        assert!(
            !(self.panics_in == Some(touch) && self.armed.load(Ordering::SeqCst)),
            "touched in {touch:?}"
        );
    }
}

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Touchy {}
impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.touched(Touch::Hash);
        self.number.hash(state);
    }
}
impl fmt::Debug for Touchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.touched(Touch::Debug);
        write!(f, "touchy {}", self.number)
    }
}
impl fmt::Display for Touchy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.touched(Touch::Display);
        write!(f, "touchy error {}", self.number)
    }
}
impl std::error::Error for Touchy {}
impl Drop for Touchy {
    fn drop(&mut self) {
        self.touched(Touch::Drop);
    }
}

#[tokio::test(start_paused = true)]
async fn keys_and_errors_that_panic_when_they_are_printed_or_dropped_end_no_worker_and_lose_no_key() {
    for touch in [Touch::Debug, Touch::Display, Touch::Drop, Touch::Hash] {
        let (mut manager, env, _store) = world();
        let (armed, runs) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let touchy =
            |number, armed: &Arc<AtomicBool>| Touchy { number, panics_in: Some(touch), armed: armed.clone() };
        let (counts, fuse) = (runs.clone(), armed.clone());
        // Takes its key by reference: a key of its own would be dropped in the run.
        struct Fails(Arc<AtomicU64>, Touchy);
        impl Reconciler for Fails {
            type Key = Touchy;
            async fn reconcile(&self, key: &Touchy, _run: &Run) -> Result<Action, Error> {
                self.0.fetch_add(1, Ordering::SeqCst);
                if key.number == 1 {
                    let error = self.1.clone();
                    return Err(error.into());
                }
                Ok(Action::await_change())
            }
        }
        let (sender, receiver) = tokio::sync::mpsc::channel(8);
        let receiver = Arc::new(Mutex::new(Some(receiver)));
        let controller = Controller::for_keys("touchy", Fails(counts, touchy(1, &fuse)))
            .concurrency(1)
            .backoff(Backoff::new(SECOND, SECOND))
            .trigger(move || {
                let mut receiver = receiver.lock().unwrap().take();
                futures::stream::poll_fn(move |cx| match &mut receiver {
                    Some(receiver) => receiver.poll_recv(cx),
                    None => Poll::Pending,
                })
            });
        let handle = manager.add(controller).unwrap();
        let (health, lines) = (manager.handle(), Lines::default());
        let _logging = tracing::subscriber::set_default(lines.clone());
        run(manager, async {
            env.sleep(SECOND).await;
            armed.store(true, Ordering::SeqCst);
            for number in [1, 2, 3] {
                sender.send(touchy(number, &armed)).await.unwrap();
            }
            env.sleep(20 * SECOND).await;
            armed.store(false, Ordering::SeqCst);
            let workers =
                health.status().loops.into_iter().find(|one| one.role.as_str() == "worker").unwrap();
            assert_eq!((workers.restarts, workers.dead), (0, 0), "{touch:?}: {workers:?}");
            let ran = runs.load(Ordering::SeqCst);
            if touch == Touch::Hash {
                // A key that cannot be hashed cannot be queued; the source says so.
                assert_eq!((ran, source(&health, "trigger `source 1`").panics), (0, 3));
            } else {
                assert!(ran >= 10, "{touch:?}: the failing key was retried {ran} times");
                assert!(!lines.take(Level::ERROR, "panicked").is_empty(), "{touch:?}: it is told");
            }
            // All of it works again.
            sender.send(touchy(4, &armed)).await.unwrap();
            env.sleep(SECOND).await;
            assert_eq!(handle.explain(&touchy(4, &armed)).last.unwrap().kind, OutcomeKind::Done, "{touch:?}");
            let depth = handle.snapshot().depth;
            assert_eq!((depth.running, depth.ready()), (0, 0), "{touch:?}");
        })
        .await;
    }
}
