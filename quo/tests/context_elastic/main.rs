//! Contexts whose ranks change, over forked processes without MPI: the state that stays, refusals,
//! leftovers.
#![allow(unsafe_code, clippy::unwrap_used, clippy::print_stderr, missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod changes;
mod common;
mod refusals;

fn main() -> std::process::ExitCode {
    support::run(&[
        ("a_context_grows_and_shrinks_with_phases_between", changes::grows_and_shrinks),
        ("siblings_get_the_cores_of_ranks_that_have_gone", changes::siblings_get_the_cores),
        ("ranks_may_be_renumbered_and_nodes_may_change", changes::renumbered_ranks_and_other_nodes),
        ("who_joins_takes_over_what_there_is", changes::who_joins_takes_over_what_there_is),
        ("libraries_that_know_nothing_of_it_go_on", changes::libraries_go_on),
        (
            "a_pushed_binding_is_refused_by_all_and_changes_nothing",
            refusals::an_open_push_is_refused,
        ),
        ("pushes_are_unwound_on_request_and_come_back_on_failure", refusals::pushes_are_unwound),
        ("an_open_phase_is_refused_by_all", refusals::an_open_phase_is_refused),
        ("a_rank_asleep_in_a_barrier_is_refused_by_all", refusals::a_rank_asleep_is_refused),
        ("ranks_asleep_that_do_not_come_are_told_of", refusals::ranks_asleep_that_do_not_come),
        ("a_rank_killed_while_all_adapt_is_named", refusals::a_rank_killed_is_named),
        ("what_the_old_ranks_shared_keeps_its_meaning", changes::old_things_keep_their_meaning),
        ("a_retired_rank_keeps_its_queries_and_comes_back", changes::a_retired_rank_comes_back),
        ("other_contexts_and_lonely_joiners_are_refused", refusals::wrong_partners_are_refused),
        ("every_way_to_wait_can_be_adapted", changes::every_way_to_wait),
        ("hundreds_of_changes_leave_nothing_behind", changes::hundreds_of_changes),
    ])
}
