//! Errors of resize points.

use elastic::data::DataError;
use elastic_policy::points::PointsError;

/// Why a call of ReSHAPE failed. Collective calls fail with the same error on every participating
/// rank.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReshapeError {
    /// A topology, configuration or time that cannot be used; nothing was changed.
    #[error(transparent)]
    Points(#[from] PointsError),
    /// An error of the world.
    #[error(transparent)]
    World(#[from] elastic::Error),
}

impl From<DataError> for ReshapeError {
    fn from(error: DataError) -> Self {
        Self::World(error.into())
    }
}
