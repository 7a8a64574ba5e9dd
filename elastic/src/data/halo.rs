//! Exchange of ghost cells, and of the ghosts of vectors, between the ranks of the world.

use std::sync::Arc;

use quo::group::{GroupError, WaitLimits};
use quo_mpi::{MpiGroup, Transfer};

use super::block::Block;
use super::matrix::Neighbour;
use crate::layout::HaloMessage;

/// Tag of all exchanges: between two ranks they begin in the same order, over a separate
/// communicator.
const TAG: u16 = 1;

/// The messages of an array, made with the first exchange, and an exchange under way.
#[derive(Debug, Default)]
pub(super) struct HaloExchange {
    messages: Option<Vec<GhostMessage>>,
    under_way: Option<Vec<UnderWay>>,
}

/// Elements that a rank exchanges with another one.
#[derive(Debug)]
pub(super) enum GhostMessage {
    /// Cells around a block.
    Cells(HaloMessage),
    /// Elements of a vector, of this number of bytes.
    Listed(Arc<Neighbour>, usize),
}

impl GhostMessage {
    fn peer(&self) -> usize {
        match self {
            Self::Cells(message) => message.peer(),
            Self::Listed(neighbour, _) => neighbour.rank,
        }
    }

    fn received_bytes(&self) -> usize {
        match self {
            Self::Cells(message) => message.received_bytes(),
            Self::Listed(neighbour, element) => neighbour.received.len() * element,
        }
    }

    fn pack(&self, memory: &[u8]) -> Vec<u8> {
        match self {
            Self::Cells(message) => {
                let mut packed = vec![0; message.sent_bytes()];
                let packs = message.pack(memory, &mut packed);
                debug_assert_eq!(packs, Ok(()), "the memory is that of the distribution");
                packed
            }
            Self::Listed(neighbour, element) => {
                let elements = neighbour.sent.iter().map(|index| index * element);
                elements.flat_map(|begin| &memory[begin..begin + element]).copied().collect()
            }
        }
    }

    fn unpack(&self, packed: &[u8], memory: &mut [u8]) {
        match self {
            Self::Cells(message) => {
                let unpacks = message.unpack(packed, memory);
                debug_assert_eq!(unpacks, Ok(()), "the sender has the same distribution");
            }
            Self::Listed(neighbour, element) => {
                let begin = neighbour.received.start * element;
                memory[begin..begin + packed.len()].copy_from_slice(packed);
            }
        }
    }
}

/// The two directions of a message.
#[derive(Debug)]
struct UnderWay {
    sent: Option<Transfer>,
    received: Received,
}

#[derive(Debug)]
enum Received {
    Nothing,
    /// Cells of this rank, for the other end of a periodic dimension.
    Own(Vec<u8>),
    Other(Transfer),
}

impl HaloExchange {
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Starts all messages of a rank, which are made before the first exchange, with the elements of
    /// its block as they are now.
    pub fn begin(
        &mut self,
        messages: impl FnOnce() -> Vec<GhostMessage>,
        block: &Block,
        rank: usize,
        group: Option<&MpiGroup>,
    ) -> Result<(), GroupError> {
        let messages = self.messages.get_or_insert_with(messages);
        let mut under_way = Vec::with_capacity(messages.len());
        for message in &*messages {
            let (to, bytes) = (message.peer(), message.received_bytes());
            let packed = message.pack(block.bytes());
            if to == rank {
                under_way.push(UnderWay { sent: None, received: Received::Own(packed) });
                continue;
            }
            let group = group.ok_or_else(|| GroupError::Unsuitable {
                call: "exchange_halo",
                reason: format!("rank {to} is not connected").into(),
            })?;
            let received = match bytes {
                0 => Received::Nothing,
                _ => Received::Other(group.begin_receive(to, vec![0; bytes], TAG)?),
            };
            let sends = !packed.is_empty();
            let sent = sends.then(|| group.begin_send(to, packed, TAG)).transpose()?;
            under_way.push(UnderWay { sent, received });
        }
        self.under_way = Some(under_way);
        Ok(())
    }

    /// Waits for all messages, and writes received cells into the block. Returns false if no exchange
    /// has begun.
    pub fn end(&mut self, block: &mut Block, limits: &WaitLimits<'_>) -> Result<bool, GroupError> {
        let Some(under_way) = self.under_way.take() else { return Ok(false) };
        for (message, UnderWay { sent, received }) in self.messages.iter().flatten().zip(under_way)
        {
            let bytes = match received {
                Received::Nothing => Vec::new(),
                Received::Own(bytes) => bytes,
                Received::Other(transfer) => transfer.finish(limits)?,
            };
            message.unpack(&bytes, block.bytes_mut());
            if let Some(sent) = sent {
                sent.finish(limits)?;
            }
        }
        Ok(true)
    }
}
