use proptest::prelude::*;
use reconcile_core::{ObjectMeta, store::Unreadable};

use super::*;
use crate::cache::test_store::{Web, key, stored_web};

const FIRST_PAGE: Listing = Listing { number: 3, cursor: Revision(100) };

fn object(uid: &str, revision: u64) -> Arc<Web> {
    stored_web("x", uid, revision)
}

fn unreadable(uid: Option<&str>, revision: u64) -> Arc<Unreadable> {
    let meta = uid.map(|uid| {
        let mut meta = ObjectMeta::new("x");
        meta.uid = uid.into();
        meta
    });
    Arc::new(Unreadable::new(key("x"), meta, Revision(revision), "not JSON"))
}

fn listed(uid: &str, revision: u64) -> Incoming<Web> {
    Incoming::Listed { object: object(uid, revision), listing: FIRST_PAGE, contradicts: None }
}

fn deleted(revision: u64, last: Option<Arc<Web>>) -> Incoming<Web> {
    Incoming::Deleted { revision: Revision(revision), last }
}

fn removed(revision: u64) -> Incoming<Web> {
    Incoming::Removed { revision: Revision(revision), last: None }
}

/// One key's state, owned.
#[derive(Default)]
struct Key {
    object: Option<Arc<Web>>,
    flag: Option<Arc<Unreadable>>,
    tombstone: Option<Tombstone>,
    stale: bool,
    floor: u64,
}

impl Key {
    fn with(uid: &str, revision: u64) -> Self {
        Key { object: Some(object(uid, revision)), ..Key::default() }
    }

    fn buried(revision: u64) -> Self {
        Key { tombstone: Some(Tombstone::Deleted { revision: Revision(revision) }), ..Key::default() }
    }

    fn absent(uid: &str, listing: u64) -> Self {
        Key { tombstone: Some(Tombstone::Absent { uid: uid.into(), listing }), ..Key::default() }
    }

    fn flagged(mut self, revision: u64) -> Self {
        self.flag = Some(unreadable(None, revision));
        self
    }

    fn stale(mut self) -> Self {
        self.stale = true;
        self
    }

    fn floor(mut self, floor: u64) -> Self {
        self.floor = floor;
        self
    }

    fn enter(&mut self, incoming: &Incoming<Web>) -> Vec<News<Web>> {
        let held = Held {
            object: self.object.as_ref(),
            flag: self.flag.as_ref(),
            tombstone: self.tombstone.as_ref(),
            stale: self.stale,
        };
        let verdict = transition(&held, incoming, Revision(self.floor));
        put(&mut self.object, verdict.object);
        put(&mut self.flag, verdict.flag);
        put(&mut self.tombstone, verdict.tombstone);
        verdict.news.into_iter().flatten().collect()
    }

    /// What is told, and what is held afterwards.
    fn after(mut self, incoming: &Incoming<Web>) -> (String, String) {
        let told = self.enter(incoming).iter().map(line).collect::<Vec<_>>().join(", ");
        let mut held = self.object.map_or("-".to_owned(), |object| version(&object));
        if let Some(flag) = self.flag {
            held += &format!(" !{}", flag.revision);
        }
        match self.tombstone {
            Some(Tombstone::Deleted { revision }) => held += &format!(" +{revision}"),
            Some(Tombstone::Absent { uid, .. }) => held += &format!(" +{uid}"),
            None => {}
        }
        (told, held)
    }
}

fn put<T>(place: &mut Option<T>, slot: Slot<T>) {
    match slot {
        Slot::Keep => {}
        Slot::Put(new) => *place = Some(new),
        Slot::Clear => *place = None,
    }
}

fn version(object: &Web) -> String {
    format!("{}@{}", object.meta.uid, object.meta.revision)
}

fn line(news: &News<Web>) -> String {
    match news {
        News::Flagged(object) => format!("flag {}", version(object)),
        News::Changed { change, before, after } => {
            let what = match change {
                Change::Added(new) => format!("add {}", version(new)),
                Change::Updated { old, new } => format!("update {} to {}", version(old), version(new)),
                Change::Deleted(last) => format!("delete {}", version(last)),
            };
            format!("{what} ({before}-{after})")
        }
    }
}

#[track_caller]
fn check(held: Key, incoming: &Incoming<Web>, told: &str, after: &str) {
    assert_eq!(held.after(incoming), (told.to_owned(), after.to_owned()));
}

#[test]
fn a_newer_state_is_taken_and_an_older_or_equal_one_ignored() {
    let new = Incoming::Applied(object("u", 5));
    check(Key::default(), &new, "add u@5 (0-5)", "u@5");
    check(Key::with("u", 4), &new, "update u@4 to u@5 (4-5)", "u@5");
    check(Key::with("u", 5), &new, "", "u@5");
    check(Key::with("u", 6), &new, "", "u@6");
}

#[test]
fn c1_a_new_uid_under_an_old_name_is_a_delete_and_an_add() {
    let told = "delete u@4 (4-0), add v@9 (0-9)";
    check(Key::with("u", 4), &Incoming::Applied(object("v", 9)), told, "v@9");
    check(Key::with("u", 4), &listed("v", 9), told, "v@9");
    check(Key::with("u", 4), &Incoming::Answer(object("v", 9)), told, "v@9");
}

#[test]
fn a_delete_tells_a_last_state_that_nobody_saw() {
    let (unseen, seen) = (deleted(9, Some(object("u", 7))), deleted(9, Some(object("u", 4))));
    check(Key::with("u", 4), &unseen, "update u@4 to u@7 (4-7), delete u@7 (7-9)", "- +9");
    check(Key::with("u", 4), &seen, "delete u@4 (4-9)", "- +9");
    // Its own write is ahead of what the delete's event carries: what is held is the last state.
    check(Key::with("u", 8), &unseen, "delete u@8 (8-9)", "- +9");
    // The last state of another incarnation is not the last state of the held one.
    check(Key::with("u", 4), &deleted(9, Some(object("v", 7))), "delete u@4 (4-9)", "- +9");
}

#[test]
fn c2_a_delete_without_a_last_state_tells_the_held_one() {
    check(Key::with("u", 4), &deleted(9, None), "delete u@4 (4-9)", "- +9");
    check(Key::with("u", 4), &Incoming::Missing { cursor: Revision(50) }, "delete u@4 (4-50)", "-");
}

#[test]
fn an_older_delete_leaves_what_came_after_it() {
    check(Key::with("v", 12), &deleted(9, None), "", "v@12");
    check(Key::with("v", 12), &removed(9), "", "v@12");
    check(Key::buried(12), &deleted(9, None), "", "- +12");
    check(Key::default().flagged(12), &deleted(9, None), "", "- !12");
}

#[test]
fn c13_a_tombstone_keeps_older_states_from_resurrecting_the_object() {
    check(Key::with("u", 4), &removed(9), "delete u@4 (4-9)", "- +9");
    check(Key::buried(9), &Incoming::Applied(object("u", 8)), "", "- +9");
    check(Key::buried(9), &Incoming::Answer(object("u", 8)), "", "- +9");
    check(Key::buried(9), &Incoming::Unreadable(unreadable(None, 8)), "", "- +9");
    check(Key::buried(9), &Incoming::Applied(object("v", 10)), "add v@10 (0-10)", "v@10");
}

#[test]
fn an_absence_buries_its_incarnation_whatever_the_revision() {
    let absent = Incoming::Absent { uid: "u".into(), listing: 3 };
    check(Key::with("u", 4), &absent, "delete u@4 (4-0)", "- +u");
    // Another incarnation came while the read was under way.
    check(Key::with("v", 9), &absent, "", "v@9");
    check(Key::default(), &absent, "", "-");
    check(Key::absent("u", 3), &Incoming::Applied(object("u", 99)), "", "- +u");
    check(Key::absent("u", 3), &Incoming::Applied(object("v", 99)), "add v@99 (0-99)", "v@99");
    check(Key::absent("u", 3), &deleted(9, None), "", "- +9");
}

#[test]
fn an_answer_that_the_reflector_has_passed_says_nothing_new() {
    check(Key::default().floor(9), &Incoming::Answer(object("u", 9)), "", "-");
    check(Key::default().floor(9), &Incoming::Answer(object("u", 10)), "add u@10 (0-10)", "u@10");
    check(Key::with("u", 4).floor(9), &removed(9), "", "u@4");
    check(Key::with("u", 4).floor(9), &removed(10), "delete u@4 (4-10)", "- +10");
}

#[test]
fn a_listing_leaves_what_is_newer_than_its_first_page() {
    check(Key::with("u", 101), &listed("u", 90), "", "u@101");
    check(Key::with("u", 101), &listed("u", 102), "update u@101 to u@102 (101-102)", "u@102");
    check(Key::with("u", 101), &Incoming::Missing { cursor: Revision(100) }, "", "u@101");
    check(Key::buried(101), &listed("u", 90), "", "- +101");
    check(Key::default().flagged(101), &listed("u", 90), "", "- !101");
    check(Key::default().flagged(101), &Incoming::Missing { cursor: Revision(100) }, "", "- !101");
    // Absent by a read that was sent after the listing was asked for.
    check(Key::absent("u", 3), &listed("u", 90), "", "- +u");
}

#[test]
fn c5_a_listing_is_the_truth_about_everything_up_to_its_first_page() {
    check(Key::with("u", 95), &listed("u", 90), "update u@95 to u@90 (95-90)", "u@90");
    check(Key::buried(95), &listed("u", 90), "add u@90 (0-90)", "u@90");
    check(Key::absent("u", 2), &listed("u", 90), "add u@90 (0-90)", "u@90");
    check(Key::with("u", 90), &listed("u", 90), "", "u@90");
    check(Key::default().flagged(90), &listed("u", 90), "add u@90 (0-90), flag u@90", "u@90");
}

#[test]
fn c5_one_revision_with_two_contents_is_another_history() {
    let held = object("u", 90);
    let contradicting = |seen: &Arc<Web>| Incoming::Listed {
        object: object("u", 90),
        listing: FIRST_PAGE,
        contradicts: Some(seen.clone()),
    };
    let mut same = Key { object: Some(held.clone()), ..Key::default() };
    assert_eq!(same.enter(&contradicting(&held)).len(), 1);
    // The held one was replaced after the comparison: what it was compared with says nothing.
    let mut other = Key::with("u", 90);
    assert!(other.enter(&contradicting(&held)).is_empty());
}

#[test]
fn c5_everything_is_newer_than_what_an_older_epoch_left() {
    let stale = || Key::with("u", 1200).stale();
    check(stale(), &listed("u", 90), "update u@1200 to u@90 (1200-90)", "u@90");
    check(stale(), &listed("v", 90), "delete u@1200 (1200-0), add v@90 (0-90)", "v@90");
    check(stale(), &Incoming::Answer(object("u", 91)), "update u@1200 to u@91 (1200-91)", "u@91");
    check(stale(), &removed(91), "delete u@1200 (1200-91)", "- +91");
    check(stale(), &Incoming::Missing { cursor: Revision(100) }, "delete u@1200 (1200-100)", "-");
    // The same version in both epochs is no news.
    check(Key::with("u", 90).stale(), &listed("u", 90), "", "u@90");
    check(Key::buried(1200).stale(), &listed("u", 90), "add u@90 (0-90)", "u@90");
}

#[test]
fn an_unreadable_state_keeps_the_last_good_version_and_flags_it() {
    let bad = Incoming::Unreadable(unreadable(Some("u"), 5));
    check(Key::with("u", 4), &bad, "flag u@4", "u@4 !5");
    check(Key::with("u", 4), &Incoming::Unreadable(unreadable(None, 5)), "flag u@4", "u@4 !5");
    check(Key::with("u", 6), &bad, "", "u@6");
    check(Key::default(), &bad, "", "- !5");
    check(Key::with("u", 3).flagged(4), &bad, "", "u@3 !5");
    // Known to be another incarnation.
    check(Key::with("v", 4), &bad, "delete v@4 (4-0)", "- !5");
    let in_page = Incoming::ListedUnreadable { item: unreadable(None, 5), listing: FIRST_PAGE };
    check(Key::with("u", 4), &in_page, "flag u@4", "u@4 !5");
    check(Key::with("u", 4).flagged(5), &in_page, "", "u@4 !5");
}

#[test]
fn what_can_be_read_again_loses_its_flag() {
    let good = Incoming::Applied(object("u", 6));
    check(Key::with("u", 4).flagged(5), &good, "update u@4 to u@6 (4-6), flag u@6", "u@6");
    check(Key::with("u", 4).flagged(6), &good, "update u@4 to u@6 (4-6), flag u@6", "u@6");
    check(Key::with("u", 4).flagged(7), &good, "", "u@4 !7");
    check(Key::with("u", 4).flagged(5), &deleted(9, None), "delete u@4 (4-9)", "- +9");
    let missing = Incoming::Missing { cursor: Revision(50) };
    check(Key::default().flagged(5), &missing, "", "-");
    check(Key::with("u", 4).flagged(5), &missing, "delete u@4 (4-50)", "-");
}

/// One event of a key's true history.
#[derive(Debug, Clone)]
enum Event {
    Applied(Arc<Web>),
    Deleted(Revision, Arc<Web>),
}

impl Event {
    fn revision(&self) -> Revision {
        match self {
            Event::Applied(object) => object.meta.revision,
            Event::Deleted(revision, _) => *revision,
        }
    }
}

/// A history of creates, updates and deletes, with rising revisions and a new uid per incarnation.
fn history() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(0_u8..3, 1..12).prop_map(|choices| {
        let mut events = Vec::new();
        let mut alive: Option<Arc<Web>> = None;
        for (index, choice) in choices.into_iter().enumerate() {
            let revision = u64::try_from(index).unwrap() * 2 + 1;
            match (&alive, choice) {
                (Some(last), 0) => {
                    events.push(Event::Deleted(Revision(revision), last.clone()));
                    alive = None;
                }
                (current, _) => {
                    let uid = current.as_ref().map_or(format!("u{revision}"), |old| old.meta.uid.to_string());
                    let new = object(&uid, revision);
                    events.push(Event::Applied(new.clone()));
                    alive = Some(new);
                }
            }
        }
        events
    })
}

proptest! {
    /// The watch tells a history in order, while the answers to writes and live reads of the same history come
    /// early, late, or twice. What is held never goes back, what is told is a possible life, and at the end the
    /// key holds what the store does.
    #[test]
    fn answers_in_any_order_beside_the_watch_end_where_the_store_does(
        events in history(),
        answers in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..20),
    ) {
        let mut key = Key::default();
        let mut told: Vec<News<Web>> = Vec::new();
        let mut newest = Revision(0);
        for (at, event) in events.iter().enumerate() {
            // Answers to any event of the history, also of the future: our own writes are ahead of the watch.
            for (_, which) in answers.iter().filter(|(when, _)| when.index(events.len()) == at) {
                let incoming = match &events[which.index(events.len())] {
                    Event::Applied(object) => Incoming::Answer(object.clone()),
                    Event::Deleted(revision, last) => {
                        Incoming::Removed { revision: *revision, last: Some(last.clone()) }
                    }
                };
                told.extend(key.enter(&incoming));
                let held = key.object.as_ref().map(|object| object.meta.revision);
                prop_assert!(held.is_none_or(|held| held >= newest), "went back");
                newest = newest.max(held.unwrap_or_default());
            }
            told.extend(key.enter(&match event {
                Event::Applied(object) => Incoming::Applied(object.clone()),
                Event::Deleted(revision, last) => deleted(revision.0, Some(last.clone())),
            }));
            key.floor = event.revision().0;
            if let Some(Tombstone::Deleted { revision }) = key.tombstone
                && revision.0 <= key.floor
            {
                key.tombstone = None;
            }
        }
        let expected = match events.last() {
            Some(Event::Applied(object)) => Some(version(object)),
            _ => None,
        };
        prop_assert_eq!(key.object.as_deref().map(version), expected);
        prop_assert!(key.tombstone.is_none());
        prop_assert!(is_a_life(&told), "{:?}", told.iter().map(line).collect::<Vec<_>>());
    }
}

/// Whether each change starts where the one before it ended.
fn is_a_life(told: &[News<Web>]) -> bool {
    let mut held: Option<String> = None;
    told.iter().all(|news| {
        let News::Changed { change, .. } = news else { return true };
        let (before, after) = match change {
            Change::Added(new) => (None, Some(version(new))),
            Change::Updated { old, new } => (Some(version(old)), Some(version(new))),
            Change::Deleted(last) => (Some(version(last)), None),
        };
        std::mem::replace(&mut held, after) == before
    })
}
