//! The suite finds every fault: stores that are wrong in one thing each, and the rule that rejects them.

#[path = "wrong_stores/flaw.rs"]
mod flaw;
#[path = "wrong_stores/reading.rs"]
mod reading;
#[path = "wrong_stores/writing.rs"]
mod writing;

use flaw::{Flaw, harness};
use reconcile_testing::conformance::{Outcome, cases, run};

/// Nothing wrong: what shows that a flaw is found for what it is, and not for the wrapper around it.
#[derive(Clone, Default)]
struct Nothing;
impl Flaw for Nothing {}

/// The suite rejects the store: the case that is about its fault does, and so do perhaps others of that rule.
fn rejected<F: Flaw>(group: &str, expected: &str) {
    let of_the_rule = cases().into_iter().filter(|case| case.group() == group);
    let failures: Vec<_> = of_the_rule.filter_map(|case| run(&case, harness::<F>).err()).collect();
    let told = failures.iter().map(|failure| format!("  {failure}\n")).collect::<String>();
    let found = failures.iter().any(|failure| failure.case() == expected);
    assert!(found, "{expected} finds nothing wrong with {}; others:\n{told}", std::any::type_name::<F>());
}

#[test]
fn a_good_store_behind_the_wrapper_passes() {
    for case in cases() {
        let outcome = run(&case, harness::<Nothing>);
        let skipped = matches!(outcome, Ok(Outcome::NotRun { .. }));
        assert!(skipped || outcome == Ok(Outcome::Passed), "{outcome:?}");
    }
}

/// One test for each wrong store: its flaw, the rule it breaks, and a case that finds it.
macro_rules! rejects {
    ($($name:ident: $flaw:ty => $group:ident, $case:ident;)+) => {
        $(#[test] fn $name() { rejected::<$flaw>(stringify!($group), stringify!($case)); })+

        #[test]
        fn every_expected_case_exists() {
            let names: Vec<_> = cases().iter().map(|case| (case.group(), case.name())).collect();
            $(assert!(names.contains(&(stringify!($group), stringify!($case))), stringify!($case));)+
        }
    };
}

use reading as r;
use writing as w;

rejects! {
    create_is_an_upsert: w::CreateIsAnUpsert => rule1, rule1_a_create_of_an_existing_key_is_refused;
    update_is_an_upsert: w::UpdateIsAnUpsert => rule1, t3_a_write_to_nothing_is_not_found;
    uid_is_ignored: w::UidIsIgnored => rule1, t4_a_wrong_uid_or_revision_is_a_conflict;
    uid_is_ignored_across_incarnations: w::UidIsIgnored => rule1, rule1_another_incarnation_is_a_conflict;
    revision_is_ignored: w::RevisionIsIgnored => rule1, rule1_one_of_many_updates_of_a_version_wins;
    delete_ignores_its_conditions: w::DeleteIgnoresItsConditions => rule1, t4_a_wrong_uid_or_revision_is_a_conflict;
    update_changes_the_status: w::UpdateChangesTheStatus => rule2, rule2_an_update_cannot_change_the_status;
    status_update_changes_labels: w::StatusUpdateChangesLabels => rule2, rule2_a_status_update_changes_nothing_else;
    labels_raise_the_generation: r::LabelsRaiseTheGeneration => rule2, rule2_only_spec_and_deletion_raise_the_generation;
    unchanged_writes_are_events: w::UnchangedWritesAreEvents => rule3, rule3_an_equal_update_changes_nothing;
    delete_answers_an_old_revision: w::DeleteAnswersAnOldRevision => rule4, rule4_revisions_rise_with_every_change;
    deletes_have_no_revision: r::DeletesHaveNoRevision => rule4, rule4_a_delete_gives_the_last_state;
    deletes_have_no_last_state: r::DeletesHaveNoLastState => rule4, rule4_a_delete_gives_the_last_state;
    deletes_have_a_stale_last_state: r::DeletesHaveAStaleLastState => rule4, rule4_a_delete_gives_the_last_state;
    deletes_without_an_event: r::DeletesWithoutAnEvent => rule4, t1_a_delete_after_a_listing_is_seen_from_it;
    the_revision_is_ahead: r::TheRevisionIsAhead => rule4, rule4_the_revision_covers_every_write_before_it;
    late_finalizers_are_confirmed: w::LateFinalizersAreConfirmed => rule5, rule5_no_finalizer_is_added_while_deleting;
    last_finalizer_removes_nothing: w::LastFinalizerRemovesNothing => rule5, t3_removing_the_last_finalizer_removes;
    delete_ignores_finalizers: w::DeleteIgnoresFinalizers => rule5, rule5_a_delete_with_finalizers_marks;
    delete_looks_before_it_removes: w::DeleteLooksBeforeItRemoves => rule5, g5_a_finalizer_races_with_a_delete;
    propagation_takes_two_writes: w::PropagationTakesTwoWrites => rule5, rule5_foreground_and_orphan_set_their_finalizer;
    resume_drops_an_event: r::ResumeDropsAnEvent => rule6, rule6_a_watch_resumes_from_every_cursor;
    events_are_repeated: r::EventsAreRepeated => rule6, rule6_events_are_exactly_the_writes;
    events_are_swapped: r::EventsAreSwapped => rule6, rule6_events_are_exactly_the_writes;
    cursor_is_behind: r::CursorIsBehind => rule6, rule6_events_are_exactly_the_writes;
    nothing_expires: r::NothingExpires => rule6, c3_what_was_compacted_is_expired;
    nothing_expires_and_a_delete_is_lost: r::NothingExpires => rule6, c9_compaction_swallows_no_delete;
    the_future_is_waited_for: r::TheFutureIsWaitedFor => rule6, rule6_the_future_is_expired;
    histories_are_confused: r::HistoriesAreConfused => rule6, rule6_another_history_is_expired;
    compaction_leaves_a_gap: r::CompactionLeavesAGap => rule6, c9_an_open_watch_is_never_left_with_a_gap;
    restore_keeps_the_cursors: r::RestoreKeepsTheCursors => rule6, c5_a_restored_store_expires_the_future_it_gave_up;
    listings_are_old: r::ListingsAreOld => rule6, rule6_a_listing_is_as_new_as_the_last_write;
    pages_lose_an_item_at_the_border: r::PagesLoseAnItemAtTheBorder => rule6, rule6_pages_are_in_key_order_and_repeat_the_cursor;
    pages_repeat_an_item_at_the_border: r::PagesRepeatAnItemAtTheBorder => rule6, rule6_pages_are_in_key_order_and_repeat_the_cursor;
    pages_have_cursors_of_their_own: r::PagesHaveCursorsOfTheirOwn => rule6, rule6_pages_while_writes_go_on_lose_nothing;
    listings_are_unordered: r::ListingsAreUnordered => rule6, rule6_pages_are_in_key_order_and_repeat_the_cursor;
    scopes_are_ignored: r::ScopesAreIgnored => rule6, rule6_a_scoped_watch_sees_its_namespace_only;
    leaving_a_scope_is_hidden: r::LeavingAScopeIsHidden => rule6, rule6_a_scoped_watch_sees_entering_and_leaving;
    progress_is_not_marked: r::ProgressIsNotMarked => rule6, rule6_a_scoped_watch_marks_progress;
    one_fault_at_a_time: w::OneFaultAtATime => rule7, rule7_all_faults_come_in_one_answer;
    validation_stands_in_the_way: w::ValidationStandsInTheWay => rule7, rule7_validation_does_not_stand_in_the_way;
    unreadable_is_absent: r::UnreadableIsAbsent => rule8, rule8_an_unreadable_object_is_present;
    unreadable_is_not_listed: r::UnreadableIsNotListed => rule8, rule8_an_unreadable_object_is_listed_on_its_page;
    damage_stops_listings: r::DamageStopsListings => rule8, rule8_nothing_else_is_disturbed;
    damage_is_hidden: r::DamageIsHidden => rule8, rule8_a_watch_tells_of_the_damage;
    damage_is_a_delete: r::DamageIsADelete => rule8, rule8_a_watch_tells_of_the_damage;
    create_replaces_the_unreadable: w::CreateReplacesTheUnreadable => rule8, rule8_an_unreadable_object_is_present;
    retried_create_is_refused: w::RetriedCreateIsRefused => rule9, rule9_the_same_create_again_is_a_success;
    fences_are_ignored: w::FencesAreIgnored => fencing, fencing_an_old_term_may_not_write;
    other_faults_beat_the_fence: w::OtherFaultsBeatTheFence => fencing, fencing_comes_before_every_other_fault;
    fence_is_checked_before_the_write: w::FenceIsCheckedBeforeTheWrite => fencing, fencing_nothing_lands_after_the_takeover;
    renewals_change_the_token: w::RenewalsChangeTheToken => fencing, fencing_the_token_changes_with_the_holder;
    takeovers_keep_the_token: w::TakeoversKeepTheToken => fencing, fencing_an_old_term_may_not_write;
}
