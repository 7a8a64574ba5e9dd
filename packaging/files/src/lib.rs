//! Folders and files that only their user can replace, fill or redirect.
//!
//! A folder is opened once and checked by its descriptor: its owner, its mode, and whether all
//! users can replace a folder on the way to it. Everything below it is opened relative to that
//! descriptor and never through a link. A file that is written as a whole is created under a new
//! name and renamed, so that a name that another user took first is refused or replaced, and never
//! written through.
//!
//! Members of a group that may write to a parent folder are trusted, as are the owners of the
//! parent folders.
//!
//! floors: owner < folder < output

mod folder;
mod output;
mod owner;

pub use folder::{Access, Folder, Lock, check, check_of};
pub use output::{Output, append, write};
