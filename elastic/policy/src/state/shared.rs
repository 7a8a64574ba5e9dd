//! Nodes that jobs share by cores and memory.

use super::{Cluster, Refusal, State, words};
use crate::action::Choice;
use crate::job::{Job, JobId};
use crate::nodes::NodeList;
use crate::rooms::{Need, Room, Rooms};

impl State {
    /// Makes the state of an idle cluster with nodes shared by cores, and by memory (in MiB) if
    /// that of a node is given.
    #[must_use]
    pub fn shared(cluster: Cluster, memory: Option<u32>) -> State {
        let node = Room { cores: cluster.cores_per_node, memory: memory.unwrap_or(u32::MAX) };
        State { rooms: Some(Rooms::new(cluster.nodes, node)), ..State::new(cluster) }
    }

    /// Returns the room on each node; `None` if jobs have exclusive nodes.
    #[must_use]
    pub fn rooms(&self) -> Option<&Rooms> {
        self.rooms.as_ref()
    }

    /// Returns the room that a job takes on its requested size; `None` if jobs have exclusive
    /// nodes.
    #[must_use]
    pub fn need(&self, job: &Job) -> Option<Need> {
        let (node, nodes) = (self.rooms.as_ref()?.node(), job.limits.start);
        Some(job.share.map_or(Need::whole(node, nodes), |share| Need::spread(share, nodes)))
    }

    /// Returns the room that a job takes and the nodes with that room free now; `None` if there are
    /// too few.
    #[must_use]
    pub fn place(&self, job: &Job) -> Option<(Need, NodeList)> {
        let need = self.need(job)?;
        Some((need, self.rooms.as_ref()?.place(&need)?))
    }

    /// Returns true if a job can start now on its requested size.
    #[must_use]
    pub fn fits(&self, job: &Job) -> bool {
        if self.rooms.is_some() {
            return self.place(job).is_some();
        }
        job.limits.start <= self.idle()
    }

    /// Returns true if a job could start on the idle machine on its requested size.
    #[must_use]
    pub fn fits_ever(&self, job: &Job) -> bool {
        let nodes = self.cluster.nodes;
        match (self.need(job), &self.rooms) {
            (Some(need), Some(rooms)) => need.fits_on(rooms.node(), nodes),
            _ => job.limits.start <= nodes,
        }
    }

    /// Takes the room of a job on nodes that jobs share.
    pub(super) fn take_room(
        &mut self,
        operation: &'static str,
        id: JobId,
        nodes: &Choice,
    ) -> Result<NodeList, Refusal> {
        let refused = |cause| Refusal::Nodes { operation, job: id, nodes: words(nodes), cause };
        let job = self.known(operation, id)?;
        if *nodes != Choice::Count(job.limits.start) {
            return Err(refused("where jobs share nodes, they start on the size they asked for"));
        }
        let placed = self.place(job);
        let (need, taken) = placed.ok_or_else(|| refused("the job has no room on so many"))?;
        let Some(rooms) = &mut self.rooms else { return Ok(taken) };
        for part in rooms.idle_of(&taken) {
            self.free.remove(part);
        }
        rooms.take(&need, &taken);
        Ok(taken)
    }

    /// Frees everything that a job holds.
    pub(super) fn leave(&mut self, job: &Job) {
        let need = self.need(job);
        let (Some(rooms), Some(need)) = (&mut self.rooms, need) else {
            return self.put_back(&job.nodes);
        };
        rooms.give(&need, &job.nodes);
        for part in rooms.idle_of(&job.nodes) {
            self.free.insert(part);
        }
    }
}
