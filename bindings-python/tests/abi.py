"""Numbers, structures and functions of the package are those of the C headers.

Needs ``MPICC`` and the folders of the headers as arguments.
"""

import ctypes
import enum
import os
import re
import subprocess
import sys
import tempfile

from libquo import errors, memory, values
from libquo import _library as library

#: Enumerations, and the beginning of their names in C.
ENUMERATIONS = [
    (values.ObjectType, "QUO_OBJ_"),
    (values.Threads, "QUO_THREADS_"),
    (values.Cores, "QUO_CORES_"),
    (values.Pinning, "QUO_PINNING_"),
    (values.Sharing, "QUO_SHARING_"),
    (values.DeviceKind, "QUO_DEVICE_"),
    (values.MemoryPolicy, "QUO_MEMORY_"),
    (values.Status, "QUO_WORLD_"),
    (values.RequestKind, "QUO_REQUEST_"),
    (values.RequestState, "QUO_REQUEST_"),
    (values.EventKind, "QUO_EVENT_"),
    (values.ArrayKind, "QUO_ARRAY_"),
    (values.Storage, "QUO_ARRAY_"),
]

#: Values by their names in C.
VALUES = {
    "QUO_DISTRIB_SPREAD": values.Distribution.SPREAD,
    "QUO_DISTRIB_LIBQUO_COMPAT": values.Distribution.LIBQUO_COMPAT,
    "QUO_ERR_SYS": errors.SystemCallError,
    "QUO_ERR_OOR": errors.OutOfResourcesError,
    "QUO_ERR_INVLD_ARG": errors.InvalidArgumentError,
    "QUO_ERR_CALL_BEFORE_INIT": errors.MpiError,
    "QUO_ERR_TOPO": errors.TopologyError,
    "QUO_ERR_MPI": errors.MpiError,
    "QUO_ERR_NOT_SUPPORTED": errors.NotSupportedError,
    "QUO_ERR_POP": errors.PopError,
    "QUO_ERR_NOT_FOUND": errors.NotFoundError,
    "QUO_ERR_TIMEOUT": errors.TimeoutExpiredError,
    "QUO_ERR_DEAD_MEMBER": errors.DeadMemberError,
    "QUO_ERR_DISAGREE": errors.DisagreeError,
    "QUO_ERR_INVLD_HANDLE": errors.HandleError,
    "QUO_ERR_CALL_AFTER_FINALIZE": errors.MpiError,
    "QUO_ERR_BUSY": errors.BusyError,
    "QUO_ERR_DETACHED": errors.DetachedError,
    "QUO_ERR_STATE": errors.InvalidStateError,
    "QUO_ERR_REFUSED": errors.RefusedError,
    "QUO_ERR_ABORTED": errors.ResizeAbortedError,
    "QUO_ERR_WORK_FAILED": errors.WorkFailedError,
    "QUO_ERR_NOT_BEGUN": errors.NotBegunError,
}

HEADERS = ["quo.h", "quo-xpm.h", "quo-elastic.h", "memprof.h"]


def run_c(lines, folders):
    """Compiles and runs a C program with these lines in its main function."""
    text = "#include <stddef.h>\n#include <stdio.h>\n"
    text += "".join(f'#include "{header}"\n' for header in HEADERS)
    text += "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "a.c"), os.path.join(folder, "a")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        compiler = [os.environ.get("MPICC", "mpicc"), *(f"-I{one}" for one in folders)]
        subprocess.run([*compiler, source, "-o", program], check=True)
        said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return dict(line.split(" ", 1) for line in said.splitlines())


def expected():
    """Numbers that Python has, by their C expressions."""
    found = {}
    for kind, prefix in ENUMERATIONS:
        assert issubclass(kind, enum.IntEnum)
        for member in kind:
            found[prefix + member.name] = int(member)
    for name, value in VALUES.items():
        if isinstance(value, int):
            found[name] = int(value)
        else:
            codes = [code for code, kind in errors.BY_CODE.items() if kind is value]
            found[name] = codes
    for name, structure in {**library.STRUCTURES, **memory.STRUCTURES}.items():
        found[f"sizeof({name})"] = ctypes.sizeof(structure)
        for field, *_type in structure._fields_:
            place = getattr(structure, field).offset
            found[f"offsetof({name}, {field.rstrip('_')})"] = place
    return found


def main():
    folders = sys.argv[1:]
    mine = expected()
    # Without blanks in the name, so that name and number can be split.
    lines = [f'printf("%s %ld\\n", "{name.replace(" ", "")}", (long)({name}));' for name in mine]
    theirs = run_c(lines, folders)
    for name, value in mine.items():
        number = int(theirs[name.replace(" ", "")])
        values = value if isinstance(value, list) else [value]
        assert number in values, f"{name} is {number} in C, {value} here"
    headers = ""
    for folder in folders:
        for header in HEADERS:
            path = os.path.join(folder, header)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    headers += file.read()
    for function, arguments in library.FUNCTIONS:
        found = re.search(rf"^{function}\(([^;]*)\);", headers, re.MULTILINE)
        assert found, f"{function} is not in the headers"
        count = found[1].count(",") + 1
        assert count == len(arguments), f"{function}: {count} arguments in C, {len(arguments)} here"
    print(f"{len(mine)} numbers, {len(library.FUNCTIONS)} functions")
    print("passed")


main()
