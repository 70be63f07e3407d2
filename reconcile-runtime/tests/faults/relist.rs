//! Whole listings: how much memory they take, and what a store that went back in time does to a cache.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// How many objects there are in this process, and how many there ever were at once.
#[derive(Debug, Default)]
struct Live {
    now: AtomicUsize,
    peak: AtomicUsize,
}

/// A spec that counts itself.
#[derive(Debug)]
struct Counted(Arc<Live>);

impl Counted {
    fn new(live: &Arc<Live>) -> Self {
        let now = live.now.fetch_add(1, Ordering::SeqCst) + 1;
        live.peak.fetch_max(now, Ordering::SeqCst);
        Counted(live.clone())
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Counted::new(&self.0)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PartialEq for Counted {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Spec for Counted {
    const KIND: &'static str = "Counted";
    type Status = ();
}

/// The most objects of a page, as the engine asks for them.
const PAGE: usize = 500;

#[tokio::test(start_paused = true)]
async fn c4_listing_again_takes_the_memory_of_a_page_and_readers_never_see_less() {
    const OBJECTS: usize = 200_000;
    const GONE: usize = 1_000;
    let (mut manager, env, store) = world();
    let objects = manager.api::<Object<Counted>>(&store);
    let (live, deleted) = (Arc::new(Live::default()), Arc::new(AtomicUsize::new(0)));
    let others = foreign::<Object<Counted>>(&store, &env);
    for number in 0..OBJECTS {
        others.create(Object::new(format!("{number:06}"), Counted::new(&live))).await.unwrap();
    }
    let counts = deleted.clone();
    let watch = Watch::new(&objects, |_: &Object<Counted>| None::<ObjectKey>).filter(move |change| {
        counts.fetch_add(usize::from(change.is_delete()), Ordering::SeqCst);
        true
    });
    manager.add(Controller::for_keys("counts", runs_in(&Log::default())).watches_with(watch)).unwrap();
    let script = store.of::<Object<Counted>>();
    script.copy_listed_objects();
    let health = manager.handle();
    run(manager, async {
        health.started().await;
        assert_eq!(objects.len(), OBJECTS);
        script.hold_streams();
        // Every twentieth object of a part of them is gone.
        for gone in objects.list().iter().step_by(OBJECTS / GONE) {
            others.delete(gone).await.unwrap();
        }
        store.memory().compact();
        let pages = Arc::new(AtomicUsize::new(0));
        let (readers, seen) = (objects.clone(), pages.clone());
        script.on_page(move |items| {
            assert!(items <= PAGE, "a page of {items}");
            assert!(readers.len() >= OBJECTS - GONE, "a reader sees {} objects", readers.len());
            seen.fetch_add(1, Ordering::SeqCst);
        });
        let before = live.now.load(Ordering::SeqCst);
        live.peak.store(before, Ordering::SeqCst);
        script.release_streams();
        env.sleep(10 * SECOND).await;
        assert_eq!(pages.load(Ordering::SeqCst), (OBJECTS - GONE).div_ceil(PAGE));
        let peak = live.peak.load(Ordering::SeqCst) - before;
        assert!(peak <= PAGE, "{peak} objects more than before, at the most");
        assert_eq!((objects.len(), deleted.load(Ordering::SeqCst)), (OBJECTS - GONE, GONE));
    })
    .await;
}

/// How the engine hears that its store went back.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Hint {
    /// The stream says that its history is gone, and the listing is behind.
    Stream,
    /// The stream is silent for ever; an own write gets a revision that was passed long ago.
    OwnWrite,
    /// The stream is silent until the idle limit, and the store does not take the cursor.
    Silence,
}

#[tokio::test(start_paused = true)]
async fn c5_a_rewound_store_is_listed_again_and_old_preconditions_are_not_used() {
    for hint in [Hint::Stream, Hint::OwnWrite, Hint::Silence] {
        let (mut manager, env, store) = world();
        let webs = manager.api::<Web>(&store);
        let others = foreign::<Web>(&store, &env);
        let log = Log::default();
        let watch = logging(&webs, &log, web_words);
        manager.add(Controller::for_keys("web", runs_in(&Log::default())).watches_with(watch)).unwrap();
        let health = manager.handle();
        run(manager, async {
            let script = store.of::<Web>();
            others.create(web("kept", 0)).await.unwrap();
            others.create(web("comes-back", 1)).await.unwrap();
            for replicas in 1..=998 {
                others.modify(&key("kept"), |web| web.spec.replicas = replicas).await.unwrap();
            }
            let backup = store.memory().snapshot();
            assert_eq!(backup.revision(), Revision(1000));
            let gone = others.get(&key("comes-back")).await.unwrap().unwrap();
            others.delete(&gone).await.unwrap();
            others.create(web("lost", 1)).await.unwrap();
            for replicas in 1..=198 {
                others.modify(&key("kept"), |web| web.spec.replicas = 1000 + replicas).await.unwrap();
            }
            env.sleep(SECOND).await;
            let before = webs.get(&key("kept")).unwrap();
            assert_eq!((before.meta.revision, webs.len()), (Revision(1200), 2));
            assert_eq!(health.status().kinds[0].epoch, 0);
            log.take();

            if hint != Hint::Stream {
                script.silence_open_streams();
            }
            store.memory().restore(&backup);
            for number in 1..=10 {
                others.create(web(&format!("new-{number:02}"), 1)).await.unwrap();
            }
            match hint {
                Hint::Stream => env.sleep(SECOND).await,
                Hint::OwnWrite => {
                    env.sleep(SECOND).await;
                    assert_eq!(webs.len(), 2, "nothing has told of the rewind yet");
                    let own = webs.create(web("own", 1)).await.unwrap();
                    assert_eq!(own.meta.revision, Revision(1011));
                    env.sleep(SECOND).await;
                    assert!(webs.get(&key("own")).is_some());
                    webs.delete(&own).await.unwrap();
                }
                Hint::Silence => env.sleep(301 * SECOND).await,
            }
            let status = &health.status().kinds[0];
            assert_eq!(status.epoch, 1, "{hint:?}");
            // What the backup had, and the ten that came after; and every difference was told.
            let cached: Vec<String> = webs.list().iter().map(|web| web_words(web)).collect();
            let stored: Vec<String> = others.list().await.unwrap().iter().map(|web| web_words(web)).collect();
            assert_eq!((cached.len(), &cached), (12, &stored), "{hint:?}");
            let told = log.take();
            for change in
                ["deleted lost/1", "added comes-back/1", "updated kept/1198 to kept/998", "added new-10/1"]
            {
                assert!(told.iter().any(|told| told == change), "{change} after {hint:?}: {told:?}");
            }
            // What was decided on a revision of the other history is refused; what is cached now is not old.
            let mut late = (*before).clone();
            late.spec.replicas = 5;
            assert_eq!(webs.update(late).await.unwrap_err().fault(), StoreFault::Conflict);
            let mut now = (*webs.get(&key("kept")).unwrap()).clone();
            now.spec.replicas = 6;
            webs.update(now).await.unwrap();
        })
        .await;
    }
}
