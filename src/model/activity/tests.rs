use crate::model::activity::*;

impl Snapshot {
    /// An activity without a meta and without buyers.
    pub(crate) fn sample(id: &str, stock: Option<u64>) -> Self {
        Self {
            activity: ActivityId::validated(id.as_bytes()),
            status: Status::Ok,
            corrupt: None,
            stock,
            meta: None,
            buyers: Some(0),
            ledger_last: None,
            ledger_length: None,
            at: Millis::new(0),
            sums: None,
            lost_users: None,
            is_unfinished: false,
        }
    }
}

fn plan() -> Plan {
    Plan {
        id: ActivityId::validated(b"1001"),
        title: None,
        total: Units::new(50),
        per_user_limit: FieldChange::Keep,
        starts_at: FieldChange::Keep,
        ends_at: FieldChange::Keep,
        ledger: None,
        shards: None,
    }
}

#[test]
fn a_plan_gives_the_fields_that_were_written_down() {
    let fields = ["per_user_limit", "title", "starts_at", "ends_at", "ledger", "shards"];
    assert!(fields.iter().all(|field| !plan().gives(field)));
    assert!(plan().gives("total"), "a plan always has a total");
    let now = FieldChange::Set(Millis::new(1));
    let given = [
        ("per_user_limit", Plan { per_user_limit: FieldChange::Clear, ..plan() }),
        ("title", Plan { title: Some("Phone".to_owned()), ..plan() }),
        ("starts_at", Plan { starts_at: now, ..plan() }),
        ("ends_at", Plan { ends_at: now, ..plan() }),
        ("ledger", Plan { ledger: Some(false), ..plan() }),
        ("shards", Plan { shards: ShardCount::new(16), ..plan() }),
    ];
    for (name, plan) in given {
        assert!(fields.iter().all(|field| plan.gives(field) == (*field == name)), "{name}");
    }
}

#[test]
fn ids_of_parts_are_kept_free_on_clusters() {
    for (id, fits) in [("a#1", false), ("#0", false), ("a#", true), ("a#1b", true), ("1001", true), ("a#b1", true)] {
        let plan = || Plan { id: ActivityId::validated(id.as_bytes()), ..plan() };
        assert_eq!(plan().fitted(Layout::Cluster).is_ok(), fits, "{id}");
        assert!(plan().fitted(Layout::Seckill).is_ok(), "{id}");
        let limited = |limit, layout| Plan { per_user_limit: limit, ..plan() }.fitted(layout).is_ok();
        let limits = [Limit::new(1).into(), Limit::new(2).into(), FieldChange::Clear];
        assert_eq!(limits.map(|limit| limited(limit, Layout::Sku)), [true, false, false]);
        assert_eq!(limits.map(|limit| limited(limit, Layout::Product)), [false, false, true]);
        assert_eq!(limits.map(|limit| limited(limit, Layout::Seckill)), [true; 3]);
    }
}

#[test]
fn a_try_whose_reply_was_lost_did_what_was_planned() {
    let planned = Preheated {
        activity: plan().id,
        action: Action::Update,
        status: Status::Ok,
        total_before: Some(50),
        total: Some(80),
        stock_before: Some(48),
        stock: Some(78),
        per_user_limit: None,
        shards: None,
        differences: vec![FieldDifference {
            field: "total".to_owned(),
            before: "50".to_owned(),
            after: "80".to_owned(),
            is_given: true,
        }],
        corrupt: None,
    };
    // What the second try finds is already as planned.
    let found = Preheated {
        action: Action::Unchanged,
        status: Status::Replayed,
        total_before: Some(80),
        stock_before: Some(77),
        stock: Some(77),
        differences: Vec::new(),
        ..planned.clone()
    };
    let answer = Preheated { status: Status::Replayed, stock: Some(77), ..planned.clone() };
    assert_eq!(found.clone().of_plan(&planned), answer);
    let refused = Preheated { status: Status::Exists, ..found };
    assert_eq!(refused.clone().of_plan(&planned), refused);
}

#[test]
fn a_window_includes_its_start_and_excludes_its_end() {
    let meta = |stored_state| Meta {
        starts_at: Some(Millis::new(10)),
        ends_at: Some(Millis::new(20)),
        stored_state,
        ..Meta::default()
    };
    let states = |stored| [9, 10, 19, 20].map(|now| meta(stored).state(Millis::new(now)));
    assert_eq!(states(StoredState::Live), [State::Upcoming, State::Live, State::Live, State::Ended]);
    assert_eq!(states(StoredState::Paused), [State::Paused, State::Paused, State::Paused, State::Ended]);
    assert_eq!(states(StoredState::Archived), [State::Archived; 4]);

    let snapshot = |now, stock| {
        let meta = Some(meta(StoredState::Live));
        Snapshot { meta, at: Millis::new(now), ..Snapshot::sample("1001", stock) }
    };
    assert_eq!(snapshot(10, Some(0)).state(), State::SoldOut);
    assert_eq!(snapshot(10, Some(1)).state(), State::Live);
    assert_eq!(snapshot(10, None).state(), State::Live, "the stock is lost, not sold");
    assert_eq!(snapshot(9, Some(0)).state(), State::Upcoming);
    assert_eq!(Snapshot { meta: None, ..snapshot(10, Some(0)) }.state(), State::SoldOut);
    let archived = Snapshot { meta: Some(meta(StoredState::Archived)), ..snapshot(10, None) };
    assert!(archived.is_archived() && !snapshot(10, None).is_archived());
}

#[test]
fn what_is_known_of_an_archive_is_read_whole_or_not_at_all() {
    let read = Archived::read("1 0a 1800 20 470 - ann of ops").unwrap();
    assert_eq!((&*read.sha256, read.at, read.stock), ("0a", Millis::new(1800), 20));
    assert_eq!((read.buyers, &*read.by), (Some(470), "ann of ops"));
    assert_eq!(Archived::read("1 0a 1800 20 - - ann").map(|read| read.buyers), Some(None));
    for wrong in ["", "1 0a 1800 20 470 -", "1 0a 1800 - 470 - ann", "1 0a 1800 20 x - ann"] {
        assert_eq!(Archived::read(wrong), None, "{wrong}");
    }
}
