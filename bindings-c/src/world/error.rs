//! The code of each error of the elastic world.

use elastic::Error;
use elastic::data::DataError;
use elastic::sets::SetsErrorKind;
use elastic_reshape::ReshapeError;
use quo::error::with_causes;
use quo::group::GroupError;

use crate::codes::Code;
use crate::guard::Failure;

fn of_group(source: GroupError) -> Failure {
    Failure::from(quo::Error::from(source))
}

fn of_data(error: DataError) -> Failure {
    let code = match error {
        DataError::Group(source) => return of_group(source),
        DataError::NoRank { .. } | DataError::InvalidState { .. } | DataError::Unfit { .. } => {
            Code::InvalidState
        }
        DataError::Unknown { .. } => Code::NotFound,
        DataError::Memory { .. } => Code::OutOfResources,
        DataError::Disagree { .. } => Code::Disagree,
        DataError::Files { .. } => Code::System,
        DataError::Twice { .. }
        | DataError::Element { .. }
        | DataError::Length { .. }
        | DataError::Rows { .. }
        | DataError::Unlike { .. }
        | DataError::Unstored { .. }
        | DataError::Layout { .. } => Code::InvalidArgument,
        _ => Code::Error,
    };
    Failure::new(code, with_causes(&error))
}

fn of_sets(kind: SetsErrorKind) -> Code {
    match kind {
        SetsErrorKind::Unknown | SetsErrorKind::Deleted => Code::NotFound,
        SetsErrorKind::BadName | SetsErrorKind::BadEntry | SetsErrorKind::BadParts => {
            Code::InvalidArgument
        }
        _ => Code::Refused,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Group { source, .. } => of_group(source),
            Error::Context { source, .. } => source.into(),
            Error::Data(source) => of_data(source),
            Error::InvalidState { reason, .. } => Self::new(Code::InvalidState, reason),
            Error::Misconfigured { reason, .. } => Self::invalid(reason),
            Error::Refused { reason, .. } => Self::new(Code::Refused, reason),
            Error::Aborted { rank, reason, .. } => Self::new(
                Code::Aborted,
                format!("the resize was aborted because of rank {rank}: {reason}"),
            ),
            Error::Sets { kind, reason, .. } => Self::new(of_sets(kind), reason),
            Error::Progress(source) => Self::invalid(source.to_string()),
            Error::Dead { .. } => Self::new(Code::DeadMember, error.to_string()),
            Error::Agent { .. } => Self::new(Code::System, error.to_string()),
            other => Self::new(Code::Error, other.to_string()),
        }
    }
}

impl From<ReshapeError> for Failure {
    fn from(error: ReshapeError) -> Self {
        match error {
            ReshapeError::World(source) => source.into(),
            other => Self::invalid(other.to_string()),
        }
    }
}

impl From<DataError> for Failure {
    fn from(error: DataError) -> Self {
        of_data(error)
    }
}
