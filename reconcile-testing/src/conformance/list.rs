//! All cases, by group. The one list behind [`cases`] and [`store_conformance!`](crate::store_conformance).

use super::{
    Power, declared, fencing, rule1, rule2, rule3, rule4, rule5, rule6, rule6_cursor, rule6_listing,
    rule6_scope, rule7, rule8, rule9, runner::Case,
};

/// Hands the list of all cases to another macro: `group { module { name, name needs Power, … } … } …`.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    ($($callback:tt)+) => {
        $($callback)+! {
            declared { declared {
                what_is_declared_missing_is_missing, handles_agree_on_guarantees,
            } }
            rule1 { rule1 {
                rule1_a_create_stores_what_it_was_given,
                rule1_a_create_of_an_existing_key_is_refused,
                rule1_a_create_sets_what_only_the_store_sets,
                rule1_an_update_creates_nothing,
                rule1_an_old_version_is_a_conflict,
                rule1_an_empty_uid_is_invalid,
                rule1_another_incarnation_is_a_conflict,
                rule1_keys_differ_by_namespace_and_name,
                rule1_one_of_many_creates_wins,
                rule1_one_of_many_updates_of_a_version_wins,
                rule1_no_update_is_lost_between_writers,
                rule1_one_of_many_deletes_wins,
                t3_a_write_to_nothing_is_not_found,
                t4_a_wrong_uid_or_revision_is_a_conflict,
            } }
            rule2 { rule2 {
                rule2_an_update_cannot_change_the_status,
                rule2_a_status_update_changes_nothing_else,
                rule2_only_spec_and_deletion_raise_the_generation,
                rule2_what_the_store_sets_cannot_be_updated,
            } }
            rule3 { rule3 {
                rule3_an_equal_update_changes_nothing,
                rule3_an_equal_status_changes_nothing,
                rule3_left_out_defaults_change_nothing,
                rule3_deleting_again_changes_nothing,
                rule3_a_refused_write_changes_nothing,
            } }
            rule4 { rule4 {
                rule4_revisions_rise_with_every_change,
                rule4_revisions_are_ordered_across_kinds_if_promised,
                rule4_a_delete_gives_the_last_state,
                rule4_a_finalized_delete_gives_the_last_state,
                rule4_the_revision_covers_every_write_before_it,
                rule4_a_recreated_object_is_another,
                t1_a_delete_after_a_listing_is_seen_from_it,
            } }
            rule5 { rule5 {
                rule5_a_delete_without_finalizers_removes,
                rule5_a_delete_with_finalizers_marks,
                rule5_the_mark_cannot_be_taken_back,
                rule5_a_deleting_object_can_be_written,
                rule5_no_finalizer_is_added_while_deleting,
                rule5_foreground_and_orphan_set_their_finalizer,
                rule5_finalizers_are_edited_by_many,
                t3_removing_the_last_finalizer_removes,
                g5_a_finalizer_races_with_a_delete,
            } }
            rule6 {
                rule6 {
                    rule6_a_watch_sees_what_came_before_and_after_it_was_opened,
                    rule6_events_are_exactly_the_writes,
                    rule6_concurrent_writes_are_seen_once_and_in_order,
                    rule6_two_watches_are_independent,
                    rule6_kinds_do_not_mix,
                    rule6_a_cancelled_read_loses_nothing,
                    rule6_progress_reaches_the_revision,
                }
                rule6_cursor {
                    rule6_a_watch_resumes_from_every_cursor,
                    rule6_a_dropped_watch_resumes_while_writes_go_on,
                    rule6_the_future_is_expired,
                    rule6_another_history_is_expired,
                    c3_what_was_compacted_is_expired needs Compact,
                    c5_a_restored_store_expires_the_future_it_gave_up needs Restore,
                    c5_a_restored_store_ends_open_watches needs Restore,
                    c5_a_restored_store_refuses_old_versions needs Restore,
                    c9_compaction_swallows_no_delete needs Compact,
                    c9_an_open_watch_is_never_left_with_a_gap needs Compact,
                }
                rule6_listing {
                    rule6_a_listing_is_as_new_as_the_last_write,
                    rule6_a_listing_is_as_new_as_writes_of_others,
                    rule6_pages_are_in_key_order_and_repeat_the_cursor,
                    rule6_pages_while_writes_go_on_lose_nothing,
                    rule6_a_listing_and_its_watch_fit_together,
                    rule6_bad_page_tokens_are_expired,
                    rule6_limits_are_kept,
                }
                rule6_scope {
                    rule6_a_scoped_listing_holds_the_scope,
                    rule6_a_scoped_watch_sees_entering_and_leaving,
                    rule6_a_scoped_watch_sees_its_namespace_only,
                    rule6_a_scoped_watch_marks_progress,
                }
            }
            rule7 { rule7 {
                rule7_defaults_are_filled_in,
                rule7_all_faults_come_in_one_answer,
                rule7_an_invalid_update_changes_nothing,
                rule7_metadata_is_validated,
                rule7_validation_does_not_stand_in_the_way,
                rule7_defaults_are_applied_on_reading needs Undefault,
            } }
            rule8 { rule8 {
                rule8_an_unreadable_object_is_present needs Damage,
                rule8_an_unreadable_object_is_listed_on_its_page needs Damage,
                rule8_a_watch_tells_of_the_damage needs Damage,
                rule8_nothing_else_is_disturbed needs Damage,
                rule8_an_unreadable_object_can_be_deleted needs Damage,
                rule8_finalizers_hold_an_unreadable_object needs Damage,
                rule8_conditions_on_unreadable_metadata_are_not_guessed needs Damage,
            } }
            rule9 { rule9 {
                rule9_the_same_create_again_is_a_success,
                rule9_a_create_with_a_lost_reply_can_be_retried needs LoseReply,
                rule9_an_update_with_a_lost_reply_landed_once needs LoseReply,
                rule9_a_delete_with_a_lost_reply_landed_once needs LoseReply,
                rule9_acknowledged_writes_survive_a_kill needs Kill,
                rule9_a_cursor_survives_a_kill_or_expires needs Kill,
                rule9_leases_survive_a_kill needs Kill Leases,
            } }
            fencing { fencing {
                fencing_a_lease_is_swapped_by_revision needs Leases,
                fencing_the_token_changes_with_the_holder needs Leases,
                fencing_one_of_many_takeovers_wins needs Leases,
                fencing_the_current_term_may_write needs Leases,
                fencing_an_old_term_may_not_write needs Leases,
                fencing_an_unknown_lease_may_not_write needs Leases,
                fencing_comes_before_every_other_fault needs Leases,
                fencing_nothing_lands_after_the_takeover needs Leases,
            } }
        }
    };
}

/// Makes the list of [`cases`].
macro_rules! as_cases {
    ($($group:ident { $($module:ident { $($name:ident $(needs $($power:ident)+)?,)+ })+ })+) => {
        vec![$($($(
            Case {
                group: stringify!($group),
                name: stringify!($name),
                needs: &[$($(Power::$power),+)?],
                body: |lab| Box::pin($module::$name(lab)),
            },
        )+)+)+]
    };
}

/// All cases of the suite, in the order of the rules.
pub fn cases() -> Vec<Case> {
    crate::__conformance_cases!(as_cases)
}

/// Makes one `#[test]` of every case, in one module for each rule.
///
/// It takes the path of a function without arguments that makes a fresh [`Harness`](super::Harness), and stands
/// at the level of a module, once in each.
///
/// # Examples
///
/// See [`conformance`](crate::conformance).
#[macro_export]
macro_rules! store_conformance {
    ($factory:path) => {
        #[cfg(test)]
        fn __conformance_harness() -> impl $crate::conformance::Harness {
            $factory()
        }

        $crate::__conformance_cases!($crate::__conformance_tests);
    };
}

/// Makes the tests of [`store_conformance!`](crate::store_conformance).
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_tests {
    ($($group:ident { $($module:ident { $($name:ident $(needs $($power:ident)+)?,)+ })+ })+) => {$(
        #[cfg(test)]
        mod $group {$($(
            #[test]
            fn $name() {
                $crate::conformance::check(stringify!($name), super::__conformance_harness);
            }
        )+)+}
    )+};
}
