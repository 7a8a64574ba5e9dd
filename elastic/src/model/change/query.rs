//! Answer to a process that asks for the resize under way.

use serde::{Deserialize, Serialize};

use super::{Changes, RequestId, Step};
use crate::model::member::MemberId;
use crate::model::sets::{Domain, SetName};

/// Kind of a resize as a process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[doc(alias = "MPI_rc_type")]
pub enum ChangeKind {
    /// No change.
    #[doc(alias = "MPI_RC_NULL")]
    Null,
    /// Processes join.
    #[doc(alias = "MPI_RC_ADD")]
    Add,
    /// Processes leave.
    #[doc(alias = "MPI_RC_SUB")]
    Sub,
    /// Some processes join and some leave at once. Huber's thesis names it as missing.
    Replace,
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// The kind of change.
    pub kind: ChangeKind,
    /// The request of the change; `None` without a change.
    pub id: Option<RequestId>,
    /// The delta that concerns the caller: the one it is in; else that of the joiners, if there are
    /// any; else that of the leavers. `None` without a change.
    pub delta: Option<SetName>,
    /// True if the caller is in a delta. In [`ChangeKind::Replace`] the delta shows which.
    pub included: bool,
    /// [`Step::Announced`] or [`Step::Pending`]; `None` without a change.
    pub status: Option<Step>,
}

impl View {
    /// View without a change.
    pub const NOTHING: View =
        View { kind: ChangeKind::Null, id: None, delta: None, included: false, status: None };
}

impl Changes {
    /// Returns the resize of the set `bound` that is under way, as `caller` sees it:
    /// `mpi://app/{app}` or `mpi://WORLD` for the whole application, `mpi://SELF` for a resize that
    /// has the caller in a delta. A caller in a delta sees its resize for any `bound`, since a
    /// joiner has to learn that it joins. A resize is visible from its announcement until its end.
    #[doc(alias = "MPI_Session_get_res_change")]
    pub fn query(&self, app: &str, caller: MemberId, bound: &SetName) -> View {
        let Some((id, change)) =
            self.under_way.and_then(|id| self.changes.get(&id).map(|change| (id, change)))
        else {
            return View::NOTHING;
        };
        let resize = &change.resize;
        let own = [&resize.joining, &resize.leaving]
            .into_iter()
            .flatten()
            .find(|(_, members)| members.contains(&caller))
            .map(|(name, _)| name);
        let concerned = match bound.domain(app) {
            Domain::Caller => false,
            Domain::World => resize.bound.iter().any(|set| set.domain(app) == Domain::Application),
            _ => resize.bound.contains(bound),
        };
        if own.is_none() && !concerned {
            return View::NOTHING;
        }
        let some = resize.joining.as_ref().or(resize.leaving.as_ref()).map(|(name, _)| name);
        let pending = change.steps.contains_key(&Step::Pending);
        View {
            kind: match (&resize.joining, &resize.leaving) {
                (Some(_), Some(_)) => ChangeKind::Replace,
                (Some(_), None) => ChangeKind::Add,
                (None, _) => ChangeKind::Sub,
            },
            id: Some(id),
            delta: own.or(some).cloned(),
            included: own.is_some(),
            status: Some(if pending { Step::Pending } else { Step::Announced }),
        }
    }
}
