//! The suite as tests: one `#[test]` per case and per seed.
//!
//! The package of a backend invokes [`conformance_suite!`](crate::conformance_suite) once. A case
//! runs only if it is listed here; the test below compares the list with the cases.

/// Makes all tests of a backend: `conformance_suite!(make)`, with `make: fn(EngineOptions) ->
/// Box<dyn Backend>` ([`crate::conformance::Make`]), optionally followed by attributes for every
/// test. All cases, and ten seeds of each random part.
#[macro_export]
macro_rules! conformance_suite {
    ($make:expr $(, #[$attribute:meta])*) => {
        $crate::conformance_cases!($make $(, #[$attribute])*);
        $crate::conformance_seeds!([$(#[$attribute])*] $make,
            random_operations many_objects continuous_queries crowded_queries);
    };
}

/// The hand-made cases alone.
#[macro_export]
macro_rules! conformance_cases {
    ($make:expr $(, #[$attribute:meta])*) => {
        $crate::conformance_tests!([$(#[$attribute])*] $make,
            admission {
                the_limit_holds_inside_a_message, the_limit_and_its_neighbours,
                a_fleet_without_capacity, a_row_over_the_limit_leaves_the_clock,
                all_rows_of_a_refused_object_are_refused, faulty_rows_take_no_capacity,
                rows_of_an_invalid_block_take_no_capacity,
                a_removal_frees_capacity_for_later_rows, a_removed_object_may_find_no_capacity,
                a_clear_frees_capacity, expiry_frees_capacity_for_the_next_cycle,
                blocks_meet_the_limit_as_their_rows, many_rows_meet_the_limit,
                a_refused_row_has_no_events
            }
            borders {
                corners_of_the_largest_plane, the_smallest_plane, corners_of_the_world,
                the_antimeridian_does_not_part, circles_reach_over_the_pole,
                borders_belong_to_regions, holes_and_islands,
                overlapping_polygons_are_one_region, a_polygon_split_at_the_antimeridian,
                whole_and_empty_regions
            }
            bounded_work {
                answers_are_whole_or_left, a_group_takes_nothing_from_another,
                counts_of_rectangles_are_exact
            }
            clock {
                an_event_clock_follows_the_rows, a_clock_is_set_back,
                an_event_clock_stops_at_its_bound,
                rows_ahead_of_the_clock_are_counted, rows_ahead_expire_by_their_own_time,
                a_bound_never_moves_a_clock, a_system_clock_does_not_step_back,
                records_expire_beyond_their_ttl, records_expire_beyond_their_validity, old_rows_expire_on_arrival,
                a_ttl_of_zero_keeps_the_newest, the_largest_ttl_keeps_everything,
                the_age_filter_uses_the_clock
            }
            exports {
                cycles_do_not_reach_an_export, new_objects_in_free_slots_stay_out,
                a_clear_does_not_reach_an_export, expiry_does_not_reach_an_export,
                attributes_are_those_of_the_begin, growth_does_not_reach_an_export,
                a_second_export_replaces_the_first, exports_end, an_export_of_nothing,
                refused_cycles_and_imports, an_export_begins_after_the_cycles_in_flight
            }
            in_flight {
                two_cycles_in_flight, too_many_in_flight_are_refused,
                unknown_tickets_are_refused, export_with_cycles_in_flight,
                the_same_input_gives_the_same_output
            }
            large_regions {
                large_regions_list_their_members, large_answers_are_whole,
                answers_beyond_their_limit_are_counted
            }
            limits {
                objects_of_a_get, objects_of_a_removal, neighbours_of_a_query,
                queries_of_a_cycle, requests_of_a_cycle, rows_of_a_cycle
            }
            memberships {
                objects_enter_move_and_leave, events_name_the_end_of_a_life,
                snapshots_list_all_members, a_changed_region_emits_the_difference,
                filters_end_memberships, only_wanted_events_are_emitted,
                regions_of_every_kind_work_everywhere,
                events_beyond_the_limit_make_a_region_lag, events_add_up_to_the_members,
                impossible_changes_are_refused
            }
            order {
                late_reports_are_counted_and_dropped, the_newest_of_a_cycle_wins,
                at_equal_time_the_later_arrival_wins, identical_reports_are_duplicates,
                removal_acts_at_its_arrival, removal_leaves_no_tombstone,
                clear_removes_everything_before_it, one_object_many_times_in_a_batch,
                ids_of_every_size
            }
            queries {
                get_returns_existing_ids_once, projections_return_what_they_name,
                limits_cut_and_set_truncated, nothing_is_never_truncated,
                nearest_returns_at_most_what_there_is, ties_are_ordered_by_object,
                every_filter_keeps_its_borders, nearest_keeps_its_distance,
                a_listing_resumes_after_an_object, answers_follow_the_order_of_the_queries,
                objects_are_in_one_place_only
            }
            refusals {
                every_reason_is_reported_by_row, the_first_fault_is_named,
                a_whole_batch_may_be_refused, refused_rows_do_not_move_the_clock,
                blocks_equal_their_rows, long_encoded_blocks_equal_their_rows,
                an_invalid_block_is_dropped_whole, empty_requests_keep_their_place
            }
            snapshots {
                an_empty_state_moves, a_state_moves_whole, batches_are_cut_at_their_length,
                an_import_expires_nothing_by_itself, the_clock_of_a_snapshot_is_taken_as_it_is,
                rows_move_in_any_order, a_full_state_moves,
                snapshots_beyond_the_object_limit_are_refused,
                wrong_snapshots_are_refused
            }
            timelines {
                an_enter_waits_for_its_dwell, a_leave_waits_for_its_dwell,
                the_reason_is_judged_at_the_end_of_a_dwell, hysteresis_keeps_near_members,
                moves_keep_their_interval, a_change_drops_pending_dwells,
                ages_end_at_whole_seconds, state_ends_with_its_object
            }
            trajectories {
                a_pass_within_one_cycle_is_reported, lives_are_judged_one_after_the_other,
                trajectories_cut_regions, crosses_are_filtered,
                trajectories_cross_the_antimeridian
            }
        );
    };
}

/// The tests of each file of cases.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($attributes:tt $make:expr, $($file:ident { $($case:ident),+ })+) => {
        $(
            mod $file {
                #[allow(unused_imports, reason = "the maker may be a path of the caller's file")]
                use super::*;
                $(
                    $crate::conformance_test!($attributes $case {
                        $crate::conformance::cases::$file::$case($make);
                    });
                )+
            }
        )+
    };
}

/// The tests of each random part.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_seeds {
    ($attributes:tt $make:expr, $($part:ident)+) => {
        $(
            $crate::conformance_seeds!($attributes $make, $part:
                seed_0 0, seed_1 1, seed_2 2, seed_3 3, seed_4 4,
                seed_5 5, seed_6 6, seed_7 7, seed_8 8, seed_9 9);
        )+
    };
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
    macro_rules! sources {
        ($($file:ident)+) => {
            [$((stringify!($file), include_str!(concat!("cases/", stringify!($file), ".rs")))),+]
        };
    }

    #[test]
    fn the_list_is_exactly_the_cases() {
        let sources = sources!(
            admission borders bounded_work clock exports in_flight large_regions limits
            memberships order queries refusals snapshots timelines trajectories
        );
        let module = |line: &'static str| line.strip_prefix("pub mod ")?.strip_suffix(';');
        let modules: Vec<&str> = include_str!("cases/mod.rs").lines().filter_map(module).collect();
        assert_eq!(modules, sources.map(|(file, _)| file));
        for (file, source) in sources {
            let case = |line: &'static str| Some(line.strip_prefix("pub fn ")?.split_once('(')?.0);
            let cases: Vec<&str> = source.lines().filter_map(case).collect();
            let list = include_str!("suite.rs").split_once(&format!("    {file} {{"));
            let list = list.and_then(|(_, rest)| rest.split_once('}')).expect(file).0;
            let listed: Vec<&str> = list.split(',').map(str::trim).collect();
            assert_eq!(listed, cases, "{file}");
        }
    }
}
