//! The suite as tests: one `#[test]` a case, one a seed.
//!
//! A backend's package names one function that makes it, once. The lists here are the suite; a case
//! that stands in `cases` and not here does not run, which the test below forbids.

/// Makes the tests of a backend: `conformance_suite!(make)`, with `make: fn(EngineOptions) ->
/// Box<dyn Backend>` ([`crate::conformance::Make`]), perhaps followed
/// by attributes for every test. All cases and ten seeds of both random parts.
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr $(, #[$attribute:meta])*) => {
        $crate::conformance_cases!($make $(, #[$attribute])*);
        $crate::conformance_random!($make $(, #[$attribute])*);
    };
}

/// The hand-made cases alone.
#[macro_export]
macro_rules! conformance_cases {
    ($make:expr $(, #[$attribute:meta])*) => {
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            admission: the_limit_holds_inside_a_message,
            the_limit_and_its_neighbours, a_fleet_without_room,
            a_row_over_the_limit_leaves_the_clock, all_rows_of_a_refused_object_are_refused,
            faulty_rows_take_no_place, rows_of_a_lying_block_take_no_place,
            a_removal_makes_room_for_later_rows, a_removed_object_may_find_no_place,
            a_clear_makes_room, expiry_makes_room_for_the_next_cycle,
            blocks_meet_the_limit_as_their_rows, many_rows_meet_the_limit,
            nothing_is_told_of_a_refused_row);
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            borders: corners_of_the_largest_plane,
            the_smallest_plane, corners_of_the_world, the_antimeridian_does_not_part,
            circles_reach_over_the_pole, borders_belong_to_regions, holes_and_islands,
            overlapping_polygons_are_one_region, a_polygon_split_at_the_antimeridian,
            whole_and_empty_regions);
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            clock: an_event_clock_follows_the_rows,
            a_system_clock_does_not_step_back, records_expire_beyond_their_ttl,
            old_rows_expire_as_they_come, a_ttl_of_zero_keeps_the_newest,
            the_largest_ttl_keeps_everything, the_age_filter_uses_the_clock);
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            flight: two_cycles_in_flight,
            too_many_in_flight_are_refused, unknown_tickets_are_refused, export_while_cycles_fly,
            the_same_input_gives_the_same_output);
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            limits: objects_of_a_get, objects_of_a_removal,
            neighbours_of_a_query, queries_of_a_cycle, requests_of_a_cycle, rows_of_a_cycle);
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            order: late_reports_are_counted_and_dropped,
            the_newest_of_a_cycle_wins, at_equal_time_the_later_arrival_wins,
            identical_reports_are_duplicates, removal_acts_at_its_arrival,
            removal_leaves_no_tombstone, clear_removes_everything_before_it,
            one_object_many_times_in_a_batch, ids_of_every_size);
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            queries: get_answers_known_ids_once,
            projections_return_what_they_name, limits_cut_and_say_so, nothing_is_never_truncated,
            nearest_returns_at_most_what_there_is, ties_are_ordered_by_object,
            every_filter_keeps_its_borders, nearest_keeps_its_distance,
            a_listing_goes_on_after_an_object, answers_come_in_the_order_of_the_questions,
            objects_are_in_one_place_only);
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            refusals: every_reason_is_told_by_row,
            the_first_fault_is_named, a_whole_batch_may_be_refused,
            refused_rows_do_not_move_the_clock,
            blocks_equal_their_rows, long_encoded_blocks_equal_their_rows,
            a_lying_block_is_dropped_whole, empty_requests_keep_their_place);
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            snapshots: an_empty_state_moves, a_state_moves_whole,
            batches_are_cut_at_their_length, an_import_expires_nothing_by_itself,
            the_clock_of_a_snapshot_is_taken_as_it_is, a_full_state_moves,
            snapshots_beyond_the_object_limit_are_refused, wrong_snapshots_are_refused);
    };
}

/// Standing regions: the hand-made cases.
#[macro_export]
macro_rules! conformance_subscriptions {
    ($make:expr $(, #[$attribute:meta])*) => {
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            memberships: objects_enter_move_and_leave, the_gone_are_told_why,
            snapshots_tell_all_members, a_changed_region_tells_the_difference, filters_let_go,
            only_what_is_wanted_is_told, regions_of_every_kind_stand_everywhere,
            events_beyond_the_most_make_a_region_lag, events_add_up_to_the_members,
            impossible_changes_are_refused);
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            multitudes: large_regions_tell_their_members, large_answers_are_whole);
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            passes: a_pass_within_one_cycle_is_told, lives_are_judged_one_after_the_other,
            ways_cut_regions, crosses_are_filtered, ways_go_over_the_antimeridian);
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            timelines: an_enter_waits_for_its_dwell, a_leave_waits_for_its_dwell,
            the_reason_is_judged_at_the_end_of_a_dwell, hysteresis_holds_who_is_near,
            moves_keep_their_interval, a_change_drops_what_is_pending, ages_end_at_whole_seconds,
            what_is_kept_goes_with_its_object);
    };
}

/// Standing regions: the random parts, ten seeds each.
#[macro_export]
macro_rules! conformance_standing {
    ($make:expr $(, #[$attribute:meta])*) => {
        $crate::conformance_seeds!([$(#[$attribute])*] $make,
            standing_regions: seed_0 0, seed_1 1, seed_2 2, seed_3 3,
            seed_4 4, seed_5 5, seed_6 6, seed_7 7, seed_8 8, seed_9 9);
        $crate::conformance_seeds!([$(#[$attribute])*] $make,
            crowded_regions: seed_0 0, seed_1 1, seed_2 2, seed_3 3,
            seed_4 4, seed_5 5, seed_6 6, seed_7 7, seed_8 8, seed_9 9);
    };
}

/// The random parts alone: ten seeds each.
#[macro_export]
macro_rules! conformance_random {
    ($make:expr $(, #[$attribute:meta])*) => {
        $crate::conformance_seeds!([$(#[$attribute])*] $make,
            random_operations: seed_0 0, seed_1 1, seed_2 2,
            seed_3 3, seed_4 4, seed_5 5, seed_6 6, seed_7 7, seed_8 8, seed_9 9);
        $crate::conformance_seeds!([$(#[$attribute])*] $make,
            many_objects: seed_0 0, seed_1 1, seed_2 2, seed_3 3,
            seed_4 4, seed_5 5, seed_6 6, seed_7 7, seed_8 8, seed_9 9);
    };
}

/// The tests of one file of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($attributes:tt $make:expr, $file:ident: $($case:ident),+) => {
        mod $file {
            #[allow(unused_imports, reason = "the maker may be a path of the caller's file")]
            use super::*;
            $(
                $crate::conformance_test!($attributes $case {
                    $crate::conformance::cases::$file::$case($make);
                });
            )+
        }
    };
}

/// The tests of one random part.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_seeds {
    ($attributes:tt $make:expr, $part:ident: $($name:ident $seed:literal),+) => {
        mod $part {
            #[allow(unused_imports, reason = "the maker may be a path of the caller's file")]
            use super::*;
            $(
                $crate::conformance_test!($attributes $name {
                    let operations = $crate::conformance::operations_per_seed();
                    $crate::conformance::$part($make, $seed, operations);
                });
            )+
        }
    };
}

/// One test with further attributes.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_test {
    ([$(#[$attribute:meta])*] $name:ident $body:block) => {
        #[test]
        $(#[$attribute])*
        fn $name() $body
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_listed() {
        let suite = include_str!("suite.rs");
        for cases in [
            include_str!("cases/admission.rs"),
            include_str!("cases/borders.rs"),
            include_str!("cases/clock.rs"),
            include_str!("cases/flight.rs"),
            include_str!("cases/limits.rs"),
            include_str!("cases/memberships.rs"),
            include_str!("cases/multitudes.rs"),
            include_str!("cases/order.rs"),
            include_str!("cases/passes.rs"),
            include_str!("cases/queries.rs"),
            include_str!("cases/refusals.rs"),
            include_str!("cases/snapshots.rs"),
            include_str!("cases/timelines.rs"),
        ] {
            let names = cases.lines().filter_map(|line| line.strip_prefix("pub fn "));
            for name in names.filter_map(|line| line.split_once('(')).map(|(name, _)| name) {
                assert!(suite.contains(name), "{name} is not listed");
            }
        }
    }
}
