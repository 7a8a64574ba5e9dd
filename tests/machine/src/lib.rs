//! Emulated machines: a shape in a file, a kernel of its own, the checkout visible inside.
