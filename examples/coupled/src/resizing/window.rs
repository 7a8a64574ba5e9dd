//! The window of a resize: the fields move to the new ranks, and the solvers continue there.

use anyhow::{Context, Result, anyhow, ensure};
use elastic::data::Registry;
use elastic::{Status, Window};
use mpi::topology::SimpleCommunicator;
use serde::{Deserialize, Serialize};

use super::{Job, Member, pattern, rows_held};
use crate::clock;
use crate::deck::Deck;
use crate::flow::{FIELD_NAMES, FlowBlock};
use crate::layout::{Layout, agree, rank};
use crate::result::Resize;
use crate::run::{self, gather_values};
use crate::simulation::{Progress, Simulation};
use crate::timeline::Phase;

/// Facts that joiners have to know.
#[derive(Default, Serialize, Deserialize)]
struct Story {
    deck: String,
    progress: Progress,
}

impl Job<'_> {
    /// Goes through a resize. All stayers, leavers and joiners make the call.
    pub(super) fn resize(&mut self) -> Result<()> {
        let start = clock::now();
        let mut member = self.member.take();
        if let Some(member) = &mut member {
            member.simulation.recorder.leave();
        }
        let mut window = self.world.begin()?;
        let mut story = Story { deck: self.text.clone(), progress: self.progress };
        window.broadcast(&mut story)?;
        self.progress = story.progress;
        let (stay, leave, join) = window.counts();

        let (mut vote, mut leavers) = (Ok(()), Vec::new());
        if let Some(Member { layout, simulation, coupling }) = &member {
            vote = register(window.data_mut(), &simulation.block);
            let own = || run::record(simulation.recorder.clone(), layout, coupling.as_ref());
            leavers = gather_values(&layout.ranks, &window.leaves().then(own))?;
        }
        let next = next_layout(&window)?;
        if let Some((_, Err(reason))) = &next {
            vote = vote.and(Err(anyhow!("{reason}")));
        }
        let committed = window.commit(vote.map_err(|error| format!("{error:#}")));

        let given_up = match committed {
            Err(elastic::Error::Aborted { reason, .. }) => Some(reason),
            committed => committed.map(|()| None)?,
        };
        let is_in = !matches!(self.world.status(), Status::Parked | Status::Ended);
        if given_up.is_none() && is_in {
            let (layout, _) = next.context("no ranks to go on with")?;
            if self.deck.is_none() {
                self.deck = Some(Deck::parse(&story.deck)?);
                self.text = story.deck;
            }
            self.member = Some(self.go_on(layout, member)?);
            self.explains = true;
        } else if is_in {
            self.member = member;
        } else if let Some(Member { coupling, .. }) = member {
            coupling.finish()?;
        }
        if is_in {
            forget(self.world.data_mut());
        }
        let moved = self.world.data().last_move().map_or(0, |moved| moved.all_sent);
        let Some(member) = &mut self.member else { return Ok(()) };
        let (epoch, step) = (self.world.epoch(), self.progress.step);
        if member.layout.rank() == 0 {
            let end = clock::now();
            let resize = Resize { epoch, step, start, end, stay, leave, join, moved, given_up };
            run::say(&tell(&resize, member.layout.size()))?;
            if resize.given_up.is_none() {
                self.told.leavers.extend(leavers.into_iter().flatten());
            }
            self.told.resizes.push(resize);
        }
        member.simulation.recorder.enter(Phase::Flow, 1);
        Ok(())
    }

    /// The solvers over the new ranks, with the rows that came.
    fn go_on(&mut self, layout: Layout, member: Option<Member>) -> Result<Member> {
        let deck = self.deck()?;
        let (rank, ranks) = (layout.rank(), layout.size());
        let mut simulation = Simulation::new(deck, rows_held(deck.mesh.ny, rank, ranks)?);
        let came = take(self.world.data(), &mut simulation.block);
        agree(&layout.ranks, came)?;
        let coupling = match member {
            Some(Member { simulation: before, mut coupling, .. }) => {
                // Everything else of the rank's is as it was, its context included.
                simulation.recorder = before.recorder;
                // A joiner says so when it has its context.
                agree(&layout.ranks, Ok(()))?;
                coupling.adapt(&layout, simulation.block.rows_len())?;
                coupling
            }
            None => self.coupling(&layout, &simulation)?,
        };
        simulation.recorder.ask_for_bindings();
        Ok(Member { layout, simulation, coupling })
    }
}

/// The new ranks by nodes, and whether they suit the solvers; none in a leaver. Collective over the new ranks.
fn next_layout(window: &Window<'_>) -> Result<Option<(Layout, Result<()>)>> {
    let Some(next) = window.next() else { return Ok(None) };
    let next = next.duplicate_for_rsmpi()?;
    let layout = Layout::on_nodes(&next, window.node());
    let orderly = in_order(&layout, &next);
    Ok(Some((layout, orderly)))
}

/// L1's workers need rows that follow each other, so the ranks of a node have to.
///
/// # Errors
/// If they do not.
pub(super) fn in_order(layout: &Layout, world: &SimpleCommunicator) -> Result<()> {
    ensure!(layout.rank() == rank(world), "the ranks of a node would not follow each other");
    Ok(())
}

/// Has the fields of this rank moved by the commit.
fn register(data: &mut Registry, block: &FlowBlock) -> Result<()> {
    let mut own = vec![0.0; block.local_rows() * block.mesh().nx];
    for (field, name) in FIELD_NAMES.iter().enumerate() {
        block.copy_out(field, &mut own);
        data.register_with(name, pattern(block.mesh()), &own)?;
    }
    Ok(())
}

/// Takes over the received rows.
fn take(data: &Registry, block: &mut FlowBlock) -> Result<()> {
    for (field, name) in FIELD_NAMES.iter().enumerate() {
        let came = data.array::<f64>(name)?;
        block.copy_in(field, data.local(came)?);
    }
    Ok(())
}

/// The solvers have it.
fn forget(data: &mut Registry) {
    for name in FIELD_NAMES {
        // Not there if it could not be registered.
        let _ = data.remove(name);
    }
}

fn tell(resize: &Resize, ranks: usize) -> String {
    let Resize { epoch, step, start, end, stay, leave, join, moved, given_up } = resize;
    let milliseconds = 1e3 * (end - start);
    match given_up {
        None => format!(
            "epoch {epoch}: {ranks} ranks after {step} steps ({stay} stay, {leave} leave, {join} join), {moved} bytes \
             moved, {milliseconds:.1} ms"
        ),
        Some(reason) => format!("still {ranks} ranks after {step} steps: {reason}"),
    }
}
