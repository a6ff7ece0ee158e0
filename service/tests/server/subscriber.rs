//! A subscriber that tracks the members of its regions and panics on a lost, repeated or misordered
//! message.

use std::collections::{BTreeMap, BTreeSet};

use shoal_proto::v1;
use shoal_proto::v1::EventKind;
use shoal_proto::v1::subscribe_response::Kind;
use shoal_proto::v1::subscription_service_client::SubscriptionServiceClient;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use shoal_service::{ServerLimits, ServerOptions};

use crate::running::{Running, options, within};

/// Members by region.
pub(crate) type Held = BTreeMap<u64, BTreeSet<u64>>;

/// One session and its reconstructed state.
pub(crate) struct Subscriber {
    pub(crate) client: SubscriptionServiceClient<Channel>,
    stream: Streaming<v1::SubscribeResponse>,
    pub(crate) opened: v1::SessionOpened,
    pub(crate) token: Vec<u8>,
    pub(crate) last_sequence: u64,
    pub(crate) held: Held,
    /// `held` is complete up to this epoch.
    pub(crate) epoch: u64,
    /// Epoch of the last message.
    message_epoch: u64,
    /// Members from an epoch on.
    history: Vec<(u64, Held)>,
    /// Regions with a complete snapshot: their events must match the members.
    complete: BTreeSet<u64>,
    /// Regions that await a snapshot after loss.
    pub(crate) uncertain: BTreeSet<u64>,
    /// Last delivered record by region and object.
    pub(crate) fixes: BTreeMap<(u64, u64), v1::FixRecord>,
    pub(crate) events: u64,
    pub(crate) snapshots: u64,
    pub(crate) coalesced: u64,
    pub(crate) lagged: u64,
    pub(crate) gaps: Vec<v1::GapReason>,
}

/// Starts a server with limits.
pub(crate) async fn start(limits: ServerLimits) -> Running {
    let options = ServerOptions { limits, ..options() };
    Running::start_with(options).await
}

/// A subscription to a region with snapshot and all events.
pub(crate) fn subscription(region_id: u64, region: v1::Region) -> v1::RegionSubscription {
    v1::RegionSubscription {
        region_id,
        region: Some(region),
        snapshot: true,
        ..v1::RegionSubscription::default()
    }
}

pub(crate) fn subscribe(regions: Vec<v1::RegionSubscription>) -> v1::SubscribeRequest {
    v1::SubscribeRequest { regions, ..v1::SubscribeRequest::default() }
}

impl Subscriber {
    pub(crate) async fn open(
        mut client: SubscriptionServiceClient<Channel>,
        request: v1::SubscribeRequest,
    ) -> Result<Self, Status> {
        let mut stream = within(client.subscribe(request)).await?.into_inner();
        let first = within(stream.message()).await?.unwrap();
        let Some(Kind::Opened(opened)) = first.kind else {
            panic!("the first message is {first:?}")
        };
        Ok(Self {
            client,
            stream,
            opened,
            token: first.resume_token,
            last_sequence: 0,
            held: Held::new(),
            epoch: 0,
            message_epoch: 0,
            history: Vec::new(),
            complete: BTreeSet::new(),
            uncertain: BTreeSet::new(),
            fixes: BTreeMap::new(),
            events: 0,
            snapshots: 0,
            coalesced: 0,
            lagged: 0,
            gaps: Vec::new(),
        })
    }

    /// Breaks the stream and resumes it with the token; `regions` apply to a new session only.
    pub(crate) async fn reopen(
        &mut self,
        regions: Vec<v1::RegionSubscription>,
    ) -> Result<(), Status> {
        let request = v1::SubscribeRequest {
            fleet: self.opened.fleet.clone(),
            resume_token: self.token.clone(),
            regions,
            ..Default::default()
        };
        self.stream = within(self.client.subscribe(request)).await?.into_inner();
        let first = within(self.stream.message()).await?.unwrap();
        let Some(Kind::Opened(opened)) = first.kind else {
            panic!("the first message is {first:?}")
        };
        self.opened = opened;
        Ok(())
    }

    /// Receives and applies one message.
    pub(crate) async fn next(&mut self) -> Result<Option<Kind>, Status> {
        let Some(message) = within(self.stream.message()).await? else { return Ok(None) };
        if message.first_sequence > 0 {
            assert_eq!(message.first_sequence, self.last_sequence + 1, "{message:?}");
            assert!(message.last_sequence >= message.first_sequence);
            self.last_sequence = message.last_sequence;
        }
        self.token = message.resume_token;
        let kind = message.kind.unwrap();
        match &kind {
            Kind::Snapshot(chunk) => self.take_members(chunk),
            Kind::Events(batch) => self.take_events(batch),
            Kind::Progress(progress) => {
                self.advance(progress.epoch);
            }
            Kind::Lagged(lagged) => {
                self.lagged += 1;
                let all = lagged.region_ids.is_empty();
                let of_all = self.held.keys().copied().filter(|_| all);
                self.uncertain.extend(lagged.region_ids.iter().copied().chain(of_all));
            }
            Kind::Gap(gap) => {
                self.gaps.push(gap.reason());
                self.last_sequence = gap.next_sequence - 1;
                self.uncertain = self.held.keys().copied().collect();
                (self.epoch, self.message_epoch) = (0, 0);
                self.history.clear();
            }
            Kind::Opened(_) => panic!("opened twice"),
        }
        if message.epoch_done && self.uncertain.is_empty() {
            self.epoch = self.message_epoch;
            if message.first_sequence > 0 {
                self.history.push((self.epoch, self.held.clone()));
            }
        }
        Ok(Some(kind))
    }

    fn take_members(&mut self, chunk: &v1::SnapshotChunk) {
        self.advance(chunk.epoch);
        for piece in &chunk.regions {
            let held = self.held.entry(piece.region_id).or_default();
            if piece.first {
                held.clear();
                self.snapshots += 1;
            }
            for object in &piece.objects {
                assert!(held.last().is_none_or(|last| last < object), "members out of order");
                held.insert(*object);
            }
            assert!(piece.fixes.is_empty() || piece.fixes.len() == piece.objects.len());
            for (object, fix) in piece.objects.iter().zip(&piece.fixes) {
                self.fixes.insert((piece.region_id, *object), *fix);
            }
            if piece.last {
                assert_eq!(held.len() as u64, piece.total);
                self.uncertain.remove(&piece.region_id);
                self.complete.insert(piece.region_id);
            }
        }
    }

    fn advance(&mut self, epoch: u64) {
        assert!(epoch >= self.message_epoch, "epoch {epoch} after {}", self.message_epoch);
        self.message_epoch = epoch;
    }

    fn take_events(&mut self, batch: &v1::EventBatch) {
        self.advance(batch.epoch);
        let is_coalesced = batch.coalesced_from_epoch > 0;
        self.coalesced += u64::from(is_coalesced);
        for of in &batch.regions {
            assert_eq!(of.objects.len(), of.kinds.len());
            assert!(of.objects.is_sorted(), "events out of order");
            self.events += of.objects.len() as u64;
            let held = self.held.entry(of.region_id).or_default();
            for (object, kind) in of.objects.iter().zip(of.kinds()) {
                let fits = match kind {
                    EventKind::Enter => held.insert(*object),
                    EventKind::Move => held.contains(object),
                    EventKind::Cross => !held.contains(object),
                    EventKind::Unspecified => false,
                    _ => held.remove(object),
                };
                let is_right = fits || !self.complete.contains(&of.region_id);
                assert!(is_right, "{kind:?} of {object} at epoch {}", batch.epoch);
            }
            for (object, fix) in of.objects.iter().zip(&of.fixes) {
                self.fixes.insert((of.region_id, *object), *fix);
            }
        }
    }

    /// Members of a region.
    pub(crate) fn members(&self, region_id: u64) -> Vec<u64> {
        self.held[&region_id].iter().copied().collect()
    }

    /// Reads until the state is complete up to an epoch.
    pub(crate) async fn until(&mut self, epoch: u64) {
        while self.epoch < epoch || !self.uncertain.is_empty() {
            self.next().await.unwrap().expect("the stream ended");
        }
    }

    /// Members after an epoch.
    pub(crate) fn at(&self, epoch: u64) -> Held {
        let found = self.history.iter().rev().find(|(from, _)| *from <= epoch);
        found.map(|(_, held)| held.clone()).unwrap_or_default()
    }

    /// Reads until the stream ends; returns its error, if any.
    pub(crate) async fn end(&mut self) -> Option<Status> {
        loop {
            match self.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status),
            }
        }
    }

    /// Changes regions of the session.
    pub(crate) async fn modify(
        &mut self,
        request: v1::ModifyRequest,
    ) -> Result<v1::ModifyResponse, Status> {
        let (fleet, session) = (self.opened.fleet.clone(), self.opened.session.clone());
        let request = v1::ModifyRequest { fleet, session, ..request };
        Ok(within(self.client.modify(request)).await?.into_inner())
    }
}
