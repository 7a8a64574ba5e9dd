//! Ends of a program that run no function of `exit`: `_exit`, and replacement by another program.
//! The memory of the process is sampled before.

#![allow(unsafe_code)]

use super::EVENTS;
use super::hooked::{Function, real};
use super::mpi_calls::forward;

macro_rules! endings {
    ($($entry:ident, $work:ident => $function:ident, $event:ident;)*) => {$(
        unsafe extern "C-unwind" fn $work() -> usize {
            if let Some(events) = EVENTS.get() {
                (events.$event)();
            }
            real(Function::$function)
        }
        forward!($entry, $work);
    )*};
}

endings! {
    exit, exit_work => Exit, leaves;
    exit_c, exit_c_work => ExitC, leaves;
    execve, execve_work => Execve, is_replaced;
    execv, execv_work => Execv, is_replaced;
    execvp, execvp_work => Execvp, is_replaced;
    execvpe, execvpe_work => Execvpe, is_replaced;
    execl, execl_work => Execl, is_replaced;
    execlp, execlp_work => Execlp, is_replaced;
    execle, execle_work => Execle, is_replaced;
    fexecve, fexecve_work => Fexecve, is_replaced;
}
