//! Functions that make and free MPI objects, by kind of handle and by the argument that holds it.

use crate::functions;

/// Kind of an MPI object.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Handle {
    /// `MPI_Comm`
    Communicator = 0,
    /// `MPI_Group`
    Group = 1,
    /// `MPI_Datatype`
    Datatype = 2,
    /// `MPI_Request` of a persistent operation.
    Request = 3,
    /// `MPI_Win`
    Window = 4,
    /// `MPI_Info`
    Info = 5,
    /// `MPI_Errhandler`
    Errhandler = 6,
    /// `MPI_File`
    File = 7,
    /// `MPI_Op`
    Op = 8,
    /// `MPI_Session`
    Session = 9,
    /// Buffer of the program for buffered sends.
    Buffer = 10,
    /// Name of a port to which other jobs connect.
    Port = 11,
}

impl Handle {
    /// All kinds, by number.
    pub const ALL: [Handle; 12] = [
        Handle::Communicator,
        Handle::Group,
        Handle::Datatype,
        Handle::Request,
        Handle::Window,
        Handle::Info,
        Handle::Errhandler,
        Handle::File,
        Handle::Op,
        Handle::Session,
        Handle::Buffer,
        Handle::Port,
    ];

    /// Returns true if several calls may return the same handle, which is then freed as often.
    #[must_use]
    pub const fn is_counted(self) -> bool {
        matches!(self, Handle::Group | Handle::Datatype | Handle::Errhandler)
    }
}

/// Effect of a successful call on the objects of the program. Arguments are numbered from 0.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A new handle is at the address in this argument.
    Makes(Handle, u8),
    /// New handles are at the addresses in this argument and the next.
    MakesTwo(Handle, u8),
    /// New handles are in the array at the address in the last argument; this argument is its
    /// length.
    MakesMany(Handle, u8),
    /// The handle at the address in the first argument is freed.
    Frees(Handle),
    /// An object begins that belongs to the first argument, or to the process.
    Begins(Handle, Of),
    /// That object ends.
    Ends(Handle, Of),
}

/// Identity of an object that has no handle.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// There is one in the process.
    Process,
    /// There is one for the handle in the first argument.
    First,
    /// The text at the address in this argument.
    Text(u8),
}

use Handle::{
    Buffer, Communicator, Datatype, Errhandler, File, Group, Info, Op, Port, Request, Session,
    Window,
};

/// Functions with the address of a new handle as their last argument, without the suffix of large
/// counts.
const MAKERS: &[(Handle, &[&str])] = &[
    (
        Communicator,
        &[
            "MPI_Comm_dup",
            "MPI_Comm_dup_with_info",
            "MPI_Comm_create",
            "MPI_Comm_create_group",
            "MPI_Comm_create_from_group",
            "MPI_Comm_split",
            "MPI_Comm_split_type",
            "MPI_Cart_create",
            "MPI_Cart_sub",
            "MPI_Graph_create",
            "MPI_Dist_graph_create",
            "MPI_Dist_graph_create_adjacent",
            "MPI_Intercomm_create",
            "MPI_Intercomm_create_from_groups",
            "MPI_Intercomm_merge",
            "MPI_Comm_accept",
            "MPI_Comm_connect",
            "MPI_Comm_join",
            "MPIX_Comm_shrink",
            "MPIX_Stream_comm_create",
            "MPIX_Stream_comm_create_multiplex",
        ],
    ),
    (
        Group,
        &[
            "MPI_Comm_group",
            "MPI_Comm_remote_group",
            "MPI_Win_get_group",
            "MPI_File_get_group",
            "MPI_Group_union",
            "MPI_Group_intersection",
            "MPI_Group_difference",
            "MPI_Group_incl",
            "MPI_Group_excl",
            "MPI_Group_range_incl",
            "MPI_Group_range_excl",
            "MPI_Group_from_session_pset",
            "MPIX_Comm_failure_get_acked",
            "MPIX_Comm_get_failed",
        ],
    ),
    (
        Datatype,
        &[
            "MPI_Type_contiguous",
            "MPI_Type_vector",
            "MPI_Type_hvector",
            "MPI_Type_indexed",
            "MPI_Type_hindexed",
            "MPI_Type_struct",
            "MPI_Type_create_hvector",
            "MPI_Type_create_hindexed",
            "MPI_Type_create_hindexed_block",
            "MPI_Type_create_indexed_block",
            "MPI_Type_create_struct",
            "MPI_Type_create_subarray",
            "MPI_Type_create_darray",
            "MPI_Type_create_resized",
            "MPI_Type_dup",
        ],
    ),
    (
        Window,
        &[
            "MPI_Win_create",
            "MPI_Win_create_dynamic",
            "MPI_Win_allocate",
            "MPI_Win_allocate_shared",
        ],
    ),
    (
        Info,
        &[
            "MPI_Info_create",
            "MPI_Info_create_env",
            "MPI_Info_dup",
            "MPI_Comm_get_info",
            "MPI_Win_get_info",
            "MPI_File_get_info",
            "MPI_Session_get_info",
            "MPI_Session_get_pset_info",
            "MPI_Get_hw_resource_info",
        ],
    ),
    (
        Errhandler,
        &[
            "MPI_Errhandler_create",
            "MPI_Errhandler_get",
            "MPI_Comm_create_errhandler",
            "MPI_Comm_get_errhandler",
            "MPI_Win_create_errhandler",
            "MPI_Win_get_errhandler",
            "MPI_File_create_errhandler",
            "MPI_File_get_errhandler",
            "MPI_Session_create_errhandler",
            "MPI_Session_get_errhandler",
            "MPIX_Comm_create_errhandler_x",
            "MPIX_Win_create_errhandler_x",
            "MPIX_File_create_errhandler_x",
            "MPIX_Session_create_errhandler_x",
        ],
    ),
    (File, &["MPI_File_open"]),
    (Op, &["MPI_Op_create", "MPIX_Op_create_x"]),
    (Session, &["MPI_Session_init"]),
];

/// Other functions.
const OTHERS: &[(&str, Effect)] = &[
    ("MPI_Comm_idup", Effect::Makes(Communicator, 1)),
    ("MPI_Comm_idup_with_info", Effect::Makes(Communicator, 2)),
    ("MPI_Comm_spawn", Effect::Makes(Communicator, 6)),
    ("MPI_Comm_spawn_multiple", Effect::Makes(Communicator, 7)),
    ("MPI_File_get_view", Effect::MakesTwo(Datatype, 2)),
    ("MPI_Type_get_contents", Effect::MakesMany(Datatype, 3)),
    ("MPI_Type_get_contents_c", Effect::MakesMany(Datatype, 4)),
    ("MPI_Comm_free", Effect::Frees(Communicator)),
    ("MPI_Comm_disconnect", Effect::Frees(Communicator)),
    ("MPI_Group_free", Effect::Frees(Group)),
    ("MPI_Type_free", Effect::Frees(Datatype)),
    ("MPI_Request_free", Effect::Frees(Request)),
    ("MPI_Win_free", Effect::Frees(Window)),
    ("MPI_Info_free", Effect::Frees(Info)),
    ("MPI_Errhandler_free", Effect::Frees(Errhandler)),
    ("MPI_File_close", Effect::Frees(File)),
    ("MPI_Op_free", Effect::Frees(Op)),
    ("MPI_Session_finalize", Effect::Frees(Session)),
    ("MPI_Buffer_attach", Effect::Begins(Buffer, Of::Process)),
    ("MPI_Buffer_detach", Effect::Ends(Buffer, Of::Process)),
    ("MPI_Comm_attach_buffer", Effect::Begins(Buffer, Of::First)),
    ("MPI_Comm_detach_buffer", Effect::Ends(Buffer, Of::First)),
    ("MPI_Session_attach_buffer", Effect::Begins(Buffer, Of::First)),
    ("MPI_Session_detach_buffer", Effect::Ends(Buffer, Of::First)),
    ("MPI_Open_port", Effect::Begins(Port, Of::Text(1))),
    ("MPI_Close_port", Effect::Ends(Port, Of::Text(0))),
];

/// Returns the effect of a function, by its index.
#[must_use]
pub fn effect(function: usize) -> Option<Effect> {
    let name = functions::name(function);
    let last = functions::words(function).checked_sub(1)? as u8;
    let of = |name: &str| OTHERS.iter().find(|(other, _)| *other == name).map(|(_, of)| *of);
    let short = name.strip_suffix("_c").unwrap_or(name);
    if let Some(effect) = of(name).or_else(|| of(short)) {
        return Some(effect);
    }
    if short.starts_with("MPI_") && short.ends_with("_init") && short != "MPI_Session_init" {
        return Some(Effect::Makes(Request, last));
    }
    let made = MAKERS.iter().find(|(_, names)| names.contains(&short))?;
    Some(Effect::Makes(made.0, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{COUNT, find};

    fn of(name: &str) -> Option<Effect> {
        effect(find(name.as_bytes()).expect(name).function)
    }

    #[test]
    fn every_listed_function_exists_and_has_its_arguments() {
        let makers = MAKERS.iter().flat_map(|(kind, names)| names.iter().map(move |n| (n, kind)));
        for (name, kind) in makers {
            assert!(matches!(of(name), Some(Effect::Makes(found, _)) if found == *kind), "{name}");
        }
        for (name, effect) in OTHERS {
            assert_eq!(of(name), Some(*effect));
            let words = functions::words(find(name.as_bytes()).unwrap().function);
            let last = match *effect {
                Effect::Makes(_, word) | Effect::MakesMany(_, word) => word,
                Effect::MakesTwo(_, word) => word + 1,
                Effect::Begins(_, Of::Text(word)) | Effect::Ends(_, Of::Text(word)) => word,
                _ => 0,
            };
            assert!(usize::from(last) < words, "{name}");
        }
    }

    #[test]
    fn every_kind_is_made_and_freed() {
        let effects: Vec<Effect> = (0..COUNT).filter_map(effect).collect();
        for kind in Handle::ALL {
            assert!(effects.iter().any(|effect| match effect {
                Effect::Makes(found, _) | Effect::Begins(found, _) => *found == kind,
                _ => false,
            }));
            assert!(effects.iter().any(|effect| match effect {
                Effect::Frees(found) | Effect::Ends(found, _) => *found == kind,
                _ => false,
            }));
        }
        assert!((0..12).all(|number| Handle::ALL[number] as usize == number));
    }

    #[test]
    fn persistent_operations_make_requests_in_their_last_argument() {
        for (name, last) in [
            ("MPI_Send_init", 6),
            ("MPI_Recv_init_c", 6),
            ("MPI_Precv_init", 8),
            ("MPI_Alltoallw_init_c", 10),
        ] {
            assert_eq!(of(name), Some(Effect::Makes(Request, last)), "{name}");
        }
        assert_eq!(of("MPI_Session_init"), Some(Effect::Makes(Session, 2)));
        assert_eq!(of("MPI_Type_vector_c"), Some(Effect::Makes(Datatype, 4)));
        for other in ["MPI_Isend", "MPI_Wait", "MPI_Init", "MPI_Comm_set_errhandler"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(of("MPIX_Threadcomm_init"), None);
        assert_eq!(effect(usize::MAX), None);
    }
}
