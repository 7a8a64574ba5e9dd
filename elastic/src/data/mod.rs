//! Arrays that belong to the world: distributed over its ranks, and redistributed when the ranks
//! change.
//!
//! Ranks register arrays by name; a commit moves them to the new ranks, along the schedules of
//! [`layout`](crate::layout), and joiners then have them. Until all ranks have agreed the old data
//! remain in place: a resize that is aborted costs nothing but time.
//!
//! ```no_run
//! # fn example(world: &mut elastic::World) -> Result<(), elastic::Error> {
//! use elastic::data::{Grids, Pattern};
//! // On the ranks there are at first:
//! let field = world.data_mut().register::<f64>(
//!     "field",
//!     Pattern::checkerboard((1000, 1000), (64, 64), Grids::NearlySquare),
//! )?;
//! world.data_mut().local_mut(field)?.fill(1.0);
//! // At a resize, on all ranks: the field moves with the commit.
//! world.begin()?.commit(Ok(()))?;
//! // Afterwards, on all ranks, joiners included:
//! let field = world.data().array::<f64>("field")?;
//! let mine = world.data().local(field)?;
//! # let _ = mine;
//! # Ok(())
//! # }
//! ```
//!
//! Data that stay on a rank are copied. Between ranks of a node nothing is sent: arrays lie in
//! memory that the receiver maps and copies from. Between nodes, and if processes cannot map each
//! other's memory, MPI messages carry packed pieces. [`Moved`] reports the bytes of each kind.
//!
//! | content | file |
//! |---|---|
//! | how an array lies on any number of ranks | `pattern.rs` |
//! | the arrays of a process | `registry.rs` |
//! | the types of elements; the memory of arrays | `element.rs`, `block.rs` |
//! | the messages that ranks exchange about a move, some of which must be the same | `message.rs` |
//! | pieces that ranks send to each other, with their sizes | `pieces.rs` |
//! | the move of one array | `array_transfer.rs` |
//! | a move from beginning to end | `moving.rs` |
//! | one array moved once | `once.rs` |
//! | ghost cells between resizes: messages of one array, and the calls | `halo.rs`, `exchange.rs` |
//! | sparse matrices in rows: their move; vectors with ghost columns | `matrix.rs`, `vectors.rs` |
//! | lists of items such as particles: on a rank; their ways to owners | `items.rs`, `migrate.rs` |
//! | arrays along the nonzeros of a sparse matrix | `compressed.rs`, `matrix_index.rs` |
//! | data that only the program understands | `carry.rs` |
//! | data in a folder, for a later job | `checkpoint/` |
//!
//! floors: error < element < pattern < block < matrix_index < message < pieces < array_transfer < carry < matrix < items < halo < registry < exchange < vectors < migrate < compressed < checkpoint < moving < once

mod array_transfer;
mod block;
mod carry;
mod checkpoint;
mod compressed;
mod element;
mod error;
mod exchange;
mod halo;
mod items;
mod matrix;
mod matrix_index;
mod message;
mod migrate;
mod moving;
mod once;
mod pattern;
mod pieces;
mod registry;
mod vectors;

pub use carry::{Carry, Seats};
pub use element::Element;
pub use error::DataError;
pub use message::Moved;
pub use moving::Move;
pub use pattern::{Grids, Pattern};
pub use registry::{Array, Registry, Transport};
pub use vectors::MatrixPart;

pub use message::Participants;
pub(crate) use message::exchange;
pub use once::{redistribute, refuse};
