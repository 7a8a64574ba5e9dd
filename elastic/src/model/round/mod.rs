//! Protocol by which all ranks of a world enter a resize at the same probe, without a collective on the fast path.
//!
//! Each rank counts its probes; the n-th probe of a rank is its round n. While no resize is pending
//! a probe is a store to the rank's own cache line and a load of one shared word. When one is
//! pending, the agent of every node raises that word and reads which rounds its ranks may already
//! have passed; the largest answer of all nodes is the round in which all ranks enter.
//!
//! The protocol, in prose:
//!
//! 1. The agent stores [`RAISED`], then reads the slots. A rank stores its round into its slot, then loads the
//!    word. With a fence between the two on both sides, a rank whose load missed the raised word has a slot
//!    that the agent sees: no rank passes a round unnoticed.
//! 2. A rank that finds the word raised marks its slot as held and sleeps until the round is known. It may be
//!    held for one exchange between agents, never for another rank's progress: agents do not compute.
//! 3. The floor of a node is the first round that none of its ranks can have passed: the round itself of a held
//!    rank, the next one of any other. The agreed round is the largest floor.
//! 4. Agents store the agreed round and wake the sleepers. Ranks in earlier rounds continue until
//!    they reach it; a rank in that round enters. None can be in a later one.
//! 5. Lowered before a round was agreed, the word is quiet again. A held rank clears its mark and
//!    checks the word once more before it continues, so that a word raised again meanwhile finds
//!    the slot as in 1.
//!
//! The ranks' rounds have to be cuts of the program: messages that a rank needs in order to reach
//! its n-th probe were sent before the others' n-th probe. That holds if all ranks probe at the
//! same place of the same loop.

mod protocol;

pub use protocol::{Hold, Interrupted, Probe, QUIET, RAISED, Signal, Slot, agree, floor, probe};
