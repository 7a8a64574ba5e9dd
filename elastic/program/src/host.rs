//! The drivers for programs in Rust: over a world, and in one process without MPI.

use super::drive::Host;
use super::machine::Standing;
use super::{BlockError, Element, Program, ProgramError, Stage};
use elastic::Error;
use elastic::data::Registry;
use elastic::{Status, Window, World};

/// Blocks of a program with the data of this process.
struct Blocks<'p, D> {
    program: &'p Program<D>,
    data: Option<D>,
}

impl<D> Blocks<'_, D> {
    fn name(&self, position: usize) -> &str {
        self.program.elements.get(position).map_or("", |(name, _)| name)
    }

    fn failed(&self, position: usize) -> impl Fn(BlockError) -> ProgramError {
        let name = self.name(position).to_owned();
        move |source| ProgramError::Block { position, name: name.clone(), source }
    }

    fn missing(&self, position: usize) -> ProgramError {
        ProgramError::Element { position, reason: "the element has no such block".to_owned() }
    }

    fn init(&mut self, mut stage: Stage<'_>) -> Result<(), ProgramError> {
        let Some((_, Element::Init(init))) = self.program.elements.first() else {
            return Err(self.missing(0));
        };
        self.data = Some(init(&mut stage).map_err(self.failed(0))?);
        Ok(())
    }

    fn compute(&mut self, at: usize, mut stage: Stage<'_>) -> Result<(), ProgramError> {
        let done = match (self.program.elements.get(at), &mut self.data) {
            (Some((_, Element::Rigid(compute, _) | Element::Elastic(compute, ..))), Some(data)) => {
                compute(data, &mut stage)
            }
            _ => return Err(self.missing(at)),
        };
        done.map_err(|source| self.failed(at)(source))
    }

    fn again(&mut self, at: usize) -> Result<bool, ProgramError> {
        match (self.program.elements.get(at), &mut self.data) {
            (
                Some((_, Element::Rigid(_, Some(again)) | Element::Elastic(_, again, _))),
                Some(data),
            ) => Ok(again(data)),
            _ => Err(self.missing(at)),
        }
    }

    fn branch(&mut self, at: usize) -> Result<i64, ProgramError> {
        match (self.program.elements.get(at), &mut self.data) {
            (Some((_, Element::Branch(choose))), Some(data)) => Ok(choose(at, data)),
            _ => Err(self.missing(at)),
        }
    }

    /// Runs the redistribution of an element. An error aborts the resize.
    fn redistribute(&mut self, at: usize, window: &mut Window<'_>) -> Result<(), String> {
        match (self.program.elements.get(at), &mut self.data) {
            (Some((name, Element::Elastic(_, _, redistribute))), Some(data)) => {
                redistribute(data, window)
                    .map_err(|error| format!("redistribution of element {at}, `{name}`: {error}"))
            }
            _ => Err(format!(
                "rank 0 is at element {at}, which is no elastic phase here: all processes run the same program"
            )),
        }
    }

    fn end(self) -> Result<D, ProgramError> {
        let missing = self.missing(0);
        self.data.ok_or(missing)
    }
}

/// The driver over an elastic world.
pub(super) struct WorldHost<'p, D> {
    blocks: Blocks<'p, D>,
    world: World,
    /// Number of rounds of elastic phases begun, for plans that count iterations.
    rounds: u64,
}

impl<'p, D> WorldHost<'p, D> {
    pub fn new(program: &'p Program<D>, world: World) -> Self {
        Self { blocks: Blocks { program, data: None }, world, rounds: 0 }
    }

    /// Ends the world, and returns the data. Collective.
    pub fn end(self) -> Result<D, ProgramError> {
        self.world.end()?;
        self.blocks.end()
    }

    fn standing(&self) -> Standing {
        match self.world.status() {
            Status::New | Status::Staying => Standing::Rank,
            Status::Joining => Standing::Joining,
            Status::Parked => Standing::Parked,
            Status::Ended => Standing::Ended,
        }
    }
}

impl<D> Host for WorldHost<'_, D> {
    type Error = ProgramError;

    fn name(&self, position: usize) -> &str {
        self.blocks.name(position)
    }

    fn init(&mut self) -> Result<Standing, ProgramError> {
        self.blocks.init(Stage::of_world(&mut self.world))?;
        Ok(self.standing())
    }

    fn wait(&mut self) -> Result<Standing, ProgramError> {
        self.world.wait()?;
        Ok(self.standing())
    }

    #[inline]
    fn probe(&mut self) -> Result<bool, ProgramError> {
        self.world.report_iteration(self.rounds);
        self.rounds += 1;
        Ok(self.world.probe()?)
    }

    fn resize(&mut self, from: Option<usize>) -> Result<(usize, Standing), ProgramError> {
        let mut window = self.world.begin()?;
        let mut told = (from.unwrap_or(0), self.rounds);
        window.broadcast(&mut told)?;
        let (position, rounds) = told;
        let mine = match from {
            Some(from) if from != position => Err(format!(
                "it is at element {from} and rank 0 at {position}: conditions and branches decide alike on all ranks"
            )),
            _ => self.blocks.redistribute(position, &mut window),
        };
        match window.commit(mine) {
            // The resize was aborted: the ranks are the same.
            Ok(()) | Err(Error::Aborted { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.rounds = rounds;
        Ok((position, self.standing()))
    }

    fn compute(&mut self, position: usize) -> Result<(), ProgramError> {
        self.blocks.compute(position, Stage::of_world(&mut self.world))
    }

    fn again(&mut self, position: usize) -> Result<bool, ProgramError> {
        self.blocks.again(position)
    }

    fn branch(&mut self, position: usize) -> Result<i64, ProgramError> {
        self.blocks.branch(position)
    }
}

/// The driver of one process, without MPI.
pub(super) struct Serial<'p, D> {
    blocks: Blocks<'p, D>,
    arrays: Registry,
}

impl<'p, D> Serial<'p, D> {
    pub fn new(program: &'p Program<D>) -> Self {
        Self { blocks: Blocks { program, data: None }, arrays: Registry::serial() }
    }

    pub fn end(self) -> Result<D, ProgramError> {
        self.blocks.end()
    }
}

impl<D> Host for Serial<'_, D> {
    type Error = ProgramError;

    fn name(&self, position: usize) -> &str {
        self.blocks.name(position)
    }

    fn init(&mut self) -> Result<Standing, ProgramError> {
        self.blocks.init(Stage::serial(&mut self.arrays))?;
        Ok(Standing::Rank)
    }

    fn wait(&mut self) -> Result<Standing, ProgramError> {
        Ok(Standing::Ended)
    }

    fn probe(&mut self) -> Result<bool, ProgramError> {
        Ok(false)
    }

    fn resize(&mut self, from: Option<usize>) -> Result<(usize, Standing), ProgramError> {
        Ok((from.unwrap_or(0), Standing::Rank))
    }

    fn compute(&mut self, position: usize) -> Result<(), ProgramError> {
        self.blocks.compute(position, Stage::serial(&mut self.arrays))
    }

    fn again(&mut self, position: usize) -> Result<bool, ProgramError> {
        self.blocks.again(position)
    }

    fn branch(&mut self, position: usize) -> Result<i64, ProgramError> {
        self.blocks.branch(position)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::Action;
    use elastic::data::Pattern;

    fn counting() -> Program<Vec<&'static str>> {
        Program::new(|stage| {
            assert!(stage.is_new() && stage.communicator().is_none());
            let field = stage.data_mut().register::<u32>("field", Pattern::block(3))?;
            stage.data_mut().local_mut(field)?.fill(7);
            Ok(vec!["init"])
        })
        .elastic(
            "sweep",
            |done, stage| {
                let field = stage.data().array::<u32>("field")?;
                assert_eq!(stage.data().local(field)?, [7; 3]);
                done.push("sweep");
                Ok(())
            },
            |done| done.len() % 3 != 0,
            |_, _| Ok(()),
        )
        .rigid("report", |done, stage| {
            assert_eq!((stage.rank(), stage.size()), (0, 1));
            done.push("report");
            Ok(())
        })
    }

    #[test]
    fn serial_driver_runs_elements_in_order() {
        let program = counting().branch("twice", |at, done| {
            done.push("branch");
            if done.len() < 6 { 1 } else { at as i64 + 1 }
        });
        let program = program.rigid_loop(
            "last",
            |done, _| {
                done.push("last");
                Ok(())
            },
            |done| done.len() < 10,
        );
        let done = program.serial().unwrap();
        let expected = "init sweep sweep report branch sweep report branch last last";
        assert_eq!(done.join(" "), expected);
    }

    #[test]
    fn traced_program_tells_each_compute_and_branch() {
        let told = Rc::new(RefCell::new(Vec::new()));
        let copy = Rc::clone(&told);
        let program = counting().traced(move |name, action| {
            copy.borrow_mut().push((name.to_owned(), action));
        });
        program.serial().unwrap();
        let expected = [
            ("init", Action::Init),
            ("sweep", Action::Compute(1)),
            ("sweep", Action::Compute(1)),
            ("report", Action::Compute(2)),
        ];
        assert_eq!(*told.borrow(), expected.map(|(name, action)| (name.to_owned(), action)));
    }

    #[test]
    fn failing_block_is_named_with_its_cause() {
        let program = counting().rigid("solve", |_, _| Err("the matrix is singular".into()));
        let error = program.serial().unwrap_err();
        assert_eq!(error.to_string(), "program: element 3, `solve`: the matrix is singular");
        assert_eq!(error.code(), None);
    }

    #[test]
    fn request_without_a_world_is_refused() {
        let program = counting().rigid("ask", |_, stage| stage.request(2).map(drop));
        let error = program.serial().unwrap_err().to_string();
        assert!(error.contains("refused: the program runs in one process"), "{error}");
    }
}
