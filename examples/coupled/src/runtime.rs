//! The one place that chooses how L1 is run.

use anyhow::Result;
use quo::Context;

use crate::couple::foreign_library::ForeignLibrary;
use crate::couple::heat_library::HeatLibrary;
use crate::couple::over::Over;
use crate::couple::quo_caller::QuoCaller;
use crate::couple::under::Under;
use crate::couple::{Coupling, Problem};
use crate::deck::{Deck, Variant};
use crate::l1::Solver;
use crate::layout::Layout;
use crate::result::Mode;

/// Sets up `mode` for blocks of `values` values in their rows on this rank. Collective over all ranks.
///
/// # Errors
/// If the machine cannot be discovered or shared memory is not to be had.
pub fn coupling(
    mode: Mode,
    variant: Variant,
    solver: Solver,
    deck: &Deck,
    layout: &Layout,
    values: usize,
) -> Result<Box<dyn Coupling>> {
    let problem = Problem::new(deck, solver);
    let (over, max) = (deck.coupling.over.object_type(), deck.coupling.max);
    match (mode, variant) {
        (Mode::Quo, Variant::Callee) if solver == Solver::Cxx => {
            let over = deck.coupling.over;
            Ok(Box::new(ForeignLibrary::new(problem, layout, values, over, max)?))
        }
        (Mode::Under, _) => Ok(Box::new(Under::new(problem, layout, values))),
        (Mode::Over, _) => Ok(Box::new(Over::new(problem, layout, values, over, max)?)),
        (Mode::Quo, Variant::Caller) => {
            Ok(Box::new(QuoCaller::new(problem, layout, values, over, max)?))
        }
        (Mode::Quo, Variant::Callee) => {
            Ok(Box::new(HeatLibrary::new(problem, layout, values, over, max)?))
        }
    }
}

/// With `quo`, over a context that is there: so the library is the one in Rust, whichever the solver.
///
/// # Errors
/// If shared memory is not to be had.
pub fn coupling_over(
    context: Context,
    variant: Variant,
    solver: Solver,
    deck: &Deck,
    layout: &Layout,
    values: usize,
) -> Result<Box<dyn Coupling>> {
    let problem = Problem::new(deck, solver);
    let (over, max) = (deck.coupling.over.object_type(), deck.coupling.max);
    Ok(match variant {
        Variant::Caller => Box::new(QuoCaller::over(context, problem, layout, values, over, max)?),
        Variant::Callee => {
            Box::new(HeatLibrary::over(context, problem, layout, values, over, max)?)
        }
    })
}
