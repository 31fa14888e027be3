//! What a script may not do, it finds out before it writes, from Redis 7.0 on.
//!
//! Tests of statuses run once more, and each call of theirs that writes is also made by users who lack one of the commands that
//! the script's header names.

use super::{adopt, archive, deduct, jobs, multi_deduct, multi_jobs, others, refund, repair, shared_calls, trim};
use crate::holds::transitions;
use crate::shards::{admin_scripts, transfers};
use crate::support::TestRedis;
use crate::support::scripts::refused_without_each_right;

fn a_refused_call_writes_nothing(tests: &[fn()]) {
    // Redis 6.2 stops a script at the command that it refuses.
    if TestRedis::start().scripts_can_check_permissions() {
        for (index, test) in tests.iter().enumerate() {
            let refused = refused_without_each_right(*test);
            assert!(refused >= 10, "test {index} had {refused} calls refused");
        }
    }
}

#[test]
fn orders_and_refunds_without_a_right_write_nothing() {
    a_refused_call_writes_nothing(&[
        deduct::ok_takes_the_units_and_tells_stock_and_bought_after_it,
        deduct::a_packed_reply_has_statuses_the_stock_and_what_users_hold,
        deduct::a_refused_first_try_leaves_no_trace_and_a_refused_retry_is_kept,
        refund::ok_gives_the_units_back_and_who_holds_none_is_no_participant,
        refund::refunds_go_on_while_a_sale_is_paused_or_over,
        refund::a_packed_reply_has_a_letter_a_refund,
        refund::a_refused_retry_is_kept_and_dry_writes_nothing,
    ]);
}

#[test]
fn orders_of_several_activities_without_a_right_write_nothing() {
    a_refused_call_writes_nothing(&[
        multi_deduct::ok_takes_all_and_writes_a_deduct_into_each_ledger,
        multi_deduct::a_refused_retry_is_kept_on_every_activity_that_is_there,
        multi_jobs::orders_are_decided_by_line_and_the_watermarks_are_stored,
        jobs::a_batch_is_applied_once_and_its_line_is_kept,
        shared_calls::each_activity_is_decided_by_itself_and_keeps_its_line,
    ]);
}

#[test]
fn what_prepares_and_pauses_a_sale_without_a_right_writes_nothing() {
    a_refused_call_writes_nothing(&[
        others::preheat_ok_creates_leaves_alone_updates_and_resets,
        others::pause_withdraws_the_stock_once_and_resume_returns_it_once,
    ]);
}

#[test]
fn what_mends_a_sale_without_a_right_writes_nothing() {
    a_refused_call_writes_nothing(&[
        adopt::adopt_ok_withdraws_switches_and_is_replayed,
        adopt::adopt_undo_leaves_everything_as_it_was,
        repair::repair_has_every_status_of_its_header_and_only_ok_writes,
    ]);
}

#[test]
fn what_takes_a_sale_away_without_a_right_writes_nothing() {
    a_refused_call_writes_nothing(&[
        trim::trim_has_every_status_of_its_header,
        archive::archive_has_every_status_of_its_header,
        archive::restore_has_every_status_of_its_header,
    ]);
}

#[test]
fn holds_without_a_right_write_nothing() {
    a_refused_call_writes_nothing(&[
        transitions::each_step_in_each_state_replies_and_writes_what_the_table_says,
        transitions::a_batch_is_decided_one_after_the_other_with_a_letter_each,
    ]);
}

#[test]
fn shards_without_a_right_write_nothing() {
    a_refused_call_writes_nothing(&[
        admin_scripts::a_parent_changes_only_from_what_was_read,
        admin_scripts::a_shard_is_made_new_once_an_epoch,
        admin_scripts::a_shard_is_updated_once_a_plan_and_gives_at_most_what_is_left,
        transfers::units_move_once_however_often_each_step_is_repeated,
        transfers::withdrawn_stock_is_not_lent_and_what_is_borrowed_meanwhile_is_withdrawn_too,
    ]);
}
