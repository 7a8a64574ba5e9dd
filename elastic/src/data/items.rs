//! Items of which each rank holds any number: the items of a rank, and their ways to other ranks.

use super::block::Block;
use super::carry::{Carry, Seats};
use super::pieces::{Pieces, Refusal, reserved};

/// Gives the owner of each item among so many ranks, or a reason against that.
pub(super) type Owners = Box<dyn FnMut(&[u8], usize, &mut [i32]) -> Result<(), String>>;

/// Items of one kind on this process.
pub(super) struct Items {
    pub name: String,
    pub element: usize,
    owners: Owners,
    held: Held,
    /// The items after the resize under way.
    arrived: Option<Held>,
}

/// Items in memory that may have room for more.
struct Held {
    block: Block,
    count: usize,
}

impl Held {
    fn none() -> Self {
        Self { block: Block::nothing(), count: 0 }
    }

    /// Puts pieces into memory of their total size.
    fn filled(mut block: Block, pieces: &[(usize, Vec<u8>)], element: usize) -> Self {
        let mut place = block.bytes_mut();
        let count = place.len() / element;
        for (_, piece) in pieces {
            let (part, rest) = place.split_at_mut(piece.len());
            part.copy_from_slice(piece);
            place = rest;
        }
        Self { block, count }
    }
}

impl std::fmt::Debug for Items {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, count) = (&self.name, &self.held.count);
        out.debug_struct("Items").field("name", name).field("count", count).finish()
    }
}

impl Items {
    pub fn new(name: String, element: usize, owners: Owners) -> Self {
        Self { name, element, owners, held: Held::none(), arrived: None }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.held.block.bytes()[..self.held.count * self.element]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.held.block.bytes_mut()[..self.held.count * self.element]
    }

    /// Sets the number of items: the first ones stay, new ones are zero. The error has the number of
    /// bytes that could not be allocated, and the kernel's reason.
    pub fn resize(&mut self, count: usize) -> Result<(), (usize, String)> {
        let before = self.held.count.min(count) * self.element;
        let bytes = count.saturating_mul(self.element);
        let room = self.held.block.bytes().len();
        if bytes > room {
            // Room for more, so that items can be added one by one.
            let room = bytes.max(room.saturating_mul(2));
            let block = Block::new(room).or_else(|_| Block::new(bytes));
            let mut block = block.map_err(|error| (bytes, error.to_string()))?;
            block.bytes_mut()[..before].copy_from_slice(&self.bytes()[..before]);
            self.held.block = block;
        } else {
            self.held.block.bytes_mut()[before..bytes].fill(0);
        }
        self.held.count = count;
        Ok(())
    }

    /// Returns the items by the rank that they belong to, in their order.
    pub fn by_owner(&mut self, ranks: usize) -> Result<Pieces, Refusal> {
        let bytes = &self.held.block.bytes()[..self.held.count * self.element];
        pieces(&mut self.owners, bytes, self.element, ranks)
    }

    /// Returns other items than this rank's by the rank that they belong to, in their order.
    pub fn others_by_owner(&mut self, others: &Block, ranks: usize) -> Result<Pieces, Refusal> {
        pieces(&mut self.owners, others.bytes(), self.element, ranks)
    }

    /// Returns memory for this number of bytes of items.
    pub fn room(bytes: usize) -> Result<Block, Refusal> {
        Block::new(bytes).map_err(|_| Refusal::Memory(bytes))
    }

    /// Replaces the items by pieces of other ranks and of this one, in memory of their size.
    pub fn replace(&mut self, room: Block, pieces: &[(usize, Vec<u8>)]) {
        self.held = Held::filled(room, pieces, self.element);
    }
}

fn pieces(
    owners: &mut Owners,
    bytes: &[u8],
    element: usize,
    ranks: usize,
) -> Result<Pieces, Refusal> {
    let count = bytes.len() / element;
    let mut places = reserved(count)?;
    places.resize(count, -1);
    owners(bytes, ranks, &mut places).map_err(Refusal::Unfit)?;
    let mut counts = vec![0; ranks];
    for (number, rank) in places.iter().enumerate() {
        let count = usize::try_from(*rank).ok().and_then(|rank| counts.get_mut(rank));
        *count.ok_or_else(|| {
            Refusal::Unfit(format!(
                "the owner of item {number} is rank {rank}, and there are {ranks} ranks"
            ))
        })? += 1;
    }
    let pieces = counts.into_iter().map(|count| reserved(count * element));
    let mut pieces = pieces.collect::<Result<Vec<Vec<u8>>, _>>()?;
    for (item, owner) in bytes.chunks_exact(element).zip(places) {
        pieces[owner as usize].extend_from_slice(item);
    }
    Ok(pieces.into_iter().enumerate().filter(|(_, piece)| !piece.is_empty()).collect())
}

impl Carry for Items {
    fn give(&mut self, seats: &Seats) -> Result<Pieces, String> {
        self.by_owner(seats.new_size).map_err(|refusal| refusal.to_string())
    }

    fn take(&mut self, _seats: &Seats, pieces: Pieces) -> Result<(), String> {
        let bytes = pieces.iter().map(|(_, piece)| piece.len()).sum();
        let room = Self::room(bytes).map_err(|refusal| refusal.to_string())?;
        self.arrived = Some(Held::filled(room, &pieces, self.element));
        Ok(())
    }

    fn end_transfer(&mut self, committed: bool) {
        let arrived = self.arrived.take();
        if committed {
            self.held = arrived.unwrap_or_else(Held::none);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(values: &[u8]) -> Items {
        let owners = |items: &[u8], ranks: usize, owners: &mut [i32]| {
            for (item, owner) in items.chunks_exact(2).zip(owners) {
                *owner = i32::from(item[0]) * ranks as i32 / 10;
            }
            Ok(())
        };
        let mut items = Items::new("ants".to_owned(), 2, Box::new(owners));
        items.resize(values.len()).unwrap();
        for (item, value) in items.bytes_mut().chunks_exact_mut(2).zip(values) {
            item.fill(*value);
        }
        items
    }

    #[test]
    fn items_go_to_their_owners_in_order() {
        let mut items = items(&[9, 1, 8, 0, 9]);
        let pieces = items.by_owner(2).unwrap();
        assert_eq!(pieces, [(0, vec![1, 1, 0, 0]), (1, vec![9, 9, 8, 8, 9, 9])]);
        items.replace(Items::room(6).unwrap(), &pieces[1..]);
        assert_eq!(items.bytes(), [9, 9, 8, 8, 9, 9]);
        let wrong = items.by_owner(0).unwrap_err().to_string();
        assert_eq!(wrong, "the owner of item 0 is rank 0, and there are 0 ranks");
    }

    #[test]
    fn resized_items_keep_first_ones_and_zero_others() {
        let mut items = items(&[1, 2, 3]);
        items.resize(1).unwrap();
        items.resize(4).unwrap();
        assert_eq!(items.bytes(), [1, 1, 0, 0, 0, 0, 0, 0]);
        assert!(items.resize(usize::MAX).is_err());
        assert_eq!(items.bytes().len(), 8);
    }

    #[test]
    fn aborted_move_keeps_items_and_commit_replaces_them() {
        let mut items = items(&[1, 9]);
        let seats = Seats { old_size: 1, new_size: 2, old_rank: Some(0), new_rank: Some(0) };
        let pieces = items.give(&seats).unwrap();
        items.take(&seats, pieces[..1].to_vec()).unwrap();
        items.end_transfer(false);
        assert_eq!(items.bytes(), [1, 1, 9, 9]);
        items.take(&seats, pieces[..1].to_vec()).unwrap();
        items.end_transfer(true);
        assert_eq!(items.bytes(), [1, 1]);
        items.end_transfer(true);
        assert!(items.bytes().is_empty());
    }
}
