//! Typed indexes and the owner index, in step with the objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use proptest::prelude::*;
use reconcile_core::{ObjectKey, OwnerReference, Revision, store::Scope};

use crate::{
    Environment,
    cache::{
        Answer, Cache, Index, Kind, KindSettings,
        test_store::{Faulty, Web, key, stored_web, web},
    },
};

fn kind() -> Arc<Kind<Web>> {
    let environment = Environment::seeded(1);
    let store = Faulty::new(&environment);
    Kind::new(Arc::new(store), environment, 0, KindSettings::default())
}

fn with_labels(name: &str, revision: u64, labels: &[&str]) -> Arc<Web> {
    let mut web = (*stored_web(name, "u", revision)).clone();
    web.meta.labels = labels.iter().map(|label| ((*label).to_owned(), String::new())).collect();
    Arc::new(web)
}

fn labels(web: &Web) -> Vec<String> {
    web.meta.labels.keys().cloned().collect()
}

fn names(webs: &[Arc<Web>]) -> Vec<&str> {
    webs.iter().map(|web| web.meta.name.as_str()).collect()
}

async fn enter(cache: &Arc<Cache<Web>>, web: Arc<Web>) {
    cache.enter_answer(Answer::Stored(web), cache.begin()).await;
}

async fn remove(cache: &Arc<Cache<Web>>, name: &str, revision: u64) {
    let removed = Answer::Removed { key: key(name), revision: Revision(revision), last: None };
    cache.enter_answer(removed, cache.begin()).await;
}

#[tokio::test(start_paused = true)]
async fn an_index_follows_the_objects_in_key_order() {
    let kind = kind();
    let by_label: Index<Web, String> = kind.index("by label", labels);
    enter(kind.cache(), with_labels("b", 1, &["x", "y"])).await;
    enter(kind.cache(), with_labels("a", 2, &["x"])).await;
    assert_eq!(names(&by_label.get("x")), ["a", "b"]);
    assert_eq!(names(&by_label.get("y")), ["b"]);
    enter(kind.cache(), with_labels("b", 3, &["y", "z"])).await;
    assert_eq!(names(&by_label.get("x")), ["a"]);
    assert_eq!(by_label.get("y")[0].meta.revision, Revision(3), "the newest version is listed");
    remove(kind.cache(), "b", 4).await;
    assert!(by_label.get("y").is_empty() && by_label.get("z").is_empty());
    assert_eq!(by_label.panics(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_index_of_a_filled_cache_is_filled_when_it_is_there() {
    let kind = kind();
    for number in 0..500 {
        enter(kind.cache(), with_labels(&format!("x{number:03}"), number + 1, &["all"])).await;
    }
    let by_label: Index<Web, String> = kind.index("by label", labels);
    assert_eq!(by_label.get("all").len(), 500);
    remove(kind.cache(), "x000", 900).await;
    assert_eq!(by_label.get("all").len(), 499);
}

#[test]
fn an_index_that_is_added_while_others_write_misses_nothing() {
    let kind = kind();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (kind, stop) = (kind.clone(), stop.clone());
        runtime.spawn(async move {
            let mut revision = 0;
            while !stop.load(Ordering::SeqCst) {
                revision += 1;
                let label = if revision % 2 == 0 { "even" } else { "odd" };
                enter(kind.cache(), with_labels(&format!("x{}", revision % 300), revision, &[label])).await;
                if revision % 5 == 0 {
                    revision += 1;
                    remove(kind.cache(), &format!("x{}", revision % 300), revision).await;
                }
            }
        })
    };
    let indexes: Vec<Index<Web, String>> = (0..20).map(|_| kind.index("by label", labels)).collect();
    stop.store(true, Ordering::SeqCst);
    runtime.block_on(writer).unwrap();
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for web in kind.cache().list() {
        for label in web.meta.labels.keys() {
            expected.entry(label.clone()).or_default().push(web.meta.name.clone());
        }
    }
    for index in indexes {
        for label in ["even", "odd"] {
            let empty = Vec::new();
            assert_eq!(names(&index.get(label)), *expected.get(label).unwrap_or(&empty));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_function_that_panics_is_counted_and_leaves_the_object_out_until_its_next_version() {
    let kind = kind();
    let fragile: Index<Web, String> = kind.index("fragile", |web: &Web| {
        assert!(!web.meta.labels.contains_key("bad"), "the test says so");
        labels(web)
    });
    let sound: Index<Web, String> = kind.index("sound", labels);
    enter(kind.cache(), with_labels("a", 1, &["x"])).await;
    enter(kind.cache(), with_labels("a", 2, &["x", "bad"])).await;
    assert!(fragile.get("x").is_empty(), "not under the values of the version before");
    assert_eq!(names(&sound.get("x")), ["a"]);
    assert_eq!((fragile.panics(), sound.panics()), (1, 0));
    assert_eq!(kind.cache().snapshot(crate::Time::ZERO, 0).index_panics, 1);
    assert_eq!(kind.cache().get(&key("a")).unwrap().meta.revision, Revision(2));
    enter(kind.cache(), with_labels("a", 3, &["x"])).await;
    assert_eq!(names(&fragile.get("x")), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_added_while_values_are_computed_gets_its_own() {
    let kind = kind();
    let late: Arc<Mutex<Option<Index<Web, String>>>> = Arc::default();
    let (inner, place) = (kind.clone(), late.clone());
    // An index function runs outside all locks: the worst moment for another index to come.
    let _first: Index<Web, String> = kind.index("adds another", move |web: &Web| {
        if place.lock().unwrap().is_none() {
            let another = inner.index("late", labels);
            *place.lock().unwrap() = Some(another);
        }
        labels(web)
    });
    enter(kind.cache(), with_labels("a", 1, &["x"])).await;
    let late = late.lock().unwrap().clone().unwrap();
    assert_eq!(names(&late.get("x")), ["a"]);
}

static HASHES: AtomicUsize = AtomicUsize::new(0);

/// A value that counts how often it is hashed, collides with all others, and panics when it is compared.
#[derive(Clone, Debug)]
struct Touchy(u32);

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        HASHES.fetch_add(1, Ordering::SeqCst);
        0_u8.hash(state);
    }
}

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        assert!(self.0 != 13 && other.0 != 13, "the test says so");
        self.0 == other.0
    }
}

impl Eq for Touchy {}

#[tokio::test(start_paused = true)]
async fn values_are_hashed_once_and_a_panic_of_their_eq_leaves_the_cache_whole() {
    let kind = kind();
    let index: Index<Web, Touchy> =
        kind.index("touchy", |web: &Web| [Touchy(u32::try_from(web.spec.replicas).unwrap())]);
    let scaled = |name: &str, revision: u64, replicas: usize| {
        let mut web = (*stored_web(name, "u", revision)).clone();
        web.spec.replicas = replicas;
        Arc::new(web)
    };
    for number in 0..12 {
        enter(kind.cache(), scaled(&format!("x{number:02}"), number + 1, usize::try_from(number).unwrap()))
            .await;
    }
    assert_eq!(HASHES.load(Ordering::SeqCst), 12, "no rehash when the table grows");
    enter(kind.cache(), scaled("bad", 100, 13)).await;
    assert_eq!(index.panics(), 1);
    assert!(kind.cache().get(&key("bad")).is_some());
    enter(kind.cache(), scaled("good", 101, 3)).await;
    assert_eq!(names(&index.get(&Touchy(3))), ["good", "x03"]);
}

fn owned(name: &str, revision: u64, owner: Option<&str>) -> Arc<Web> {
    let mut child = (*stored_web(name, "u", revision)).clone();
    if let Some(uid) = owner {
        let mut parent = web("parent");
        parent.meta.uid = uid.into();
        child.meta.owner_references.push(OwnerReference::controller_of(&parent));
        // A plain owner is none that controls.
        parent.meta.uid = "plain".into();
        child.meta.owner_references.push(OwnerReference::plain(&parent));
    }
    Arc::new(child)
}

#[tokio::test]
async fn children_are_found_by_the_uid_of_their_controller() {
    let cache: Arc<Cache<Web>> = Cache::new(0, Scope::all());
    enter(&cache, owned("b", 1, Some("o1"))).await;
    enter(&cache, owned("a", 2, Some("o1"))).await;
    enter(&cache, owned("c", 3, None)).await;
    assert_eq!(names(&cache.owned_by(&"o1".into())), ["a", "b"]);
    assert!(cache.owned_by(&"plain".into()).is_empty() && cache.owned_by(&"".into()).is_empty());
    enter(&cache, owned("b", 4, Some("o2"))).await;
    assert_eq!(names(&cache.owned_by(&"o1".into())), ["a"]);
    assert_eq!(names(&cache.owned_by(&"o2".into())), ["b"]);
    remove(&cache, "a", 5).await;
    assert!(cache.owned_by(&"o1".into()).is_empty());
}

proptest! {
    /// Whatever is written, the indexes say what a look at all objects says.
    #[test]
    fn indexes_agree_with_the_objects(
        writes in prop::collection::vec((0_u8..6, prop::option::of(prop::collection::btree_set(0_u8..4, 0..3))), 1..60),
        early in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let kind = kind();
            let make = || -> Index<Web, String> { kind.index("by label", labels) };
            let mut index = early.then(make);
            for (number, (name, state)) in writes.iter().enumerate() {
                let revision = u64::try_from(number).unwrap() + 1;
                match state {
                    Some(values) => {
                        let texts: Vec<String> = values.iter().map(|value| format!("v{value}")).collect();
                        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                        let mut web = (*with_labels(&format!("x{name}"), revision, &texts)).clone();
                        if let Some(owner) = values.first() {
                            let mut parent = crate::cache::test_store::web("parent");
                            parent.meta.uid = format!("o{owner}").into();
                            web.meta.owner_references.push(OwnerReference::controller_of(&parent));
                        }
                        enter(kind.cache(), Arc::new(web)).await;
                    }
                    None => remove(kind.cache(), &format!("x{name}"), revision).await,
                }
            }
            let index = index.take().unwrap_or_else(make);
            let all = kind.cache().list();
            for value in 0..4 {
                let label = format!("v{value}");
                let expected: Vec<ObjectKey> =
                    all.iter().filter(|web| web.meta.labels.contains_key(&label)).map(|web| key(&web.meta.name)).collect();
                let got: Vec<ObjectKey> = index.get(&label).iter().map(|web| key(&web.meta.name)).collect();
                prop_assert_eq!(got, expected);
                let owner = format!("o{value}").into();
                let is_child = |web: &&Arc<Web>| web.meta.controller().is_some_and(|c| c.uid == owner);
                let expected: BTreeSet<&str> = all.iter().filter(is_child).map(|web| web.meta.name.as_str()).collect();
                let children = kind.cache().owned_by(&owner);
                let got: BTreeSet<&str> = children.iter().map(|web| web.meta.name.as_str()).collect();
                prop_assert_eq!(got, expected);
            }
            Ok(())
        })?;
    }
}
