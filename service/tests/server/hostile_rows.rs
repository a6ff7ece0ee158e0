//! Invalid rows are refused one by one; adjacent rows are applied.

use shoal_proto::v1;
use shoal_proto::v1::RefusalReason;

use crate::running::{
    ReportsOnce as _, Running, START_MS, block, collect, fix, objects_in, report,
};
use crate::running::{rows, sums, world};

/// One row for every refusal reason except the object limit, with the field at fault.
fn bad_rows() -> Vec<(v1::Fix, &'static str, RefusalReason)> {
    let good = fix(7, START_MS, 1.0, 2.0);
    let far = START_MS + 200 * 365 * 86_400_000;
    let (early, late) = (fix(7, 0, 1.0, 2.0), fix(7, far, 1.0, 2.0));
    vec![
        (fix(u64::MAX, START_MS, 1.0, 2.0), "object", RefusalReason::Object),
        (fix(7, START_MS, f64::NAN, 2.0), "x", RefusalReason::NotFinite),
        (fix(7, START_MS, 1.0, f64::NAN), "y", RefusalReason::NotFinite),
        (fix(7, START_MS, f64::INFINITY, 2.0), "x", RefusalReason::NotFinite),
        (fix(7, START_MS, 1.0, f64::NEG_INFINITY), "y", RefusalReason::NotFinite),
        (fix(7, START_MS, 180.1, 2.0), "x", RefusalReason::OutsideSpace),
        (fix(7, START_MS, 1.0, -90.1), "y", RefusalReason::OutsideSpace),
        (fix(7, START_MS, 1e300, 1e300), "x", RefusalReason::OutsideSpace),
        (fix(7, 946_684_799_999, 1.0, 2.0), "time_ms", RefusalReason::TimeTooEarly),
        (fix(7, i64::MIN, 1.0, 2.0), "time_ms", RefusalReason::TimeTooEarly),
        (fix(7, far, 1.0, 2.0), "time_ms", RefusalReason::TimeTooLate),
        (fix(7, i64::MAX, 1.0, 2.0), "time_ms", RefusalReason::TimeTooLate),
        (v1::Fix { speed_mps: Some(-1.0), ..good.clone() }, "speed_mps", RefusalReason::Speed),
        (v1::Fix { speed_mps: Some(f32::NAN), ..good.clone() }, "speed_mps", RefusalReason::Speed),
        (v1::Fix { speed_mps: Some(5e9), ..good.clone() }, "speed_mps", RefusalReason::Speed),
        (
            v1::Fix { heading_deg: Some(360.0), ..good.clone() },
            "heading_deg",
            RefusalReason::Heading,
        ),
        (
            v1::Fix { heading_deg: Some(-0.1), ..good.clone() },
            "heading_deg",
            RefusalReason::Heading,
        ),
        (v1::Fix { altitude_m: Some(3e6), ..good.clone() }, "altitude_m", RefusalReason::Altitude),
        (v1::Fix { altitude_m: Some(f64::NAN), ..good }, "altitude_m", RefusalReason::Altitude),
        // A row with several faults is refused for the first, whether that is found on receipt or
        // in the cycle.
        (fix(u64::MAX, i64::MAX, f64::NAN, 2.0), "object", RefusalReason::Object),
        (fix(7, i64::MAX, 180.1, 2.0), "x", RefusalReason::OutsideSpace),
        (v1::Fix { speed_mps: Some(-1.0), ..late }, "time_ms", RefusalReason::TimeTooLate),
        (v1::Fix { altitude_m: Some(3e6), ..early }, "time_ms", RefusalReason::TimeTooEarly),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reason_is_reported_with_row_and_field() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let bad = bad_rows();
    // Every bad row is between two good ones.
    let mut fixes = vec![fix(1000, START_MS, 0.0, 0.0)];
    for (index, (row, ..)) in bad.iter().enumerate() {
        fixes.extend([row.clone(), fix(1001 + index as u64, START_MS, 0.0, 0.0)]);
    }
    let acks = report(&mut client, vec![rows(fixes)]).await;
    assert_eq!(sums(&acks), (bad.len() as u64 + 1, bad.len() as u64, 0));
    let refused = &acks[0].refused_rows;
    assert_eq!(refused.len(), bad.len());
    for (index, ((_, field, reason), row)) in bad.iter().zip(refused).enumerate() {
        let listed = (row.message, row.row, row.field.as_str(), row.reason());
        assert_eq!(listed, (1, 2 * index as u32 + 1, *field, *reason));
    }
    let counted: u64 = acks[0].refused_by_reason.iter().map(|reason| reason.rows).sum();
    assert_eq!(counted, bad.len() as u64);
    let objects = objects_in(&mut server.queries().await, world(), acks[0].token.clone()).await;
    assert_eq!(objects, (1000..=1000 + bad.len() as u64).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_space_includes_its_borders() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let corners = [(-180.0, -90.0), (180.0, 90.0), (-180.0, 90.0), (179.999_999_9, -90.0)];
    let fixes = corners.iter().zip(1..).map(|(&(x, y), object)| fix(object, START_MS, x, y));
    let acks = report(&mut client, vec![rows(fixes.collect())]).await;
    assert_eq!(sums(&acks), (4, 0, 0));
    let mut queries = server.queries().await;
    let meridian = crate::running::rectangle(180.0, -90.0, 180.0, 90.0);
    let objects = objects_in(&mut queries, meridian, acks[0].token.clone()).await;
    assert_eq!(objects, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn measures_that_cannot_be_stored_are_dropped_on_request() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let dropping = |fixes| v1::ReportRequest { drop_invalid_measures: true, ..rows(fixes) };
    let good = |object| v1::Fix { state: 6, ..fix(object, START_MS, 1.0, 2.0) };
    let wild = |object| v1::Fix {
        speed_mps: Some(-1.0),
        heading_deg: Some(511.0),
        altitude_m: Some(30.0),
        ..good(object)
    };
    let north = v1::Fix { heading_deg: Some(360.0), ..good(4) };
    let outside = v1::Fix { y: 90.5, ..wild(5) };
    let second = dropping(vec![v1::Fix { altitude_m: Some(f64::NAN), ..good(6) }, wild(7)]);
    let strict = rows(vec![wild(8)]);
    let messages = vec![dropping(vec![good(2), wild(3), north, outside]), second, strict];
    let acks = report(&mut client, messages).await;
    assert_eq!(sums(&acks), (5, 2, 0));
    let dropped = |count: fn(&v1::MeasureCounts) -> u64| -> u64 {
        acks.iter().filter_map(|ack| ack.dropped.as_ref()).map(count).sum()
    };
    let counts = [dropped(|of| of.speed), dropped(|of| of.heading), dropped(|of| of.altitude)];
    assert_eq!(counts, [2, 2, 1]);
    let listed: Vec<_> = acks.iter().flat_map(|ack| &ack.dropped_measures).collect();
    let listed: Vec<_> = listed.iter().map(|of| (of.message, of.row, of.field.as_str())).collect();
    let (speed, heading) = ("speed_mps", "heading_deg");
    let expected =
        [(1, 1, speed), (1, 1, heading), (2, 0, "altitude_m"), (2, 1, speed), (2, 1, heading)];
    assert_eq!(listed, expected);

    let min_token = acks.last().unwrap().token.clone();
    let projection = v1::Projection::Fixes.into();
    let options = Some(v1::QueryOptions { min_token, projection, ..Default::default() });
    let request = v1::GetRequest { objects: vec![3, 4, 6], options, ..Default::default() };
    let answer = server.queries().await.get(request).await.unwrap().into_inner();
    let records: Vec<_> =
        collect(answer).await.unwrap().into_iter().flat_map(|chunk| chunk.fixes).collect();
    let measures: Vec<_> =
        records.iter().map(|of| (of.speed_mps, of.heading_deg, of.altitude_m, of.state)).collect();
    let expected = [(None, None, Some(30.0), 6), (None, Some(0.0), None, 6), (None, None, None, 6)];
    assert_eq!(measures, expected);

    let once = client.once(dropping(vec![wild(9)])).await.unwrap().into_inner();
    let expected = v1::MeasureCounts { speed: 1, heading: 1, ..v1::MeasureCounts::default() };
    assert_eq!((once.rows.unwrap().applied, once.dropped), (1, Some(expected)));
    let (_, metrics) = server.http("/metrics").await;
    for (measure, count) in [("speed", 3), ("heading", 3), ("altitude", 1)] {
        let line = format!(
            "shoal_measures_dropped_total{{fleet=\"default\",measure=\"{measure}\"}} {count}\n"
        );
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }

    let encoded = v1::ReportRequest { drop_invalid_measures: true, ..block(vec![1]) };
    let refused = client.once(encoded).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(refused.message().contains("drop_invalid_measures"), "{}", refused.message());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_first_refused_rows_are_listed() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let bad = vec![fix(1, START_MS, f64::NAN, 0.0); 1000];
    let acks = report(&mut client, vec![rows(bad)]).await;
    assert_eq!(sums(&acks), (0, 1000, 0));
    assert_eq!(acks[0].refused_rows.len(), 256);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_fleet_refuses_new_objects_and_moves_existing_ones() {
    let server = Running::start().await;
    let limits = Some(v1::FleetLimits { objects_max: 2 });
    let (name, clock) = ("small".to_owned(), v1::Clock::Event.into());
    let request = v1::CreateFleetRequest { name, clock, limits, ..Default::default() };
    server.fleets().await.create_fleet(request).await.unwrap();
    let mut client = server.positions().await;
    let to_small = |fixes| v1::ReportRequest { fleet: "small".into(), ..rows(fixes) };
    let first = vec![fix(1, START_MS, 0.0, 0.0), fix(2, START_MS, 0.0, 0.0)];
    report(&mut client, vec![to_small(first)]).await;
    let second = vec![fix(1, START_MS + 1, 1.0, 0.0), fix(3, START_MS + 1, 0.0, 0.0)];
    let acks = report(&mut client, vec![to_small(second)]).await;
    assert_eq!(sums(&acks), (1, 1, 0));
    let row = &acks[0].refused_rows[0];
    assert_eq!((row.row, row.field.as_str()), (1, "object"));
    assert_eq!(row.reason(), RefusalReason::ObjectLimit);
}

#[tokio::test(flavor = "multi_thread")]
async fn rounding_precedes_the_check_and_longitude_180_reads_back_as_minus_180() {
    let server = Running::start().await;
    let mut client = server.positions().await;
    let at =
        |object, x, y, speed| v1::Fix { speed_mps: Some(speed), ..fix(object, START_MS, x, y) };
    let fixes = vec![
        at(1, 180.0, 90.0, -0.0004),
        at(2, 180.000_000_04, 0.0, 0.0),
        at(3, 0.0, 0.0, -0.0006),
        at(4, 180.000_000_06, 0.0, 0.0),
        v1::Fix { state: 0, ..fix(5, START_MS, 1.0, 1.0) },
    ];
    let acks = report(&mut client, vec![rows(fixes)]).await;
    assert_eq!(sums(&acks), (3, 2, 0));
    let refused: Vec<_> =
        acks[0].refused_rows.iter().map(|row| (row.row, row.field.as_str())).collect();
    assert_eq!(refused, [(2, "speed_mps"), (3, "x")]);
    let options = Some(v1::QueryOptions {
        min_token: acks[0].token.clone(),
        projection: v1::Projection::Fixes.into(),
        ..Default::default()
    });
    let request = v1::GetRequest { options, objects: vec![1, 2, 5], ..Default::default() };
    let stream = server.queries().await.get(request).await.unwrap().into_inner();
    let fixes = crate::running::whole(stream).await.unwrap().fixes;
    assert_eq!((fixes[0].x, fixes[0].y, fixes[0].speed_mps), (-180.0, 90.0, Some(0.0)));
    assert_eq!(fixes[1].x, -180.0);
    // The state is never unknown; the other attributes are unknown.
    assert_eq!((fixes[2].state, fixes[2].speed_mps), (0, None));
}
