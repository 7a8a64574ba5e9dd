//! Call sites of one process, and the loops among them.

/// Number that stands for no site.
pub const NONE: u16 = u16::MAX;

/// An MPI call that has returned.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Return address of the call, which is not 0.
    pub address: usize,
    /// Called function, by a number of the caller's choice.
    pub function: u16,
    /// Time of entry.
    pub began: u64,
    /// Time of return, not before the entry.
    pub ended: u64,
}

/// Change of the graph.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A loop was found: the number of its head.
    Detected(u16),
    /// A loop was left for a new site: the head of the loop, and the new site.
    Exit(u16, u16),
    /// A loop was entered at its head from outside, for the first time from there: the head.
    HeadReentry(u16),
    /// A loop was entered inside its body from outside, for the first time from there: the site in
    /// the body.
    BodyReentry(u16),
}

/// Time of a loop's iterations, and its part inside MPI.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Total time from one call of the head to the next.
    pub time: u64,
    /// Part inside MPI, also in nested loops.
    pub mpi: u64,
}

impl Span {
    /// Returns the ratio of time in MPI to computing time (MTCT). Returns `None` if nothing was
    /// computed.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let computing = self.time.saturating_sub(self.mpi);
        (computing > 0).then(|| self.mpi as f64 / computing as f64)
    }

    /// Returns the sum of two.
    #[must_use]
    pub fn plus(self, other: Span) -> Span {
        Span { time: self.time + other.time, mpi: self.mpi + other.mpi }
    }
}

/// A call site.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Return address of the calls.
    pub address: usize,
    /// Function of the first call.
    pub function: u16,
    /// Returns true if a loop begins here.
    pub is_head: bool,
    /// Returns true if the site is in the body of a loop.
    pub is_body: bool,
    /// Head of the innermost loop whose body contains the site, or [`NONE`].
    pub head: u16,
    /// For a head that re-entry showed to be in the body of another loop: the head of that loop, or
    /// [`NONE`].
    pub outer: u16,
    /// For a head: last site of the loop; for a re-entered site: source of the last re-entry; or
    /// [`NONE`].
    pub tail: u16,
    /// Entries into the loop at this site of its body.
    pub reentries: u64,
    /// Calls after the first.
    pub revisits: u64,
    /// Time of entry of the first call.
    pub created: u64,
    /// Time of entry of the last call.
    pub last: u64,
    /// Time inside the calls, since the last reset.
    pub spent: u64,
    /// For a head: iterations measured since the last reset.
    pub turns: u64,
    /// Times of these iterations.
    pub measured: Span,
    /// The last complete interval of [`Graph::set_window`], and the present one.
    window: [Span; 2],
    /// Beginning of the present interval.
    window_began: u64,
    /// Time in MPI since the last call of the head.
    pending: u64,
    /// Source of the latest known edge to this site, and target of the latest one from it.
    before: u16,
    after: u16,
}

impl Site {
    /// A site without calls.
    pub const NEW: Site = Site {
        address: 0,
        function: 0,
        is_head: false,
        is_body: false,
        head: NONE,
        outer: NONE,
        tail: NONE,
        reentries: 0,
        revisits: 0,
        created: 0,
        last: 0,
        spent: 0,
        turns: 0,
        measured: Span { time: 0, mpi: 0 },
        window: [Span { time: 0, mpi: 0 }; 2],
        window_began: 0,
        pending: 0,
        before: NONE,
        after: NONE,
    };

    /// Returns the times of the iterations in the last one or two intervals.
    #[must_use]
    pub fn recent(&self) -> Span {
        self.window[0].plus(self.window[1])
    }
}

/// Result of a call.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the site; [`NONE`] where there was no room for it.
    pub site: u16,
    /// Change of the graph.
    pub event: Option<Event>,
    /// Returns true if the call was an iteration's first.
    pub is_turn: bool,
}

/// Call sites in the order of their first calls, and the edges between them. `SITES` is the maximum
/// number of sites. `SLOTS`, a power of two and at least twice as large, bounds the edges:
/// re-entries by edges beyond three quarters of it are not reported as events.
#[derive(Debug)]
pub struct Graph<const SITES: usize, const SLOTS: usize> {
    sites: [Site; SITES],
    count: usize,
    /// Numbers of sites plus one, by address.
    places: [u16; SLOTS],
    /// Edges, as source and target plus one.
    edges: [u32; SLOTS],
    edge_count: usize,
    /// Site of the previous call, or [`NONE`].
    previous: u16,
    /// Length of an interval of recent times.
    interval: u64,
    lost: u64,
}

impl<const SITES: usize, const SLOTS: usize> Graph<SITES, SLOTS> {
    const EDGES: usize = SLOTS / 4 * 3;

    /// Creates an empty graph.
    #[must_use]
    pub const fn new() -> Self {
        const {
            assert!(SITES < NONE as usize && SLOTS.is_power_of_two() && SLOTS >= 2 * SITES);
        }
        Self {
            sites: [Site::NEW; SITES],
            count: 0,
            places: [0; SLOTS],
            edges: [0; SLOTS],
            edge_count: 0,
            previous: NONE,
            interval: u64::MAX,
            lost: 0,
        }
    }

    /// Sets the length of the recent past: between one and two of these intervals.
    pub fn set_window(&mut self, interval: u64) {
        self.interval = interval;
    }

    /// Returns the sites.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.sites[..self.count]
    }

    /// Returns the number of calls whose site found no room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Resets the times, as after a change of the number of ranks; sites and loops stay. The
    /// previous call is not the source of an edge.
    pub fn reset(&mut self, now: u64) {
        for site in &mut self.sites[..self.count] {
            (site.spent, site.turns, site.pending, site.window_began) = (0, 0, 0, now);
            (site.measured, site.window) = (Span::default(), [Span::default(); 2]);
        }
        self.interrupt();
    }

    /// Forgets all sites and loops.
    pub fn clear(&mut self) {
        *self = Self { interval: self.interval, ..Self::new() };
    }

    /// Handles calls that were not reported: the next one is not a successor of the last. Sites in
    /// no loop are forgotten, since the path to a repeated site would be unknown.
    pub fn interrupt(&mut self) {
        self.previous = NONE;
        let mut numbers = [NONE; SITES];
        let mut kept = 0;
        for (at, number) in numbers.iter_mut().enumerate().take(self.count) {
            let site = self.sites[at];
            if site.is_head || site.head != NONE {
                *number = kept as u16;
                self.sites[kept] = site;
                kept += 1;
            }
        }
        self.count = kept;
        let renumbered = |at: u16| numbers.get(usize::from(at)).map_or(NONE, |at| *at);
        for site in &mut self.sites[..kept] {
            for number in
                [&mut site.head, &mut site.outer, &mut site.tail, &mut site.before, &mut site.after]
            {
                *number = renumbered(*number);
            }
        }
        self.places = [0; SLOTS];
        for at in 0..kept {
            let slot = self.slot(self.sites[at].address);
            self.places[slot] = at as u16 + 1;
        }
        let edges = core::mem::replace(&mut self.edges, [0; SLOTS]);
        self.edge_count = 0;
        for edge in edges.into_iter().filter_map(|edge| edge.checked_sub(1)) {
            let (from, to) = (renumbered((edge >> 16) as u16), renumbered(edge as u16));
            if from != NONE && to != NONE {
                self.enter_edge(from, to);
            }
        }
    }

    /// Adds a call that has returned.
    pub fn call(&mut self, call: Call) -> Step {
        let previous = self.previous;
        let known = self.predicted(call.address).or_else(|| self.find(call.address));
        let step = match known {
            Some(at) => self.visit(at, previous, call.began),
            None => match self.insert(&call) {
                Some(at) => {
                    let left = self.loop_of(previous);
                    let event = (left != NONE).then_some(Event::Exit(left, at));
                    Step { site: at, event, is_turn: false }
                }
                None => {
                    self.lost += 1;
                    return Step { site: NONE, event: None, is_turn: false };
                }
            },
        };
        self.add_edge(previous, step.site);
        self.previous = step.site;
        let spent = call.ended.saturating_sub(call.began);
        self.sites[usize::from(step.site)].spent += spent;
        let mut around = self.loop_of(step.site);
        while let Some(head) = self.sites.get_mut(usize::from(around)) {
            head.pending += spent;
            around = parent(head);
        }
        step
    }

    /// Returns the site that followed the previous one last time, if it has this address.
    #[inline]
    fn predicted(&self, address: usize) -> Option<u16> {
        let after = self.sites.get(usize::from(self.previous))?.after;
        (self.sites.get(usize::from(after))?.address == address).then_some(after)
    }

    /// Returns the slot of an address: the one that holds it, or the free one for it.
    fn slot(&self, address: usize) -> usize {
        let mut slot = scattered(address as u64) as usize % SLOTS;
        // There are twice as many slots as sites, so one is free.
        while let Some(at) = self.places[slot].checked_sub(1)
            && self.sites[usize::from(at)].address != address
        {
            slot = (slot + 1) % SLOTS;
        }
        slot
    }

    fn find(&self, address: usize) -> Option<u16> {
        self.places[self.slot(address)].checked_sub(1)
    }

    fn insert(&mut self, call: &Call) -> Option<u16> {
        let slot = self.slot(call.address);
        let at = self.count as u16;
        let site = self.sites.get_mut(self.count)?;
        // A forgotten site may have been here.
        *site = Site {
            address: call.address,
            function: call.function,
            created: call.began,
            last: call.began,
            ..Site::NEW
        };
        self.places[slot] = at + 1;
        self.count += 1;
        Some(at)
    }

    /// Returns the innermost loop of a site: its own if it is a head.
    fn loop_of(&self, at: u16) -> u16 {
        match self.sites.get(usize::from(at)) {
            Some(site) if site.is_head => at,
            Some(site) => site.head,
            None => NONE,
        }
    }

    /// Returns true if a site is in the loop of that head, or in a loop inside it.
    fn is_within(&self, at: u16, head: u16) -> bool {
        let mut around = self.loop_of(at);
        while around != NONE && around != head {
            around = parent(&self.sites[usize::from(around)]);
        }
        around == head && head != NONE
    }

    fn visit(&mut self, at: u16, previous: u16, now: u64) -> Step {
        let site = self.sites[usize::from(at)];
        let mut event = None;
        let mut is_turn = false;
        self.sites[usize::from(at)].revisits += 1;
        if previous == NONE {
            // The path to this site is not known.
        } else if site.is_head {
            is_turn = self.is_within(previous, at);
            let is_expected = previous == site.tail || self.loop_of(previous) == at;
            if !is_expected && !self.has_edge(previous, at) {
                event = Some(Event::HeadReentry(at));
            }
        } else if site.head == NONE {
            event = Some(Event::Detected(at));
            self.detect(at, previous, now);
        } else if self.loop_of(previous) != site.head {
            if !self.has_edge(previous, at) {
                event = Some(Event::BodyReentry(at));
                self.nest(self.loop_of(previous), site.head);
            }
            let site = &mut self.sites[usize::from(at)];
            site.reentries += 1;
            site.tail = previous;
        }
        if site.is_head {
            self.turn(at, is_turn, now);
        }
        self.sites[usize::from(at)].last = now;
        Step { site: at, event, is_turn }
    }

    /// Handles a repeated site that is in no loop: the sites since its last visit are its loop.
    fn detect(&mut self, at: u16, previous: u16, now: u64) {
        let from = usize::from(at);
        let mut mpi = self.sites[from].spent;
        for site in &mut self.sites[from + 1..self.count] {
            mpi += site.spent;
            if site.head == NONE {
                (site.is_body, site.head) = (true, at);
            }
        }
        let head = &mut self.sites[from];
        (head.is_head, head.tail, head.window_began) = (true, previous, now);
        head.turns = 1;
        head.measured = Span { time: now.saturating_sub(head.created), mpi };
        head.window[1] = head.measured;
    }

    /// Nests a loop that is left for the body of one that began earlier: it is inside that loop.
    fn nest(&mut self, inner: u16, outer: u16) {
        if let Some(head) = self.sites.get_mut(usize::from(inner))
            && parent(head) == NONE
            && outer < inner
        {
            head.outer = outer;
        }
    }

    /// Handles another call of a head: an iteration ends if the loop was not left meanwhile.
    fn turn(&mut self, at: u16, is_turn: bool, now: u64) {
        let interval = self.interval;
        let head = &mut self.sites[usize::from(at)];
        let mpi = core::mem::take(&mut head.pending);
        if !is_turn {
            return;
        }
        let iteration = Span { time: now.saturating_sub(head.last), mpi };
        head.turns += 1;
        head.measured = head.measured.plus(iteration);
        if now.saturating_sub(head.window_began) >= interval {
            head.window = [head.window[1], Span::default()];
            head.window_began = now;
        }
        head.window[1] = head.window[1].plus(iteration);
    }

    fn has_edge(&self, from: u16, to: u16) -> bool {
        if self.sites[usize::from(to)].before == from {
            return true;
        }
        let edge = (u32::from(from) << 16 | u32::from(to)) + 1;
        let mut slot = scattered(u64::from(edge)) as usize % SLOTS;
        while self.edges[slot] != 0 {
            if self.edges[slot] == edge {
                return true;
            }
            slot = (slot + 1) % SLOTS;
        }
        self.edge_count >= Self::EDGES
    }

    fn add_edge(&mut self, from: u16, to: u16) {
        if from == NONE {
            return;
        }
        self.sites[usize::from(from)].after = to;
        if !self.has_edge(from, to) {
            self.enter_edge(from, to);
        }
        self.sites[usize::from(to)].before = from;
    }

    fn enter_edge(&mut self, from: u16, to: u16) {
        let edge = (u32::from(from) << 16 | u32::from(to)) + 1;
        let mut slot = scattered(u64::from(edge)) as usize % SLOTS;
        while self.edges[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        self.edges[slot] = edge;
        self.edge_count += 1;
    }
}

impl<const SITES: usize, const SLOTS: usize> Default for Graph<SITES, SLOTS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the head of the loop around a head, found by detection or by re-entry. Its number is
/// lower, so that every path upwards ends.
fn parent(head: &Site) -> u16 {
    if head.head == NONE { head.outer } else { head.head }
}

/// Spreads numbers that are close together.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
