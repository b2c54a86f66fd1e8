//! The slots of connections: how many connections a server has, and which connection is closed if there are too many.
//!
//! The path of a request is known only after the handshake. A new connection therefore uses the slots of new
//! connections, and its first request moves it to the share of the request's path.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http::Uri;

use crate::activity::Activity;
use crate::limits::{Limits, Shares};
use crate::metrics::Metrics;
use crate::peers::{AllPeers, Peer, source};

/// Divisor: if the server has shares, new connections may use the slots of the server divided by this number.
const NEW_PART: usize = 4;

/// The slots of one server.
#[derive(Debug)]
pub(crate) struct Slots {
    limits: Limits,
    metrics: Metrics,
    peers: Arc<AllPeers>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    connections: HashMap<u64, Connection>,
    /// The number of connections of each share.
    taken: HashMap<Share, usize>,
    sources: HashMap<IpAddr, Source>,
}

/// The share of a connection: the index, or `None` for a new connection.
type Share = Option<usize>;

#[derive(Debug)]
struct Connection {
    share: Share,
    activity: Arc<Activity>,
}

#[derive(Debug)]
struct Source {
    connections: usize,
    /// Connections without a request. Without shares, all connections.
    new: usize,
    peer: Arc<Peer>,
}

/// The slot of one connection. Dropping the value frees the slot.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    id: u64,
    pub(crate) activity: Arc<Activity>,
}

impl Slots {
    pub(crate) fn new(limits: Limits, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            limits,
            metrics,
            peers: Arc::new(AllPeers::new(&limits)),
            table: Mutex::default(),
        })
    }

    /// Takes a slot for a new connection. If there is none, the longest idle connection loses its slot. Returns `None`
    /// if no connection is idle.
    ///
    /// Among the new connections, one of the source address with the most of them loses its slot. Otherwise one address
    /// could end the handshakes of all others by connecting again and again.
    pub(crate) fn open(self: &Arc<Self>, address: IpAddr) -> Option<Slot> {
        let address = source(address);
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let of_source = table.sources.get(&address).map_or(0, |of| of.connections);
        if of_source >= self.limits.connections_per_address {
            self.evict(&mut table, |of| of.activity.address() == address)?;
        }
        if table.taken(None) >= self.size(None) {
            self.evict_new(&mut table)?;
        }
        let source = table.sources.entry(address).or_insert_with(|| Source {
            connections: 0,
            new: 0,
            peer: Arc::new(Peer::new(address, Arc::clone(&self.peers))),
        });
        source.connections += 1;
        source.new += 1;
        let activity = Arc::new(Activity::new(Arc::clone(&source.peer)));
        let id = table.next;
        table.next += 1;
        *table.taken.entry(None).or_default() += 1;
        let connection = Connection {
            share: None,
            activity: Arc::clone(&activity),
        };
        table.connections.insert(id, connection);
        Some(Slot {
            slots: Arc::clone(self),
            id,
            activity,
        })
    }

    fn size(&self, share: Share) -> usize {
        let all = self.limits.connections;
        let Some(Shares { count, .. }) = self.limits.shares else {
            return all;
        };
        let new = all.div_ceil(NEW_PART);
        match share {
            None => new,
            Some(_) => ((all - new) / count.max(1)).max(1),
        }
    }

    /// Ends the connection that has been idle longest.
    fn evict(&self, table: &mut Table, among: impl Fn(&Connection) -> bool) -> Option<()> {
        let connections = table.connections.iter().filter(|(_, of)| among(of));
        let idle = connections.filter_map(|(id, of)| Some((of.activity.idle_since()?, *id)));
        let longest = idle.min().map(|(_, id)| id);
        self.end(table, longest)
    }

    /// Ends a new connection of the source address with the most new connections. Among several such addresses, the
    /// connection goes that has been idle longest.
    fn evict_new(&self, table: &mut Table) -> Option<()> {
        if self.limits.shares.is_none() {
            return self.evict(table, |_| true);
        }
        let new = table
            .connections
            .iter()
            .filter(|(_, of)| of.share.is_none());
        let idle = new.filter_map(|(id, of)| {
            let since = of.activity.idle_since()?;
            let source = table.sources.get(&of.activity.address());
            let crowd = source.map_or(0, |source| source.new);
            Some((Reverse(crowd), since, *id))
        });
        let of_crowd = idle.min().map(|(.., id)| id);
        self.end(table, of_crowd)
    }

    /// Ends a connection. Returns `None` if there is none to end.
    fn end(&self, table: &mut Table, id: Option<u64>) -> Option<()> {
        let Some(id) = id else {
            self.metrics.shed("refused");
            return None;
        };
        let evicted = table.remove(id)?;
        evicted.activity.evicted.notify_one();
        self.metrics.shed("idle");
        Some(())
    }
}

impl Table {
    fn taken(&self, share: Share) -> usize {
        self.taken.get(&share).copied().unwrap_or_default()
    }

    fn remove(&mut self, id: u64) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        if let Some(taken) = self.taken.get_mut(&connection.share) {
            *taken -= 1;
        }
        let address = connection.activity.address();
        if let Some(source) = self.sources.get_mut(&address) {
            source.connections -= 1;
            source.new -= usize::from(connection.share.is_none());
            if source.connections == 0 {
                self.sources.remove(&address);
            }
        }
        Some(connection)
    }
}

impl Slot {
    /// Moves the connection to the share of its first request. Returns false if this share has no slot and no idle
    /// connection.
    pub(crate) fn classify(&self, uri: &Uri) -> bool {
        let (slots, activity) = (&self.slots, &self.activity);
        let Some(shares) = slots.limits.shares.filter(|_| !activity.is_classified()) else {
            return true;
        };
        let share = Some((shares.of)(uri));
        let mut table = slots.table.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = table.taken(share) >= slots.size(share);
        if is_full && slots.evict(&mut table, |of| of.share == share).is_none() {
            return false;
        }
        if let Some(connection) = table.connections.get_mut(&self.id) {
            connection.share = share;
            activity.set_classified();
            if let Some(source) = table.sources.get_mut(&activity.address()) {
                source.new -= 1;
            }
            if let Some(taken) = table.taken.get_mut(&None) {
                *taken -= 1;
            }
            *table.taken.entry(share).or_default() += 1;
        }
        true
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let table = self.slots.table.lock();
        table
            .unwrap_or_else(PoisonError::into_inner)
            .remove(self.id);
    }
}
