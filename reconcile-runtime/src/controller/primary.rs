//! The primary of a controller of objects: each change of an object is a signal for its own key.
//!
//! Promises: the pause annotation is read ahead of all filters; a deletion that passes the filters is a
//! deletion whoever made it; an object that becomes unreadable, or readable again, is an observation.

use std::sync::Arc;

use reconcile_core::{Cause, CauseKind, ObjectKey, Resource};

use super::{
    classify::{PauseStep, cause_kind, lane, pause, primary},
    source::{KindId, Line, Source},
    watch::Filter,
};
use crate::{
    Api,
    change::{Change, Initial, Step, Subscriber},
    manager::supervise::LoopSpec,
    queue::{Lane, Signal, SignalKind},
};

/// The primary, with its options.
pub(super) struct Primary<R: Resource> {
    pub(super) api: Api<R>,
    pub(super) filters: Vec<Filter<R>>,
    pub(super) lane: Lane,
}

impl<R: Resource> Source<ObjectKey> for Primary<R> {
    fn name(&self) -> String {
        format!("primary {}", R::KIND)
    }

    fn kind(&self) -> Option<KindId> {
        Some(KindId::of(&self.api))
    }

    fn connect(self: Box<Self>, line: Line<ObjectKey>) -> Vec<LoopSpec> {
        let Primary { api, filters, lane } = *self;
        line.subscribe(&api, Arc::new(Connected { line: line.clone(), filters, lane }));
        Vec::new()
    }
}

/// A primary that is connected.
struct Connected<R> {
    line: Line<ObjectKey>,
    filters: Vec<Filter<R>>,
    lane: Lane,
}

impl<R: Resource> Subscriber<R> for Connected<R> {
    fn changed(&self, key: &ObjectKey, change: &Change<R>, step: Step, initial: Initial) {
        let cause = Cause::of_object(cause_kind(change, initial), R::KIND, key.clone());
        match pause(change) {
            PauseStep::Pause => self.line.intake.pause_key(key.clone(), cause.clone()),
            PauseStep::Resume => {
                let kind = if change.is_delete() { CauseKind::Deleted } else { CauseKind::Resumed };
                let resumed = Cause::of_object(kind, R::KIND, key.clone());
                self.line.intake.resume_key(key.clone(), resumed);
            }
            PauseStep::Nothing => {}
        }
        if self.line.passes(&self.filters, change) {
            let signal = Signal::new(primary(change), lane(initial, self.lane), cause).step(step);
            self.line.signal(key.clone(), signal);
        }
    }

    fn flagged(&self, object: &Arc<R>) {
        let key = object.key();
        let cause = Cause::of_object(CauseKind::Updated, R::KIND, key.clone());
        self.line.signal(key, Signal::new(SignalKind::Observed, self.lane, cause));
    }
}

#[cfg(test)]
mod tests {
    use reconcile_core::{Object, Revision, Spec};

    use super::*;
    use crate::{
        Environment, changed,
        controller::{
            PAUSE_ANNOTATION,
            source::tests::{Remember, Told, line},
        },
    };

    #[derive(Clone, Debug, PartialEq)]
    struct WebSpec;
    impl Spec for WebSpec {
        const KIND: &'static str = "Web";
        type Status = u32;
    }
    type Web = Object<WebSpec>;

    const STEP: Step = Step { kind: 0, before: Revision(1), after: Revision(2) };

    fn web(change: impl FnOnce(&mut Web)) -> Arc<Web> {
        let mut web = Object::new("web", WebSpec);
        change(&mut web);
        Arc::new(web)
    }

    fn paused() -> Arc<Web> {
        web(|web| drop(web.meta.annotations.insert(PAUSE_ANNOTATION.into(), "true".into())))
    }

    fn connected(filters: Vec<Filter<Web>>) -> (Connected<Web>, Arc<Remember<ObjectKey>>) {
        let (line, intake) = line(&Environment::seeded(1));
        (Connected { line, filters, lane: Lane::Normal }, intake)
    }

    fn signal(kind: SignalKind, lane: Lane, event: &str) -> Told<ObjectKey> {
        Told::Signal(ObjectKey::new("web"), kind, lane, format!("Web web {event}"))
    }

    #[tokio::test(start_paused = true)]
    async fn each_change_of_the_primary_signals_its_own_key() {
        let (primary, intake) = connected(Vec::new());
        let old = web(|_| ());
        primary.changed(&ObjectKey::new("web"), &Change::Added(old.clone()), STEP, Initial::Yes);
        primary.changed(&ObjectKey::new("web"), &Change::Added(old.clone()), STEP, Initial::No);
        let new = web(|web| web.meta.generation = 2);
        primary.changed(
            &ObjectKey::new("web"),
            &Change::Updated { old: old.clone(), new },
            STEP,
            Initial::No,
        );
        let new = web(|web| web.status = 2);
        primary.changed(
            &ObjectKey::new("web"),
            &Change::Updated { old: old.clone(), new },
            STEP,
            Initial::No,
        );
        primary.changed(&ObjectKey::new("web"), &Change::Deleted(old.clone()), STEP, Initial::No);
        primary.flagged(&old);
        assert_eq!(
            intake.take(),
            [
                signal(SignalKind::Input, Lane::Low, "initial"),
                signal(SignalKind::Input, Lane::Normal, "added"),
                signal(SignalKind::Input, Lane::Normal, "updated"),
                signal(SignalKind::Observed, Lane::Normal, "updated"),
                signal(SignalKind::Deletion, Lane::Normal, "deleted"),
                signal(SignalKind::Observed, Lane::Normal, "updated"),
            ]
        );
        // A run can tell its own writes only by the step; a flag is no write.
        assert_eq!(intake.steps(), [Some(STEP), Some(STEP), Some(STEP), Some(STEP), Some(STEP), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_annotation_is_read_ahead_of_a_filter_that_hides_everything() {
        let (primary, intake) = connected(vec![Arc::new(|_| false)]);
        let (on, off) = (paused(), web(|_| ()));
        primary.changed(&ObjectKey::new("web"), &Change::Added(on.clone()), STEP, Initial::Yes);
        primary.changed(
            &ObjectKey::new("web"),
            &Change::Updated { old: on.clone(), new: off.clone() },
            STEP,
            Initial::No,
        );
        primary.changed(
            &ObjectKey::new("web"),
            &Change::Updated { old: off, new: on.clone() },
            STEP,
            Initial::No,
        );
        primary.changed(&ObjectKey::new("web"), &Change::Deleted(on), STEP, Initial::No);
        let key = ObjectKey::new("web");
        assert_eq!(
            intake.take(),
            [
                Told::Pause(key.clone()),
                Told::Resume(key.clone()),
                Told::Pause(key.clone()),
                Told::Resume(key)
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn filters_must_all_pass_and_drop_the_rest() {
        let (primary, intake) = connected(vec![
            Arc::new(changed::generation()),
            Arc::new(|change: &Change<Web>| change.object().status != 9),
        ]);
        let old = web(|_| ());
        for (generation, status, passes) in [(1, 1, true), (0, 1, false), (1, 9, false)] {
            let new = web(|web| {
                web.meta.generation = generation;
                web.status = status;
            });
            primary.changed(
                &ObjectKey::new("web"),
                &Change::Updated { old: old.clone(), new },
                STEP,
                Initial::No,
            );
            assert_eq!(!intake.take().is_empty(), passes, "generation {generation}, status {status}");
        }
    }
}
