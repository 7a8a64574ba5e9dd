//! Contexts that follow a resize, including contexts of libraries that know nothing of it.

use std::collections::HashMap;

use quo::Context;
use quo::context::{AdaptOptions, CreateOptions, Leaving, Registered};
use quo::group::WaitLimits;
use quo_mpi::communicator::Communicator;
use serde::{Deserialize, Serialize};

use super::Window;
use crate::data;
use crate::error::Error;
use crate::model::order::Part;

const CALL: &str = "commit";

/// Vote of each process before a resize ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Vote {
    /// Why the resize has to be aborted.
    pub reason: Option<String>,
    /// The identities of its contexts over the world; `None` from a joiner, which adopts the
    /// contexts of the others.
    pub contexts: Option<Vec<u64>>,
    /// True if data of the process have yet to be moved.
    pub unmoved: bool,
}

/// Report of a process after it has taken its contexts over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Taken {
    reason: Option<String>,
    /// Number of contexts taken over before a failure.
    adapted: Option<usize>,
}

/// Gathers the values of all ranks, in the order of the ranks. Collective.
pub(super) fn exchange<T: Serialize + for<'a> Deserialize<'a>>(
    all_ranks: &Communicator,
    mine: &T,
    limits: &WaitLimits<'_>,
) -> Result<Vec<T>, Error> {
    let failed = Error::group(CALL);
    let group = all_ranks.as_group().map_err(&failed)?;
    data::exchange(CALL, &*group, mine, limits).map_err(failed)
}

/// Returns the first rank against the resize, and why: this includes ranks with other contexts than
/// the rest.
pub(super) fn first_reason(votes: &[Vote]) -> Option<(usize, String)> {
    let given =
        votes.iter().enumerate().find_map(|(rank, vote)| Some((rank, vote.reason.clone()?)));
    given.or_else(|| {
        let mut lists = votes.iter().enumerate().filter_map(|(rank, vote)| {
            vote.contexts.as_ref().map(|contexts| (rank, contexts))
        });
        let (first, right) = lists.next()?;
        let (rank, other) = lists.find(|(_, contexts)| *contexts != right)?;
        let (has, had) = (other.len(), right.len());
        let reason = format!(
            "its {has} contexts over the world are not the {had} of rank {first}: all ranks make and free them in \
             the same order, outside of resizes"
        );
        Some((rank, reason))
    })
}

impl Window<'_> {
    /// Identities of this process's contexts over the old world; `None` in a joiner.
    pub(super) fn identities(&self) -> Option<Vec<u64>> {
        if self.part == Part::Joins {
            return None;
        }
        Some(Context::registered(self.world.tag).iter().map(Registered::identity).collect())
    }

    /// Prepares a leaver's contexts for leaving. Fails if one cannot be left: then none is left.
    pub(super) fn leave_contexts(&self) -> Result<Vec<(u64, Leaving)>, String> {
        if self.part != Part::Leaves {
            return Ok(Vec::new());
        }
        let contexts = Context::registered(self.world.tag).into_iter();
        let left = contexts.filter_map(|context| {
            let leaving = context.leave().transpose()?;
            Some(leaving.map(|leaving| (context.identity(), leaving)))
        });
        left.collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    /// Takes all contexts over the world that the ranks voted with to the new ranks, or none.
    /// Returns the first rank that failed, and why. Collective over all ranks of the window.
    pub(super) fn adapt_contexts(
        &mut self,
        votes: Vec<Vote>,
        leaving: Vec<(u64, Leaving)>,
        limits: &WaitLimits<'_>,
    ) -> Result<Option<(usize, String)>, Error> {
        let Some(identities) = votes.into_iter().find_map(|vote| vote.contexts) else {
            return Ok(None);
        };
        if identities.is_empty() {
            return Ok(None);
        }
        let mut own: HashMap<u64, Registered> = Context::registered(self.world.tag)
            .into_iter()
            .chain(std::mem::take(&mut self.world.contexts))
            .filter(|context| !context.is_gone())
            .map(|context| (context.identity(), context))
            .collect();
        let mut made = Vec::new();
        let mut taken = Taken { reason: None, adapted: None };
        if self.part != Part::Leaves {
            let mut adapted = 0;
            for identity in &identities {
                match self.take_over(own.get(identity), limits) {
                    Ok(new) => made.extend(new),
                    Err(error) => {
                        taken.reason = Some(error.to_string());
                        break;
                    }
                }
                adapted += 1;
            }
            taken.adapted = Some(adapted);
        }
        let all = exchange(self.all_ranks(), &taken, limits)?;
        let failed =
            all.iter().enumerate().find_map(|(rank, taken)| Some((rank, taken.reason.clone()?)));
        if failed.is_none() {
            for (identity, leaving) in leaving {
                leaving.retire().map_err(Error::context(CALL))?;
                self.world.contexts.extend(own.remove(&identity));
            }
            made.into_iter().for_each(Context::offer_to_library);
            return Ok(None);
        }
        // Contexts taken over return to their old ranks, and no process leaves.
        drop(leaving);
        let adapted = all.iter().find_map(|taken| taken.adapted).unwrap_or(0);
        drop(made);
        if let Some(old) = self.old() {
            for identity in &identities[..adapted] {
                let back = old.group_within(limits).map_err(Error::group(CALL))?;
                if let Some(context) = own.get(identity) {
                    context.adapt(back, &AdaptOptions::new()).map_err(Error::context(CALL))?;
                }
            }
        } else {
            // The aborted join is undone: retired as before.
            for identity in &identities[..adapted] {
                if let Some(context) = own.get(identity) {
                    context.retire().map_err(Error::context(CALL))?;
                }
            }
            self.world.contexts = own.into_values().collect();
        }
        Ok(failed)
    }

    /// Takes one context over to the new ranks: this process's own, or one that is new to it.
    fn take_over(
        &self,
        own: Option<&Registered>,
        limits: &WaitLimits<'_>,
    ) -> Result<Option<Context>, Error> {
        let next = self
            .next()
            .ok_or(Error::InvalidState { call: CALL, reason: "a leaver takes no context over" })?;
        let group = next.group_within(limits).map_err(Error::group(CALL))?;
        let failed = Error::context(CALL);
        match own {
            Some(context) => {
                context.adapt(group, &AdaptOptions::new()).map(|()| None).map_err(failed)
            }
            None => Context::join(group, CreateOptions::new()).map(Some).map_err(failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(contexts: Option<&[u64]>) -> Vote {
        Vote { contexts: contexts.map(<[u64]>::to_vec), ..Vote::default() }
    }

    #[test]
    fn ranks_with_the_same_contexts_and_joiners_without_agree() {
        assert_eq!(first_reason(&[vote(Some(&[1, 2])), vote(Some(&[1, 2])), vote(None)]), None);
        assert_eq!(first_reason(&[]), None);
    }

    #[test]
    fn a_rank_with_other_contexts_is_named_with_both_counts() {
        let (rank, reason) =
            first_reason(&[vote(Some(&[1, 2])), vote(None), vote(Some(&[1]))]).unwrap();
        assert_eq!(rank, 2);
        assert!(
            reason.starts_with("its 1 contexts over the world are not the 2 of rank 0"),
            "{reason}"
        );
    }

    #[test]
    fn the_first_reason_that_was_given_counts_before_all_others() {
        let mut votes = [vote(Some(&[1])), vote(Some(&[2])), vote(None)];
        votes[2].reason = Some("no room".to_owned());
        assert_eq!(first_reason(&votes), Some((2, "no room".to_owned())));
    }
}
