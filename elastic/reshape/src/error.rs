//! Errors of resize points.

use elastic::data::DataError;
use elastic_policy::points::PointsError;

/// Why a call of ReSHAPE failed. Collective calls fail alike on every rank that takes part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReshapeError {
    /// A topology, configuration or time that cannot be used; nothing was changed.
    #[error(transparent)]
    Points(#[from] PointsError),
    /// The world.
    #[error(transparent)]
    World(#[from] elastic::Error),
}

impl From<DataError> for ReshapeError {
    fn from(error: DataError) -> Self {
        Self::World(error.into())
    }
}
